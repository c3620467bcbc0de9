//! Units for systemd: it listens on the socket, and starts the daemon for the first client.

use std::fs;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use listenfd::ListenFd;
use serde_json::json;

use crate::exit::Exit;
use crate::output::{self, Lines};

/// The first line of our units, by which they are recognised.
const MARK: &str = "# Written by `trunkline daemon install`";

const SOCKET: &str = "trunkline.socket";
const SERVICE: &str = "trunkline.service";

/// Returns the socket that systemd has opened for this process.
pub(super) fn activated_socket() -> io::Result<Option<UnixListener>> {
    ListenFd::from_env().take_unix_listener(0)
}

/// Returns the units, by file name.
fn units(program: &Path) -> [(&'static str, String); 2] {
    let socket = format!(
        "{MARK}\n[Unit]\nDescription=Socket of the Trunkline daemon\n\n\
         [Socket]\nListenStream=%t/trunkline/daemon.sock\nSocketMode=0600\nDirectoryMode=0700\n\n\
         [Install]\nWantedBy=sockets.target\n"
    );
    let program = quoted(&program.to_string_lossy());
    let service = format!(
        "{MARK}\n[Unit]\nDescription=Trunkline daemon: MCP servers for all clients\n\
         Requires={SOCKET}\nAfter={SOCKET}\n\n\
         [Service]\nExecStart={program} -v daemon run --exit-idle 1h\nKillMode=mixed\n\
         TimeoutStopSec=60\n\n[Install]\nAlso={SOCKET}\n"
    );
    [(SOCKET, socket), (SERVICE, service)]
}

/// Quotes a word for `ExecStart`.
fn quoted(word: &str) -> String {
    let mut quoted = String::from("\"");
    for char in word.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            '%' | '$' => quoted.extend([char, char]),
            char => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}

fn directory() -> Option<PathBuf> {
    let moved = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = moved
        .filter(|path| path.is_absolute())
        .or_else(|| Some(std::env::home_dir()?.join(".config")))?;
    Some(config.join("systemd").join("user"))
}

/// Whether a file does not exist, or is a unit of ours.
fn is_ours(path: &Path) -> bool {
    match fs::read_to_string(path) {
        Ok(text) => text.starts_with(MARK),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

pub(super) fn install(dry_run: bool, as_json: bool) -> Exit {
    let (Some(directory), Ok(program)) = (directory(), std::env::current_exe()) else {
        output::error("there is no home directory", Some("set HOME"));
        return Exit::Usage;
    };
    let units = units(&program);
    let files: Vec<PathBuf> = units.iter().map(|(name, _)| directory.join(name)).collect();
    if let Some(foreign) = files.iter().find(|file| !is_ours(file)) {
        output::error(
            &format!("{} was not written by trunkline", foreign.display()),
            Some("move it away first"),
        );
        return Exit::Usage;
    }
    if !dry_run {
        let written = fs::create_dir_all(&directory).and_then(|()| {
            let mut units = units.iter().zip(&files);
            units.try_for_each(|((_, text), file)| replace(file, text))
        });
        if let Err(error) = written {
            output::error(&format!("could not write the units: {error}"), None);
            return Exit::Failed;
        }
    }
    if as_json {
        output::json(&json!({"files": files, "written": !dry_run}));
        return Exit::Done;
    }
    let mut lines = Lines::new();
    for ((_, text), file) in units.iter().zip(&files) {
        lines.push(file.display());
        if dry_run {
            lines.push_block("  ", text);
        }
    }
    output::result(lines);
    if !dry_run {
        output::note(
            "next: systemctl --user daemon-reload && systemctl --user enable --now trunkline.socket",
        );
    }
    Exit::Done
}

/// Replaces a file atomically.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("."));
    let mut new = tempfile::NamedTempFile::new_in(directory)?;
    io::Write::write_all(&mut new, text.as_bytes())?;
    new.persist(file)?;
    Ok(())
}

pub(super) fn uninstall(as_json: bool) -> Exit {
    let Some(directory) = directory() else {
        output::error("there is no home directory", Some("set HOME"));
        return Exit::Usage;
    };
    let mut removed = Vec::new();
    for file in [SOCKET, SERVICE].map(|name| directory.join(name)) {
        if !file.exists() || !is_ours(&file) {
            continue;
        }
        if let Err(error) = fs::remove_file(&file) {
            output::error(
                &format!("could not remove {}: {error}", file.display()),
                None,
            );
            return Exit::Failed;
        }
        removed.push(file);
    }
    if as_json {
        output::json(&json!({"removed": removed}));
        return Exit::Done;
    }
    if removed.is_empty() {
        output::result("there are no units of trunkline");
        return Exit::Done;
    }
    let mut lines = Lines::new();
    for file in &removed {
        lines.push(format!("removed {}", file.display()));
    }
    output::result(lines);
    output::note("next: systemctl --user daemon-reload");
    Exit::Done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_quoted_for_systemd() {
        for (word, expected) in [
            ("/usr/bin/trunkline", "\"/usr/bin/trunkline\""),
            ("/my programs/t", "\"/my programs/t\""),
            ("/100%/$x\"\\", "\"/100%%/$$x\\\"\\\\\""),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
