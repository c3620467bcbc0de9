//! `trunkline completions`: completion scripts for shells.

use std::path::{Path, PathBuf};

use clap::CommandFactory;
use serde_json::json;

use crate::args::{Args, CompletionsArgs};
use crate::complete::Shell;
use crate::complete::scripts::Places;
use crate::exit::Exit;
use crate::output::{self, Lines};

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
    let file = shell.place(&Places {
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
    let written = file
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(file, script));
    written.map_err(|error| (format!("cannot write {}: {error}", file.display()), None))?;
    Ok(true)
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
        output::note(Lines::one(format!("next: {}", shell.next_step(file))));
    }
    Exit::Done
}
