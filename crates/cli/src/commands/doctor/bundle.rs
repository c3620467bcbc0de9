//! `doctor --bundle`: an archive for a bug report, without secrets (SEC-1).
//!
//! Every text passes one redactor, which knows the secrets of all entries and of the environment by
//! value, and others by shape. The home directory is written as `~`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use trunkline_config::env_vars;
use trunkline_config::redact::{Redactor, entry_secrets, is_inherited_secret};

use super::Outcome;
use super::program::find_in;
use super::tar::Tar;
use crate::args::ConfigArgs;
use crate::commands::check::LAUNCHERS;
use crate::exit::Exit;
use crate::output::{self, Lines};
use crate::session::{self, Configured};

/// The newest lines of each log.
const LOG_LINES: usize = 300;

/// The most servers whose logs are added.
const MAX_LOGS: usize = 100;

const README: &str = "\
A bundle of `trunkline doctor --bundle`, for a bug report.

versions.json     the program, the system, and where launchers such as npx are
entries.json      the entries of all servers, without secrets
diagnostics.json  problems of the configuration files
doctor.json       the result of `trunkline doctor`
environment.json  the names of the variables that are set, without values
logs/             the newest lines of the servers' logs

Secrets are masked as ***, by value where they are known and otherwise by shape. Look through the
files before you share them: a secret with neither a known value nor a known shape cannot be found.
";

/// A written archive.
pub(super) struct Bundled {
    file: PathBuf,
    names: Vec<String>,
}

impl Bundled {
    pub(super) fn as_value(&self) -> Value {
        json!({"file": self.file, "files": self.names})
    }

    /// Prints the archive's list of files.
    pub(super) fn print(&self) {
        let mut lines = Lines::one(format!("wrote {}:", self.file.display()));
        for name in &self.names {
            lines.push(format!("  {name}"));
        }
        lines.push("secrets are masked; look through the files before you share them");
        output::result(lines);
    }
}

/// Writes the archive. An `Err` has been reported.
pub(super) fn write(
    config: &ConfigArgs,
    outcome: &Outcome,
    file: Option<&Path>,
    force: bool,
) -> Result<Bundled, Exit> {
    let configured = session::configuration(config)?;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let stem = format!("trunkline-bundle-{now}");
    let file = file.map_or_else(|| PathBuf::from(format!("{stem}.tar.gz")), Path::to_owned);
    if file.exists() && !force {
        let what = format!("{} exists", file.display());
        output::error(&what, Some("choose another file, or add --force"));
        return Err(Exit::Usage);
    }
    let contents = contents(&configured, outcome);
    let names = contents.iter().map(|(name, _)| name.clone()).collect();
    let mut tar = Tar::default();
    for (name, text) in &contents {
        tar.add(&format!("{stem}/{name}"), text.as_bytes(), now);
    }
    save(&file, &tar.finish(), force).map_err(|error| {
        let what = format!("cannot write {}: {error}", file.display());
        output::error(&what, Some("choose a file in an existing directory"));
        Exit::Usage
    })?;
    Ok(Bundled { file, names })
}

/// Writes a compressed file that only the user can read, whole or not at all.
fn save(file: &Path, bytes: &[u8], force: bool) -> std::io::Result<()> {
    let directory = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    let temporary = tempfile::Builder::new()
        .prefix(".trunkline-bundle")
        .tempfile_in(directory.unwrap_or(Path::new(".")))?;
    let mut encoder = GzEncoder::new(temporary, Compression::default());
    encoder.write_all(bytes)?;
    let temporary = encoder.finish()?;
    if force {
        temporary.persist(file)?;
    } else {
        temporary.persist_noclobber(file)?;
    }
    Ok(())
}

/// Returns the names and texts of all files.
fn contents(configured: &Configured, outcome: &Outcome) -> Vec<(String, String)> {
    let cleaner = Cleaner::new(configured);
    let json =
        |value: &Value| serde_json::to_string_pretty(&cleaner.value(value)).unwrap_or_default();
    let mut files = vec![
        ("README.txt".to_owned(), README.to_owned()),
        ("versions.json".to_owned(), json(&versions())),
        ("entries.json".to_owned(), json(&entries(configured))),
        (
            "diagnostics.json".to_owned(),
            json(&json!(configured.set.diagnostics)),
        ),
        ("doctor.json".to_owned(), json(&outcome.as_value())),
        ("environment.json".to_owned(), json(&environment())),
    ];
    let Some(store) = session::logs() else {
        return files;
    };
    for (at, report) in outcome.reports.iter().take(MAX_LOGS).enumerate() {
        let lines = store.read(Some(&report.name), Some(LOG_LINES), None);
        if lines.is_empty() {
            continue;
        }
        let mut text = String::new();
        for line in lines {
            let line = format!("{} {} {}", line.time, line.kind.name(), line.text);
            text += &cleaner.text(&line.replace(['\n', '\r'], " "));
            text.push('\n');
        }
        files.push((format!("logs/{}.log", file_stem(&report.name, at)), text));
    }
    files
}

/// Returns a file name for a server, whose own name may be anything.
fn file_stem(server: &str, at: usize) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let plain: String = server.chars().filter(is_plain).take(40).collect();
    format!("{at:03}-{plain}")
}

fn versions() -> Value {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let system = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let search = std::env::var_os("PATH").unwrap_or_default();
    let launchers: serde_json::Map<String, Value> = LAUNCHERS
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), json!(find_in(name, &search)?))))
        .collect();
    json!({
        "trunkline": env!("CARGO_PKG_VERSION"),
        "os": std::env::consts::OS,
        "architecture": std::env::consts::ARCH,
        "system": system.map(|name| name.trim_matches('"')),
        "kernel": kernel.trim(),
        "launchers": launchers,
    })
}

fn entries(configured: &Configured) -> Value {
    let servers = configured.set.servers.iter();
    let entries = servers.map(|server| {
        json!({
            "name": server.entry.name,
            "scope": server.entry.scope,
            "source": server.entry.source,
            "status": server.status.name().unwrap_or(if server.status.may_run() { "runs" } else { "off" }),
            "entry": server.entry.redacted(),
        })
    });
    entries.collect()
}

/// Returns the variables that are set and matter to the program.
fn environment() -> Value {
    const OTHERS: [&str; 14] = [
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
        "NO_PROXY",
        "no_proxy",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "NODE_EXTRA_CA_CERTS",
        "NVM_DIR",
        "LANG",
        "TERM",
    ];
    let known = env_vars::ALL.iter().map(|variable| variable.name);
    let names = known
        .chain(OTHERS)
        .filter(|name| std::env::var_os(name).is_some());
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    json!(names)
}

/// Masks secrets and the home directory.
struct Cleaner {
    redactor: Redactor,
    home: Option<String>,
}

impl Cleaner {
    fn new(configured: &Configured) -> Self {
        let redactor = Redactor::default();
        for server in &configured.set.servers {
            let secrets = entry_secrets(&server.entry);
            redactor.hide_all(secrets.iter().map(String::as_str));
        }
        for (name, value) in std::env::vars() {
            if is_inherited_secret(&name, &value) || env_vars::is_secret(&name) {
                redactor.hide(&value);
            }
        }
        let home = etcetera::home_dir().ok();
        let home = home.and_then(|home| home.to_str().map(str::to_owned));
        Self {
            redactor,
            home: home.filter(|home| home.len() > 1),
        }
    }

    fn text(&self, text: &str) -> String {
        let text = self.redactor.text(text);
        match &self.home {
            Some(home) => text.replace(home.as_str(), "~"),
            None => text.into_owned(),
        }
    }

    fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => json!(self.text(text)),
            Value::Array(elements) => elements.iter().map(|element| self.value(element)).collect(),
            Value::Object(members) => members
                .iter()
                .map(|(name, value)| (self.text(name), self.value(value)))
                .collect::<serde_json::Map<_, _>>()
                .into(),
            value => value.clone(),
        }
    }
}
