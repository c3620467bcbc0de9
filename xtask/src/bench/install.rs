//! The steps of an installation: build, download, skip what is there. Each failure is one line for the table.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Layout;
use super::process::{Cores, Program};

/// Node for the TypeScript clients, from the npm registry.
const NODE_VERSION: &str = "24.21.0";
/// A cold build of a peer on two cores takes about two minutes.
const LIMIT: Duration = Duration::from_mins(20);

/// Installs into `target/bench`.
pub(super) struct Installer<'a> {
    pub(super) layout: &'a Layout,
    /// Download nothing.
    pub(super) offline: bool,
}

impl Installer<'_> {
    /// The folder with `node` in it.
    pub(super) fn node(&self) -> Result<PathBuf, String> {
        let os = if cfg!(target_os = "macos") {
            "darwin"
        } else {
            "linux"
        };
        let arch = if cfg!(target_arch = "aarch64") {
            "arm64"
        } else {
            "x64"
        };
        let package = format!("node-{os}-{arch}");
        let folder = self.layout.out.join("node");
        let wanted = format!("{package}@{NODE_VERSION}");
        self.once(&folder, &wanted, "Node", || {
            let prefix = path_text(&folder);
            let install = ["npm", "install", "--no-save", "--no-audit", "--no-fund"];
            self.command(
                "node",
                None,
                &[&install[..], &["--prefix", &prefix, &wanted]].concat(),
            )
        })?;
        Ok(folder.join("node_modules").join(package).join("bin"))
    }

    /// A folder of `bench/` copied into `target/bench`, with its packages beside it.
    pub(super) fn npm(&self, name: &str, node: &Result<PathBuf, String>) -> Result<(), String> {
        let node = node
            .as_ref()
            .map_err(|reason| format!("no Node: {reason}"))?;
        let (source, folder) = (self.layout.source(name), self.layout.out.join(name));
        copy_files(&source, &folder)
            .map_err(|error| format!("cannot copy {}: {error}", source.display()))?;
        let read = |file| fs::read_to_string(source.join(file)).unwrap_or_default();
        let (manifest, lock) = (read("package.json"), read("package-lock.json"));
        let prefix = path_text(&folder);
        let install: &[&str] = if lock.is_empty() {
            &["npm", "install", "--no-package-lock"]
        } else {
            &["npm", "ci"]
        };
        let what = format!("npm packages of bench/{name}");
        self.once(&folder, &format!("{manifest}{lock}"), &what, || {
            let rest = ["--no-audit", "--no-fund", "--prefix", &prefix];
            self.command(name, Some(node), &[install, &rest].concat())
        })
    }

    /// A virtual environment with the packages of a requirements file, which names all of them.
    pub(super) fn venv(&self, venv: &Path, requirements: &Path) -> Result<(), String> {
        let wanted = fs::read_to_string(requirements)
            .map_err(|error| format!("cannot read {}: {error}", requirements.display()))?;
        self.once(venv, &wanted, "Python packages", || {
            self.command(
                "venv",
                None,
                &["python3", "-m", "venv", "--clear", &path_text(venv)],
            )?;
            let python = path_text(&venv.join("bin/python"));
            let requirements = path_text(requirements);
            let install = [&python, "-m", "pip", "install", "--quiet", "--no-deps"];
            self.command(
                "pip",
                None,
                &[&install[..], &["-r", &requirements]].concat(),
            )
        })
    }

    /// `cargo build` in the workspace, in the profile made for this.
    pub(super) fn workspace(&self, what: &str, rest: &[&str]) -> Result<PathBuf, String> {
        let manifest = path_text(&self.layout.root.join("Cargo.toml"));
        let profile = ["--manifest-path", &manifest, "--profile", "profiling"];
        self.cargo(what, &[&profile, rest].concat())?;
        Ok(self.layout.root.join("target/profiling").join(what))
    }

    /// `cargo build` of a package under `bench/`, each a workspace of its own.
    pub(super) fn package(
        &self,
        folder: &str,
        what: &str,
        rest: &[&str],
    ) -> Result<PathBuf, String> {
        let manifest = path_text(&self.layout.source(folder).join("Cargo.toml"));
        let target = self.layout.out.join("cargo");
        let folder = path_text(&target);
        let place = [
            "--manifest-path",
            &manifest,
            "--target-dir",
            &folder,
            "--release",
        ];
        self.cargo(what, &[&place, rest].concat())?;
        Ok(target.join("release").join(what))
    }

    fn cargo(&self, what: &str, rest: &[&str]) -> Result<(), String> {
        println!("building {what}");
        let offline: &[&str] = if self.offline { &["--offline"] } else { &[] };
        let argv = [&["cargo", "build", "--quiet"], offline, rest].concat();
        self.command(&format!("build-{what}"), None, &argv)
    }

    /// Runs `install` unless the folder's stamp says that `wanted` is there.
    fn once(
        &self,
        folder: &Path,
        wanted: &str,
        what: &str,
        install: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let stamp = folder.join(".installed");
        if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
            return Ok(());
        }
        if self.offline {
            return Err("not installed, and --no-install is given".to_owned());
        }
        println!("installing {what}");
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        install()?;
        fs::write(&stamp, wanted).map_err(|error| error.to_string())
    }

    fn command(&self, log: &str, node: Option<&Path>, argv: &[&str]) -> Result<(), String> {
        let argv: Vec<String> = argv.iter().map(|&part| part.to_owned()).collect();
        let env: Vec<_> = node.map(path_with).into_iter().collect();
        let log = self.layout.out.join("logs").join(log);
        let errors = log.with_extension("err");
        Program {
            argv: &argv,
            env: &env,
            cores: Cores::Free,
            limit: LIMIT,
            log,
        }
        .run()
        .map(drop)
        .map_err(|reason| format!("{} failed: {reason} ({})", argv[0], errors.display()))
    }
}

fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// The environment variable that puts a folder first in the search path.
pub(super) fn path_with(first: &Path) -> (String, String) {
    let path = crate::sh::path_with(first);
    ("PATH".to_owned(), path.to_string_lossy().into_owned())
}

pub(super) fn path_text(path: &Path) -> String {
    path.display().to_string()
}
