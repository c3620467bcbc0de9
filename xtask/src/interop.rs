//! Installs third-party MCP servers and clients into `target/interop` for
//! `crates/cli/tests/interop`, and a
//! keychain for `crates/auth/tests/interop.rs`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::{sh, steps};

/// The version of Node. The machine's package is installed as `node`, because the package of that
/// name needs its install script.
const NODE: &str = "24.21.0";

/// The npm packages. The SDK is pinned too, because it determines what the servers speak.
const NPM: [(&str, &str); 28] = [
    ("@modelcontextprotocol/server-everything", "2026.8.31"),
    ("@modelcontextprotocol/server-filesystem", "2026.8.31"),
    ("@modelcontextprotocol/server-memory", "2026.8.31"),
    (
        "@modelcontextprotocol/server-sequential-thinking",
        "2026.8.31",
    ),
    ("@modelcontextprotocol/sdk", "1.32.2"),
    ("oidc-provider", "9.13.3"),
    ("supergateway", "4.0.0"),
    ("@playwright/mcp", "0.0.83"),
    ("chrome-devtools-mcp", "1.11.0"),
    ("@notionhq/notion-mcp-server", "2.5.2"),
    ("mcp-server-kubernetes", "4.1.7"),
    ("tavily-mcp", "0.2.22"),
    ("exa-mcp-server", "3.4.1"),
    ("@upstash/context7-mcp", "4.1.1"),
    ("@brave/brave-search-mcp-server", "2.1.4"),
    ("@modelcontextprotocol/server-github", "2025.4.8"),
    ("@modelcontextprotocol/server-gitlab", "2025.4.25"),
    ("@modelcontextprotocol/server-slack", "2025.4.25"),
    ("@modelcontextprotocol/server-google-maps", "0.6.2"),
    ("@modelcontextprotocol/server-everart", "0.6.2"),
    ("@hubspot/mcp-server", "0.4.0"),
    ("@antv/mcp-server-chart", "0.9.10"),
    ("@kazuph/mcp-taskmanager", "1.1.1"),
    // Clients.
    ("@modelcontextprotocol/client", "2.4.0"),
    ("@modelcontextprotocol/inspector", "2.12.0"),
    ("mcporter", "0.12.3"),
    // C# and Rust, each behind a wrapper.
    ("@azure/mcp", "2.0.5"),
    ("@moonrepo/cli", "2.5.5"),
];

/// The Python packages.
const PYPI: [(&str, &str); 9] = [
    ("mcp-server-time", "2026.10.19"),
    ("mcp-server-git", "2026.10.19"),
    ("mcp-server-fetch", "2026.10.24"),
    ("mcp", "2.3.0"),
    ("fastmcp", "4.1.2"),
    ("awslabs.aws-documentation-mcp-server", "1.2.3"),
    ("duckduckgo-mcp-server", "0.7.0"),
    ("mcp-alchemy", "2026.10.15.202659"),
    // Go.
    ("mcp-grafana", "2.1.1"),
];

/// The Python packages of a second environment: the last SDK with `WebSocket`, and servers that
/// need
/// it.
const PYPI_LEGACY: [(&str, &str); 5] = [
    ("mcp[ws]", "1.30.0"),
    ("uvicorn", "0.54.0"),
    ("mcp-server-sqlite", "2025.4.25"),
    ("redis-mcp-server", "0.5.1"),
    ("mcp-server-calculator", "0.2.1"),
];

/// A Debian package, and a command that succeeds when it is installed.
pub(crate) type Needed = (&'static str, &'static [&'static str]);

/// npm, with any Node.
pub(crate) const NPM_PROGRAM: Needed = ("npm", &["npm", "--version"]);

/// The system packages that the servers need. The git server drives git.
const SERVERS_NEED: [Needed; 4] = [
    NPM_PROGRAM,
    ("python3", &["python3", "--version"]),
    ("python3-venv", &["python3", "-c", "import venv, ensurepip"]),
    ("git", &["git", "--version"]),
];

/// The system packages that the tests need besides. The browser servers drive chromium.
const TESTS_NEED: [Needed; 5] = [
    ("systemd", &["systemd-socket-activate", "--version"]),
    ("dbus", &["dbus-daemon", "--version"]),
    ("gnome-keyring", &["gnome-keyring-daemon", "--version"]),
    ("tinyproxy-bin", &["tinyproxy", "-v"]),
    ("chromium", &["chromium", "--version"]),
];

/// Installs the servers and runs the tests.
pub(crate) fn run() -> Result<()> {
    let folder = install()?;
    steps::nextest(tests(&folder)).map(drop)
}

/// Returns the command that tests the servers in `folder`, with the workspace's features so that
/// compiled dependencies are shared with a plain test run.
pub(crate) fn tests(folder: &Path) -> Command {
    let mut command = sh::cargo(&[
        "nextest",
        "run",
        "--workspace",
        "--features",
        "trunkline-cli/interop,trunkline-auth/interop",
        "--test",
        "interop",
    ]);
    command.env("TRUNKLINE_INTEROP", folder);
    command
}

/// Installs everything that the tests need.
pub(crate) fn install() -> Result<PathBuf> {
    ensure_system_packages(&TESTS_NEED)?;
    install_servers()
}

/// Installs exactly these versions into `target/interop`, unless the stamp matches.
pub(crate) fn install_servers() -> Result<PathBuf> {
    let folder = sh::root().join("target/interop");
    let stamp = folder.join("installed");
    let wanted = wanted()?;
    if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        println!("target/interop is up to date");
        return Ok(folder);
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).context("could not clear target/interop")?;
    }
    fs::create_dir_all(&folder).context("could not create target/interop")?;
    ensure_system_packages(&SERVERS_NEED)?;
    install_npm(&folder, specs(&NPM, "@"))?;
    install_pypi(&folder, "venv", &PYPI)?;
    install_pypi(&folder, "venv-legacy", &PYPI_LEGACY)?;
    fs::write(&stamp, wanted).context("could not write the stamp of target/interop")?;
    Ok(folder)
}

/// Returns the content of the stamp: one line per package.
fn wanted() -> Result<String> {
    let mut lines = vec![node_package()?];
    lines.extend(specs(&NPM, "@"));
    lines.extend(specs(&PYPI, "=="));
    lines.extend(specs(&PYPI_LEGACY, "=="));
    Ok(lines.join("\n"))
}

pub(crate) fn specs<'a>(
    table: &'a [(&str, &str)],
    separator: &'a str,
) -> impl Iterator<Item = String> + use<'a> {
    table
        .iter()
        .map(move |(name, version)| format!("{name}{separator}{version}"))
}

pub(crate) fn node_package() -> Result<String> {
    let machine = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => "linux-x64",
        ("linux", "aarch64") => "linux-arm64",
        (os, arch) => bail!("no Node package is known for {os} on {arch}"),
    };
    Ok(format!("node@npm:node-{machine}@{NODE}"))
}

/// Installs Node, as `node`, and these packages into `folder`.
pub(crate) fn install_npm(folder: &Path, packages: impl IntoIterator<Item = String>) -> Result<()> {
    // Without a package.json, npm would search the parent directories for one.
    fs::write(folder.join("package.json"), "{ \"private\": true }\n")?;
    let mut npm = Command::new("npm");
    npm.current_dir(folder)
        .args(["install", "--ignore-scripts", "--no-audit", "--no-fund"])
        .args(["--no-package-lock", "--save-exact", "--loglevel=error"])
        .arg(node_package()?)
        .args(packages);
    sh::run(&mut npm, Duration::from_mins(20)).context("could not install the npm packages")
}

/// Creates a Python environment with these packages.
fn install_pypi(folder: &Path, name: &str, packages: &[(&str, &str)]) -> Result<()> {
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv"]).arg(folder.join(name));
    sh::run(&mut venv, Duration::from_mins(5)).context("could not create a Python environment")?;
    let mut pip = Command::new(folder.join(name).join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet"])
        .args(["--disable-pip-version-check", "--no-input"])
        .args(specs(packages, "=="));
    sh::run(&mut pip, Duration::from_mins(20)).context("could not install the Python servers")
}

/// Installs missing system packages.
pub(crate) fn ensure_system_packages(needed: &[Needed]) -> Result<()> {
    let works = |command: &[&str]| match command {
        [program, args @ ..] => sh::succeeds(Command::new(program).args(args)),
        [] => false,
    };
    let missing: Vec<&str> = needed
        .iter()
        .filter(|(_, command)| !works(command))
        .map(|(package, _)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages = missing.join(" ");
    let is_root = fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    if !is_root || !works(&["apt-get", "--version"]) {
        bail!("missing: {packages}; install them (Debian: `apt-get install {packages}` as root)");
    }
    println!("missing: {packages}; installing with apt-get");
    sh::run(apt_get().arg("update"), Duration::from_mins(10))?;
    let install = ["install", "--yes", "--no-install-recommends"];
    sh::run(
        apt_get().args(install).args(&missing),
        Duration::from_mins(15),
    )
    .with_context(|| format!("could not install {packages}"))
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.arg("-qq").env("DEBIAN_FRONTEND", "noninteractive");
    command
}
