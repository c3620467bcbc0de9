//! Checks the program of a stdio server without running it.

use std::ffi::OsStr;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use trunkline_config::{Server, ServerEntry};

use super::causes::program::{FileKind, Missing, ProgramFile, file, missing};
use super::diagnosis::{Diagnosis, Subject};
use super::folders;
use super::report::{Step, StepName};
use crate::commands::check::LAUNCHERS;

/// How much of a file is read to tell its kind.
const HEAD: u64 = 256;

/// Checks that the program exists and can be run.
pub(super) fn check(server: &Server) -> Option<Step> {
    Some(match diagnose(&Subject::of(server), &server.entry)? {
        Ok(path) => Step::ok(StepName::Program, path.display().to_string()),
        Err(diagnosis) => Step::failed(StepName::Program, diagnosis),
    })
}

/// Returns the program of a stdio server, or why it cannot be run.
pub(super) fn diagnose(
    subject: &Subject,
    entry: &ServerEntry,
) -> Option<Result<PathBuf, Diagnosis>> {
    let stdio = entry.transport.stdio()?;
    if let Some(cwd) = stdio.cwd.as_deref().filter(|cwd| !cwd.is_dir()) {
        let message = format!("its working directory does not exist: {}", cwd.display());
        let fix = subject.edit("--cwd DIR", "correct the \"cwd\"");
        return Some(Err(Diagnosis::new("no-directory", message).fix(fix)));
    }
    // A child is looked up on the `PATH` of its own environment.
    let own = stdio.env.get("PATH").map(|path| path.expose().to_owned());
    let search = own
        .or_else(|| std::env::var("PATH").ok())
        .unwrap_or_default();
    let command = entry.program()?;
    let path = if command.contains(std::path::is_separator) {
        let path = PathBuf::from(&command);
        let base = stdio.cwd.clone().unwrap_or_default();
        Some(base.join(path)).filter(|path| path.exists())
    } else {
        find_in(&command, search.as_ref())
    };
    let Some(path) = path else {
        return Some(Err(not_found(subject, &command, &search)));
    };
    let found = ProgramFile {
        path: &path,
        kind: kind(&path, &search),
        is_executable: is_executable(&path),
        is_own: is_own(&path),
        args: &stdio.args,
    };
    let diagnosis = file(subject, &found);
    Some(diagnosis.map_or(Ok(path), Err))
}

fn not_found(subject: &Subject, command: &str, search: &str) -> Diagnosis {
    let is_name = !command.contains(std::path::is_separator);
    let home = etcetera::home_dir().ok();
    let var = |name: &str| match name {
        "PATH" => Some(search.to_owned()),
        name => std::env::var(name).ok(),
    };
    let elsewhere = is_name.then(|| folders::find(command, home.as_deref(), &var));
    let installed = LAUNCHERS
        .into_iter()
        .filter(|name| find_in(name, search.as_ref()).is_some());
    let similar = trunkline::text::nearest(command, installed);
    missing(
        subject,
        &Missing {
            command,
            elsewhere: elsewhere.flatten(),
            similar: similar.filter(|_| is_name && command.len() > 2),
        },
    )
}

fn kind(path: &Path, search: &str) -> FileKind {
    if path.is_dir() {
        return FileKind::Directory;
    }
    let exists = |interpreter: &str| {
        if interpreter.contains('/') {
            Path::new(interpreter).exists()
        } else {
            find_in(interpreter, search.as_ref()).is_some()
        }
    };
    let head = head(path);
    // A program that may be run but not read is not judged.
    if head.is_empty() && is_executable(path) && std::fs::File::open(path).is_err() {
        return FileKind::Binary;
    }
    FileKind::of(&head, exists)
}

/// Returns the first bytes of a regular file; none if it cannot be read.
pub(super) fn head(path: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    // A pipe could block.
    if path.is_file()
        && let Ok(file) = std::fs::File::open(path)
    {
        let _ = file.take(HEAD).read_to_end(&mut head);
    }
    head
}

/// Looks up a program in the directories of a `PATH`.
pub(super) fn find_in(command: &str, search: &OsStr) -> Option<PathBuf> {
    let mut found = std::env::split_paths(search).map(|dir| dir.join(command));
    found.find(|path| is_executable(path))
}

#[cfg(unix)]
pub(super) fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let found = std::fs::metadata(path);
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
pub(super) fn is_executable(path: &Path) -> bool {
    path.is_file()
}

/// Returns whether a file belongs to the user, and is no link to somewhere else.
#[cfg(unix)]
fn is_own(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let home = etcetera::home_dir().ok();
    let user = home
        .and_then(|home| std::fs::metadata(home).ok())
        .map(|home| home.uid());
    let found = std::fs::symlink_metadata(path).ok();
    found.is_some_and(|found| found.is_file() && Some(found.uid()) == user)
}

#[cfg(not(unix))]
fn is_own(_: &Path) -> bool {
    false
}
