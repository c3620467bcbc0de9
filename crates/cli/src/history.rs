//! Finds an earlier content of a file in the history of a repository, by its hash.
//!
//! `git` runs in a repository that nobody has approved, so its settings must not start anything:
//! only commands that read objects, no filters, no transports, no monitor of files.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use trunkline_config::{RepositoryFile, env_vars};

/// How long one command may take.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The most output that is read.
const MAX_OUTPUT: u64 = 16 * 1024 * 1024;

/// The commits that changed a file whose content is compared, newest first.
const COMMITS: &str = "50";

/// Returns the content of a file with this hash from the index, or from one of the last commits
/// that changed it.
pub(crate) fn find(root: &Path, path: &str, sha256: &str) -> Option<String> {
    // Objects are named one per line.
    let is_plain = !path.starts_with(['/', ':']) && !path.contains(char::is_control);
    if !is_plain || !root.join(".git").exists() {
        return None;
    }
    let list = ["rev-list", "-n", COMMITS, "HEAD", "--", path];
    let commits = git(root, &list, String::new()).unwrap_or_default();
    let commits = String::from_utf8(commits).unwrap_or_default();
    let mut names = format!(":0:{path}\nHEAD:{path}\nORIG_HEAD:{path}\n");
    for commit in commits.lines() {
        let _ = writeln!(names, "{commit}:{path}");
    }
    let objects = git(root, &["cat-file", "--batch"], names)?;
    let found = blobs(&objects).find(|content| RepositoryFile::hash_of(content) == sha256)?;
    String::from_utf8(found.to_vec()).ok()
}

/// Splits the output of `git cat-file --batch` into the contents that were found.
fn blobs(mut output: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        loop {
            let end = output.iter().position(|byte| *byte == b'\n')?;
            let (header, rest) = output.split_at(end);
            output = &rest[1..];
            let header = String::from_utf8_lossy(header);
            let mut words = header.split(' ').skip(1);
            if words.next() != Some("blob") {
                continue;
            }
            let size = words.next()?.parse::<usize>().ok()?;
            let content = output.get(..size)?;
            output = output.get(size + 1..)?;
            return Some(content);
        }
    })
}

/// Runs a command that reads the repository, and returns its output.
fn git(root: &Path, arguments: &[&str], input: String) -> Option<Vec<u8>> {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    for name in env_vars::secrets() {
        command.env_remove(name);
    }
    let mut child = command
        .args(["--no-pager", "--no-optional-locks", "--no-replace-objects"])
        .args(["-c", "core.fsmonitor=false"])
        .args(arguments)
        .current_dir(root)
        // A repository that fetches missing objects would run what its settings name.
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_ALLOW_PROTOCOL", "none")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_LITERAL_PATHSPECS", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let output = read(&mut child, input);
    if output.is_none() {
        let _ = child.kill();
    }
    let status = child.wait().ok()?;
    output.filter(|_| status.success())
}

/// Reads what a command prints, within limits.
fn read(child: &mut Child, input: String) -> Option<Vec<u8>> {
    let (mut stdin, stdout) = (child.stdin.take()?, child.stdout.take()?);
    thread::spawn(move || {
        let _ = stdin.write_all(input.as_bytes());
    });
    let (done, wait) = mpsc::channel();
    thread::spawn(move || {
        let mut output = Vec::new();
        let read = stdout.take(MAX_OUTPUT).read_to_end(&mut output);
        let _ = done.send(read.map(|_| output));
    });
    wait.recv_timeout(TIMEOUT).ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_read_by_their_length() {
        let output = b":0:x missing\nabc blob 4\na\nb\n\nabd tree 0\nabe blob 0\n\nabf blob 9\ncut";
        let found: Vec<_> = blobs(output).collect();
        assert_eq!(found, [&b"a\nb\n"[..], b""]);
    }
}
