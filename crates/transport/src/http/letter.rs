//! A request as it is written: in the bytes of HTTP/1.1, or as HTTP/2 takes it.

use std::io::Write as _;

use bytes::Bytes;
use http::header::{AUTHORIZATION, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use http_body_util::Full;

use super::client::Place;
use crate::net::Forward;

/// The headers that many requests have in common, written once.
pub(super) struct Prepared {
    pub(super) map: HeaderMap,
    lines: Vec<u8>,
}

impl From<HeaderMap> for Prepared {
    fn from(map: HeaderMap) -> Self {
        let mut lines = Vec::new();
        for (name, value) in &map {
            line(&mut lines, name, value);
        }
        Self { map, lines }
    }
}

/// One request.
#[derive(Clone, Copy)]
pub(super) struct Letter<'l> {
    pub(super) method: &'l Method,
    pub(super) headers: &'l Prepared,
    /// For this one alone; none of them is among those above.
    pub(super) more: &'l [(HeaderName, HeaderValue)],
    /// What we show to be let in.
    pub(super) token: Option<&'l HeaderValue>,
    pub(super) body: &'l Bytes,
}

impl Letter<'_> {
    /// Writes all that comes before the body, to whoever is at the other end: the server, or a proxy that wants to hear the whole URL.
    pub(super) fn write_head(&self, place: &Place, forward: Option<&Forward>, out: &mut Vec<u8>) {
        out.extend_from_slice(self.method.as_str().as_bytes());
        out.push(b' ');
        match forward {
            None => out.extend_from_slice(place.path.as_bytes()),
            // Writing to memory does not fail.
            Some(_) => _ = write!(out, "{}", place.whole),
        }
        out.extend_from_slice(b" HTTP/1.1\r\nhost: ");
        out.extend_from_slice(place.host.as_bytes());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.headers.lines);
        for (name, value) in self.more {
            line(out, name, value);
        }
        if let Some(token) = self.token {
            line(out, &AUTHORIZATION, token);
        }
        if let Some(authorization) = forward.and_then(|forward| forward.authorization.as_ref()) {
            line(out, &PROXY_AUTHORIZATION, authorization);
        }
        if *self.method == Method::POST {
            out.extend_from_slice(b"content-length: ");
            out.extend_from_slice(itoa::Buffer::new().format(self.body.len()).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }

    pub(super) fn for_http2(&self, place: &Place) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = place.whole.clone();
        *request.headers_mut() = self.headers.map.clone();
        let headers = request.headers_mut();
        headers.extend(self.more.iter().cloned());
        headers.extend(self.token.map(|token| (AUTHORIZATION, token.clone())));
        request
    }
}

fn line(out: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use http::header::{ACCEPT, USER_AGENT};
    use url::Url;

    use super::*;

    fn written(letter: &Letter, url: &str, forward: Option<&Forward>) -> String {
        let place = Place::new(&Url::parse(url).unwrap()).unwrap();
        let mut out = Vec::new();
        letter.write_head(&place, forward, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_head_says_where_to_what_and_how_long() {
        let mut map = HeaderMap::new();
        map.insert(USER_AGENT, HeaderValue::from_static("me"));
        map.append(ACCEPT, HeaderValue::from_static("a/b"));
        map.append(ACCEPT, HeaderValue::from_static("c/d"));
        let headers = Prepared::from(map);
        let more = [(
            HeaderName::from_static("mcp-method"),
            HeaderValue::from_static("tools/call"),
        )];
        let (token, body) = (
            HeaderValue::from_static("Bearer t"),
            Bytes::from_static(b"12"),
        );
        let post = Letter {
            method: &Method::POST,
            headers: &headers,
            more: &more,
            token: Some(&token),
            body: &body,
        };
        assert_eq!(
            written(&post, "http://h:1/mcp?q=1#f", None),
            "POST /mcp?q=1 HTTP/1.1\r\nhost: h:1\r\nuser-agent: me\r\naccept: a/b\r\naccept: c/d\r\n\
             mcp-method: tools/call\r\nauthorization: Bearer t\r\ncontent-length: 2\r\n\r\n"
        );
        let forward = Forward {
            authorization: Some(HeaderValue::from_static("Basic x")),
        };
        let get = Letter {
            method: &Method::GET,
            more: &[],
            token: None,
            body: &Bytes::new(),
            ..post
        };
        assert_eq!(
            written(&get, "http://h/", Some(&forward)),
            "GET http://h/ HTTP/1.1\r\nhost: h\r\nuser-agent: me\r\naccept: a/b\r\naccept: c/d\r\n\
             proxy-authorization: Basic x\r\n\r\n"
        );
        let place = Place::new(&Url::parse("https://h/mcp").unwrap()).unwrap();
        let request = post.for_http2(&place);
        assert_eq!(request.uri(), "https://h/mcp");
        assert_eq!(request.headers()["mcp-method"], "tools/call");
        assert_eq!(request.headers()[AUTHORIZATION], "Bearer t");
        assert_eq!(request.headers().get_all(ACCEPT).iter().count(), 2);
    }
}
