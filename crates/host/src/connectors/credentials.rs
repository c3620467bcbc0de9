//! Reads the token of the user's claude.ai sign-in from Claude Code's file.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use trunkline_config::Secret;

use super::ConnectorsError;

/// Maximum file size; the file also holds the tokens of MCP servers.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The scope a token needs.
const SCOPE: &str = "user:mcp_servers";

/// The source of the token.
#[derive(Clone, Debug)]
pub(super) enum TokenSource {
    /// Passed by the caller.
    Given(Secret),
    /// From the environment; its scope is unknown.
    Environment(Secret),
    /// From this file, reread each time because Claude Code renews it there.
    File(PathBuf),
}

impl TokenSource {
    /// Returns the current token, or `None` if there is no suitable one.
    pub(super) fn read(&self) -> Result<Option<Secret>, ConnectorsError> {
        match self {
            Self::Given(token) | Self::Environment(token) => Ok(Some(token.clone())),
            Self::File(path) => read(path, SystemTime::now()),
        }
    }
}

#[derive(Deserialize)]
struct Credentials {
    #[serde(rename = "claudeAiOauth")]
    claude_ai: Option<SignIn>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SignIn {
    access_token: Option<String>,
    /// Milliseconds since the Unix epoch.
    expires_at: Option<f64>,
    scopes: Option<Vec<String>>,
}

fn read(path: &Path, now: SystemTime) -> Result<Option<Secret>, ConnectorsError> {
    let failed = |reason: String| ConnectorsError::Credentials {
        path: path.to_owned(),
        reason,
    };
    let text = match read_file(path) {
        Ok(text) => text,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(failed(error.to_string())),
    };
    // The message of serde_json may quote the file; the position does not.
    let credentials: Credentials = serde_json::from_slice(&text).map_err(|error| {
        failed(format!(
            "it is not what Claude Code writes (line {}, column {})",
            error.line(),
            error.column()
        ))
    })?;
    let Some(sign_in) = credentials.claude_ai else {
        return Ok(None);
    };
    let Some(token) = sign_in.access_token.filter(|token| !token.is_empty()) else {
        return Ok(None);
    };
    if sign_in
        .scopes
        .is_some_and(|scopes| !scopes.iter().any(|scope| scope == SCOPE))
    {
        return Ok(None);
    }
    let now = now
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64() * 1000.0);
    if sign_in.expires_at.is_some_and(|expires| expires <= now) {
        return Err(ConnectorsError::Expired);
    }
    Ok(Some(Secret::new(token)))
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a pipe would block.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut text = Vec::new();
    File::open(path)?
        .take(MAX_BYTES + 1)
        .read_to_end(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other("it is too large"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read_text(text: &str) -> Result<Option<Secret>, ConnectorsError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".credentials.json");
        fs::write(&path, text).unwrap();
        read(&path, UNIX_EPOCH + Duration::from_secs(1))
    }

    #[test]
    fn valid_sign_in_yields_its_token() {
        for text in [
            r#"{"claudeAiOauth": {"accessToken": "t"}}"#,
            r#"{"claudeAiOauth": {"accessToken": "t", "expiresAt": 1001}}"#,
            r#"{"claudeAiOauth": {"accessToken": "t", "expiresAt": 1001.5, "scopes": null}}"#,
            r#"{"mcpOAuth": {}, "claudeAiOauth": {"accessToken": "t", "expiresAt": null, "scopes": ["user:inference", "user:mcp_servers"], "new": 1}}"#,
        ] {
            assert_eq!(read_text(text).unwrap(), Some(Secret::new("t")), "{text}");
        }
    }

    #[test]
    fn unsuitable_sign_in_yields_none() {
        for text in [
            "{}",
            r#"{"claudeAiOauth": null}"#,
            r#"{"claudeAiOauth": {}}"#,
            r#"{"claudeAiOauth": {"accessToken": ""}}"#,
            r#"{"claudeAiOauth": {"accessToken": "t", "scopes": []}}"#,
            r#"{"claudeAiOauth": {"accessToken": "t", "scopes": ["user:inference"], "expiresAt": 1}}"#,
        ] {
            assert_eq!(read_text(text).unwrap(), None, "{text}");
        }
        let nowhere = Path::new("/nonexistent/.credentials.json");
        assert_eq!(read(nowhere, UNIX_EPOCH).unwrap(), None);
    }

    #[test]
    fn expired_sign_in_is_an_error() {
        let text = r#"{"claudeAiOauth": {"accessToken": "t", "expiresAt": 1000}}"#;
        assert_eq!(read_text(text).unwrap_err(), ConnectorsError::Expired);
    }

    #[test]
    fn broken_file_is_reported_without_its_contents() {
        for text in [
            "hunter2",
            r#"{"claudeAiOauth": "hunter2"}"#,
            r#"{"claudeAiOauth": {"accessToken": ["hunter2"]}}"#,
            r#"{"claudeAiOauth": {"accessToken": "hunter2""#,
        ] {
            let error = read_text(text).unwrap_err();
            let said = format!("{error} {error:?}");
            assert!(said.contains("not what Claude Code writes"), "{said}");
            assert!(!said.contains("hunter2"), "{said}");
        }
    }
}
