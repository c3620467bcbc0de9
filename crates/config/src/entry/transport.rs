//! How a server is reached.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use super::url::ServerUrl;
use crate::secret::Secret;

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum TransportEntry {
    /// A child process.
    Stdio(StdioEntry),
    /// Streamable HTTP, HTTP+SSE, or whichever of them works.
    Http(HttpEntry),
    /// A WebSocket.
    Ws(WsEntry),
    /// An IDE on this machine.
    Ide(IdeEntry),
    /// The embedding process, over its own stdin and stdout.
    Sdk,
    /// A claude.ai connector.
    ClaudeAiProxy {
        /// Where the vendor's server is; the proxy is reached by the id.
        url: ServerUrl,
        /// The connector.
        id: Option<String>,
        /// Where the proxy is, as the account's list says.
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
    /// Variables on top of our own.
    pub env: BTreeMap<String, Secret>,
    /// Where it runs.
    pub cwd: Option<PathBuf>,
}

/// A server behind HTTP.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpEntry {
    /// Which of the two protocols it speaks.
    pub flavour: HttpFlavour,
    /// Where it is.
    pub url: ServerUrl,
    /// Headers to send.
    pub headers: BTreeMap<String, Secret>,
    /// A shell command that prints more headers.
    pub headers_helper: Option<String>,
    /// How to sign in.
    pub oauth: OAuthEntry,
    /// How to trust it, and how it trusts us.
    pub tls: TlsEntry,
}

impl HttpEntry {
    /// A server at this URL, with everything else at its default.
    pub fn at(flavour: HttpFlavour, url: impl Into<String>) -> Self {
        Self {
            flavour,
            url: ServerUrl::new(url),
            headers: BTreeMap::new(),
            headers_helper: None,
            oauth: OAuthEntry::default(),
            tls: TlsEntry::default(),
        }
    }
}

/// Which protocol over HTTP a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpFlavour {
    /// Streamable HTTP.
    Streamable,
    /// HTTP+SSE.
    Sse,
    /// The entry has no `type`: Streamable HTTP is tried, then HTTP+SSE.
    Either,
}

/// A server behind a WebSocket.
#[derive(Clone, PartialEq, Eq)]
pub struct WsEntry {
    /// Where it is.
    pub url: ServerUrl,
    /// Headers to send.
    pub headers: BTreeMap<String, Secret>,
    /// A shell command that prints more headers.
    pub headers_helper: Option<String>,
    /// How to trust it, and how it trusts us.
    pub tls: TlsEntry,
}

/// An IDE on this machine.
#[derive(Clone, PartialEq, Eq)]
pub struct IdeEntry {
    /// `ws-ide`; otherwise `sse-ide`.
    pub websocket: bool,
    /// Where it is.
    pub url: ServerUrl,
    /// What it wants to see.
    pub auth_token: Option<Secret>,
    /// What it calls itself.
    pub ide_name: Option<String>,
}

/// How to sign in to a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(
    rename_all = "camelCase",
    expecting = "an object with \"clientId\", \"callbackPort\" and the like"
)]
pub struct OAuthEntry {
    /// The id that was registered for us.
    pub client_id: Option<String>,
    /// The port on which the browser comes back.
    pub callback_port: Option<u16>,
    /// Where the authorisation server describes itself.
    pub auth_server_metadata_url: Option<String>,
    /// What to ask for.
    #[serde(default, deserialize_with = "words")]
    pub scopes: Option<Vec<String>>,
    /// Whether to sign in through the company's identity provider.
    #[serde(default)]
    pub xaa: bool,
}

/// Certificates: file names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(expecting = "an object with \"ca\", \"cert\" and \"key\"")]
pub struct TlsEntry {
    /// Authorities to trust besides the usual.
    pub ca: Option<PathBuf>,
    /// Our certificate.
    pub cert: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
}

/// Scopes as a list, or as one text with spaces between them.
fn words<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "expected a text with spaces, or a list of texts"
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
    /// The `type` it has in a configuration file.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Http(HttpEntry {
                flavour: HttpFlavour::Sse,
                ..
            }) => "sse",
            Self::Http(_) => "http",
            Self::Ws(_) => "ws",
            Self::Ide(IdeEntry { websocket, .. }) if *websocket => "ws-ide",
            Self::Ide(_) => "sse-ide",
            Self::Sdk => "sdk",
            Self::ClaudeAiProxy { .. } => "claudeai-proxy",
        }
    }

    /// Where it is, if it is elsewhere.
    pub fn url(&self) -> Option<&ServerUrl> {
        match self {
            Self::Stdio(_) | Self::Sdk => None,
            Self::Http(HttpEntry { url, .. })
            | Self::Ws(WsEntry { url, .. })
            | Self::Ide(IdeEntry { url, .. })
            | Self::ClaudeAiProxy { url, .. } => Some(url),
        }
    }

    /// The command and its arguments, if it is a child process.
    pub fn argv(&self) -> Option<Vec<&str>> {
        let Self::Stdio(stdio) = self else {
            return None;
        };
        let args = stdio.args.iter().map(String::as_str);
        Some(std::iter::once(&*stdio.command).chain(args).collect())
    }

    /// The command that prints headers for it, if there is one.
    pub fn headers_helper(&self) -> Option<&str> {
        match self {
            Self::Http(HttpEntry { headers_helper, .. })
            | Self::Ws(WsEntry { headers_helper, .. }) => headers_helper.as_deref(),
            _ => None,
        }
    }

    /// How to sign in to it, if it is behind HTTP.
    pub fn oauth(&self) -> Option<&OAuthEntry> {
        match self {
            Self::Http(http) => Some(&http.oauth),
            _ => None,
        }
    }

    /// Everything that makes it what it is, secrets included: for hashing, never for showing.
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
            Self::Http(http) => json!({
                "type": match http.flavour {
                    HttpFlavour::Streamable => "http",
                    HttpFlavour::Sse => "sse",
                    HttpFlavour::Either => "",
                },
                "url": http.url.expose(),
                "headers": secrets(&http.headers),
                "headersHelper": http.headers_helper,
                "oauth": [
                    json!(http.oauth.client_id),
                    json!(http.oauth.callback_port),
                    json!(http.oauth.auth_server_metadata_url),
                    json!(http.oauth.scopes),
                    json!(http.oauth.xaa),
                ],
                "tls": tls(&http.tls),
            }),
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

    /// Changes every text in which variables count (CFG-5): `command`, `args`, `env`, `url` and `headers`.
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

    /// Works on `env` or `headers`, whichever it has.
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

/// Shows no secret (SEC-1).
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
