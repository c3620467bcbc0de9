//! The directory of one test: home, configurations and a process marker.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Serialize;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::{Marker, Script, bin};

/// A temporary directory. On drop it is removed, and all processes started from its configurations
/// are killed.
#[derive(Debug)]
pub struct Scratch {
    dir: TempDir,
    marker: Marker,
}

impl Scratch {
    /// Creates the directory with an empty home.
    pub fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("testkit-")
            .tempdir()
            .expect("a temporary directory");
        fs::create_dir(dir.path().join("home")).expect("a home in it");
        Self {
            dir,
            marker: Marker::new(),
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A path in the directory; it need not exist.
    pub fn join(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.path().join(relative)
    }

    /// The home directory, for `HOME`.
    pub fn home(&self) -> PathBuf {
        self.join("home")
    }

    /// The marker in the `env` of every server of [`Scratch::config`].
    pub fn marker(&self) -> &Marker {
        &self.marker
    }

    /// Writes a file and its directories; returns its path.
    pub fn write(&self, relative: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(relative);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).expect("directories of a scratch file");
        }
        fs::write(&path, content).expect("a scratch file");
        path
    }

    /// Reads a file; empty if it does not exist.
    pub fn read(&self, relative: impl AsRef<Path>) -> String {
        fs::read_to_string(self.join(relative)).unwrap_or_default()
    }

    /// Writes `.mcp-config.json` with one scripted stdio server per name; returns its path. Scripts
    /// are [`Script`]s or their JSON.
    pub fn config<S: Serialize>(&self, servers: &[(&str, S)]) -> PathBuf {
        let entries: Map<_, _> = servers
            .iter()
            .map(|(name, script)| ((*name).into(), self.entry(name, script)))
            .collect();
        self.write(
            ".mcp-config.json",
            json!({"mcpServers": entries}).to_string(),
        )
    }

    /// Saves a script and returns the configuration entry that runs it: `{command, args, env}`.
    ///
    /// # Panics
    /// If it is not a script.
    pub fn entry<S: Serialize>(&self, name: &str, script: &S) -> Value {
        let text = serde_json::to_string(script).expect("a script serialises");
        Script::parse(&text).unwrap_or_else(|e| panic!("server {name}: {e}"));
        let file: String = name
            .chars()
            .map(|c| if c.is_alphanumeric() { c } else { '_' })
            .collect();
        let path = self.write(format!("scripts/{file}.json"), text);
        let (variable, value) = self.marker.env();
        json!({"command": bin("testkit-server"), "args": ["--script", path], "env": {variable: value}})
    }

    /// Waits until no process started from its configurations is left.
    ///
    /// # Panics
    /// If one still is after `limit`.
    #[track_caller]
    pub fn assert_no_processes(&self, limit: Duration) {
        self.marker.assert_gone(limit);
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.marker.kill_all();
    }
}
