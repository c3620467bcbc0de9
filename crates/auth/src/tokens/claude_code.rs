//! Access tokens that Claude Code obtained, from its `.credentials.json`.
//!
//! They are read, never written, and never refreshed: a rotated refresh token would sign the user
//! out of Claude Code.

use std::path::{Path, PathBuf};

use serde_json::Value;
use url::Url;

use super::Tokens;
use crate::Secret;
use crate::files::read_bounded;

/// The maximum size of the file.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Claude Code's credentials file.
#[derive(Clone, Debug)]
pub(crate) struct ClaudeCodeTokens {
    file: PathBuf,
}

impl ClaudeCodeTokens {
    pub(crate) fn at(file: PathBuf) -> Self {
        Self { file }
    }

    /// Returns the access token for a server, if it is still valid. Blocks.
    pub(crate) fn find(&self, server: &str, url: &Url, now: u64) -> Option<Tokens> {
        find(&self.file, server, url, now)
    }
}

fn find(file: &Path, server: &str, url: &Url, now: u64) -> Option<Tokens> {
    let bytes = read_bounded(file, MAX_BYTES)?;
    let document: Value = serde_json::from_slice(&bytes).ok()?;
    let entries = document["mcpOAuth"].as_object()?;
    entries.values().find_map(|entry| {
        let entry_url = entry["serverUrl"].as_str()?;
        // The name alone could be that of another server.
        if entry["serverName"] != server || Url::parse(entry_url).as_ref() != Ok(url) {
            return None;
        }
        let access = entry["accessToken"]
            .as_str()
            .filter(|token| !token.is_empty())?;
        // Milliseconds.
        let expires_at = entry["expiresAt"].as_u64().map(|expires| expires / 1000);
        if expires_at.is_some_and(|expires_at| expires_at <= now) {
            return None;
        }
        Some(Tokens {
            access: Secret::new(access),
            refresh: None,
            id: None,
            dpop_key: None,
            refresh_key: None,
            obtained_at: now,
            expires_at,
            scopes: entry["scope"]
                .as_str()
                .unwrap_or_default()
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_valid_token_for_the_same_server_is_found_without_its_refresh_token() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(".credentials.json");
        let document = json!({"claudeAiOauth": {}, "mcpOAuth": {"a|123": {
            "serverName": "a", "serverUrl": "https://a.example/mcp", "accessToken": "acc",
            "refreshToken": "ref", "expiresAt": 2_000_000, "scope": "x y",
        }}});
        std::fs::write(&file, document.to_string()).unwrap();
        let url = |text: &str| Url::parse(text).unwrap();
        let found = find(&file, "a", &url("https://a.example/mcp"), 1000).unwrap();
        assert_eq!(found.access, Secret::new("acc"));
        assert_eq!((found.refresh, found.expires_at), (None, Some(2000)));
        assert_eq!(found.scopes, ["x", "y"]);
        assert!(find(&file, "a", &url("https://a.example/mcp"), 2000).is_none());
        assert!(find(&file, "a", &url("https://b.example/mcp"), 1000).is_none());
        assert!(find(&file, "b", &url("https://a.example/mcp"), 1000).is_none());
        std::fs::write(&file, "{").unwrap();
        assert!(find(&file, "a", &url("https://a.example/mcp"), 1000).is_none());
    }
}
