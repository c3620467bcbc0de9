//! An OAuth authorization server and the MCP server that it protects, for tests.

mod dpop;
mod encoding;
mod endpoints;
mod options;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard},
};

pub use self::options::OAuthOptions;

use self::encoding::parse_form;
use self::endpoints::{Client, State, answer};
use super::{RawHttp, Request};

/// An authorization server and a protected resource at `/mcp`, on one loopback port.
///
/// `/authorize` approves every valid request at once. The token endpoint checks clients, PKCE,
/// redirect URIs and resources, rotates refresh tokens and detects their reuse.
///
/// ```
/// use trunkline_testkit::net::OAuthServer;
///
/// let server = OAuthServer::start();
/// server.configure(|options| options.expires_in = 60);
/// assert!(server.resource().ends_with("/mcp"));
/// assert_eq!(server.count("/token"), 0);
/// ```
pub struct OAuthServer {
    http: RawHttp,
    state: Arc<Mutex<State>>,
}

impl OAuthServer {
    /// Starts a server with the default options.
    pub fn start() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let http = RawHttp::start(move |request, reply| answer(&shared, request, reply));
        state.lock().unwrap().base = http.url_of("");
        Self { http, state }
    }

    /// The issuer.
    pub fn issuer(&self) -> String {
        self.http.url_of("")
    }

    /// The URL of the protected resource.
    pub fn resource(&self) -> String {
        self.http.url()
    }

    /// Changes the options.
    pub fn configure(&self, change: impl FnOnce(&mut OAuthOptions)) {
        change(&mut self.state().options);
    }

    /// Registers a client with this id and secret, for client credentials and code grants.
    pub fn add_client(&self, id: &str, secret: Option<&str>) {
        let client = Client {
            secret: secret.map(str::to_owned),
            is_machine: true,
            ..Client::default()
        };
        self.state().clients.insert(id.to_owned(), client);
    }

    /// Registers a client that signs assertions with this P-256 key, a point in uncompressed form.
    pub fn add_client_with_key(&self, id: &str, public_key: &[u8]) {
        let client = Client {
            public_key: Some(public_key.to_vec()),
            is_machine: true,
            ..Client::default()
        };
        self.state().clients.insert(id.to_owned(), client);
    }

    /// Forgets all clients, as after an expired registration.
    pub fn forget_clients(&self) {
        self.state().clients.clear();
    }

    /// Invalidates all access tokens; refresh tokens stay.
    pub fn expire_access_tokens(&self) {
        self.state().access.clear();
    }

    /// Invalidates all refresh tokens.
    pub fn revoke_refresh_tokens(&self) {
        self.state().refresh.clear();
    }

    /// Whether the resource accepts an access token.
    pub fn accepts(&self, access_token: &str) -> bool {
        self.state().access.contains_key(access_token)
    }

    /// Whether a refresh token is unused and valid.
    pub fn is_unused(&self, refresh_token: &str) -> bool {
        let state = self.state();
        let found = state.refresh.get(refresh_token);
        found.is_some_and(|refresh| refresh.used.is_none())
    }

    /// The number of successful refreshes.
    pub fn refreshes(&self) -> usize {
        self.state().refreshes
    }

    /// The grant types of all token requests, in order.
    pub fn grants(&self) -> Vec<String> {
        self.state().grants.clone()
    }

    /// All secrets of the sign-ins so far: the tokens, codes and client secrets issued, and
    /// the PKCE verifiers of the client.
    pub fn secrets(&self) -> Vec<String> {
        let mut secrets = self.state().secrets.clone();
        for mut form in self.forms("/token") {
            secrets.extend(form.remove("code_verifier"));
        }
        secrets
    }

    /// The number of requests to a path, without its query.
    pub fn count(&self, path: &str) -> usize {
        self.requests(path).len()
    }

    /// The requests to a path, without its query.
    pub fn requests(&self, path: &str) -> Vec<Request> {
        let is_it = |request: &Request| request.path.split('?').next() == Some(path);
        self.http.requests().into_iter().filter(is_it).collect()
    }

    /// The form fields of the requests to a path.
    pub fn forms(&self, path: &str) -> Vec<HashMap<String, String>> {
        let requests = self.requests(path);
        requests
            .iter()
            .map(|request| parse_form(&request.body))
            .collect()
    }

    /// The parameters of the authorization requests.
    pub fn authorizations(&self) -> Vec<HashMap<String, String>> {
        let requests = self.requests("/authorize");
        let query = |request: &Request| {
            request
                .path
                .split_once('?')
                .map(|(_, query)| query.to_owned())
        };
        requests
            .iter()
            .map(|request| parse_form(query(request).unwrap_or_default().as_bytes()))
            .collect()
    }

    /// Does what a browser does with the URL of a sign-in: follows it to this server, and returns
    /// the redirect.
    ///
    /// # Panics
    /// When the URL is not of this server, or it answers with something else than a redirect.
    pub fn authorize(&self, url: &str) -> String {
        let path = url
            .strip_prefix(&self.issuer())
            .expect("a URL of this server");
        let response = get(self.http.port(), path);
        let location = response
            .lines()
            .find_map(|line| line.strip_prefix("location: "))
            .unwrap_or_else(|| panic!("no redirect: {response}"));
        location.to_owned()
    }

    /// The underlying HTTP server.
    pub fn http(&self) -> &RawHttp {
        &self.http
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl fmt::Debug for OAuthServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OAuthServer({})", self.issuer())
    }
}

/// Gets a path from a server on this machine; the whole response.
pub(crate) fn get(port: u16, path: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sending");
    let mut response = Vec::new();
    stream.read_to_end(&mut response).expect("a response");
    String::from_utf8_lossy(&response).into_owned()
}

/// Follows a redirect as a browser does, and returns the page with its head.
///
/// # Panics
/// When the redirect does not lead to this machine.
pub fn follow_redirect(redirect: &str) -> String {
    let rest = redirect
        .strip_prefix("http://127.0.0.1:")
        .or_else(|| redirect.strip_prefix("http://localhost:"))
        .expect("a redirect to this machine");
    let (port, path) = rest.split_once('/').expect("a path");
    get(port.parse().expect("a port"), &format!("/{path}"))
}
