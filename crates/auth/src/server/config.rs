//! The settings of one server's authentication.

use std::fmt;
use std::sync::Arc;

use trunkline_config::OAuthEntry;
use trunkline_transport::net::TlsFiles;
use url::Url;

use super::ServerAuth;
use crate::Secret;
use crate::flow::SigningKey;

/// The settings of one server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    pub(crate) name: String,
    pub(crate) url: Url,
    pub(crate) oauth: OAuthEntry,
    pub(crate) account: Option<String>,
    pub(crate) tls_files: TlsFiles,
    pub(crate) client_secret: Option<Secret>,
    pub(crate) grant: Grant,
}

impl ServerConfig {
    /// Settings for the server called `name` at `url`, with defaults for everything else.
    pub fn new(name: impl Into<String>, url: Url) -> Self {
        Self {
            name: name.into(),
            url,
            oauth: OAuthEntry::default(),
            account: None,
            tls_files: TlsFiles::default(),
            client_secret: None,
            grant: Grant::User,
        }
    }

    /// Sets the `oauth` settings of the server's entry.
    #[must_use]
    pub fn oauth(mut self, oauth: OAuthEntry) -> Self {
        self.oauth = oauth;
        self
    }

    /// Sets the account. By default, a server has one account.
    #[must_use]
    pub fn account(mut self, account: impl Into<String>) -> Self {
        self.account = Some(account.into());
        self
    }

    /// Sets the certificates of the server's entry. The client certificate goes only to the
    /// server's own origin.
    #[must_use]
    pub fn tls_files(mut self, files: TlsFiles) -> Self {
        self.tls_files = files;
        self
    }

    /// Sets the secret of the pre-registered client. By default, the vault's client secret for the
    /// server is used.
    #[must_use]
    pub fn client_secret(mut self, secret: Secret) -> Self {
        self.client_secret = Some(secret);
        self
    }

    /// Sets how tokens are obtained. By default, the user signs in.
    #[must_use]
    pub fn grant(mut self, grant: Grant) -> Self {
        self.grant = grant;
        self
    }
}

/// How tokens are obtained.
#[derive(Clone)]
#[non_exhaustive]
pub enum Grant {
    /// The user signs in.
    User,
    /// The client authenticates as itself, with the key or else with its secret (AUTH-10).
    ClientCredentials {
        /// The key for `private_key_jwt`.
        key: Option<Arc<SigningKey>>,
    },
    /// The sign-in at an enterprise identity provider, from [`Auth::idp`](crate::Auth::idp), is
    /// exchanged for tokens of the server (AUTH-9).
    Enterprise(Arc<ServerAuth>),
    /// A workload proves its identity with an assertion from its platform (RFC 7523).
    Workload(Arc<dyn AssertionSource>),
}

/// Supplies assertions, such as the token of a workload from a file that the platform renews.
pub trait AssertionSource: Send + Sync + 'static {
    /// Returns a current assertion for this authorization server. May block.
    fn assertion(&self, issuer: &str) -> Result<Secret, String>;
}

/// Closures that return an assertion for an authorization server.
impl<F> AssertionSource for F
where
    F: Fn(&str) -> Result<Secret, String> + Send + Sync + 'static,
{
    fn assertion(&self, issuer: &str) -> Result<Secret, String> {
        self(issuer)
    }
}

impl Grant {
    /// Whether no user is involved, not even at an identity provider.
    pub(crate) fn is_programs(&self) -> bool {
        matches!(self, Self::ClientCredentials { .. } | Self::Workload(_))
    }

    pub(crate) fn needs_user(&self) -> bool {
        matches!(self, Self::User)
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::User => "User",
            Self::ClientCredentials { .. } => "ClientCredentials",
            Self::Enterprise(_) => "Enterprise",
            Self::Workload(_) => "Workload",
        })
    }
}

/// The settings of an enterprise identity provider (`xaaIdp`).
#[derive(Clone)]
pub struct IdpConfig {
    pub(crate) issuer: Url,
    pub(crate) client_id: String,
    client_secret: Option<Secret>,
    callback_port: Option<u16>,
    id_tokens: Option<Arc<dyn AssertionSource>>,
    issuer_text: String,
}

impl IdpConfig {
    /// Settings for the identity provider `issuer`, where we are the client `client_id`.
    pub fn new(issuer: &str, client_id: impl Into<String>) -> Result<Self, url::ParseError> {
        Ok(Self {
            issuer: issuer.parse()?,
            client_id: client_id.into(),
            client_secret: None,
            callback_port: None,
            id_tokens: None,
            issuer_text: issuer.to_owned(),
        })
    }

    /// Sets the secret of the client.
    #[must_use]
    pub fn client_secret(mut self, secret: Secret) -> Self {
        self.client_secret = Some(secret);
        self
    }

    /// Sets the port for the callback of the browser.
    #[must_use]
    pub fn callback_port(mut self, port: u16) -> Self {
        self.callback_port = Some(port);
        self
    }

    /// Takes ID tokens from the program, which signs the user in itself. They must be issued for
    /// the client of these settings. By default, the user signs in with
    /// [`ServerAuth::start_login`].
    ///
    /// ```
    /// use trunkline_auth::{IdpConfig, Secret};
    ///
    /// let idp = IdpConfig::new("https://login.example.com", "trunkline")?.id_tokens(|_: &str| {
    ///     let token = std::fs::read_to_string("/run/my-agent/id-token");
    ///     token.map(Secret::new).map_err(|error| error.to_string())
    /// });
    /// # drop(idp);
    /// # Ok::<(), url::ParseError>(())
    /// ```
    #[must_use]
    pub fn id_tokens(mut self, source: impl AssertionSource) -> Self {
        self.id_tokens = Some(Arc::new(source));
        self
    }

    pub(super) fn into_server(self) -> (ServerConfig, Kind) {
        let oauth = OAuthEntry {
            client_id: Some(self.client_id),
            callback_port: self.callback_port,
            scopes: Some(vec!["openid".to_owned()]),
            ..OAuthEntry::default()
        };
        let name = self.issuer.host_str().unwrap_or_default().to_owned();
        let mut config = ServerConfig::new(name, self.issuer).oauth(oauth);
        config.client_secret = self.client_secret;
        let kind = Kind::Idp {
            issuer: self.issuer_text,
            id_tokens: self.id_tokens,
        };
        (config, kind)
    }
}

impl fmt::Debug for IdpConfig {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("IdpConfig")
            .field("issuer", &self.issuer_text)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

/// What tokens are for.
#[derive(Clone)]
pub(super) enum Kind {
    /// An MCP server.
    Resource,
    /// An identity provider, whose ID token is exchanged.
    Idp {
        /// The issuer as it is configured.
        issuer: String,
        /// ID tokens of a sign-in by the program.
        id_tokens: Option<Arc<dyn AssertionSource>>,
    },
}
