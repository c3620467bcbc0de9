//! Decides what the sandbox's file system is made of, before it is entered.
//!
//! Links are followed here, once: the sandbox mounts the files they lead to.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{because, sockets};
use crate::launch::Launch;
use crate::rules::{Access, Grant};

/// The most mounts, which a home directory with hidden parts may need many of.
const MAX_MOUNTS: usize = 4096;

/// Where the private directory of a server is, and its cache in it.
pub(super) const TMP: &str = "/tmp";
pub(super) const CACHE: &str = "/tmp/.cache";

/// What is at a path of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mount {
    /// The path in the sandbox.
    pub(super) target: PathBuf,
    /// What is there.
    pub(super) content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Content {
    /// A directory or file of the machine.
    Bind {
        source: PathBuf,
        is_dir: bool,
        access: Access,
        execute: bool,
    },
    /// A directory of which only some entries are mounted.
    Dir,
    /// A symbolic link.
    Link(PathBuf),
    /// A socket in a granted directory, which cannot be connected to.
    Socket,
}

/// The file system of a sandbox, and where the server starts in it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) mounts: Vec<Mount>,
    pub(super) program: PathBuf,
    pub(super) cwd: PathBuf,
}

impl Plan {
    /// Looks at the files that a launch names.
    pub(super) fn of(launch: &Launch) -> Result<Self, String> {
        let rules = &launch.rules;
        let mut planner = Planner {
            hidden: rules
                .hidden
                .iter()
                .flat_map(|path| spellings(path))
                .collect(),
            mounts: Vec::new(),
        };
        let mut grants: Vec<&Grant> = rules.grants.iter().collect();
        // A directory before what is in it, and of the same path the one that allows more last.
        grants.sort_by_key(|grant| (grant.path.components().count(), grant.access));
        for grant in grants {
            planner.grant(grant)?;
        }
        if let Some(cache) = &rules.cache {
            planner.cache(cache, rules.own_execute.cache)?;
        }
        let program = planner.program(launch)?;
        let cwd = planner.cwd(launch)?;
        planner.hide_sockets(sockets::bound())?;
        Ok(Self {
            mounts: planner.mounts,
            program,
            cwd,
        })
    }
}

struct Planner {
    /// Our own files, in every spelling.
    hidden: Vec<PathBuf>,
    mounts: Vec<Mount>,
}

impl Planner {
    fn grant(&mut self, grant: &Grant) -> Result<(), String> {
        let Grant { path, word, .. } = grant;
        let found = match fs::symlink_metadata(path) {
            Ok(found) => found,
            Err(_) if grant.optional => return Ok(()),
            Err(error) => {
                let hint = "create it, or remove it from the sandbox";
                return Err(format!("\"{word}\": {}: {error}; {hint}", path.display()));
            }
        };
        if grant.word == "system" && found.is_symlink() {
            let to = fs::read_link(path).map_err(because(path.display()))?;
            return self.push(path.clone(), Content::Link(to));
        }
        let source = match path.canonicalize() {
            Ok(source) => source,
            Err(_) if grant.optional => return Ok(()),
            Err(error) => return Err(format!("\"{word}\": {}: {error}", path.display())),
        };
        for outer in &grant.within {
            let outer = outer.canonicalize().map_err(because(outer.display()))?;
            if !source.starts_with(&outer) {
                return Err(format!(
                    "\"{word}\" leads out of {}, to {}; name that path itself",
                    outer.display(),
                    source.display()
                ));
            }
        }
        self.refuse_hidden(&source, word)?;
        let own = ["/proc", "/dev", "/sys"];
        if source == Path::new("/") || own.iter().any(|own| source.starts_with(own)) {
            return Err(format!(
                "\"{word}\" leads to {}, which cannot be granted",
                source.display()
            ));
        }
        let except = grant.except.iter().flat_map(|path| spellings(path));
        let blocked: Vec<PathBuf> = except.chain(self.hidden.iter().cloned()).collect();
        if blocked.iter().any(|blocked| source.starts_with(blocked)) {
            return Ok(());
        }
        self.bind(&source, grant.access, grant.execute, &blocked)?;
        self.link(path, &source)
    }

    fn refuse_hidden(&self, source: &Path, word: &str) -> Result<(), String> {
        if self.hidden.iter().any(|hidden| source.starts_with(hidden)) {
            let source = source.display();
            return Err(format!(
                "\"{word}\": {source} belongs to trunkline, and no server may see it"
            ));
        }
        Ok(())
    }

    /// Mounts a path, or around the blocked paths in it.
    fn bind(
        &mut self,
        source: &Path,
        access: Access,
        execute: bool,
        blocked: &[PathBuf],
    ) -> Result<(), String> {
        let is_dir = source.is_dir();
        let has_blocked = blocked.iter().any(|blocked| blocked.starts_with(source));
        if !is_dir || !has_blocked {
            let content = Content::Bind {
                source: source.to_owned(),
                is_dir,
                access,
                execute,
            };
            return self.push(source.to_owned(), content);
        }
        // The directory itself stays out of the sandbox, so that a blocked file that does not exist
        // yet cannot be created or seen either.
        self.push(source.to_owned(), Content::Dir)?;
        let entries = fs::read_dir(source).map_err(because(source.display()))?;
        for entry in entries {
            let entry = entry.map_err(because(source.display()))?;
            let path = entry.path();
            if blocked.iter().any(|blocked| path.starts_with(blocked)) {
                continue;
            }
            let kind = entry.file_type().map_err(because(path.display()))?;
            if kind.is_symlink() {
                let to = fs::read_link(&path).map_err(because(path.display()))?;
                self.push(path, Content::Link(to))?;
            } else if kind.is_dir() || kind.is_file() {
                self.bind(&path, access, execute, blocked)?;
            }
        }
        Ok(())
    }

    /// Lets a path that is a link, or behind one, lead to what is mounted.
    fn link(&mut self, path: &Path, source: &Path) -> Result<(), String> {
        if path == source || self.is_visible(path) {
            return Ok(());
        }
        self.push(path.to_owned(), Content::Link(source.to_owned()))
    }

    fn push(&mut self, target: PathBuf, content: Content) -> Result<(), String> {
        if self.mounts.len() >= MAX_MOUNTS {
            return Err(format!(
                "more than {MAX_MOUNTS} directories and files would have to be mounted; grant \
                 fewer, or grant their directory by its path"
            ));
        }
        self.mounts.push(Mount { target, content });
        Ok(())
    }

    /// Whether a path is in a mounted directory.
    fn is_visible(&self, path: &Path) -> bool {
        let covers = |mount: &Mount| match mount.content {
            Content::Bind { .. } => path.starts_with(&mount.target),
            Content::Dir | Content::Link(_) | Content::Socket => path == mount.target,
        };
        self.mounts.iter().any(covers)
    }

    /// Covers the sockets in granted directories: whoever listens there trusts the user. One that
    /// is granted by its own path stays.
    fn hide_sockets(&mut self, sockets: Vec<PathBuf>) -> Result<(), String> {
        for socket in sockets {
            let is_covered = |mount: &Mount| {
                matches!(mount.content, Content::Bind { is_dir: true, .. })
                    && socket.starts_with(&mount.target)
            };
            let is_granted = |mount: &Mount| mount.target == socket;
            if self.mounts.iter().any(is_covered) && !self.mounts.iter().any(is_granted) {
                self.push(socket, Content::Socket)?;
            }
        }
        Ok(())
    }

    fn cache(&mut self, dir: &Path, execute: bool) -> Result<(), String> {
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(because(format_args!("\"cache\": {}", dir.display())))?;
        let source = dir.canonicalize().map_err(because(dir.display()))?;
        let content = Content::Bind {
            source,
            is_dir: true,
            access: Access::Write,
            execute,
        };
        self.push(CACHE.into(), content)
    }

    /// Finds the program; if it is in no granted directory, it becomes visible by itself.
    fn program(&mut self, launch: &Launch) -> Result<PathBuf, String> {
        let command = &launch.command;
        let path = if command.contains('/') {
            let dir = launch.cwd.as_deref().unwrap_or(Path::new("/"));
            dir.join(command)
        } else {
            let search = launch
                .env
                .get("PATH")
                .map_or("/usr/bin:/bin", String::as_str);
            std::env::split_paths(search)
                .filter(|dir| dir.is_absolute())
                .map(|dir| dir.join(command))
                .find(|path| path.is_file())
                .ok_or_else(|| format!("command not found: {command}"))?
        };
        let source = path
            .canonicalize()
            .map_err(because(format_args!("{command} cannot be started")))?;
        if !source.is_file() {
            return Err(format!("{command} cannot be started: it is not a file"));
        }
        self.refuse_hidden(&source, command)?;
        if !self.is_visible(&source) {
            let content = Content::Bind {
                source: source.clone(),
                is_dir: false,
                access: Access::Read,
                execute: true,
            };
            self.push(source.clone(), content)?;
        }
        self.link(&path, &source)?;
        Ok(path)
    }

    fn cwd(&self, launch: &Launch) -> Result<PathBuf, String> {
        let Some(cwd) = &launch.cwd else {
            return Ok(TMP.into());
        };
        let source = cwd.canonicalize().map_err(because(format_args!(
            "its working directory {}",
            cwd.display()
        )))?;
        let is_visible = |path: &Path| {
            let is_in = |mount: &Mount| match &mount.content {
                Content::Bind { is_dir, .. } => *is_dir && path.starts_with(&mount.target),
                Content::Dir => path == mount.target,
                Content::Link(_) | Content::Socket => false,
            };
            self.mounts.iter().any(is_in)
        };
        if is_visible(&source) {
            Ok(source)
        } else if launch.cwd_optional {
            Ok(TMP.into())
        } else {
            Err(format!(
                "its working directory {} is not in the sandbox; add it to \"read\"",
                cwd.display()
            ))
        }
    }
}

/// A path as written, and as it is once links are followed as far as it exists.
fn spellings(path: &Path) -> Vec<PathBuf> {
    let mut spellings = vec![path.to_owned()];
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (above.canonicalize(), path.strip_prefix(above)) {
            let real: PathBuf = real.join(rest).components().collect();
            if real != path {
                spellings.push(real);
            }
            break;
        }
    }
    spellings
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::symlink;

    use serde_json::{Value, json};

    use super::*;
    use crate::profile::Profile;
    use crate::resolve::Places;

    struct Home(PathBuf);

    impl Home {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("plan-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&dir);
            let home = Self(dir);
            for dir in [".ssh", ".claude", "work/in", "docs", ".config/app"] {
                fs::create_dir_all(home.0.join(dir)).unwrap();
            }
            fs::write(home.0.join("note"), "").unwrap();
            home
        }

        fn plan(&self, profile: &Value) -> Result<Vec<PathBuf>, String> {
            let places = Places::new(&self.0)
                .project(self.0.join("work"))
                .hide(self.0.join(".claude"))
                .hide(self.0.join(".config/trunkline"));
            let base = self.0.join("work");
            let profile = Profile::parse_in(profile, &Profile::default(), Some(&base)).unwrap();
            let rules = profile.resolve(&places).unwrap();
            let launch = Launch::new(rules, "/bin/sh", Vec::new(), BTreeMap::new(), |_| None);
            let mounts = Plan::of(&launch)?.mounts.into_iter();
            let below = mounts.filter_map(|mount| match mount.content {
                Content::Bind { .. } => mount.target.strip_prefix(&self.0).map(Path::to_owned).ok(),
                _ => None,
            });
            Ok(below.collect())
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_home_is_mounted_around_what_it_hides() {
        let home = Home::new("around");
        let mut mounted = home.plan(&json!({"read": ["home"]})).unwrap();
        mounted.sort();
        let expected = [".config/app", "docs", "note", "work"];
        assert_eq!(mounted, expected.map(PathBuf::from));
    }

    #[test]
    fn links_lead_neither_out_nor_to_our_files() {
        let home = Home::new("links");
        symlink("../.ssh", home.0.join("work/link")).unwrap();
        symlink("../.claude", home.0.join("work/ours")).unwrap();
        symlink("/", home.0.join("work/root")).unwrap();
        for (path, told) in [
            (json!("./link"), "leads out of"),
            (json!("./ours"), "leads out of"),
            (json!("~/work/ours"), "belongs to trunkline"),
            (json!("~/.claude"), "belongs to trunkline"),
            (json!("~/work/root"), "cannot be granted"),
            (json!("~/work/none"), "create it"),
        ] {
            let error = home.plan(&json!({"read": [path]})).unwrap_err();
            assert!(error.contains(told), "{path}: {error}");
        }
        // The user may name where a link leads.
        let mounted = home.plan(&json!({"read": ["~/work/link"]})).unwrap();
        assert_eq!(mounted, [PathBuf::from(".ssh")]);
        assert_eq!(
            home.plan(&json!({"read": ["./in"]})).unwrap(),
            [PathBuf::from("work/in")]
        );
    }
}
