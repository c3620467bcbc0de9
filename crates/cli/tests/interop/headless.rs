//! A browser without a window: it follows redirects, keeps cookies and submits forms.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;

/// The most pages and redirects of a visit.
const MAX_STEPS: usize = 30;

/// A browser whose user fills in forms.
#[derive(Default)]
pub(crate) struct Headless {
    /// By origin, path and name.
    cookies: BTreeMap<(String, String, String), String>,
    /// What the user enters, by the name of the field.
    entries: BTreeMap<&'static str, String>,
}

/// The response to a request.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Response {
    fn values<'r>(&'r self, name: &'r str) -> impl Iterator<Item = &'r str> {
        let of_name = self.headers.iter().filter(move |(key, _)| key == name);
        of_name.map(|(_, value)| value.as_str())
    }
}

impl Headless {
    /// A browser whose user enters a name and a password.
    pub(crate) fn new() -> Self {
        let entries = [("login", "ada"), ("password", "x")];
        Self {
            entries: entries.map(|(name, value)| (name, value.into())).into(),
            ..Self::default()
        }
    }

    /// The user also enters this.
    pub(crate) fn enter(mut self, name: &'static str, value: &str) -> Self {
        self.entries.insert(name, value.to_owned());
        self
    }

    /// Opens a page, submits its form and those that follow, and returns the first without one.
    pub(crate) fn visit(mut self, url: &str) -> String {
        let mut url = url.to_owned();
        let mut form = None;
        for _ in 0..MAX_STEPS {
            let response = self.request(&url, form.take().as_deref());
            if let Some(to) = response.values("location").next() {
                url = resolve(&url, to);
                continue;
            }
            assert_eq!(response.status, 200, "{url}: {}", response.body);
            let Some((action, fields)) = self.filled_form(&response.body) else {
                return response.body;
            };
            url = resolve(&url, &action);
            form = Some(fields);
        }
        panic!("no end at {url}");
    }

    fn request(&mut self, url: &str, form: Option<&str>) -> Response {
        let (origin, path) = split(url);
        let cookies: Vec<_> = self
            .cookies
            .iter()
            .filter(|((of, under, _), _)| of == origin && path.starts_with(under))
            .map(|((_, _, name), value)| format!("{name}={value}"))
            .collect();
        let mut headers = format!("cookie: {}\r\n", cookies.join("; "));
        if form.is_some() {
            headers.push_str("content-type: application/x-www-form-urlencoded\r\n");
        }
        let response = send(url, form, &headers);
        for cookie in response.values("set-cookie") {
            let mut parts = cookie.split(';').map(str::trim);
            let (name, value) = parts.next().and_then(|pair| pair.split_once('=')).unwrap();
            let under = parts
                .filter_map(|part| part.split_once('='))
                .find(|(name, _)| name.eq_ignore_ascii_case("path"))
                .map_or("/", |(_, under)| under);
            let key = (origin.to_owned(), under.to_owned(), name.to_owned());
            if value.is_empty() {
                self.cookies.remove(&key);
            } else {
                self.cookies.insert(key, value.to_owned());
            }
        }
        response
    }

    /// The action and the fields of the form on a page.
    fn filled_form(&self, page: &str) -> Option<(String, String)> {
        let (_, form) = page.split_once("<form")?;
        let (form, _) = form.split_once("</form>")?;
        let mut fields = String::new();
        for input in form.split("<input").skip(1) {
            let tag = input.split('>').next().unwrap();
            let name = attribute(tag, "name").unwrap();
            let entered = || self.entries.get(name.as_str()).cloned();
            let value = attribute(tag, "value").or_else(entered).unwrap_or_default();
            let _ = write!(fields, "{}={}&", encode(&name), encode(&value));
        }
        Some((attribute(form, "action").unwrap(), fields))
    }
}

/// Sends a POST with a body, or a GET without one. HTTP/1.0, so that the body ends with the
/// connection.
pub(crate) fn send(url: &str, body: Option<&str>, headers: &str) -> Response {
    let (origin, path) = split(url);
    let host = origin.strip_prefix("http://").expect("plain HTTP");
    let method = if body.is_some() { "POST" } else { "GET" };
    let body = body.unwrap_or_default();
    let length = body.len();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nhost: {host}\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
    .unwrap();
    let mut text = Vec::new();
    stream.read_to_end(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let headers = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    Response {
        status,
        headers: headers
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect(),
        body: body.to_owned(),
    }
}

/// The origin of a URL, and the rest of it.
fn split(url: &str) -> (&str, &str) {
    let start = url.find("://").expect("an absolute URL") + 3;
    match url[start..].find('/') {
        Some(end) => url.split_at(start + end),
        None => (url, "/"),
    }
}

fn resolve(base: &str, to: &str) -> String {
    if to.contains("://") {
        return to.to_owned();
    }
    assert!(to.starts_with('/'), "{to}");
    format!("{}{to}", split(base).0)
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, value) = tag.split_once(&format!(" {name}=\""))?;
    let (value, _) = value.split_once('"')?;
    Some(value.replace("&amp;", "&"))
}

fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(byte.into());
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
