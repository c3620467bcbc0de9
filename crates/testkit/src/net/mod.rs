//! Servers on loopback sockets, and proxies between them and a client.
//!
//! Every handle stops its server when dropped. A server that was stopped keeps its port: nobody else gets it, and
//! connecting is refused until `restart`.

mod body;
mod builder;
mod channel;
mod crash_handle;
mod faults;
mod h2;
mod http;
mod listener;
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

/// Bytes as gzip has them.
pub fn gzip(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder
        .write_all(bytes.as_ref())
        .and_then(|()| encoder.finish())
        .expect("writing to memory")
}
