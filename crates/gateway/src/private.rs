//! Servers that clients cannot share: each client gets a process of its own, which ends with it.

use std::collections::BTreeSet;

use trunkline::ServerEntry;
use trunkline_config::TransportEntry;

use crate::session::ClientSession;

/// Packages of servers that keep a state between calls which belongs to one client: browsers,
/// terminals, debuggers, trains of thought.
const STATEFUL: [&str; 22] = [
    "@playwright/mcp",
    "@executeautomation/playwright-mcp-server",
    "playwright-mcp",
    "playwright-mcp-server",
    "mcp-server-playwright",
    "chrome-devtools-mcp",
    "@modelcontextprotocol/server-puppeteer",
    "puppeteer-mcp-server",
    "@browsermcp/mcp",
    "@agent-infra/mcp-server-browser",
    "@browserbasehq/mcp",
    "@browserbasehq/mcp-server-browserbase",
    "mcp-server-browser-use",
    "browser-use",
    "browser-use-mcp-server",
    "@angiejones/mcp-selenium",
    "mcp-selenium",
    "@wonderwhy-er/desktop-commander",
    "desktop-commander",
    "iterm-mcp",
    "@modelcontextprotocol/server-sequential-thinking",
    "mcp-server-sequential-thinking",
];

/// Whether each client gets a process of its own: as the entry says, otherwise if the server is a
/// known one.
pub(crate) fn is_private(entry: &ServerEntry) -> bool {
    match (&entry.share, &entry.transport) {
        (Some(share), _) => !share,
        (None, TransportEntry::Stdio(stdio)) => {
            let words = std::iter::once(&stdio.command).chain(&stdio.args);
            words.into_iter().any(|word| is_stateful(word))
        }
        (None, _) => false,
    }
}

/// Whether a word of a command line names a known server: a program, or a package with or without
/// a version.
fn is_stateful(word: &str) -> bool {
    let at = word.rfind('@').filter(|at| *at > 0);
    let package = at.map_or(word, |at| &word[..at]);
    let package = package.split_once("==").map_or(package, |(name, _)| name);
    let program = package.rsplit(['/', '\\']).next().unwrap_or(package);
    let program = program.strip_suffix(".exe").unwrap_or(program);
    // The last part of a scoped package is another package's name.
    let names = if package.starts_with('@') {
        [package, package]
    } else {
        [package, program]
    };
    STATEFUL.iter().any(|known| names.contains(known))
}

impl ClientSession {
    /// Gives the client servers of its own, as far as its profile shows them, and takes away those
    /// that are no longer configured.
    pub(crate) fn start_private_servers(&self) {
        if self.is_closed() {
            return;
        }
        let owner = self.profile().owner();
        let mut wanted = BTreeSet::new();
        for status in self.gateway().host.servers() {
            let Some(entry) = status.entry.as_deref().filter(|entry| is_private(entry)) else {
                continue;
            };
            if self.sees(&status.name) {
                // Started by its first call, if its tools are known.
                owner.add(entry.clone().lazy(entry.lazy.unwrap_or(true)));
                wanted.insert(status.name.to_string());
            }
        }
        for name in self.profile().replace_private(wanted) {
            let owner = owner.clone();
            tokio::spawn(async move {
                // It may be gone with the session.
                let _ = owner.remove(&name).await;
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_servers_and_those_whose_entry_says_so_are_private() {
        for (command, args, expected) in [
            ("npx", &["-y", "@playwright/mcp@latest"][..], true),
            ("npx", &["@playwright/mcp"], true),
            ("npx", &["-y", "chrome-devtools-mcp@0.6.1"], true),
            ("uvx", &["browser-use==0.3"], true),
            ("/usr/local/bin/playwright-mcp", &[], true),
            ("npx", &["-y", "@acme/playwright-mcp"], false),
            (
                "npx",
                &["-y", "@modelcontextprotocol/server-filesystem", "/x"],
                false,
            ),
            ("node", &["playwright/mcp"], false),
        ] {
            let entry = ServerEntry::stdio("s", command, args.iter().copied());
            assert_eq!(is_private(&entry), expected, "{command} {args:?}");
        }
        let entry = ServerEntry::stdio("s", "x", ["y"]);
        assert!(is_private(&entry.share(false)));
        let browser = ServerEntry::stdio("s", "npx", ["@playwright/mcp"]);
        assert!(!is_private(&browser.share(true)));
        assert!(is_private(
            &ServerEntry::http("h", "https://h").share(false)
        ));
    }
}
