//! What a server may do, in words.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::hosts::HostRule;

/// The name of the profile for `"sandbox": true`.
pub const DEFAULT_PROFILE: &str = "default";

/// A path that a profile grants, before it is resolved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum GrantedPath {
    /// `project`: the project's directory.
    Project,
    /// `home`: the home directory, without the places that hold credentials or start programs.
    Home,
    /// `tmp`: a directory of its own that ends with the server.
    Tmp,
    /// `cache`: a directory of its own that is kept for the next start.
    Cache,
    /// `system`: the files that programs need to run. Always readable.
    System,
    /// An absolute path.
    Absolute(PathBuf),
    /// `~/…`: a path in the home directory.
    InHome(PathBuf),
    /// `./…`: a path that must stay inside the directory of the file that names it.
    Relative {
        /// The directory.
        base: PathBuf,
        /// The path, which has no `..`.
        path: PathBuf,
    },
}

/// The network that a server sees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Network {
    /// None at all.
    #[default]
    None,
    /// A loopback interface of its own, which nothing outside of the sandbox shares.
    Loopback,
    /// These hosts, through a proxy that lets nothing else pass.
    Hosts(Vec<HostRule>),
}

/// Limits on resources. `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Limits {
    /// The memory of each process, in megabytes.
    pub memory_mb: Option<u64>,
    /// Processes and threads at a time.
    pub processes: Option<u64>,
    /// Open files of each process.
    pub open_files: Option<u64>,
    /// CPU time of each process, in seconds.
    pub cpu_seconds: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_mb: Some(4096),
            processes: Some(512),
            open_files: Some(4096),
            cpu_seconds: None,
        }
    }
}

impl Limits {
    /// The stricter of both, for each limit.
    #[must_use]
    pub(crate) fn min(self, other: Self) -> Self {
        let min = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Self {
            memory_mb: min(self.memory_mb, other.memory_mb),
            processes: min(self.processes, other.processes),
            open_files: min(self.open_files, other.open_files),
            cpu_seconds: min(self.cpu_seconds, other.cpu_seconds),
        }
    }
}

/// What a server may do, in words. [`Profile::default`] is the profile for `"sandbox": true`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Profile {
    /// Its name; `None` if it is written in an entry.
    pub name: Option<String>,
    /// The paths that can be read.
    pub read: Vec<GrantedPath>,
    /// The paths that can be read and written.
    pub write: Vec<GrantedPath>,
    /// The granted paths from which programs can be started; `None` for all of them.
    pub execute: Option<Vec<GrantedPath>>,
    /// The network.
    pub network: Network,
    /// Variables that are passed on, besides the entry's own and a few that say nothing about the
    /// user.
    pub env: Vec<String>,
    /// The limits.
    pub limits: Limits,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            name: Some(DEFAULT_PROFILE.to_owned()),
            read: vec![GrantedPath::System, GrantedPath::Project],
            write: vec![GrantedPath::Tmp],
            execute: None,
            network: Network::None,
            env: Vec::new(),
            limits: Limits::default(),
        }
    }
}
