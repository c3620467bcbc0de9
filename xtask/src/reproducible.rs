//! Builds the distributed programs twice, in different folders, and compares the results.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::sh;

/// Where the two builds are made.
const FOLDERS: [&str; 2] = ["target/reproducible/one", "target/reproducible/another"];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Keep both builds, to compare them by other means
    #[arg(long)]
    keep: bool,
}

/// The programs that are distributed.
const PROGRAMS: [&str; 2] = ["trunkline", "trunkline-sandbox"];

pub(crate) fn run(options: &Options) -> Result<()> {
    let [one, another] = FOLDERS.map(|folder| sh::root().join(folder));
    build(&one)?;
    build(&another)?;
    for program in PROGRAMS {
        let [one, another] = [&one, &another].map(|folder| folder.join("dist").join(program));
        compare(&one, &another)?;
    }
    if !options.keep {
        std::fs::remove_dir_all(sh::root().join("target/reproducible"))?;
    }
    Ok(())
}

fn compare(one: &Path, another: &Path) -> Result<()> {
    let (first, second) = (std::fs::read(one)?, std::fs::read(another)?);
    if first != second {
        let at = first
            .iter()
            .zip(&second)
            .position(|(one, other)| one != other);
        let at = at.unwrap_or_else(|| first.len().min(second.len()));
        bail!(
            "the builds differ from byte {at} on ({} and {} bytes): compare {} and {}",
            first.len(),
            second.len(),
            one.display(),
            another.display()
        );
    }
    println!(
        "{} is the same in both builds, {} bytes",
        one.display(),
        first.len()
    );
    Ok(())
}

/// Builds the programs from scratch.
fn build(folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    let mut command = sh::cargo(&["build", "--profile", "dist", "--locked"]);
    for program in PROGRAMS {
        command.args(["--bin", program]);
    }
    // Paths of this machine must not be in the program. The folder is inside the root, and of
    // several prefixes the last counts.
    let root = sh::root();
    let home = std::env::var("CARGO_HOME")
        .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))
        .unwrap_or_default();
    let prefixes = [
        format!("{home}=/cargo"),
        format!("{}=/trunkline", root.display()),
        format!("{}=/target", folder.display()),
    ];
    let rust = prefixes
        .iter()
        .map(|prefix| format!("--remap-path-prefix={prefix}"));
    let c = prefixes
        .iter()
        .map(|prefix| format!("-ffile-prefix-map={prefix}"));
    let status = command
        .env("CARGO_TARGET_DIR", folder)
        .env("CARGO_INCREMENTAL", "0")
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            rust.collect::<Vec<_>>().join("\u{1f}"),
        )
        .env("CFLAGS", c.collect::<Vec<_>>().join(" "))
        .env("SOURCE_DATE_EPOCH", "0")
        .status()
        .context("cargo build")?;
    anyhow::ensure!(status.success(), "the build in {} failed", folder.display());
    Ok(())
}
