//! Servers behind HTTP: Streamable HTTP and HTTP+SSE (TRN-1).
//!
//! `letter`, `connection`, `head`, `framing`, `http2` and `client` move requests and answers; `courier` adds who we are and patience; `streamable` and `sse` are the two
//! transports. `events` reads event streams.

mod body;
mod client;
mod connection;
mod courier;
mod credentials;
mod events;
mod fetch;
mod framing;
mod head;
mod headers;
mod helper;
mod http2;
mod inlet;
mod letter;
mod sse;
mod streamable;

pub(crate) use body::unpack_all;
pub(crate) use connection::read_http1;
pub use courier::ANSWER_LIMIT;
pub use credentials::{
    AfterRefusal, Credentials, CredentialsError, FixedToken, Later, Refusal, Token,
};
pub use events::{Event, EventDecoder, TooLong};
pub use fetch::{FetchError, Fetched, Fetcher};
pub use headers::BadHeader;
pub use helper::{HELPER_LIMIT, HeadersHelper, HelperError};
pub use sse::{SseReceiver, SseSender, SseTransport};
pub use streamable::{
    HttpServer, MAX_IN_FLIGHT, StreamableReceiver, StreamableSender, StreamableTransport,
};
