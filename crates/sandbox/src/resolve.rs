//! Resolves the words of a profile.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::profile::{GrantedPath, Profile};
use crate::rules::{Access, Grant, OwnExecute, Rules};

/// The word `system`: what programs need to run.
pub const SYSTEM_PATHS: [&str; 34] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/run/current-system/sw",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/fonts",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/inputrc",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/ca-trust",
    "/etc/pki/tls",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
    "/etc/timezone",
];

/// Places in a home directory that the word `home` leaves out: they hold credentials, or programs
/// start from them.
pub(crate) const NOT_HOME: [&str; 56] = [
    ".anthropic",
    ".aws",
    ".azure",
    ".bash_history",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".cargo/bin",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".claude",
    ".claude.json",
    ".codex",
    ".config/1Password",
    ".config/autostart",
    ".config/chromium",
    ".config/environment.d",
    ".config/fish",
    ".config/gcloud",
    ".config/gh",
    ".config/git",
    ".config/google-chrome",
    ".config/op",
    ".config/systemd",
    ".cursor",
    ".docker",
    ".gem/credentials",
    ".git-credentials",
    ".gitconfig",
    ".gnupg",
    ".kube",
    ".local/bin",
    ".local/share/applications",
    ".local/share/keyrings",
    ".local/share/systemd",
    ".mozilla",
    ".mysql_history",
    ".netrc",
    ".node_repl_history",
    ".npmrc",
    ".pam_environment",
    ".password-store",
    ".pgpass",
    ".profile",
    ".psql_history",
    ".pypirc",
    ".python_history",
    ".ssh",
    ".terraform.d",
    ".vault-token",
    ".zlogin",
    ".zprofile",
    ".zsh_history",
    ".zshenv",
    ".zshrc",
];

/// The places that words stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    home: PathBuf,
    project: Option<PathBuf>,
    cache: Option<PathBuf>,
    hidden: Vec<PathBuf>,
}

impl Places {
    /// The places of a user.
    pub fn new(home: impl Into<PathBuf>) -> Self {
        Self {
            home: home.into(),
            project: None,
            cache: None,
            hidden: Vec::new(),
        }
    }

    /// Sets the project's directory.
    #[must_use]
    pub fn project(mut self, dir: impl Into<PathBuf>) -> Self {
        self.project = Some(dir.into());
        self
    }

    /// Sets the directory for the word `cache`, which belongs to one server.
    #[must_use]
    pub fn cache(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cache = Some(dir.into());
        self
    }

    /// Adds a path that no server can see, whatever its profile grants.
    #[must_use]
    pub fn hide(mut self, path: impl Into<PathBuf>) -> Self {
        self.hidden.push(path.into());
        self
    }
}

impl Profile {
    /// Resolves the words. The error names one that has no meaning here.
    pub fn resolve(&self, places: &Places) -> Result<Rules, String> {
        let mut rules = Rules {
            grants: Vec::new(),
            hidden: places
                .hidden
                .iter()
                .cloned()
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
            tmp: false,
            cache: None,
            own_execute: OwnExecute::ALL,
            network: self.network.clone(),
            env: self.env.clone(),
            limits: self.limits,
        };
        let system = SYSTEM_PATHS.iter().map(|path| Grant {
            optional: true,
            ..grant(path.into(), Access::Read, "system".to_owned())
        });
        rules.grants.extend(system);
        for (paths, access) in [(&self.read, Access::Read), (&self.write, Access::Write)] {
            for path in paths {
                add(&mut rules, path, access, places)?;
            }
        }
        let Some(execute) = &self.execute else {
            return Ok(rules);
        };
        // The same words, to know where they lead.
        let mut allowed = Rules {
            grants: Vec::new(),
            ..rules.clone()
        };
        for path in execute {
            add(&mut allowed, path, Access::Read, places)?;
        }
        rules.own_execute = OwnExecute {
            tmp: execute.contains(&GrantedPath::Tmp),
            cache: execute.contains(&GrantedPath::Cache),
        };
        for grant in &mut rules.grants {
            let mut allowed = allowed.grants.iter();
            grant.execute = grant.word == "system"
                || allowed.any(|allowed| grant.path.starts_with(&allowed.path));
        }
        Ok(rules)
    }
}

fn grant(path: PathBuf, access: Access, word: String) -> Grant {
    Grant {
        path,
        access,
        execute: true,
        word,
        optional: false,
        within: Vec::new(),
        except: Vec::new(),
    }
}

fn add(
    rules: &mut Rules,
    path: &GrantedPath,
    access: Access,
    places: &Places,
) -> Result<(), String> {
    let grant = match path {
        // Always granted.
        GrantedPath::System => return Ok(()),
        GrantedPath::Tmp => {
            rules.tmp |= access == Access::Write;
            return Ok(());
        }
        GrantedPath::Cache => {
            let cache = places.cache.clone();
            rules.cache = Some(cache.ok_or("\"cache\": there is no directory for caches")?);
            return Ok(());
        }
        GrantedPath::Project => {
            let project = places.project.clone();
            let project = project.ok_or("\"project\": the server belongs to no project")?;
            // A project may be the home directory, or contain it.
            let is_home = places.home.starts_with(&project);
            let hidden = NOT_HOME.iter().filter(|_| is_home);
            Grant {
                except: hidden.map(|path| places.home.join(path)).collect(),
                ..grant(absolute(project)?, access, "project".to_owned())
            }
        }
        GrantedPath::Home => Grant {
            except: NOT_HOME.iter().map(|path| places.home.join(path)).collect(),
            ..grant(absolute(places.home.clone())?, access, "home".to_owned())
        },
        GrantedPath::Absolute(path) => grant(path.clone(), access, path.display().to_string()),
        GrantedPath::InHome(path) => {
            let word = format!("~/{}", path.display());
            grant(absolute(places.home.join(path))?, access, word)
        }
        GrantedPath::Relative { base, path } => {
            let word = format!("./{}", path.display());
            Grant {
                within: vec![base.clone()],
                ..grant(absolute(base.join(path))?, access, word)
            }
        }
    };
    rules.grants.push(grant);
    Ok(())
}

/// A directory that words start from must not be all of the machine.
fn absolute(path: PathBuf) -> Result<PathBuf, String> {
    if !path.is_absolute() || path == Path::new("/") {
        let path = path.display();
        return Err(format!(
            "\"{path}\" cannot be granted: list the directories that are needed"
        ));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_word_without_a_place_is_an_error() {
        let places = Places::new("/home/me");
        let resolve = |value| {
            let profile = Profile::parse(&value, &Profile::default()).unwrap();
            profile.resolve(&places)
        };
        assert!(
            resolve(json!({"read": ["project"]}))
                .unwrap_err()
                .contains("no project")
        );
        assert!(
            resolve(json!({"read": [], "write": ["cache"]}))
                .unwrap_err()
                .contains("cache")
        );
        assert!(resolve(json!({"read": []})).is_ok());
        let root = Places::new("/").project("/");
        assert!(Profile::default().resolve(&root).is_err());
    }

    #[test]
    fn programs_start_from_all_granted_paths_or_from_those_listed() {
        let places = Places::new("/home/me").project("/work");
        let executes = |value: serde_json::Value| -> Vec<(String, bool)> {
            let profile = Profile::parse(&value, &Profile::default()).unwrap();
            let grants = profile.resolve(&places).unwrap().grants;
            let own = grants.into_iter().filter(|grant| grant.word != "system");
            own.map(|grant| (grant.word, grant.execute)).collect()
        };
        let all = executes(json!({"read": ["project", "~/x"]}));
        assert!(all.iter().all(|(_, execute)| *execute), "{all:?}");
        let some = executes(json!({"read": ["project", "~/x"], "execute": ["project"]}));
        assert_eq!(
            some,
            [("project".to_owned(), true), ("~/x".to_owned(), false)]
        );
    }
}
