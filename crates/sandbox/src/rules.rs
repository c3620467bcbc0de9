//! What a server may do, with every word resolved.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::profile::{Limits, Network};

/// What may be done with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Access {
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
}

/// A path and everything below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Grant {
    /// The path, which is absolute and has no `..`.
    pub path: PathBuf,
    /// What may be done with it.
    pub access: Access,
    /// Whether programs can be started from it.
    pub execute: bool,
    /// The word or path as written, for messages.
    pub word: String,
    /// Whether it may be missing.
    pub optional: bool,
    /// Directories that the path must still be in once links are followed.
    pub within: Vec<PathBuf>,
    /// Paths below it that are not granted.
    pub except: Vec<PathBuf>,
}

impl Grant {
    fn covers(&self, path: &Path) -> bool {
        path.starts_with(&self.path) && !self.except.iter().any(|except| path.starts_with(except))
    }

    /// The part that both grant.
    fn and(&self, other: &Self) -> Option<Self> {
        let (inner, outer) = if self.path.starts_with(&other.path) {
            (self, other)
        } else if other.path.starts_with(&self.path) {
            (other, self)
        } else {
            return None;
        };
        let mut except = self.except.clone();
        except.extend(other.except.iter().cloned());
        if except.iter().any(|except| inner.path.starts_with(except)) {
            return None;
        }
        let mut within = [self.within.as_slice(), &other.within].concat();
        // Where a link leads is not known here.
        within.push(outer.path.clone());
        Some(Self {
            path: inner.path.clone(),
            access: self.access.min(other.access),
            execute: self.execute && other.execute,
            word: inner.word.clone(),
            optional: self.optional || other.optional,
            within,
            except,
        })
    }
}

/// Whether programs can be started from the directories that a sandbox has of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct OwnExecute {
    /// From the private `/tmp`, and from memory.
    pub tmp: bool,
    /// From the cache.
    pub cache: bool,
}

impl OwnExecute {
    /// From all of them.
    pub(crate) const ALL: Self = Self {
        tmp: true,
        cache: true,
    };

    fn and(self, other: Self) -> Self {
        Self {
            tmp: self.tmp && other.tmp,
            cache: self.cache && other.cache,
        }
    }
}

/// What a server may do: a list of all that is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Rules {
    /// The paths that exist for the server, besides its own `/proc`, `/dev` and `/tmp`.
    pub grants: Vec<Grant>,
    /// Paths that no grant covers: our own files.
    pub hidden: Vec<PathBuf>,
    /// Whether the private `/tmp` can be written.
    pub tmp: bool,
    /// A directory of its own that is kept, which it sees as `/tmp/.cache`.
    pub cache: Option<PathBuf>,
    /// From which of its own directories programs can be started.
    pub own_execute: OwnExecute,
    /// The network.
    pub network: Network,
    /// Variables that are passed on.
    pub env: Vec<String>,
    /// The limits.
    pub limits: Limits,
}

impl Rules {
    /// Whether a file of this name can be read. Links are not followed.
    pub fn can_read(&self, path: &Path) -> bool {
        self.access(path).is_some()
    }

    /// Whether a file of this name can be written. Links are not followed.
    pub fn can_write(&self, path: &Path) -> bool {
        self.access(path) == Some(Access::Write)
    }

    fn access(&self, path: &Path) -> Option<Access> {
        if self.hidden.iter().any(|hidden| path.starts_with(hidden)) {
            return None;
        }
        let grants = self.grants.iter().filter(|grant| grant.covers(path));
        grants.map(|grant| grant.access).max()
    }

    /// The rules that allow only what both allow.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let pairs = self.grants.iter().flat_map(|one| {
            let others = other.grants.iter();
            others.filter_map(|other| one.and(other))
        });
        let mut grants: Vec<Grant> = Vec::new();
        for grant in pairs {
            if !grants.contains(&grant) {
                grants.push(grant);
            }
        }
        let mut hidden = self.hidden.clone();
        hidden.extend(other.hidden.iter().cloned());
        hidden.sort();
        hidden.dedup();
        Self {
            grants,
            hidden,
            tmp: self.tmp && other.tmp,
            cache: self.cache.clone().filter(|_| other.cache.is_some()),
            own_execute: self.own_execute.and(other.own_execute),
            network: both_networks(&self.network, &other.network),
            env: self
                .env
                .iter()
                .filter(|name| other.env.contains(name))
                .cloned()
                .collect(),
            limits: self.limits.min(other.limits),
        }
    }
}

fn both_networks(one: &Network, other: &Network) -> Network {
    match (one, other) {
        (Network::Hosts(one), Network::Hosts(other)) => {
            let hosts: Vec<_> = one
                .iter()
                .flat_map(|one| other.iter().filter_map(|other| one.and(other)))
                .collect();
            if hosts.is_empty() {
                Network::None
            } else {
                Network::Hosts(hosts)
            }
        }
        (Network::None, _) | (_, Network::None) => Network::None,
        // A sandbox with hosts has a loopback interface as well.
        (Network::Loopback, _) | (_, Network::Loopback) => Network::Loopback,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::profile::Profile;
    use crate::resolve::Places;

    fn rules(value: &Value) -> Rules {
        let places = Places::new("/home/me")
            .project("/home/me/work")
            .cache("/home/me/.cache/trunkline/sandbox/s")
            .hide("/home/me/.claude");
        let profile = Profile::parse_in(value, &Profile::default(), Some("/home/me/work".as_ref()));
        profile.unwrap().resolve(&places).unwrap()
    }

    #[test]
    fn both_allow_less_than_each() {
        let ceiling = rules(&json!({
            "read": ["project"], "write": ["tmp", "~/work/out"], "network": ["*.a.com"], "env": ["A"],
            "limits": {"processes": 10},
        }));
        let wide = rules(&json!({
            "read": ["/home", "/srv"], "write": ["/home/me/work", "tmp", "cache"],
            "network": ["x.a.com:443", "b.com"], "env": ["A", "B"], "limits": {"processes": 99},
        }));
        for both in [wide.and(&ceiling), ceiling.and(&wide)] {
            for (path, read, write) in [
                ("/home/me/work/file", true, false),
                ("/home/me/work/out/file", true, true),
                ("/home/me/.ssh/id", false, false),
                ("/srv/x", false, false),
                ("/usr/bin/env", true, false),
            ] {
                assert_eq!(both.can_read(path.as_ref()), read, "{path}");
                assert_eq!(both.can_write(path.as_ref()), write, "{path}");
            }
            assert!(both.tmp && both.cache.is_none());
            assert_eq!(both.env, ["A"]);
            assert_eq!(both.limits.processes, Some(10));
            let Network::Hosts(hosts) = &both.network else {
                unreachable!()
            };
            assert_eq!(hosts[0].to_string(), "x.a.com:443");
            assert_eq!(hosts.len(), 1);
        }
        let none = rules(&json!({"network": "none"}));
        assert_eq!(wide.and(&none).network, Network::None);
    }

    #[test]
    fn a_link_cannot_lead_out_of_a_ceiling() {
        let entry = rules(&json!({"read": ["./link"]}));
        let ceiling = rules(&json!({"read": ["project"]}));
        let both = entry.and(&ceiling);
        let link = both
            .grants
            .iter()
            .find(|grant| grant.path.ends_with("link"));
        assert!(link.unwrap().within.contains(&"/home/me/work".into()));
    }

    #[test]
    fn home_leaves_credentials_out_and_ours_are_never_visible() {
        let rules = rules(&json!({"read": ["home"], "write": ["home", "~/.config"]}));
        for (path, write) in [
            ("/home/me/notes", true),
            ("/home/me/.ssh/id", false),
            ("/home/me/.bashrc", false),
            ("/home/me/.claude/settings.json", false),
            // Named by itself.
            ("/home/me/.config/gh/hosts.yml", true),
        ] {
            assert_eq!(rules.can_write(path.as_ref()), write, "{path}");
        }
    }
}
