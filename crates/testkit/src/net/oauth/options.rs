//! The behaviour and the faults of an OAuth server.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

/// The behaviour of an [`OAuthServer`](super::OAuthServer), including its faults. All of it can
/// change at run time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OAuthOptions {
    /// The lifetime of access tokens in seconds.
    pub expires_in: u64,
    /// Refresh tokens are single-use: a refresh issues a new one, and the reuse of an old one
    /// revokes the whole family.
    pub rotate: bool,
    /// How long after a rotation the old refresh token still works.
    pub grace: Option<Duration>,
    /// Whether refresh tokens are issued.
    pub refresh_tokens: bool,
    /// The scopes of the resource.
    pub scopes: Vec<String>,
    /// `scopes_supported` of the issuer.
    pub issuer_scopes: Vec<String>,
    /// The scopes that a request to the resource needs.
    pub required_scopes: Vec<String>,
    /// The challenge of a 401 has `resource_metadata` and `scope`; otherwise there is none.
    pub challenge: bool,
    /// Registers clients with a secret that expires at this time; 0 for never.
    pub client_secret_expires_at: Option<u64>,
    /// Accepts the URL of a metadata document as client id.
    pub client_metadata: bool,
    /// Whether redirects have `iss`, and the metadata says so.
    pub sends_issuer: bool,
    /// The `issuer` in the metadata; `Some("")` for none. By default its own.
    pub issuer_claim: Option<String>,
    /// The `iss` in redirects. By default its own.
    pub redirect_issuer: Option<String>,
    /// The issuers that the resource names. By default its own.
    pub authorization_servers: Option<Vec<String>>,
    /// The `resource` that the resource metadata claims. By default its own.
    pub resource_claim: Option<String>,
    /// Members to add to the metadata of the issuer, or to replace; null removes one.
    pub metadata: BTreeMap<String, Value>,
    /// The status of every metadata response, for 5xx and 404.
    pub metadata_status: Option<u16>,
    /// The content type of metadata.
    pub content_type: String,
    /// The body of metadata, in place of a document.
    pub metadata_body: Option<String>,
    /// The status and body of token responses, in place of real ones.
    pub token_response: Option<(u16, String)>,
    /// The resource quotes the token that it refuses.
    pub echo_refused_tokens: bool,
    /// Answers token and revocation requests with an error that quotes the request.
    pub echo_errors: bool,
    /// Acts on a token request but closes the connection in place of responding.
    pub drop_token_response: bool,
    /// Holds back token responses.
    pub hold_token_responses: bool,
    /// Answers `error` to authorization requests.
    pub deny: Option<String>,
    /// Device codes are approved after this many polls.
    pub polls: usize,
    /// Tokens are bound to the key of a DPoP proof, and the resource accepts no others.
    pub dpop: bool,
    /// The nonce that proofs need, at the issuer and at the resource.
    pub dpop_nonce: Option<String>,
    /// Has no resource metadata, as in MCP 2025-03-26.
    pub legacy: bool,
    /// Redirects metadata requests there.
    pub redirect_metadata: Option<String>,
}

impl OAuthOptions {
    /// Adds a member to the metadata of the issuer, or replaces it; null removes it.
    pub fn set_metadata(&mut self, name: &str, value: Value) {
        self.metadata.insert(name.to_owned(), value);
    }
}

impl Default for OAuthOptions {
    fn default() -> Self {
        Self {
            expires_in: 3600,
            rotate: true,
            grace: None,
            refresh_tokens: true,
            scopes: vec!["read".into()],
            issuer_scopes: Vec::new(),
            required_scopes: Vec::new(),
            challenge: true,
            client_secret_expires_at: None,
            client_metadata: false,
            sends_issuer: true,
            issuer_claim: None,
            redirect_issuer: None,
            authorization_servers: None,
            resource_claim: None,
            metadata: BTreeMap::new(),
            metadata_status: None,
            content_type: "application/json".into(),
            metadata_body: None,
            token_response: None,
            echo_refused_tokens: false,
            echo_errors: false,
            drop_token_response: false,
            hold_token_responses: false,
            deny: None,
            polls: 0,
            dpop: false,
            dpop_nonce: None,
            legacy: false,
            redirect_metadata: None,
        }
    }
}
