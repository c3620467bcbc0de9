//! `headersHelper`: a command of the user's that prints the headers to send (TRN-3).

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::sync::Mutex;

use super::headers::is_ours;

/// How long the command may take.
pub const HELPER_LIMIT: Duration = Duration::from_secs(10);

/// How much it may print.
const MAX_OUTPUT: u64 = 1024 * 1024;

/// How much of what it says on stderr is shown.
const SHOWN: usize = 300;

/// A command that prints a JSON object of headers. It is run before the first request, and again when the server turns us down.
pub struct HeadersHelper {
    command: String,
    env: Vec<(String, String)>,
    /// Variables of ours that it does not inherit.
    withheld: Vec<String>,
    cwd: Option<PathBuf>,
    /// Held while the command runs, so that many requests that are turned down at once run it once.
    headers: Mutex<Option<Arc<HeaderMap>>>,
    limit: Duration,
    told: Option<Told>,
}

/// Who is told a header's name and value.
type Told = Box<dyn Fn(&str, &str) + Send + Sync>;

/// Why there are no headers from the helper.
#[derive(Clone, Debug, thiserror::Error)]
pub enum HelperError {
    /// The command could not be run.
    #[error("the headersHelper could not be run: {0}")]
    Start(String),
    /// It took too long.
    #[error("the headersHelper did not end within {} s", .0.as_secs())]
    TooSlow(Duration),
    /// It failed.
    #[error("the headersHelper ended with {status}{said}")]
    Failed {
        /// Its exit status.
        status: String,
        /// What it said on stderr; untrusted text.
        said: String,
    },
    /// It printed something else.
    #[error("the headersHelper printed no JSON object of headers: {0}")]
    Output(String),
}

impl HeadersHelper {
    /// A shell command, and variables for it.
    pub fn new(command: impl Into<String>, env: Vec<(String, String)>) -> Self {
        Self {
            command: command.into(),
            env,
            withheld: Vec::new(),
            cwd: None,
            headers: Mutex::default(),
            limit: HELPER_LIMIT,
            told: None,
        }
    }

    /// Variables of ours that it does not inherit.
    #[must_use]
    pub fn withholding(mut self, variables: impl IntoIterator<Item = String>) -> Self {
        self.withheld.extend(variables);
        self
    }

    /// The directory it runs in; by default ours.
    #[must_use]
    pub fn in_dir(mut self, dir: Option<PathBuf>) -> Self {
        self.cwd = dir;
        self
    }

    /// Who is told the name and the value of each header before it is sent, and may want to keep it out of sight.
    #[must_use]
    pub fn telling(mut self, told: impl Fn(&str, &str) + Send + Sync + 'static) -> Self {
        self.told = Some(Box::new(told));
        self
    }

    /// How long it may take, where ten seconds are not right.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The headers it printed last; it is run if it has printed none yet.
    pub async fn headers(&self) -> Result<Arc<HeaderMap>, HelperError> {
        let mut headers = self.headers.lock().await;
        if let Some(headers) = &*headers {
            return Ok(Arc::clone(headers));
        }
        let found = Arc::new(self.run().await?);
        *headers = Some(Arc::clone(&found));
        Ok(found)
    }

    /// The server turned down a request with the headers `sent`. True if there are others to try.
    pub async fn refused(&self, sent: &Arc<HeaderMap>) -> bool {
        let mut headers = self.headers.lock().await;
        if headers.as_ref().is_some_and(|now| !Arc::ptr_eq(now, sent)) {
            // Somebody else was turned down with the same ones, and has asked already.
            return true;
        }
        if let Ok(found) = self.run().await {
            let news = found != **sent;
            *headers = Some(Arc::new(found));
            return news;
        }
        // The next request runs it again, and says what is wrong.
        *headers = None;
        false
    }

    /// Headers as names and values.
    pub fn pairs(headers: &HeaderMap) -> impl Iterator<Item = (String, String)> {
        headers.iter().filter_map(|(name, value)| {
            let value = value.to_str().ok()?;
            Some((name.to_string(), value.to_owned()))
        })
    }

    async fn run(&self) -> Result<HeaderMap, HelperError> {
        let headers = self.print().await?;
        if let Some(told) = &self.told {
            for (name, value) in Self::pairs(&headers) {
                told(&name, &value);
            }
        }
        Ok(headers)
    }

    async fn print(&self) -> Result<HeaderMap, HelperError> {
        let mut command = shell(&self.command);
        for name in &self.withheld {
            command.env_remove(name);
        }
        if let Some(dir) = &self.cwd {
            command.current_dir(dir);
        }
        command
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command
            .spawn()
            .map_err(|error| HelperError::Start(error.to_string()))?;
        let group = Group(child.id());
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(HelperError::Start("its pipes are missing".to_owned()));
        };
        let (mut printed, mut said) = (Vec::new(), Vec::new());
        let run = async {
            let mut stdout = stdout.take(MAX_OUTPUT + 1);
            let mut stderr = stderr.take(MAX_OUTPUT);
            let (read, _) = tokio::join!(
                stdout.read_to_end(&mut printed),
                stderr.read_to_end(&mut said)
            );
            read?;
            child.wait().await
        };
        let status = match tokio::time::timeout(self.limit, run).await {
            Ok(Ok(status)) => status,
            Ok(Err(error)) => return Err(HelperError::Start(error.to_string())),
            Err(_) => return Err(HelperError::TooSlow(self.limit)),
        };
        group.ended();
        if !status.success() {
            let text: String = String::from_utf8_lossy(&said)
                .trim()
                .chars()
                .take(SHOWN)
                .collect();
            let said = if text.is_empty() {
                text
            } else {
                format!(": {text}")
            };
            let status = status.to_string();
            return Err(HelperError::Failed { status, said });
        }
        read(&printed)
    }
}

/// The process group of a running helper: taken down with all that is in it, unless it ended by itself.
struct Group(Option<u32>);

impl Group {
    fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(group) = self
            .0
            .and_then(|id| i32::try_from(id).ok())
            .and_then(rustix::process::Pid::from_raw)
        {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

#[cfg(unix)]
fn shell(line: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line);
    command
}

#[cfg(not(unix))]
fn shell(line: &str) -> Command {
    let mut command = Command::new("cmd");
    command.arg("/C").arg(line);
    command
}

/// Reads what was printed: an object whose values are texts. No error shows a value.
fn read(printed: &[u8]) -> Result<HeaderMap, HelperError> {
    let wrong = |what: String| HelperError::Output(what);
    if printed.len() as u64 > MAX_OUTPUT {
        return Err(wrong("it is too long".to_owned()));
    }
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
        if !is_ours(&key) {
            headers.insert(key, value);
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run(command: &str) -> Result<String, String> {
        let helper = HeadersHelper::new(command, vec![("WHO".to_owned(), "me".to_owned())]);
        let helper = helper.with_limit(Duration::from_millis(500));
        let headers = helper.headers().await.map_err(|error| error.to_string())?;
        let show = |(name, value): (&HeaderName, &HeaderValue)| {
            format!("{name}={}", value.to_str().unwrap())
        };
        Ok(headers.iter().map(show).collect::<Vec<_>>().join(","))
    }

    #[tokio::test]
    async fn what_a_helper_prints_becomes_headers_or_a_clear_error() {
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
        ] {
            let error = run(command).await.unwrap_err();
            assert!(error.contains(part), "{command}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[tokio::test]
    async fn many_who_are_turned_down_at_once_run_it_once() {
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
