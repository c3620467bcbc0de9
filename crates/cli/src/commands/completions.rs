//! `trunkline completions`: completion scripts for shells.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use serde_json::json;

use crate::args::{Args, CompletionsArgs};
use crate::complete::Shell;
use crate::complete::scripts::UserEnvironment;
use crate::exit::Exit;
use crate::output::{self, Line, Lines};

pub(crate) fn run(args: &CompletionsArgs, as_json: bool) -> Exit {
    if !args.install && !args.uninstall {
        if let Some(shell) = args.shell {
            print(shell);
        }
        return Exit::Done;
    }
    let shell = match args.shell {
        Some(shell) => Shell::named(&shell.to_string()),
        None => current_shell(),
    };
    let Some(shell) = shell else {
        let hint = "name one: trunkline completions --install bash, zsh or fish";
        output::error("no known shell to install for", Some(hint));
        return Exit::Usage;
    };
    let Ok(home) = etcetera::home_dir() else {
        output::error("there is no home directory to install to", None);
        return Exit::Usage;
    };
    let var = |name: &str| std::env::var(name).ok();
    let file = shell.script_path(&UserEnvironment {
        home: &home,
        var: &var,
    });
    let done = if args.install {
        install(shell, &file)
    } else {
        uninstall(&file)
    };
    match done {
        Ok(changed) => report(args, shell, &file, changed, as_json),
        Err((what, hint)) => {
            output::error(&what, hint);
            Exit::Usage
        }
    }
}

/// Prints the script of a shell.
fn print(shell: clap_complete::Shell) {
    if let Some(shell) = Shell::named(&shell.to_string()) {
        output::result_bytes(shell.script().as_bytes());
        return;
    }
    // Other shells complete commands and options alone.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "trunkline", &mut script);
    output::result_bytes(&script);
}

/// Returns the user's shell.
fn current_shell() -> Option<Shell> {
    let shell = PathBuf::from(std::env::var_os("SHELL")?);
    Shell::named(shell.file_name()?.to_str()?)
}

/// A problem with a hint.
type Problem = (String, Option<&'static str>);

/// Writes the script; returns whether the file changed. A file of someone else is left alone.
fn install(shell: Shell, file: &Path) -> Result<bool, Problem> {
    let script = shell.script();
    let before = std::fs::read_to_string(file).ok();
    if before.as_deref() == Some(&script) {
        return Ok(false);
    }
    if file.exists() && !before.is_some_and(|text| Shell::is_script(&text)) {
        let what = format!("{} exists and is not one of ours", file.display());
        return Err((what, Some("move it away first")));
    }
    if file.is_symlink() {
        let what = format!("{} is a link", file.display());
        return Err((what, Some("remove the link first")));
    }
    let written = save(file, &script);
    written.map_err(|error| (format!("cannot write {}: {error}", file.display()), None))?;
    Ok(true)
}

/// Writes a file whole or not at all, because a shell reads it at every start.
fn save(file: &Path, text: &str) -> std::io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    let mut temporary = tempfile::Builder::new()
        .prefix(".trunkline-completions")
        .tempfile_in(directory)?;
    temporary.write_all(text.as_bytes())?;
    temporary.persist(file)?;
    Ok(())
}

/// Removes the script; returns whether there was one.
fn uninstall(file: &Path) -> Result<bool, Problem> {
    if !file.exists() {
        return Ok(false);
    }
    let text = std::fs::read_to_string(file).unwrap_or_default();
    if !Shell::is_script(&text) {
        let what = format!("{} is not one of ours", file.display());
        return Err((what, Some("remove it yourself")));
    }
    let removed = std::fs::remove_file(file);
    removed.map_err(|error| (format!("cannot remove {}: {error}", file.display()), None))?;
    Ok(true)
}

fn report(args: &CompletionsArgs, shell: Shell, file: &Path, changed: bool, as_json: bool) -> Exit {
    if as_json {
        let key = if args.install {
            "installed"
        } else {
            "uninstalled"
        };
        output::json(&json!({key: shell.name(), "file": file, "changed": changed}));
        return Exit::Done;
    }
    let what = match (args.install, changed) {
        (true, true) => "installed completions for",
        (true, false) => "completions are installed already for",
        (false, true) => "removed completions for",
        (false, false) => "there are no completions for",
    };
    let mut lines = Lines::one(format!("{what} {}", shell.name()));
    lines.push(format!("  {}", file.display()));
    output::result(lines);
    if args.install {
        // A command to paste has no line breaks of ours.
        let next = format!("next: {}", shell.next_step(file));
        output::note(Line::plain(next).verbatim());
    }
    Exit::Done
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_written_whole_and_never_through_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let shell = Shell::named("bash").unwrap();
        let file = directory.path().join("a/b/trunkline");
        assert_eq!(install(shell, &file), Ok(true));
        assert_eq!(install(shell, &file), Ok(false));
        let older = shell.script() + "\n# older\n";
        std::fs::write(&file, &older).unwrap();
        // Whoever reads the file meanwhile has the old one, as this second name of it does.
        let reader = directory.path().join("reader");
        std::fs::hard_link(&file, &reader).unwrap();
        assert_eq!(install(shell, &file), Ok(true));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), shell.script());
        assert_eq!(std::fs::read_to_string(&reader).unwrap(), older);
        // A link, of which the target is missing or an older script.
        for target in [&directory.path().join("missing"), &reader] {
            let link = directory.path().join("link");
            std::os::unix::fs::symlink(target, &link).unwrap();
            let before = std::fs::read_to_string(target).ok();
            assert!(install(shell, &link).is_err(), "{}", target.display());
            assert_eq!(std::fs::read_to_string(target).ok(), before);
            std::fs::remove_file(&link).unwrap();
        }
        let others = directory.path().join("others");
        std::fs::write(&others, "mine").unwrap();
        assert!(install(shell, &others).is_err());
    }
}
