//! How to reach a server.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use super::url::ServerUrl;
use crate::secret::Secret;

/// How to reach a server.
#[derive(Clone, PartialEq, Eq)]
pub enum TransportEntry {
    /// A child process.
    Stdio(StdioEntry),
    /// Streamable HTTP, HTTP+SSE, or either.
    Http(HttpEntry),
    /// A WebSocket.
    Ws(WsEntry),
    /// An IDE on this machine.
    Ide(IdeEntry),
    /// The embedding process, over our stdin and stdout.
    Sdk,
    /// A claude.ai connector.
    ClaudeAiProxy {
        /// The URL of the vendor's server; the proxy is addressed by the id.
        url: ServerUrl,
        /// The id of the connector.
        id: Option<String>,
        /// The URL of the proxy, as listed by the account.
        proxy: Option<ServerUrl>,
    },
}

/// A child process.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StdioEntry {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment variables in addition to our own.
    pub env: BTreeMap<String, Secret>,
    /// The working directory.
    pub cwd: Option<PathBuf>,
}

/// A server over HTTP.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpEntry {
    /// The protocol it speaks.
    pub flavour: HttpFlavour,
    /// The URL.
    pub url: ServerUrl,
    /// Headers to send.
    pub headers: BTreeMap<String, Secret>,
    /// A shell command that prints further headers.
    pub headers_helper: Option<String>,
    /// Sign-in settings.
    pub oauth: OAuthEntry,
    /// The account that is signed in to, of several at one server.
    pub account: Option<String>,
    /// Certificates.
    pub tls: TlsEntry,
}

impl HttpEntry {
    /// Creates an entry with defaults for everything else.
    pub fn new(flavour: HttpFlavour, url: impl Into<String>) -> Self {
        Self {
            flavour,
            url: ServerUrl::new(url),
            headers: BTreeMap::new(),
            headers_helper: None,
            oauth: OAuthEntry::default(),
            account: None,
            tls: TlsEntry::default(),
        }
    }
}

/// The protocol that a server speaks over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpFlavour {
    /// Streamable HTTP.
    Streamable,
    /// HTTP+SSE.
    Sse,
    /// The entry has no `type`: Streamable HTTP is tried, then HTTP+SSE.
    Either,
}

/// A server over WebSocket.
#[derive(Clone, PartialEq, Eq)]
pub struct WsEntry {
    /// The URL.
    pub url: ServerUrl,
    /// Headers to send.
    pub headers: BTreeMap<String, Secret>,
    /// A shell command that prints further headers.
    pub headers_helper: Option<String>,
    /// Certificates.
    pub tls: TlsEntry,
}

/// An IDE on this machine.
#[derive(Clone, PartialEq, Eq)]
pub struct IdeEntry {
    /// `ws-ide`; otherwise `sse-ide`.
    pub websocket: bool,
    /// The URL.
    pub url: ServerUrl,
    /// The token it expects.
    pub auth_token: Option<Secret>,
    /// The name of the IDE.
    pub ide_name: Option<String>,
}

/// Sign-in settings of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(
    rename_all = "camelCase",
    expecting = "an object with \"clientId\", \"callbackPort\" and the like"
)]
pub struct OAuthEntry {
    /// The registered client id.
    pub client_id: Option<String>,
    /// The port for the callback of the browser.
    pub callback_port: Option<u16>,
    /// The metadata URL of the authorization server.
    pub auth_server_metadata_url: Option<String>,
    /// The scopes to request.
    #[serde(default, deserialize_with = "deserialize_scopes")]
    pub scopes: Option<Vec<String>>,
    /// Whether to sign in through the enterprise identity provider.
    #[serde(default)]
    pub xaa: bool,
    /// Who signs in.
    #[serde(default)]
    pub grant_type: GrantType,
    /// The file with the private key of the client, in PEM format, in place of a client secret.
    pub private_key_file: Option<PathBuf>,
    /// The id under which the authorization server knows the public key (`kid`).
    pub key_id: Option<String>,
}

/// Who signs in to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GrantType {
    /// The user, in a browser.
    #[default]
    AuthorizationCode,
    /// The program itself, with its client id and its secret or private key.
    ClientCredentials,
}

/// Paths of certificate files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(expecting = "an object with \"ca\", \"cert\" and \"key\"")]
pub struct TlsEntry {
    /// Additional certificate authorities to trust.
    pub ca: Option<PathBuf>,
    /// The client certificate.
    pub cert: Option<PathBuf>,
    /// The key of the client certificate.
    pub key: Option<PathBuf>,
}

/// Scopes as a list, or as one space-separated text.
fn deserialize_scopes<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "expected a space-separated string, or a list of strings"
    )]
    enum Scopes {
        Text(String),
        List(Vec<String>),
    }
    Ok(
        Option::<Scopes>::deserialize(deserializer)?.map(|scopes| match scopes {
            Scopes::Text(text) => text.split_whitespace().map(str::to_owned).collect(),
            Scopes::List(list) => list,
        }),
    )
}

impl TransportEntry {
    /// The `type` in a configuration file.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Http(http) => match http.flavour {
                HttpFlavour::Sse => "sse",
                HttpFlavour::Streamable | HttpFlavour::Either => "http",
            },
            Self::Ws(_) => "ws",
            Self::Ide(ide) if ide.websocket => "ws-ide",
            Self::Ide(_) => "sse-ide",
            Self::Sdk => "sdk",
            Self::ClaudeAiProxy { .. } => "claudeai-proxy",
        }
    }

    /// The URL of a remote server or an IDE.
    pub fn url(&self) -> Option<&ServerUrl> {
        match self {
            Self::Http(HttpEntry { url, .. })
            | Self::Ws(WsEntry { url, .. })
            | Self::Ide(IdeEntry { url, .. })
            | Self::ClaudeAiProxy { url, .. } => Some(url),
            Self::Stdio(_) | Self::Sdk => None,
        }
    }

    /// The child process, if it is one.
    pub fn stdio(&self) -> Option<&StdioEntry> {
        match self {
            Self::Stdio(stdio) => Some(stdio),
            Self::Http(_) | Self::Ws(_) | Self::Ide(_) | Self::Sdk | Self::ClaudeAiProxy { .. } => {
                None
            }
        }
    }

    /// The environment variables of a child process.
    pub fn env(&self) -> Option<&BTreeMap<String, Secret>> {
        self.stdio().map(|stdio| &stdio.env)
    }

    /// The command and the arguments of a child process.
    pub fn argv(&self) -> Option<Vec<&str>> {
        let stdio = self.stdio()?;
        let args = stdio.args.iter().map(String::as_str);
        Some(std::iter::once(&*stdio.command).chain(args).collect())
    }

    /// The headers to send to a remote server.
    pub fn headers(&self) -> Option<&BTreeMap<String, Secret>> {
        match self {
            Self::Http(HttpEntry { headers, .. }) | Self::Ws(WsEntry { headers, .. }) => {
                Some(headers)
            }
            Self::Stdio(_) | Self::Ide(_) | Self::Sdk | Self::ClaudeAiProxy { .. } => None,
        }
    }

    /// The shell command that prints further headers.
    pub fn headers_helper(&self) -> Option<&str> {
        match self {
            Self::Http(HttpEntry { headers_helper, .. })
            | Self::Ws(WsEntry { headers_helper, .. }) => headers_helper.as_deref(),
            Self::Stdio(_) | Self::Ide(_) | Self::Sdk | Self::ClaudeAiProxy { .. } => None,
        }
    }

    /// The sign-in settings of an HTTP server.
    pub fn oauth(&self) -> Option<&OAuthEntry> {
        match self {
            Self::Http(http) => Some(&http.oauth),
            Self::Stdio(_)
            | Self::Ws(_)
            | Self::Ide(_)
            | Self::Sdk
            | Self::ClaudeAiProxy { .. } => None,
        }
    }

    /// Whether connecting starts something on this machine, rather than reaching out to a URL.
    pub fn is_local(&self) -> bool {
        self.url().is_none()
    }

    /// Whether the server lives in the embedding program.
    pub fn is_embedded(&self) -> bool {
        matches!(self, Self::Sdk)
    }

    /// Whether the server is an IDE on this machine.
    pub fn is_ide(&self) -> bool {
        matches!(self, Self::Ide(_))
    }

    /// Whether the server is a claude.ai connector.
    pub fn is_connector(&self) -> bool {
        matches!(self, Self::ClaudeAiProxy { .. })
    }

    /// The protocol over HTTP; `None` for a server that is not reached over HTTP.
    pub fn http_flavour(&self) -> Option<HttpFlavour> {
        match self {
            Self::Http(http) => Some(http.flavour),
            Self::Ide(IdeEntry { websocket, .. }) => (!websocket).then_some(HttpFlavour::Sse),
            Self::ClaudeAiProxy { .. } => Some(HttpFlavour::Streamable),
            Self::Stdio(_) | Self::Ws(_) | Self::Sdk => None,
        }
    }

    /// Everything that identifies the transport, including secrets: for hashing, never for display.
    pub(crate) fn identity(&self) -> Value {
        let secrets = |map: &BTreeMap<String, Secret>| -> Value {
            map.iter()
                .map(|(name, value)| (name.clone(), json!(value.expose())))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        let tls = |tls: &TlsEntry| json!([tls.ca, tls.cert, tls.key]);
        match self {
            Self::Stdio(stdio) => json!({
                "type": "stdio",
                "command": stdio.command,
                "args": stdio.args,
                "env": secrets(&stdio.env),
                "cwd": stdio.cwd,
            }),
            Self::Http(http) => {
                let mut oauth = vec![
                    json!(http.oauth.client_id),
                    json!(http.oauth.callback_port),
                    json!(http.oauth.auth_server_metadata_url),
                    json!(http.oauth.scopes),
                    json!(http.oauth.xaa),
                ];
                // Entries without these keep the hash that they always had.
                oauth.extend(http.account.as_ref().map(|account| json!(account)));
                if http.oauth.grant_type != GrantType::default() {
                    oauth.push(json!({"grantType": "client_credentials"}));
                }
                if let Some(file) = &http.oauth.private_key_file {
                    let key_id = &http.oauth.key_id;
                    oauth.push(json!({"privateKeyFile": file, "keyId": key_id}));
                }
                json!({
                    "type": match http.flavour {
                        HttpFlavour::Streamable => "http",
                        HttpFlavour::Sse => "sse",
                        HttpFlavour::Either => "",
                    },
                    "url": http.url.expose(),
                    "headers": secrets(&http.headers),
                    "headersHelper": http.headers_helper,
                    "oauth": oauth,
                    "tls": tls(&http.tls),
                })
            }
            Self::Ws(ws) => json!({
                "type": "ws",
                "url": ws.url.expose(),
                "headers": secrets(&ws.headers),
                "headersHelper": ws.headers_helper,
                "tls": tls(&ws.tls),
            }),
            Self::Ide(ide) => json!({
                "type": self.kind(),
                "url": ide.url.expose(),
                "authToken": ide.auth_token.as_ref().map(Secret::expose),
                "ideName": ide.ide_name,
            }),
            Self::Sdk => json!({"type": "sdk"}),
            Self::ClaudeAiProxy { url, id, proxy } => {
                let proxy = proxy.as_ref().map(ServerUrl::expose);
                json!({"type": self.kind(), "url": url.expose(), "id": id, "proxy": proxy})
            }
        }
    }

    /// Changes every text in which variables are expanded (CFG-5): `command`, `args`, `env`, `url`
    /// and `headers`.
    pub(crate) fn each_text(&mut self, mut change: impl FnMut(&str) -> String) {
        match self {
            Self::Stdio(stdio) => {
                stdio.command = change(&stdio.command);
                for arg in &mut stdio.args {
                    *arg = change(arg);
                }
            }
            Self::Http(HttpEntry { url, .. })
            | Self::Ws(WsEntry { url, .. })
            | Self::Ide(IdeEntry { url, .. })
            | Self::ClaudeAiProxy { url, .. } => *url = ServerUrl::new(change(url.expose())),
            Self::Sdk => {}
        }
        self.each_secret(|secrets| {
            for value in secrets.values_mut() {
                *value = Secret::new(change(value.expose()));
            }
        });
    }

    /// Every path that an entry may give relative to its file.
    pub(crate) fn paths_mut(&mut self) -> Vec<&mut PathBuf> {
        let paths = match self {
            Self::Stdio(stdio) => vec![&mut stdio.cwd],
            Self::Http(HttpEntry { tls, oauth, .. }) => vec![
                &mut tls.ca,
                &mut tls.cert,
                &mut tls.key,
                &mut oauth.private_key_file,
            ],
            Self::Ws(WsEntry { tls, .. }) => vec![&mut tls.ca, &mut tls.cert, &mut tls.key],
            Self::Ide(_) | Self::Sdk | Self::ClaudeAiProxy { .. } => Vec::new(),
        };
        paths.into_iter().flatten().collect()
    }

    /// Calls `work` with `env` or `headers`.
    pub(crate) fn each_secret(&mut self, work: impl FnOnce(&mut BTreeMap<String, Secret>)) {
        match self {
            Self::Stdio(StdioEntry { env, .. }) => work(env),
            Self::Http(HttpEntry { headers, .. }) | Self::Ws(WsEntry { headers, .. }) => {
                work(headers);
            }
            Self::Ide(_) | Self::Sdk | Self::ClaudeAiProxy { .. } => {}
        }
    }
}

/// Contains no secret (SEC-1).
impl fmt::Debug for TransportEntry {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut shown = f.debug_struct(self.kind());
        match self {
            Self::Stdio(stdio) => shown
                .field("command", &stdio.command)
                .field("args", &stdio.args)
                .field("env", &stdio.env)
                .field("cwd", &stdio.cwd),
            Self::Http(HttpEntry { url, headers, .. }) | Self::Ws(WsEntry { url, headers, .. }) => {
                shown.field("url", url).field("headers", headers)
            }
            Self::Ide(IdeEntry { url, .. }) | Self::ClaudeAiProxy { url, .. } => {
                shown.field("url", url)
            }
            Self::Sdk => &mut shown,
        }
        .finish()
    }
}
