//! Servers behind HTTP: Streamable HTTP and HTTP+SSE (TRN-1).
//!
//! `http1`, `http2`, `framing` and `body` exchange requests and responses; `connection_pool` keeps
//! connections and follows redirects; `http_client` adds credentials and retries. `streamable` and
//! `sse` are the transports, driven by `exchange_loop`; `events` decodes event streams.

mod body;
mod connection_pool;
mod events;
mod exchange_loop;
mod fetcher;
mod framing;
mod headers;
mod http1;
mod http2;
mod http_client;
mod inbound_queue;
mod request;
mod sse;
mod streamable;

use crate::{credentials, headers_helper};

pub(crate) use body::decompress_all;
pub use credentials::{
    AfterRefusal, BoxFuture, Credentials, CredentialsError, FixedToken, ProofKey, Refusal, Token,
};
pub use events::{Event, EventDecoder, TooLong};
pub use fetcher::{FetchError, FetchRequest, FetchResponse, Fetcher, FullResponse};
pub use headers::BadHeader;
pub use headers_helper::{HELPER_TIMEOUT, HeadersHelper, HelperError};
pub use http_client::RESPONSE_TIMEOUT;
pub(crate) use http1::read_http1;
pub use sse::{SseReceiver, SseSender, SseTransport};
pub use streamable::{
    HttpServer, MAX_IN_FLIGHT, StreamableReceiver, StreamableSender, StreamableTransport,
};
