//! Cargo subcommands the jobs need, installed into `target/tools` when the machine has none.

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
    /// Whether `cargo <name>` works here.
    pub(crate) fn is_there(self) -> bool {
        sh::succeeds(&mut sh::cargo(&[self.name, "--version"]))
    }

    /// Makes `cargo <name>` work for commands made by [`sh::cargo`]. A version the machine already has is used as it is.
    pub(crate) fn ensure(self) -> Result<()> {
        if self.is_there() {
            return Ok(());
        }
        let package = format!("cargo-{}@{}", self.name, self.version);
        println!(
            "{package} is missing: installing it into target/tools, once, which takes some minutes"
        );
        let install = [
            "install",
            "--locked",
            "--root",
            "target/tools",
            "--quiet",
            &package,
        ];
        sh::run(&mut sh::cargo(&install), Duration::from_mins(30))
            .with_context(|| format!("could not install {package}"))
    }
}
