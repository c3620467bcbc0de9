//! Entries written in code: a constructor for each kind of server, and the options of all.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::{HttpEntry, HttpFlavour, ServerEntry, StdioEntry, TlsEntry, TransportEntry, WsEntry};
use crate::entry::ServerUrl;
use crate::glob::Glob;
use crate::secret::Secret;

impl ServerEntry {
    /// A server behind Streamable HTTP.
    ///
    /// ```
    /// use std::time::Duration;
    /// use trunkline_config::ServerEntry;
    ///
    /// let entry = ServerEntry::http("github", "https://mcp.example.com/mcp")
    ///     .header("Authorization", "Bearer token")
    ///     .timeout(Duration::from_secs(30))
    ///     .lazy(true)
    ///     .allow_tools(["get_*", "list_*"]);
    /// assert!(entry.tools.offers("get_issue") && !entry.tools.offers("delete_repo"));
    /// assert!(!format!("{entry:?}").contains("Bearer"));
    /// ```
    pub fn http(name: impl Into<String>, url: impl Into<String>) -> Self {
        let http = HttpEntry::new(HttpFlavour::Streamable, url);
        Self::new(name, TransportEntry::Http(http))
    }

    /// A server behind HTTP+SSE, the transport that Streamable HTTP replaced.
    pub fn sse(name: impl Into<String>, url: impl Into<String>) -> Self {
        let http = HttpEntry::new(HttpFlavour::Sse, url);
        Self::new(name, TransportEntry::Http(http))
    }

    /// A server behind a WebSocket.
    pub fn ws(name: impl Into<String>, url: impl Into<String>) -> Self {
        let ws = WsEntry {
            url: ServerUrl::new(url),
            headers: BTreeMap::new(),
            headers_helper: None,
            tls: TlsEntry::default(),
        };
        Self::new(name, TransportEntry::Ws(ws))
    }

    /// Adds an HTTP header to every request. No effect on a child process.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let TransportEntry::Http(HttpEntry { headers, .. })
        | TransportEntry::Ws(WsEntry { headers, .. }) = &mut self.transport
        {
            headers.insert(name.into(), Secret::new(value.into()));
        }
        self
    }

    /// Sets an environment variable of a child process. No effect on other servers.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let TransportEntry::Stdio(StdioEntry { env, .. }) = &mut self.transport {
            env.insert(name.into(), Secret::new(value.into()));
        }
        self
    }

    /// Sets the working directory of a child process. No effect on other servers.
    #[must_use]
    pub fn cwd(mut self, dir: impl Into<PathBuf>) -> Self {
        if let TransportEntry::Stdio(StdioEntry { cwd, .. }) = &mut self.transport {
            *cwd = Some(dir.into());
        }
        self
    }

    /// Limits the time that one tool call may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Limits the time that connecting may take.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// Starts the server when it is first needed, if its tools are known from an earlier run.
    #[must_use]
    pub fn lazy(mut self, lazy: bool) -> Self {
        self.lazy = Some(lazy);
        self
    }

    /// Decides whether the clients of a gateway share its process.
    #[must_use]
    pub fn share(mut self, share: bool) -> Self {
        self.share = Some(share);
        self
    }

    /// Shows its tools to the model however many tools there are.
    #[must_use]
    pub fn always_load(mut self, always: bool) -> Self {
        self.always_load = always;
        self
    }

    /// Offers only tools whose names match one of these globs, in addition to those allowed before.
    #[must_use]
    pub fn allow_tools<G: Into<String>>(mut self, globs: impl IntoIterator<Item = G>) -> Self {
        let globs = globs.into_iter().map(|glob| Glob::new(glob.into()));
        self.tools.allow.get_or_insert_default().extend(globs);
        self
    }

    /// Hides tools whose names match one of these globs, even if they are allowed.
    #[must_use]
    pub fn deny_tools<G: Into<String>>(mut self, globs: impl IntoIterator<Item = G>) -> Self {
        let globs = globs.into_iter().map(|glob| Glob::new(glob.into()));
        self.tools.deny.extend(globs);
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_written_in_code_equals_the_one_in_a_file() {
        let second = Duration::from_secs(1);
        for (entry, written) in [
            (
                ServerEntry::stdio("s", "run", ["-x"])
                    .env("K", "v")
                    .cwd("/d"),
                json!({"type": "stdio", "command": "run", "args": ["-x"], "env": {"K": "v"}, "cwd": "/d"}),
            ),
            (
                ServerEntry::http("s", "https://h/mcp")
                    .header("A", "b")
                    .timeout(second)
                    .lazy(true)
                    .allow_tools(["a", "b*"])
                    .deny_tools(["c"]),
                json!({"type": "http", "url": "https://h/mcp", "headers": {"A": "b"}, "timeout": 1000,
                    "lazy": true, "tools": {"allow": ["a", "b*"], "deny": ["c"]}}),
            ),
            (
                ServerEntry::sse("s", "https://h/sse").connect_timeout(second),
                json!({"type": "sse", "url": "https://h/sse", "connectTimeout": 1000}),
            ),
            (
                ServerEntry::ws("s", "wss://h")
                    .header("A", "b")
                    .always_load(true)
                    .env("no", "effect"),
                json!({"type": "ws", "url": "wss://h", "headers": {"A": "b"}, "alwaysLoad": true}),
            ),
        ] {
            assert_eq!(entry.as_written(), written);
        }
    }
}
