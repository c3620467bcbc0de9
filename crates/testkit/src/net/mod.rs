//! Servers on loopback sockets, and proxies in front of them.
//!
//! Every handle stops its server on drop. A stopped server keeps its port, on which connections are
//! refused until `restart`.

mod body;
mod builder;
mod channel;
mod crash_handle;
mod faults;
mod h2;
mod http;
mod listener;
mod oauth;
mod process;
mod proxy;
mod raw;
mod reply;
mod sse;
mod stream;
mod streamable;
mod streams;
mod terminate;
pub mod tls;
mod token;
mod ws;

pub use self::{
    builder::ServerBuilder,
    faults::{Direction, Fault, FaultProxy, Rates},
    h2::Http2Front,
    http::Request,
    oauth::{OAuthOptions, OAuthServer, follow_redirect},
    process::Listen,
    proxy::HttpProxy,
    raw::RawHttp,
    reply::Reply,
    sse::{SseOptions, SseServer},
    streamable::{Answers, HttpOptions, HttpServer},
    tls::{Identity, TestCa, TlsOptions},
    token::Token,
    ws::{WsOptions, WsServer},
};

/// Compresses bytes with gzip.
pub fn gzip(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder
        .write_all(bytes.as_ref())
        .and_then(|()| encoder.finish())
        .expect("writing to memory")
}
