//! HTTP requests, encoded for HTTP/1.1 or converted for HTTP/2.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use url::Url;

use super::connection_pool::SendError;
use super::credentials::Token;
use crate::net::{Forward, url_headers};

/// The header with the proof for a token (RFC 9449).
const DPOP: HeaderName = HeaderName::from_static("dpop");

/// A request to one origin.
#[derive(Clone)]
pub(super) struct HttpRequest<'r> {
    pub(super) method: Method,
    pub(super) target: &'r RequestTarget,
    pub(super) headers: Arc<PreparedHeaders>,
    /// Headers of this request alone; none of them is in `headers`.
    pub(super) extra: Vec<(HeaderName, HeaderValue)>,
    pub(super) token: Option<Token>,
    pub(super) body: Bytes,
    /// Time limit for the head of the response.
    pub(super) timeout: Option<Duration>,
}

impl HttpRequest<'_> {
    /// Writes everything before the body. A forwarding proxy gets the absolute URL.
    pub(super) fn write_head(&self, forward: Option<&Forward>, out: &mut Vec<u8>) {
        out.extend_from_slice(self.method.as_str().as_bytes());
        out.push(b' ');
        match forward {
            None => out.extend_from_slice(self.target.path.as_bytes()),
            // Writing to memory does not fail.
            Some(_) => _ = write!(out, "{}", self.target.uri),
        }
        out.extend_from_slice(b" HTTP/1.1\r\nhost: ");
        out.extend_from_slice(self.target.host.as_bytes());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.headers.encoded);
        for (name, value) in &self.extra {
            write_header(out, name, value);
        }
        if let Some(token) = &self.token {
            write_header(out, &AUTHORIZATION, token.header());
            if let Some(proof) = self.proof() {
                write_header(out, &DPOP, &proof);
            }
        }
        if let Some(authorization) = forward.and_then(|forward| forward.authorization.as_ref()) {
            write_header(out, &PROXY_AUTHORIZATION, authorization);
        }
        if self.method == Method::POST {
            out.extend_from_slice(b"content-length: ");
            out.extend_from_slice(itoa::Buffer::new().format(self.body.len()).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }

    pub(super) fn to_http2(&self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.target.uri.clone();
        *request.headers_mut() = self.headers.map.clone();
        let headers = request.headers_mut();
        headers.extend(self.extra.iter().cloned());
        let token = self.token.as_ref();
        headers.extend(token.map(|token| (AUTHORIZATION, token.header().clone())));
        headers.extend(self.proof().map(|proof| (DPOP, proof)));
        request
    }

    /// The proof for a token that is bound to a key. Made when the head is written, because it is
    /// valid for one request to one URL.
    fn proof(&self) -> Option<HeaderValue> {
        let key = self.token.as_ref()?.key()?;
        key.proof(&self.method, &self.target.url)
    }

    /// Merges the headers that a `headersHelper` printed. They win over the token.
    pub(super) fn with_helper_headers(&self, printed: &HeaderMap) -> Self {
        let mut headers = self.headers.map.clone();
        headers.extend(self.extra.iter().cloned());
        headers.extend(printed.clone());
        let overrides_token = printed.contains_key(AUTHORIZATION);
        Self {
            headers: Arc::new(headers.into()),
            extra: Vec::new(),
            token: self.token.clone().filter(|_| !overrides_token),
            ..self.clone()
        }
    }
}

/// Headers that many requests share, encoded once.
pub(super) struct PreparedHeaders {
    pub(super) map: HeaderMap,
    encoded: Vec<u8>,
}

impl From<HeaderMap> for PreparedHeaders {
    fn from(map: HeaderMap) -> Self {
        let mut encoded = Vec::new();
        for (name, value) in &map {
            write_header(&mut encoded, name, value);
        }
        Self { map, encoded }
    }
}

/// A URL at the origin, in the forms that HTTP/1.1 and HTTP/2 need.
#[derive(Clone, Debug)]
pub(super) struct RequestTarget {
    pub(super) url: Url,
    path: String,
    uri: Uri,
    host: String,
}

impl RequestTarget {
    pub(super) fn new(url: &Url) -> Result<Self, SendError> {
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let host = url_headers::host(url).ok_or(SendError::BadUrl)?;
        let uri = format!("{}://{host}{path}", url.scheme());
        Ok(Self {
            uri: uri.parse().map_err(|_| SendError::BadUrl)?,
            path,
            host,
            url: url.clone(),
        })
    }
}

fn write_header(out: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use http::header::{ACCEPT, USER_AGENT};

    use super::super::credentials::ProofKey;
    use super::*;

    fn target(url: &str) -> RequestTarget {
        RequestTarget::new(&Url::parse(url).unwrap()).unwrap()
    }

    fn head(request: &HttpRequest, forward: Option<&Forward>) -> String {
        let mut out = Vec::new();
        request.write_head(forward, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_head_has_the_target_the_headers_and_the_length() {
        let mut map = HeaderMap::new();
        map.insert(USER_AGENT, HeaderValue::from_static("me"));
        map.append(ACCEPT, HeaderValue::from_static("a/b"));
        map.append(ACCEPT, HeaderValue::from_static("c/d"));
        let extra = (
            HeaderName::from_static("mcp-method"),
            HeaderValue::from_static("tools/call"),
        );
        let post = HttpRequest {
            method: Method::POST,
            target: &target("http://h:1/mcp?q=1#f"),
            headers: Arc::new(map.into()),
            extra: vec![extra],
            token: Token::bearer("t"),
            body: Bytes::from_static(b"12"),
            timeout: None,
        };
        assert_eq!(
            head(&post, None),
            "POST /mcp?q=1 HTTP/1.1\r\nhost: h:1\r\nuser-agent: me\r\naccept: a/b\r\naccept: c/d\r\n\
             mcp-method: tools/call\r\nauthorization: Bearer t\r\ncontent-length: 2\r\n\r\n"
        );
        let forward = Forward {
            authorization: Some(HeaderValue::from_static("Basic x")),
        };
        let get = HttpRequest {
            method: Method::GET,
            target: &target("http://h/"),
            extra: Vec::new(),
            token: None,
            body: Bytes::new(),
            ..post.clone()
        };
        assert_eq!(
            head(&get, Some(&forward)),
            "GET http://h/ HTTP/1.1\r\nhost: h\r\nuser-agent: me\r\naccept: a/b\r\naccept: c/d\r\n\
             proxy-authorization: Basic x\r\n\r\n"
        );
        let https = target("https://h/mcp");
        let over_http2 = HttpRequest {
            target: &https,
            ..post
        };
        let request = over_http2.to_http2();
        assert_eq!(request.uri(), "https://h/mcp");
        assert_eq!(request.headers()["mcp-method"], "tools/call");
        assert_eq!(request.headers()[AUTHORIZATION], "Bearer t");
        assert_eq!(request.headers().get_all(ACCEPT).iter().count(), 2);
        assert!(!request.headers().contains_key(DPOP));
    }

    /// A key whose proof says what it is for.
    struct Spoken;

    impl ProofKey for Spoken {
        fn proof(&self, method: &Method, url: &Url) -> Option<HeaderValue> {
            HeaderValue::try_from(format!("{method} {url}")).ok()
        }

        fn set_nonce(&self, _: &HeaderValue) {}
    }

    #[test]
    fn a_bound_token_comes_with_a_proof_for_the_request() {
        let (one, other) = (target("http://h/mcp"), target("http://h/elsewhere"));
        let request = HttpRequest {
            method: Method::GET,
            target: &one,
            headers: Arc::new(HeaderMap::new().into()),
            extra: Vec::new(),
            token: Token::dpop("t", Arc::new(Spoken)),
            body: Bytes::new(),
            timeout: None,
        };
        assert_eq!(
            head(&request, None),
            "GET /mcp HTTP/1.1\r\nhost: h\r\nauthorization: DPoP t\r\ndpop: GET http://h/mcp\r\n\r\n"
        );
        // As after a redirect, and over HTTP/2.
        let redirected = HttpRequest {
            target: &other,
            ..request.clone()
        };
        let headers = redirected.to_http2().headers().clone();
        assert_eq!(headers[DPOP], "GET http://h/elsewhere");
        // A helper that prints a token replaces both.
        let mut printed = HeaderMap::new();
        printed.insert("x-team", HeaderValue::from_static("core"));
        let merged = request.with_helper_headers(&printed);
        assert!(head(&merged, None).contains("authorization: DPoP t\r\ndpop: "));
        printed.insert(AUTHORIZATION, HeaderValue::from_static("Bearer mine"));
        let merged = head(&request.with_helper_headers(&printed), None);
        assert!(
            merged.contains("authorization: Bearer mine\r\n"),
            "{merged}"
        );
        assert!(
            !merged.contains("DPoP") && !merged.contains("dpop"),
            "{merged}"
        );
    }
}
