//! `cargo xtask hook`: points git at the hooks in `xtask/hooks`.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::sh;

/// The directory of the hooks, from the root of the workspace.
const HOOKS: &str = "xtask/hooks";

/// Options of `cargo xtask hook`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Remove the hooks again
    #[arg(long)]
    remove: bool,
}

/// Installs or removes the hooks. Never replaces a hooks directory that somebody else configured.
pub(crate) fn run(options: &Options) -> Result<()> {
    let current = configured()?;
    match (options.remove, current.as_deref()) {
        (false, Some(HOOKS)) => println!("already installed: {HOOKS}"),
        (false, Some(other)) => bail!("core.hooksPath is already set to {other}"),
        (false, None) => {
            config(&["core.hooksPath", HOOKS])?;
            println!("installed: `cargo xtask check` runs before each commit");
        }
        (true, Some(HOOKS)) => {
            config(&["--unset", "core.hooksPath"])?;
            println!("removed");
        }
        (true, _) => println!("not installed"),
    }
    Ok(())
}

/// Returns `core.hooksPath` of this repository, if it is set.
fn configured() -> Result<Option<String>> {
    let output = git(&["--get", "core.hooksPath"])
        .output()
        .context("could not run git")?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok((!path.is_empty()).then_some(path))
}

fn config(args: &[&str]) -> Result<()> {
    let status = git(args).status().context("could not run git")?;
    if !status.success() {
        bail!("`git config {}` failed ({status})", args.join(" "));
    }
    Ok(())
}

fn git(args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.arg("config").args(args).current_dir(sh::root());
    command
}
