//! `headersHelper`: a user command that prints the headers to send (TRN-3).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::Mutex;

use crate::shell::{Background, Ended, ShellCommand};

/// Default time limit for the command.
pub const HELPER_TIMEOUT: Duration = Duration::from_secs(10);

/// How much of its stderr is shown, in characters.
const MAX_STDERR: usize = 300;

/// The headers that a helper printed.
pub type HelperHeaders = Arc<HeaderMap>;

/// A command that prints a JSON object of headers. It runs before the first request, and again
/// after a 401 or 403.
pub struct HeadersHelper {
    command: String,
    env: Vec<(String, String)>,
    /// Variables of this process that it does not inherit.
    env_remove: Vec<String>,
    cwd: Option<PathBuf>,
    /// Locked while the command runs, so that concurrent refusals run it once.
    headers: Mutex<Option<Arc<HeaderMap>>>,
    timeout: Duration,
    on_header: Option<OnHeader>,
}

/// Called with the name and value of each header.
type OnHeader = Box<dyn Fn(&str, &str) + Send + Sync>;

/// An error of running the helper.
#[derive(Clone, Debug, thiserror::Error)]
pub enum HelperError {
    /// The command could not be started.
    #[error("the headersHelper could not be started: {0}")]
    Start(String),
    /// It did not end in time.
    #[error("the headersHelper did not end within {} s", .0.as_secs())]
    TooSlow(Duration),
    /// It exited with an error.
    #[error("the headersHelper ended with {status}{stderr}")]
    Failed {
        /// Its exit status.
        status: String,
        /// Its stderr; untrusted text.
        stderr: String,
    },
    /// Its output is not a JSON object of headers.
    #[error("the output of the headersHelper is not a JSON object of headers: {0}")]
    Output(String),
}

impl HeadersHelper {
    /// Creates a helper from a shell command and variables for it.
    pub fn new(command: impl Into<String>, env: Vec<(String, String)>) -> Self {
        Self {
            command: command.into(),
            env,
            env_remove: Vec::new(),
            cwd: None,
            headers: Mutex::default(),
            timeout: HELPER_TIMEOUT,
            on_header: None,
        }
    }

    /// Variables of this process that it does not inherit.
    #[must_use]
    pub fn env_remove(mut self, variables: impl IntoIterator<Item = String>) -> Self {
        self.env_remove.extend(variables);
        self
    }

    /// Sets the working directory; by default that of this process.
    #[must_use]
    pub fn in_dir(mut self, dir: Option<PathBuf>) -> Self {
        self.cwd = dir;
        self
    }

    /// Sets a callback for the name and value of each header before it is sent, to redact them.
    #[must_use]
    pub fn on_header(mut self, callback: impl Fn(&str, &str) + Send + Sync + 'static) -> Self {
        self.on_header = Some(Box::new(callback));
        self
    }

    /// Sets the time limit.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Returns the headers it printed last, running it if there are none yet.
    pub async fn headers(&self) -> Result<HelperHeaders, HelperError> {
        let mut headers = self.headers.lock().await;
        if let Some(headers) = &*headers {
            return Ok(Arc::clone(headers));
        }
        let found = Arc::new(self.run().await?);
        *headers = Some(Arc::clone(&found));
        Ok(found)
    }

    /// Reports that the server refused the headers `sent`; true if there are others to try.
    pub async fn refused(&self, sent: &HelperHeaders) -> bool {
        let mut headers = self.headers.lock().await;
        if headers.as_ref().is_some_and(|now| !Arc::ptr_eq(now, sent)) {
            // Another request was refused with the same headers and has run the command already.
            return true;
        }
        if let Ok(found) = self.run().await {
            let changed = found != **sent;
            *headers = Some(Arc::new(found));
            return changed;
        }
        // The next request runs it again and reports the error.
        *headers = None;
        false
    }

    /// Iterates over the headers as strings.
    pub fn pairs(headers: &HeaderMap) -> impl Iterator<Item = (String, String)> {
        headers.iter().filter_map(|(name, value)| {
            let value = value.to_str().ok()?;
            Some((name.to_string(), value.to_owned()))
        })
    }

    async fn run(&self) -> Result<HeaderMap, HelperError> {
        let headers = self.run_command().await?;
        if let Some(on_header) = &self.on_header {
            for (name, value) in Self::pairs(&headers) {
                on_header(&name, &value);
            }
        }
        Ok(headers)
    }

    async fn run_command(&self) -> Result<HeaderMap, HelperError> {
        let mut command = ShellCommand::new(&*self.command, self.timeout)
            .env_remove(&self.env_remove)
            .in_dir(self.cwd.as_deref())
            .background(Background::Kept);
        for (name, value) in &self.env {
            command = command.env(name, value);
        }
        let (code, stdout, stderr) = match command.run(b"").await {
            Ended::Exited {
                code,
                stdout,
                stderr,
            } => (code, stdout, stderr),
            Ended::TimedOut(limit) => return Err(HelperError::TooSlow(limit)),
            Ended::NotStarted(problem) => return Err(HelperError::Start(problem)),
        };
        if code != Some(0) {
            let text: String = String::from_utf8_lossy(&stderr)
                .trim()
                .chars()
                .take(MAX_STDERR)
                .collect();
            let stderr = if text.is_empty() {
                text
            } else {
                format!(": {text}")
            };
            let status = code.map_or("a signal".to_owned(), |code| format!("exit status: {code}"));
            return Err(HelperError::Failed { status, stderr });
        }
        let too_long = || HelperError::Output("it is too long".to_owned());
        parse(&stdout.ok_or_else(too_long)?)
    }
}

/// Parses the output: an object of strings. Errors never show a value.
fn parse(printed: &[u8]) -> Result<HeaderMap, HelperError> {
    let wrong = |what: String| HelperError::Output(what);
    let found: serde_json::Value = serde_json::from_slice(printed)
        .map_err(|error| wrong(format!("line {}, column {}", error.line(), error.column())))?;
    let serde_json::Value::Object(members) = found else {
        return Err(wrong("it is not an object".to_owned()));
    };
    let mut headers = HeaderMap::new();
    for (name, value) in &members {
        let Some(text) = value.as_str() else {
            return Err(wrong(format!("the value of {name:?} is not a string")));
        };
        let (Ok(key), Ok(mut value)) = (HeaderName::try_from(name), HeaderValue::try_from(text))
        else {
            return Err(wrong(format!("{name:?} cannot be a header")));
        };
        value.set_sensitive(true);
        if !is_reserved(&key) {
            headers.insert(key, value);
        }
    }
    Ok(headers)
}

/// Returns whether a header belongs to the transport, so that entries cannot set it.
pub(crate) fn is_reserved(name: &HeaderName) -> bool {
    let name = name.as_str();
    name.starts_with("mcp-")
        || matches!(
            name,
            "accept"
                | "content-type"
                | "content-length"
                | "content-encoding"
                | "accept-encoding"
                | "host"
                | "connection"
                | "transfer-encoding"
                | "upgrade"
                | "te"
                | "trailer"
                | "last-event-id"
                | "proxy-authorization"
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run(command: &str) -> Result<String, String> {
        let helper = HeadersHelper::new(command, vec![("WHO".to_owned(), "me".to_owned())]);
        let helper = helper.timeout(Duration::from_millis(500));
        let headers = helper.headers().await.map_err(|error| error.to_string())?;
        let show = |(name, value): (&HeaderName, &HeaderValue)| {
            format!("{name}={}", value.to_str().unwrap())
        };
        Ok(headers.iter().map(show).collect::<Vec<_>>().join(","))
    }

    #[tokio::test]
    async fn the_output_becomes_headers_or_a_clear_error() {
        assert_eq!(
            run(r#"echo "{\"X-Who\": \"$WHO\"}""#).await.unwrap(),
            "x-who=me"
        );
        for (command, part) in [
            ("echo '{\"a\": 1}'", "the value of \"a\" is not a string"),
            ("echo secret", "line 1, column 1"),
            ("echo '[]'", "not an object"),
            ("echo '{\"a b\": \"secret\"}'", "cannot be a header"),
            ("echo wrong >&2; exit 3", "exit status: 3: wrong"),
            ("sleep 60", "did not end"),
            ("sleep 60 & sleep 60", "did not end"),
            ("head -c 3000000 /dev/zero", "it is too long"),
        ] {
            let error = run(command).await.unwrap_err();
            assert!(error.contains(part), "{command}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[tokio::test]
    async fn concurrent_refusals_run_the_command_once() {
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("count");
        let command = format!(
            "echo x >> {0}; echo \"{{\\\"n\\\": \\\"$(wc -l < {0})\\\"}}\"",
            count.display()
        );
        let helper = HeadersHelper::new(command, Vec::new());
        let first = helper.headers().await.unwrap();
        let answers = tokio::join!(
            helper.refused(&first),
            helper.refused(&first),
            helper.refused(&first)
        );
        assert_eq!(answers, (true, true, true));
        assert_eq!(std::fs::read_to_string(count).unwrap().lines().count(), 2);
    }
}
