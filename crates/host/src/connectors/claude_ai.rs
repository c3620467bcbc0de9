//! Lists the connectors of a claude.ai account.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use trunkline_config::Secret;
use trunkline_config::env_vars::{
    CLAUDE_CODE_OAUTH_TOKEN, ENABLE_CLAUDEAI_MCP_SERVERS, TRUNKLINE_CLAUDEAI_URL,
};
use trunkline_transport::http::{Credentials, FetchError, FetchResponse, Fetcher, Token};
use trunkline_transport::net::Dialer;
use url::Url;

use super::account::AccountCredentials;
use super::credentials::TokenSource;
use super::page::{self, Page};
use super::{ConnectorList, Connectors, ConnectorsError, Listing};

/// Base URL of the list.
const BASE_URL: &str = "https://api.anthropic.com";
/// Base URL of the connectors.
const PROXY_URL: &str = "https://mcp-proxy.anthropic.com";
const API_VERSION: &str = "2023-06-01";
const BETA: &str = "mcp-servers-2025-12-04";
const USER_AGENT: &str = concat!("trunkline/", env!("CARGO_PKG_VERSION"));
/// Headers sent with every request.
const HEADERS: [(&str, &str); 4] = [
    ("accept", "application/json"),
    ("user-agent", USER_AGENT),
    ("anthropic-version", API_VERSION),
    ("anthropic-beta", BETA),
];

/// Time limit for all pages together (CFG-1).
const LIST_LIMIT: Duration = Duration::from_secs(5);
/// Maximum size of one page.
const MAX_BODY: usize = 1024 * 1024;
/// Maximum number of pages.
const MAX_PAGES: usize = 20;
/// Requested number of connectors per page.
const PAGE_SIZE: &str = "1000";

/// The connectors of the user's claude.ai account.
///
/// Nothing is read or connected before [`Connectors::list`], except that [`ClaudeAi::from_env`]
/// looks for a token.
#[derive(Clone, Debug)]
pub struct ClaudeAi {
    base_url: String,
    proxy_url: String,
    token: TokenSource,
    limit: Duration,
}

impl ClaudeAi {
    /// Uses Claude Code's token: `CLAUDE_CODE_OAUTH_TOKEN`, or the one in `credentials_file`
    /// (`~/.claude/.credentials.json`). Returns `None` without a suitable token, or if
    /// `ENABLE_CLAUDEAI_MCP_SERVERS` is false.
    pub fn from_env(credentials_file: &Path) -> Option<Self> {
        Self::from_vars(credentials_file, |name| std::env::var(name).ok())
    }

    fn from_vars(credentials_file: &Path, var: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let var = |name| var(name).map(|value| value.trim().to_owned());
        if var(ENABLE_CLAUDEAI_MCP_SERVERS).is_some_and(|value| is_false(&value)) {
            return None;
        }
        let set = |name| var(name).filter(|value| !value.is_empty());
        let custom_url = set(TRUNKLINE_CLAUDEAI_URL);
        let token = match (set(CLAUDE_CODE_OAUTH_TOKEN), &custom_url) {
            (Some(token), _) => TokenSource::Environment(Secret::new(token)),
            // Setting a variable must not redirect the account's own token.
            (None, Some(_)) => return None,
            (None, None) => TokenSource::File(credentials_file.to_owned()),
        };
        // A broken file is reported by `list`.
        if let Ok(None) = token.read() {
            return None;
        }
        let base_url = custom_url.unwrap_or_else(|| BASE_URL.to_owned());
        Some(Self::with_token(base_url, token))
    }

    /// Uses the list at `base_url` with this token. The proxy is assumed at the same URL, except
    /// for Anthropic's.
    pub fn new(base_url: impl Into<String>, token: Secret) -> Self {
        Self::with_token(base_url.into(), TokenSource::Given(token))
    }

    fn with_token(base_url: String, token: TokenSource) -> Self {
        // One setting changes both URLs, so a token for another host never goes to Anthropic.
        let proxy_url = if base_url == BASE_URL {
            PROXY_URL.to_owned()
        } else {
            base_url.clone()
        };
        Self {
            base_url,
            proxy_url,
            token,
            limit: LIST_LIMIT,
        }
    }

    /// Sets the base URL of the connectors.
    #[must_use]
    pub fn with_proxy_url(mut self, proxy_url: impl Into<String>) -> Self {
        self.proxy_url = proxy_url.into();
        self
    }

    /// Sets the time limit for all pages together. Default: 5 s.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    async fn list_all(&self, dialer: &Dialer) -> Result<ConnectorList, ConnectorsError> {
        let deadline = Instant::now() + self.limit;
        let base = checked_url(&self.base_url)?;
        let proxy = checked_url(&self.proxy_url)?;
        let source = self.token.clone();
        let reading = tokio::task::spawn_blocking(move || source.read());
        let token = match tokio::time::timeout_at(deadline, reading).await {
            Ok(Ok(token)) => token?,
            Ok(Err(_)) => None,
            Err(_) => return Err(self.timed_out()),
        };
        // Signed out meanwhile.
        let Some(token) = token else {
            return Ok(ConnectorList::default());
        };
        let fetcher = fetcher(dialer, &base, &token)?;
        let mut list = ConnectorList::default();
        let mut ids = HashSet::new();
        let mut cursors: Vec<String> = Vec::new();
        for number in 1..=MAX_PAGES {
            let next = fetch(&fetcher, &base, cursors.last().map(String::as_str));
            let page = tokio::time::timeout_at(deadline, next)
                .await
                .unwrap_or_else(|_| Err(self.timed_out()));
            let page = match page {
                Ok(page) => page,
                Err(ConnectorsError::Forbidden) if self.is_environment_token() => {
                    list.warnings.push(format!(
                        "the token in {CLAUDE_CODE_OAUTH_TOKEN} may not list connectors; set \
                         {ENABLE_CLAUDEAI_MCP_SERVERS}=false to do without them"
                    ));
                    break;
                }
                Err(error) if number == 1 => return Err(error),
                Err(error) => {
                    list.warnings
                        .push(format!("some connectors are missing: {error}"));
                    break;
                }
            };
            for (index, item) in page.items.iter().enumerate() {
                match page::connector(item, &proxy) {
                    // Overlapping pages must not yield two servers.
                    Ok(connector) if !ids.insert(connector.id.clone()) => {}
                    Ok(connector) => list.connectors.push(connector),
                    Err(problem) => list.warnings.push(format!(
                        "skipped connector {} of page {number}: {problem}",
                        index + 1
                    )),
                }
            }
            match page.next {
                None => break,
                Some(next) if cursors.contains(&next) => {
                    let warning = "some connectors may be missing: the list repeats a page";
                    list.warnings.push(warning.to_owned());
                    break;
                }
                Some(_) if number == MAX_PAGES => list.warnings.push(format!(
                    "some connectors are missing: there are more than {MAX_PAGES} pages"
                )),
                Some(next) => cursors.push(next),
            }
        }
        Ok(list)
    }

    /// Returns whether the token's scope is unknown. `claude setup-token` creates tokens without
    /// the required one.
    fn is_environment_token(&self) -> bool {
        matches!(self.token, TokenSource::Environment(_))
    }

    fn timed_out(&self) -> ConnectorsError {
        ConnectorsError::TimedOut { after: self.limit }
    }
}

impl Connectors for ClaudeAi {
    fn list(&self) -> Listing<'_> {
        Box::pin(async { self.list_all(&Dialer::from_env()).await })
    }

    fn list_over<'a>(&'a self, dialer: &'a Dialer) -> Listing<'a> {
        Box::pin(self.list_all(dialer))
    }

    fn credentials(&self) -> Option<Arc<dyn Credentials>> {
        Some(Arc::new(AccountCredentials::new(self.token.clone())))
    }
}

fn is_false(value: &str) -> bool {
    ["false", "0", "no", "off"]
        .iter()
        .any(|no| value.eq_ignore_ascii_case(no))
}

/// Parses a URL that a token may be sent to.
fn checked_url(text: &str) -> Result<Url, ConnectorsError> {
    let refused = |url: String, reason| Err(ConnectorsError::Url { url, reason });
    let Ok(url) = Url::parse(text) else {
        // The text may contain a password in an unknown position.
        return refused("that address".to_owned(), "it is not a URL");
    };
    let host = url.host_str().unwrap_or_default();
    let shown = format!("{}://{host}", url.scheme());
    if !url.username().is_empty() || url.password().is_some() {
        return refused(shown, "it has a user name or a password in it");
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(host) => Ok(url),
        _ => refused(shown, "it must be https, or http on this machine"),
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse()
            .is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

/// Creates a client for the origin of `base` that sends the token.
fn fetcher(dialer: &Dialer, base: &Url, token: &Secret) -> Result<Fetcher, ConnectorsError> {
    let token = Token::bearer(token.expose()).ok_or(ConnectorsError::BadToken)?;
    Fetcher::new(dialer, base, &HEADERS, Some(token)).map_err(|error| failed(&error))
}

async fn fetch(
    fetcher: &Fetcher,
    base: &Url,
    cursor: Option<&str>,
) -> Result<Page, ConnectorsError> {
    let mut url = page::with_path(base, &["v1", "mcp_servers"]);
    url.query_pairs_mut()
        .append_pair("limit", PAGE_SIZE)
        .extend_pairs(cursor.map(|cursor| ("page", cursor)));
    let response = fetcher.get(&url, MAX_BODY).await;
    let FetchResponse { status, body } = response.map_err(|error| failed(&error))?;
    match status {
        200 => page::read(&body),
        401 => Err(ConnectorsError::Unauthorized),
        403 => Err(ConnectorsError::Forbidden),
        // Redirects are not followed with a token.
        300..=399 => Err(ConnectorsError::Redirected { status }),
        _ => Err(ConnectorsError::Status { status }),
    }
}

fn failed(error: &FetchError) -> ConnectorsError {
    match error {
        FetchError::TooLong(limit) => ConnectorsError::TooLarge { limit: *limit },
        error => ConnectorsError::Network {
            reason: error.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const GOOD: &str = r#"{"claudeAiOauth": {"accessToken": "of the file"}}"#;

    fn from(file: &str, vars: &[(&str, &str)]) -> Option<ClaudeAi> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".credentials.json");
        fs::write(&path, file).unwrap();
        let made = ClaudeAi::from_vars(&path, |wanted| {
            let found = vars.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| (*value).to_owned())
        })?;
        let token = made.token.read();
        Some(ClaudeAi {
            // The file is deleted on return.
            token: token.map_or(made.token, |token| TokenSource::Given(token.unwrap())),
            ..made
        })
    }

    fn token_of(made: Option<ClaudeAi>) -> String {
        let token = made.unwrap().token.read().unwrap().unwrap();
        token.expose().to_owned()
    }

    #[test]
    fn environment_token_takes_precedence() {
        assert_eq!(token_of(from(GOOD, &[])), "of the file");
        let var = (CLAUDE_CODE_OAUTH_TOKEN, " of the environment\n");
        assert_eq!(token_of(from(GOOD, &[var])), "of the environment");
        assert_eq!(token_of(from("{}", &[var])), "of the environment");
        let empty = (CLAUDE_CODE_OAUTH_TOKEN, "");
        assert_eq!(token_of(from(GOOD, &[empty])), "of the file");
    }

    #[test]
    fn no_token_or_opt_out_yields_none() {
        assert!(from("{}", &[]).is_none());
        for no in ["false", "0", "no", "OFF", " False "] {
            assert!(from(GOOD, &[(ENABLE_CLAUDEAI_MCP_SERVERS, no)]).is_none());
        }
        for yes in ["true", "1", "", "yes"] {
            assert!(from(GOOD, &[(ENABLE_CLAUDEAI_MCP_SERVERS, yes)]).is_some());
        }
    }

    #[test]
    fn broken_credentials_file_fails_when_listing() {
        assert!(from("nonsense", &[]).is_some());
    }

    #[test]
    fn custom_url_applies_to_list_and_proxy() {
        let usual = from(GOOD, &[("ANTHROPIC_BASE_URL", "https://gateway.example")]).unwrap();
        assert_eq!(usual.base_url, "https://api.anthropic.com");
        assert_eq!(usual.proxy_url, "https://mcp-proxy.anthropic.com");
        let there = (TRUNKLINE_CLAUDEAI_URL, "http://localhost:1");
        // The account's own token is sent to its own host only.
        assert!(from(GOOD, &[there]).is_none());
        let custom_url = from(GOOD, &[there, (CLAUDE_CODE_OAUTH_TOKEN, "t")]).unwrap();
        assert_eq!(custom_url.base_url, "http://localhost:1");
        assert_eq!(custom_url.proxy_url, "http://localhost:1");
    }

    #[test]
    fn token_is_sent_only_over_https_or_loopback() {
        for good in [
            "https://api.anthropic.com",
            "https://example.com:8443/base/",
            "http://localhost:3000",
            "http://127.0.0.1",
            "http://[::1]:80",
        ] {
            checked_url(good).unwrap();
        }
        for bad in [
            "http://api.anthropic.com",
            "http://localhost.example.com",
            "http://192.168.0.1",
            "https://me:hunter2@example.com",
            "https://me@example.com",
            "ftp://localhost",
            "file:///etc/passwd",
            "hunter2",
            "",
        ] {
            let error = checked_url(bad).unwrap_err();
            assert!(matches!(error, ConnectorsError::Url { .. }), "{bad}");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn token_with_line_break_is_rejected() {
        let base = Url::parse(BASE_URL).unwrap();
        let with = |token: &str| fetcher(&Dialer::from_env(), &base, &Secret::new(token));
        let error = with("hunter2\r\nx: y").err();
        assert_eq!(error, Some(ConnectorsError::BadToken));
        assert!(with("hunter2").is_ok());
    }

    #[test]
    fn debug_output_hides_the_token() {
        let shown = format!("{:?}", ClaudeAi::new(BASE_URL, Secret::new("hunter2")));
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    /// Starts a server that answers every request with 403.
    async fn forbidding() -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let answer = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n";
                let mut request = [0; 1024];
                let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut request).await;
                let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await;
            }
        });
        url
    }

    #[tokio::test]
    async fn environment_token_without_the_scope_is_a_warning() {
        let url = forbidding().await;
        let vars = |name: &str| match name {
            CLAUDE_CODE_OAUTH_TOKEN => Some("hunter2".to_owned()),
            TRUNKLINE_CLAUDEAI_URL => Some(url.clone()),
            _ => None,
        };
        let made = ClaudeAi::from_vars(Path::new("/nonexistent"), vars).unwrap();
        let list = made.list().await.unwrap();
        assert_eq!(list.connectors, []);
        assert!(
            list.warnings[0].contains(CLAUDE_CODE_OAUTH_TOKEN),
            "{list:?}"
        );

        let given = ClaudeAi::new(url, Secret::new("hunter2"));
        let error = given.list().await.unwrap_err();
        assert_eq!(error, ConnectorsError::Forbidden);
    }

    #[tokio::test]
    async fn credentials_file_is_reread_for_each_list() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".credentials.json");
        fs::write(&path, GOOD).unwrap();
        let url = forbidding().await;
        let made = ClaudeAi::with_token(url, TokenSource::File(path.clone()));
        assert_eq!(made.list().await.unwrap_err(), ConnectorsError::Forbidden);
        fs::write(
            &path,
            r#"{"claudeAiOauth": {"accessToken": "t", "expiresAt": 1}}"#,
        )
        .unwrap();
        assert_eq!(made.list().await.unwrap_err(), ConnectorsError::Expired);
        fs::remove_file(&path).unwrap();
        assert_eq!(made.list().await.unwrap(), ConnectorList::default());
    }
}
