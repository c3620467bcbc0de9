//! Bearer tokens that a server accepts.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use super::{http::Request, reply::Reply};

/// Accepted bearer tokens: a fixed one or a predicate.
#[derive(Clone)]
pub struct Token(Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl Token {
    /// Accepts the tokens that match a predicate.
    pub fn matching(predicate: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(predicate))
    }
}

impl From<&str> for Token {
    fn from(fixed: &str) -> Self {
        let fixed = fixed.to_owned();
        Self::matching(move |token| token == fixed)
    }
}

impl<F: Fn(&str) -> bool + Send + Sync + 'static> From<F> for Token {
    fn from(predicate: F) -> Self {
        Self::matching(predicate)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[derive(Debug)]
pub(crate) struct TokenCheck {
    token: Mutex<Option<Token>>,
    pub(crate) challenge: String,
}

impl Default for TokenCheck {
    fn default() -> Self {
        Self {
            token: Mutex::default(),
            challenge: r#"Bearer error="invalid_token""#.into(),
        }
    }
}

impl TokenCheck {
    pub(crate) fn accept(&self, token: Option<Token>) {
        *self.token.lock().unwrap() = token;
    }

    pub(crate) fn is_accepted(&self, authorization: Option<&str>) -> bool {
        let token = self.token.lock().unwrap().clone();
        let sent = authorization.and_then(|value| value.strip_prefix("Bearer "));
        token.is_none_or(|Token(predicate)| sent.is_some_and(|sent| predicate(sent)))
    }

    /// Responds with 401 unless the token is accepted.
    pub(crate) fn admit(&self, request: &Request, reply: &mut Reply) -> bool {
        let is_accepted = self.is_accepted(request.header("authorization"));
        if !is_accepted {
            reply.respond(401, &[("www-authenticate", &self.challenge)], "");
        }
        is_accepted
    }
}
