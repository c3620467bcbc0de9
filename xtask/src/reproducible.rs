//! Builds the distributed program twice, in different folders, and compares the results.

use std::path::{Path, PathBuf};

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

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut built = Vec::new();
    for folder in FOLDERS {
        built.push(build(&sh::root().join(folder))?);
    }
    let (one, another) = (&built[0], &built[1]);
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
    println!("both builds are the same, {} bytes", first.len());
    if !options.keep {
        std::fs::remove_dir_all(sh::root().join("target/reproducible"))?;
    }
    Ok(())
}

/// Builds the program from scratch and returns its path.
fn build(folder: &Path) -> Result<PathBuf> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    let mut command = sh::cargo(&[
        "build",
        "--profile",
        "dist",
        "--bin",
        "trunkline",
        "--locked",
    ]);
    // Paths of this machine must not be in the program.
    let root = sh::root();
    let home = std::env::var("CARGO_HOME")
        .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))
        .unwrap_or_default();
    let flags = format!(
        "--remap-path-prefix={}=/target --remap-path-prefix={}=/trunkline --remap-path-prefix={home}=/cargo",
        folder.display(),
        root.display(),
    );
    let status = command
        .env("CARGO_TARGET_DIR", folder)
        .env("CARGO_INCREMENTAL", "0")
        .env("RUSTFLAGS", flags)
        .env("SOURCE_DATE_EPOCH", "0")
        .status()
        .context("cargo build")?;
    anyhow::ensure!(status.success(), "the build in {} failed", folder.display());
    Ok(folder.join("dist/trunkline"))
}
