//! The builder of all scripted network servers.

use super::{
    tls::TlsOptions,
    token::{Token, TokenCheck},
};
use crate::Script;

/// Configures a scripted server on loopback: the options of every transport, and those of one.
#[derive(Debug)]
pub struct ServerBuilder<O> {
    pub(super) base: BaseOptions,
    pub(super) options: O,
}

/// The options of every transport.
#[derive(Debug)]
pub(super) struct BaseOptions {
    pub(super) script: Script,
    pub(super) path: String,
    pub(super) port: u16,
    /// The server is all of this process, which its script may end.
    pub(super) process: bool,
    pub(super) tls: Option<TlsOptions>,
    pub(super) token: TokenCheck,
}

impl<O: Default> ServerBuilder<O> {
    pub(super) fn new(script: Script, path: &str) -> Self {
        Self {
            base: BaseOptions {
                script,
                path: path.to_owned(),
                port: 0,
                process: false,
                tls: None,
                token: TokenCheck::default(),
            },
            options: O::default(),
        }
    }
}

impl<O> ServerBuilder<O> {
    /// Sets the path of its endpoint; by default `/mcp`, or `/sse` for HTTP+SSE.
    pub fn path(mut self, path: &str) -> Self {
        path.clone_into(&mut self.base.path);
        self
    }

    /// Sets the port; by default a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.base.port = port;
        self
    }

    /// Enables TLS.
    pub fn tls(mut self, tls: TlsOptions) -> Self {
        self.base.tls = Some(tls);
        self
    }

    /// Requires a bearer token, given as text or as a predicate; others get 401.
    pub fn token(self, token: impl Into<Token>) -> Self {
        self.base.token.accept(Some(token.into()));
        self
    }

    /// Sets the `WWW-Authenticate` header of a 401.
    pub fn challenge(mut self, challenge: &str) -> Self {
        self.base.token.challenge = challenge.into();
        self
    }

    pub(crate) fn process(mut self) -> Self {
        self.base.process = true;
        self
    }
}
