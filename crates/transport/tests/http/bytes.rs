//! Responses decode as in hyper, however their bytes arrive.

use proptest::prelude::*;
use trunkline_transport::fuzzing::http1;

use crate::oracle::hyper_reads;

/// Decodes bytes whole and split at every position, and compares with hyper.
fn check(bytes: &[u8]) {
    let whole = http1(&[bytes]);
    let oracle = hyper_reads(bytes);
    match (&whole, &oracle) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "{}", bytes.escape_ascii()),
        (Err(_), Err(_)) => {}
        _ => panic!("{}: {whole:?}, hyper {oracle:?}", bytes.escape_ascii()),
    }
    for at in 0..=bytes.len() {
        let cut = http1(&[&bytes[..at], &bytes[at..]]);
        assert_eq!(
            cut.ok(),
            whole.clone().ok(),
            "{} at {at}",
            bytes.escape_ascii()
        );
    }
}

#[test]
fn heads_and_bodies_decode_as_in_hyper() {
    let heads = [
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200\r\n",
        "HTTP/1.1 204 No Content\r\n",
        "HTTP/1.0 200 OK\r\n",
        "\r\n\nHTTP/1.1 200 OK\r\n",
        "\r\rHTTP/1.1 200 OK\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\na: b\r\n\r\nHTTP/1.1 500 No\r\n",
        "HTTP/2 200 OK\r\n",
        "HTTP/1.1 099 OK\r\n",
        "ICY 200 OK\r\n",
    ];
    let headers = [
        "",
        "content-length: 5\r\n",
        "content-length: 5, 5\r\n",
        "content-length: 5\r\ncontent-length: 5\r\n",
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: +5\r\n",
        "content-length: 5,\r\n",
        "content-length:\r\n",
        "content-length: 99999999999999999999\r\n",
        "content-length: 18446744073709551615\r\n",
        "transfer-encoding: chunked\r\n",
        "transfer-encoding: gzip, Chunked\r\n",
        "transfer-encoding: chunked, gzip\r\n",
        "transfer-encoding: \u{e9}, chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 5\r\n",
        "transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n",
        "a b: c\r\n",
        "a : c\r\n",
        " folded: x\r\n",
        "a: b\r\n c\r\n",
        "a: b\n",
        ": x\r\n",
    ];
    let bodies = [
        "",
        "hello",
        "hello, and more",
        "5\r\nhello\r\n0\r\n\r\n",
        "5;x=y\r\nhello\r\n0\r\n\r\n",
        "5 \t\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "5\nhello\n0\n\n",
        "5\r\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\na: b\r\n\r\n",
        "5\r\nhello\r\n0\r\nno header\r\n\r\n",
        "5\r\nhello\r\n0\r\n: x\r\n\r\n",
        "5\r\nhello\r\n0\r\n",
        "5\r\nhelloX\r\n0\r\n\r\n",
        "0005\r\nhello\r\n000\r\n\r\n",
        "fffffffffffffffff\r\n",
        "-5\r\nhello\r\n",
        "\r\n",
    ];
    for head in heads {
        for header in headers {
            for body in bodies {
                check(format!("{head}{header}\r\n{body}").as_bytes());
            }
        }
    }
}

proptest! {
    #[test]
    fn any_input_decodes_as_in_hyper(
        interim in "(HTTP/1.1 100 C\r\n\r\n){0,2}",
        version in "HTTP/1.[01]",
        headers in "((content-length: [0-9]{1,2}(, [0-9])?|transfer-encoding: (chunked|gzip|chunked, gzip)|a: b|[a-c :\r\n]{0,6})\r\n){0,3}",
        body in "([0-9a-f]{1,2}(;[a-z]{0,3}|[ \t])?\r\n|[a-e\r\n;:]{0,6}|0\r\n\r\n){0,6}",
    ) {
        check(format!("{interim}{version} 200 OK\r\n{headers}\r\n{body}").as_bytes());
    }
}

/// hyper accepts it. A proxy that ends the trailers elsewhere would read another response.
#[test]
fn a_lone_line_feed_in_trailers_is_refused() {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for (body, is_ok) in [("0\r\n\r\n", true), ("0\r\n\nx: y\r\n\r\n", false)] {
        let read = http1(&[format!("{head}{body}").as_bytes()]);
        assert_eq!(read.is_ok(), is_ok, "{body:?}: {read:?}");
    }
}
