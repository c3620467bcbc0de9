//! Cargo subcommands, installed into `target/tools` if missing.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::sh;

/// A cargo subcommand and the version installed when it is missing.
#[derive(Clone, Copy)]
pub(crate) struct Tool {
    /// As in `cargo <name>`.
    pub(crate) name: &'static str,
    /// The exact version to install.
    pub(crate) version: &'static str,
}

/// The test runner.
pub(crate) const NEXTEST: Tool = Tool {
    name: "nextest",
    version: "0.9.151",
};

/// Licences, bans and sources of dependencies.
pub(crate) const DENY: Tool = Tool {
    name: "deny",
    version: "0.20.2",
};

/// Builds and runs the fuzz targets.
pub(crate) const FUZZ: Tool = Tool {
    name: "fuzz",
    version: "0.13.2",
};

impl Tool {
    /// Returns whether `cargo <name>` works.
    pub(crate) fn is_installed(self) -> bool {
        sh::succeeds(&mut sh::cargo(&[self.name, "--version"]))
    }

    /// Installs `cargo <name>` for [`sh::cargo`], unless some version is already there.
    pub(crate) fn ensure(self) -> Result<()> {
        if self.is_installed() {
            return Ok(());
        }
        let package = format!("cargo-{}@{}", self.name, self.version);
        println!("installing {package} into target/tools, which takes some minutes");
        let install = [
            "install",
            "--locked",
            // Built in a third of the time, and quick enough for what it has to do.
            "--debug",
            "--root",
            "target/tools",
            "--quiet",
            &package,
        ];
        sh::run(&mut sh::cargo(&install), Duration::from_mins(30))
            .with_context(|| format!("could not install {package}"))
    }
}
