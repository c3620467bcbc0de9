//! The foreign servers that `cargo xtask interop` installs, and how each is started.

use std::path::{Path, PathBuf};

/// Where Debian puts the browser.
pub(crate) const CHROMIUM: &str = "/usr/bin/chromium";

/// Larger than what a model may see (RES-1).
const VIEWPORT: &str = "3000x2000";

/// A foreign server on stdio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    Everything,
    Filesystem,
    Memory,
    SequentialThinking,
    Time,
    Git,
    Fetch,
    Sqlite,
    Playwright,
    ChromeDevtools,
    Notion,
    Kubernetes,
}

impl Server {
    pub(crate) const ALL: [Self; 12] = [
        Self::Everything,
        Self::Filesystem,
        Self::Memory,
        Self::SequentialThinking,
        Self::Time,
        Self::Git,
        Self::Fetch,
        Self::Sqlite,
        Self::Playwright,
        Self::ChromeDevtools,
        Self::Notion,
        Self::Kubernetes,
    ];

    /// Its name in the config.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Everything => "everything",
            Self::Filesystem => "filesystem",
            Self::Memory => "memory",
            Self::SequentialThinking => "sequential-thinking",
            Self::Time => "time",
            Self::Git => "git",
            Self::Fetch => "fetch",
            Self::Sqlite => "sqlite",
            Self::Playwright => "playwright",
            Self::ChromeDevtools => "chrome-devtools",
            Self::Notion => "notion",
            Self::Kubernetes => "kubernetes",
        }
    }

    /// What the program connects to: command and arguments.
    pub(crate) fn command(self, project: &Path) -> (PathBuf, Vec<String>) {
        let folder = project.display().to_string();
        match self {
            Self::Everything => self.reference(&["stdio"]),
            Self::Filesystem => self.reference(&[&folder]),
            Self::Memory | Self::SequentialThinking => self.reference(&[]),
            Self::Time => python("mcp_server_time", &["--local-timezone", "UTC"]),
            Self::Git => python("mcp_server_git", &["--repository", &folder]),
            Self::Fetch => python("mcp_server_fetch", &["--allow-private-ips"]),
            Self::Sqlite => {
                let file = project.join("test.db").display().to_string();
                // Not a module that can be run.
                let program = installed().join("venv-legacy/bin/mcp-server-sqlite");
                (program, vec!["--db-path".to_owned(), file])
            }
            Self::Playwright => playwright(),
            Self::ChromeDevtools => chrome_devtools(),
            Self::Notion => node("@notionhq/notion-mcp-server/bin/cli.mjs", &[]),
            Self::Kubernetes => node("mcp-server-kubernetes/dist/index.js", &[]),
        }
    }

    /// One of the protocol's own reference servers.
    fn reference(self, args: &[&str]) -> (PathBuf, Vec<String>) {
        let script = format!("@modelcontextprotocol/server-{}/dist/index.js", self.name());
        node(&script, args)
    }
}

/// Without a window, and without the sandbox, which root cannot have.
fn playwright() -> (PathBuf, Vec<String>) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/page.mjs");
    let page = page.display().to_string();
    let mut args = vec!["--headless", "--isolated", "--no-sandbox"];
    args.extend(["--executable-path", CHROMIUM]);
    args.extend(["--viewport-size", VIEWPORT, "--init-page", &page]);
    node("@playwright/mcp/cli.js", &args)
}

/// As [`playwright`]; the page is one more of chromium's own arguments.
fn chrome_devtools() -> (PathBuf, Vec<String>) {
    let mut args = vec!["--headless", "--isolated", "--no-usage-statistics"];
    args.extend(["--executablePath", CHROMIUM, "--viewport", VIEWPORT]);
    args.push("--chromeArg=--no-sandbox");
    args.push("--chromeArg=data:text/html,<body style='background:teal'>");
    node(
        "chrome-devtools-mcp/build/src/bin/chrome-devtools-mcp.js",
        &args,
    )
}

pub(crate) fn node(script: &str, args: &[&str]) -> (PathBuf, Vec<String>) {
    let modules = installed().join("node_modules");
    let args = std::iter::once(modules.join(script).display().to_string())
        .chain(args.iter().map(ToString::to_string))
        .collect();
    (modules.join("node/bin/node"), args)
}

fn python(module: &str, args: &[&str]) -> (PathBuf, Vec<String>) {
    let args = ["-m", module]
        .iter()
        .chain(args)
        .map(ToString::to_string)
        .collect();
    (installed().join("venv/bin/python"), args)
}

pub(crate) fn installed() -> PathBuf {
    std::env::var_os("TRUNKLINE_INTEROP")
        .map(PathBuf::from)
        .expect("TRUNKLINE_INTEROP is not set: run these tests with `cargo xtask interop`")
}
