//! The start of a response, whatever follows.

use std::time::Duration;

use http::Method;
use trunkline_testkit::net::RawHttp;
use trunkline_transport::http::{FetchRequest, Fetcher, FullResponse};
use trunkline_transport::net::Dialer;

async fn sample(server: &RawHttp, max_bytes: usize) -> FullResponse {
    let url = server.url().parse().unwrap();
    let fetcher = Fetcher::new(&Dialer::with_vars(|_| None), &url, &[], None).unwrap();
    let request = FetchRequest {
        method: Method::GET,
        url: &url,
        headers: Vec::new(),
        body: bytes::Bytes::new(),
    };
    let patience = Duration::from_millis(300);
    fetcher.sample(request, max_bytes, patience).await.unwrap()
}

#[tokio::test]
async fn an_endless_stream_is_sampled() {
    let server = RawHttp::start(|_, reply| {
        reply.head(200, &[("content-type", "text/event-stream")]);
        reply.chunk("event: endpoint\n\n").hold();
    });
    let sampled = sample(&server, 1000).await;
    assert_eq!(sampled.status, 200);
    assert_eq!(sampled.headers["content-type"], "text/event-stream");
    assert_eq!(&sampled.body[..], b"event: endpoint\n\n");
}

#[tokio::test]
async fn a_long_body_is_cut_and_an_error_kept() {
    let server = RawHttp::start(|_, reply| {
        reply.respond(502, &[], "upstream is down");
    });
    let sampled = sample(&server, 8).await;
    assert_eq!((sampled.status, &sampled.body[..]), (502, &b"upstream"[..]));
}
