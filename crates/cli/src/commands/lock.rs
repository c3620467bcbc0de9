//! `trunkline lock`: writes the versions and contents of a project's servers to `.mcp.lock.json`.
//!
//! Nothing of a server runs: package managers answer from their registries (`npm view`, `uv pip
//! compile --generate-hashes`), docker from its local images, and files are hashed.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use trunkline_config::{
    LockFile, LockedPackage, LockedServer, Package, Registry, Scope, Server, ServerEntry,
};

use crate::args::ConfigArgs;
use crate::exit::Exit;
use crate::lockable;
use crate::output::{self, Line, Lines, Style, inline, name as shown_name};
use crate::program;
use crate::session;

const HELP: &str = "\
For each server of the project's .mcp.json, the lock file has the version of the package that its
command fetches, with the hashes that the registry lists, and the SHA-256 of the repository files that
it runs. `list` and `doctor` tell when what is configured is not what is locked; `lock --check` exits
with 1 then. No server is started: npm packages need `npm`, Python packages `uv`, images `docker` with
the image pulled.";

/// The time limit for one package.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The longest answer of a package manager, in bytes.
const MAX_ANSWER: u64 = 8 * 1024 * 1024;

/// Arguments of `lock`.
#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct LockArgs {
    #[command(flatten)]
    config: ConfigArgs,

    /// Compare with the lock file instead of writing it
    #[arg(long)]
    check: bool,
}

pub(crate) async fn run(config: ConfigArgs, args: LockArgs, as_json: bool) -> Exit {
    let configured = match session::configuration(&config.and(args.config)) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    let is_project = |server: &&Server| server.entry.scope == Scope::Project;
    let servers = configured.set.servers.iter().filter(is_project);
    // By the file that names them, which the lock file is beside.
    let mut files: BTreeMap<PathBuf, Vec<&ServerEntry>> = BTreeMap::new();
    for server in servers {
        let source = PathBuf::from(&server.entry.source);
        files.entry(source).or_default().push(&server.entry);
    }
    if files.is_empty() {
        let hint = "add one with `trunkline add -s project …`";
        output::error("the project has no servers", Some(hint));
        return Exit::Usage;
    }
    if args.check {
        return check(&files, as_json);
    }
    let (mut documents, mut exit) = (Vec::new(), Exit::Done);
    for (source, entries) in &files {
        match write(source, entries).await {
            Ok(file) => documents.push((LockFile::path_beside(source), file)),
            Err(problem) => {
                output::error(&problem, None);
                exit = Exit::Failed;
            }
        }
    }
    if as_json {
        let files: Vec<Value> = documents
            .iter()
            .map(|(path, file)| json!({"file": path, "servers": file.servers}))
            .collect();
        output::json(&files);
    } else {
        output::result(written_lines(&documents));
    }
    exit
}

/// Resolves the servers of a file and writes its lock file.
async fn write(source: &Path, entries: &[&ServerEntry]) -> Result<LockFile, String> {
    let mut file = LockFile::new();
    for entry in entries {
        let mut locked = LockedServer::of_files(entry);
        if let Some(package) = Package::of(entry) {
            let written = lockable::check_written(&entry.as_written());
            let resolved = match written {
                Ok(()) => resolve(&package).await,
                Err(problem) => Err(problem),
            };
            let resolved = resolved.map_err(|problem| {
                format!(
                    "the package of \"{}\" cannot be locked: {problem}",
                    entry.name
                )
            })?;
            locked.package = Some(resolved);
        }
        file.servers.insert(entry.name.clone(), locked);
    }
    let path = LockFile::path_beside(source);
    file.write(&path)?;
    Ok(file)
}

fn written_lines(files: &[(PathBuf, LockFile)]) -> Lines {
    let mut lines = Lines::new();
    for (path, file) in files {
        for (name, server) in &file.servers {
            let mut line = Line::of(Style::Name, shown_name(name));
            let mut parts = Vec::new();
            if let Some(LockedPackage { name, version, .. }) = &server.package {
                parts.push(format!("{} {}", inline(name), inline(version)));
            }
            match server.files.len() {
                0 => {}
                1 => parts.push("1 file".to_owned()),
                count => parts.push(format!("{count} files")),
            }
            if parts.is_empty() {
                parts.push("nothing to lock".to_owned());
            }
            line.push(Style::Plain, format_args!("  {}", parts.join(", ")));
            lines.push_line(line);
        }
        let path = inline(&path.display().to_string());
        lines.push(format_args!("  written to {path}"));
    }
    lines
}

/// Compares the servers with their lock files.
fn check(files: &BTreeMap<PathBuf, Vec<&ServerEntry>>, as_json: bool) -> Exit {
    let mut found: Vec<(String, String)> = Vec::new();
    for (source, entries) in files {
        let path = LockFile::path_beside(source);
        let locked = match LockFile::read(&path) {
            Ok(Some(locked)) => locked,
            Ok(None) => {
                let what = format!("there is no {}", path.display());
                output::error(&what, Some("write it with `trunkline lock`"));
                return Exit::Usage;
            }
            Err(problem) => {
                let what = format!("{} cannot be used: {problem}", path.display());
                output::error(&what, Some("write it anew with `trunkline lock`"));
                return Exit::Usage;
            }
        };
        for entry in entries {
            let differences = match locked.servers.get(&entry.name) {
                Some(server) => server.differences(entry),
                None => vec!["it is not locked".to_owned()],
            };
            let of_it = differences.into_iter();
            found.extend(of_it.map(|difference| (entry.name.clone(), difference)));
        }
        let is_gone = |name: &&String| !entries.iter().any(|entry| entry.name == **name);
        for name in locked.servers.keys().filter(is_gone) {
            found.push((name.clone(), "it is locked, but not configured".to_owned()));
        }
    }
    if as_json {
        let differences: Vec<Value> = found
            .iter()
            .map(|(server, difference)| json!({"server": server, "difference": difference}))
            .collect();
        output::json(&json!({"matches": found.is_empty(), "differences": differences}));
    } else {
        let mut lines = Lines::new();
        for (server, difference) in &found {
            let line = Line::of(Style::Name, shown_name(server));
            lines.push_line(line.and(Style::Plain, format_args!("  {}", inline(difference))));
        }
        if found.is_empty() {
            lines.push("everything is as locked");
        }
        output::result(lines);
    }
    if found.is_empty() {
        Exit::Done
    } else {
        Exit::Failed
    }
}

/// Asks the package manager for the version and the hashes of a package.
async fn resolve(package: &Package) -> Result<LockedPackage, String> {
    lockable::check(package)?;
    match package.registry {
        Registry::Npm => npm(package).await,
        Registry::Pypi => pypi(package).await,
        _ => image(package).await,
    }
}

/// The registries that the command names, as options of its package manager.
fn options(package: &Package) -> impl Iterator<Item = &str> {
    let registries = package.registries.iter().map(String::as_str);
    registries.filter(|text| text.starts_with("--"))
}

/// The registries that variables name.
fn variables(package: &Package) -> Vec<(&str, &str)> {
    let registries = package.registries.iter();
    let variables = registries.filter(|text| !text.starts_with('-'));
    variables.filter_map(|text| text.split_once('=')).collect()
}

async fn npm(package: &Package) -> Result<LockedPackage, String> {
    let requested = package.requested.as_deref().unwrap_or("latest");
    let spec = format!("{}@{requested}", package.name);
    let mut words = vec!["view", "--json"];
    words.extend(options(package));
    words.extend([&spec, "version", "dist.integrity"]);
    let answer = ask("npm", &words, variables(package), None).await?;
    let answer: Value =
        serde_json::from_str(&answer).map_err(|_| "npm did not answer with JSON".to_owned())?;
    // A range matches several; the last is the newest.
    let found = match &answer {
        Value::Array(all) => all.last().unwrap_or(&Value::Null),
        one => one,
    };
    let version = found["version"].as_str().ok_or("npm names no version")?;
    let integrity = found["dist.integrity"].as_str().map(str::to_owned);
    let integrity = integrity.ok_or("npm lists no hash")?;
    Ok(LockedPackage::new(package, version, vec![integrity]))
}

async fn pypi(package: &Package) -> Result<LockedPackage, String> {
    let requirement = match package.requested.as_deref() {
        None | Some("latest") => package.name.clone(),
        Some(range) if range.starts_with(['<', '>', '~', '!', '=']) => {
            format!("{}{range}", package.name)
        }
        Some(version) => format!("{}=={version}", package.name),
    };
    let mut words = vec![
        "pip",
        "compile",
        "--generate-hashes",
        "--no-deps",
        "--no-header",
        "--no-annotate",
        "--quiet",
        "--no-config",
        "--only-binary",
        ":all:",
    ];
    words.extend(options(package));
    words.push("-");
    let answer = ask("uv", &words, variables(package), Some(&requirement)).await?;
    let mut words = answer.split_whitespace().filter(|word| *word != "\\");
    let pinned = words.find(|word| word.contains("=="));
    let version = pinned.and_then(|pinned| pinned.split_once("=="));
    let (_, version) = version.ok_or("uv names no version")?;
    let hashes: Vec<String> = answer
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("--hash="))
        .map(str::to_owned)
        .collect();
    if hashes.is_empty() {
        return Err("uv lists no hash".to_owned());
    }
    Ok(LockedPackage::new(package, version, hashes))
}

async fn image(package: &Package) -> Result<LockedPackage, String> {
    let reference = match package.requested.as_deref() {
        Some(digest) if digest.starts_with("sha256:") => format!("{}@{digest}", package.name),
        Some(tag) => format!("{}:{tag}", package.name),
        None => package.name.clone(),
    };
    let words = [
        "image",
        "inspect",
        "--format",
        "{{json .RepoDigests}}",
        &reference,
    ];
    let answer = ask("docker", &words, Vec::new(), None)
        .await
        .map_err(|problem| {
            format!("{problem}; `docker pull {reference}` first if it is not there")
        })?;
    let digests: Vec<String> = serde_json::from_str(answer.trim())
        .map_err(|_| "docker did not answer with JSON".to_owned())?;
    let digest = digests.iter().find_map(|digest| digest.split_once('@'));
    let (_, digest) = digest.ok_or("the image has no digest: it was built here")?;
    Ok(LockedPackage::new(package, digest, vec![digest.to_owned()]))
}

/// Runs a package manager without a shell and returns what it prints.
async fn ask(
    name: &str,
    words: &[&str],
    variables: Vec<(&str, &str)>,
    input: Option<&str>,
) -> Result<String, String> {
    // Not in the repository, whose `.npmrc` and the like would choose registries and programs.
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    // npm looks for the root of a project, and its settings, in the directories above.
    std::fs::write(folder.path().join("package.json"), "{}")
        .map_err(|error| format!("the temporary directory cannot be used: {error}"))?;
    let mut command = Command::from(program::command(name));
    command
        .args(words)
        .envs(variables)
        .current_dir(folder.path())
        .stdin(if input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command
        .spawn()
        .map_err(|error| format!("{name} cannot be started: {error}"))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let work = async {
        if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
            stdin.write_all(input.as_bytes()).await?;
        }
        let (out, told) = tokio::try_join!(bounded(stdout), bounded(stderr))?;
        io::Result::Ok((child.wait().await?, out, told))
    };
    let (status, out, told) = tokio::time::timeout(TIMEOUT, work)
        .await
        .map_err(|_| format!("{name} did not answer within {} s", TIMEOUT.as_secs()))?
        .map_err(|error| format!("{name} failed: {error}"))?;
    if !status.success() {
        let stderr = String::from_utf8_lossy(&told);
        let told = stderr
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty());
        let told: Vec<&str> = told.take(3).collect();
        return Err(format!("{name} failed: {}", told.join("; ")));
    }
    String::from_utf8(out).map_err(|_| format!("the answer of {name} is no text"))
}

/// Reads what a program prints.
async fn bounded(stream: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    if let Some(stream) = stream {
        stream.take(MAX_ANSWER + 1).read_to_end(&mut read).await?;
    }
    if read.len() as u64 > MAX_ANSWER {
        return Err(io::Error::other("it prints too much"));
    }
    Ok(read)
}
