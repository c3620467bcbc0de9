//! What a server was seen to do, and the smallest profile that covers it. Pure functions, except
//! that paths are looked up by what the caller passes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::resolve::{NOT_HOME, SYSTEM_PATHS};

/// What a server was seen to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Observations {
    /// What it did to files: each once, with whether it was refused.
    pub files: BTreeSet<(FileUse, PathBuf, bool)>,
    /// The hosts and ports that it asked the proxy for.
    pub hosts: BTreeSet<String>,
    /// The addresses that it connected to without the proxy.
    pub addresses: BTreeSet<String>,
    /// Whether there was more than can be kept.
    pub is_incomplete: bool,
}

/// What was done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum FileUse {
    /// It was looked for.
    Look,
    /// It was read.
    Read,
    /// It was started.
    Execute,
    /// It was written, created, renamed or removed.
    Write,
    /// It is a socket that was connected to.
    Connect,
}

/// Where the words of a profile lead, and what exists on this machine.
pub struct Surroundings<'a> {
    /// The home directory.
    pub home: &'a Path,
    /// The project's directory.
    pub project: Option<&'a Path>,
    /// Paths that no server sees.
    pub hidden: &'a [PathBuf],
    /// Whether a path exists, outside of the sandbox.
    pub exists: &'a dyn Fn(&Path) -> bool,
}

/// What a server needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Needs {
    /// What it reads, as written in a profile.
    pub read: BTreeSet<String>,
    /// What it writes.
    pub write: BTreeSet<String>,
    /// The hosts it asks for.
    pub network: BTreeSet<String>,
    /// What it asked for and no profile should grant by a word: credentials, start-up files, our
    /// own files, sockets, and addresses that it reaches without the proxy.
    pub withheld: BTreeSet<String>,
}

/// Directories that are too much for one server: only what is in them is proposed.
const ANCHORS: [&str; 16] = [
    "/",
    "/etc",
    "/home",
    "/media",
    "/mnt",
    "/opt",
    "/run",
    "/srv",
    "/tmp",
    "/usr",
    "/usr/local",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/log",
    "/work",
];

/// The same, below the home directory.
const HOME_ANCHORS: [&str; 6] = [
    "",
    ".cache",
    ".config",
    ".local",
    ".local/share",
    ".local/state",
];

/// More files or directories than these in one directory stand for the directory.
const MAX_SIBLINGS: usize = 3;

impl Needs {
    /// Finds what a server needs, by what it did and was refused.
    pub fn of(seen: &Observations, around: &Surroundings) -> Self {
        let mut needs = Self {
            network: seen.hosts.clone(),
            ..Self::default()
        };
        let to = seen.addresses.iter();
        needs
            .withheld
            .extend(to.map(|address| format!("{address}, without the proxy")));
        let (mut read, mut write) = (BTreeSet::new(), BTreeSet::new());
        for (kind, path, refused) in &seen.files {
            let path = &normal(path);
            if !path.is_absolute() || around.is_own(path) {
                if *kind == FileUse::Write && path.starts_with("/tmp") && !refused {
                    needs.write.insert("tmp".to_owned());
                }
                continue;
            }
            // A file that does not exist was only looked for.
            let is_there = (around.exists)(path);
            match kind {
                FileUse::Connect if is_there => {
                    needs.withheld.insert(path.display().to_string());
                }
                FileUse::Write if *refused || is_there => {
                    if around.is_withheld(path) {
                        needs.withheld.insert(path.display().to_string());
                    } else {
                        write.insert(around.written_unit(path));
                    }
                }
                FileUse::Read | FileUse::Execute | FileUse::Look
                    if is_there && !is_system(path) =>
                {
                    if *kind == FileUse::Look && !refused {
                        continue;
                    }
                    if around.is_withheld(path) {
                        needs.withheld.insert(path.display().to_string());
                    } else {
                        read.extend(around.unit(path));
                    }
                }
                _ => {}
            }
        }
        around.collapse(&mut write);
        around.collapse(&mut read);
        read.retain(|path| !write.iter().any(|outer| path.starts_with(outer)));
        needs
            .write
            .extend(write.iter().map(|path| around.word(path)));
        needs.read.extend(read.iter().map(|path| around.word(path)));
        needs
    }

    /// The profile that covers them.
    pub fn profile(&self) -> Value {
        let mut profile = json!({"read": self.read, "write": self.write});
        if !self.network.is_empty() {
            profile["network"] = json!(self.network);
        }
        profile
    }

    /// Whether it asked for nothing that these do not have.
    pub fn covers(&self, other: &Self) -> bool {
        other.read.is_subset(&self.read)
            && other.write.is_subset(&self.write)
            && other.network.is_subset(&self.network)
    }
}

impl Surroundings<'_> {
    /// Whether a path is of the sandbox itself.
    fn is_own(&self, path: &Path) -> bool {
        let tmp = Path::new("/tmp");
        if !path.starts_with(tmp) {
            let own = ["/proc", "/dev", "/sys"];
            return own.iter().any(|own| path.starts_with(own));
        }
        // Its own `/tmp`, unless the path leads to a directory of the machine's.
        let dir = path.parent().filter(|dir| *dir != tmp);
        let is_shared = |dir: &Path| path.starts_with(dir);
        !(is_shared(self.home)
            || self.project.is_some_and(is_shared)
            || dir.is_some_and(|dir| (self.exists)(dir))
            || (self.exists)(path))
    }

    /// Whether the path is one that `home` leaves out, or ours.
    fn is_withheld(&self, path: &Path) -> bool {
        let credentials = NOT_HOME.iter().map(|name| self.home.join(name));
        let mut withheld = credentials.chain(self.hidden.iter().cloned());
        withheld.any(|place| path.starts_with(place))
    }

    fn is_anchor(&self, path: &Path) -> bool {
        ANCHORS.iter().any(|anchor| path == Path::new(anchor))
            || HOME_ANCHORS
                .iter()
                .any(|below| path == self.home.join(below))
            || self.home.starts_with(path)
            || self
                .project
                .is_some_and(|project| project != path && project.starts_with(path))
    }

    /// What to grant so that a file can be read: the program that it belongs to, or its directory.
    fn unit(&self, path: &Path) -> Option<PathBuf> {
        if self.is_anchor(path) {
            // Looking at a directory above what is granted needs no grant.
            return None;
        }
        if let Some(project) = self.project
            && path.starts_with(project)
        {
            return Some(project.to_owned());
        }
        if let Some(root) = program_root(path).filter(|root| !self.is_anchor(root)) {
            return Some(root);
        }
        match path.parent() {
            Some(dir) if !self.is_anchor(dir) => Some(dir.to_owned()),
            _ => Some(path.to_owned()),
        }
    }

    /// What to grant so that a file can be written: the nearest directory that exists.
    fn written_unit(&self, path: &Path) -> PathBuf {
        let mut above = path.ancestors().skip(1);
        let dir = above.find(|dir| (self.exists)(dir)).unwrap_or(path);
        if self.is_anchor(dir) {
            return path.to_owned();
        }
        dir.to_owned()
    }

    /// Leaves out what is in another, and puts a directory in place of many in it.
    fn collapse(&self, paths: &mut BTreeSet<PathBuf>) {
        loop {
            let all = paths.clone();
            paths.retain(|path| !path.ancestors().skip(1).any(|above| all.contains(above)));
            let mut siblings: BTreeMap<PathBuf, usize> = BTreeMap::new();
            for dir in paths.iter().filter_map(|path| path.parent()) {
                *siblings.entry(dir.to_owned()).or_default() += 1;
            }
            let crowded = siblings
                .into_iter()
                .find(|(dir, count)| *count > MAX_SIBLINGS && !self.is_anchor(dir));
            match crowded {
                Some((dir, _)) => _ = paths.insert(dir),
                None => return,
            }
        }
    }

    /// A path as written in a profile.
    fn word(&self, path: &Path) -> String {
        if self.project == Some(path) {
            return "project".to_owned();
        }
        match path.strip_prefix(self.home) {
            Ok(rest) if !rest.as_os_str().is_empty() => format!("~/{}", rest.display()),
            _ => path.display().to_string(),
        }
    }
}

fn is_system(path: &Path) -> bool {
    SYSTEM_PATHS.iter().any(|system| path.starts_with(system))
}

/// The directory of the program that a file is part of.
fn program_root(path: &Path) -> Option<PathBuf> {
    let parts: Vec<Component> = path.components().collect();
    let named = |names: &[&str]| {
        let is = |part: &Component| names.iter().any(|name| part.as_os_str() == *name);
        parts.iter().position(is)
    };
    let up_to = |end: usize| parts[..end].iter().collect::<PathBuf>();
    if let Some(at) = named(&["node_modules"]) {
        return Some(up_to(at));
    }
    let at = named(&["bin", "lib", "lib64"])?;
    (at > 1).then(|| up_to(at))
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => _ = plain.pop(),
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(files: &[(FileUse, &str, bool)]) -> Needs {
        let hidden = ["/h/.claude".into()];
        let around = Surroundings {
            home: "/h".as_ref(),
            project: Some("/h/work".as_ref()),
            hidden: &hidden,
            exists: &|path| !path.to_string_lossy().contains("missing"),
        };
        let files = files.iter();
        let seen = Observations {
            files: files
                .map(|(kind, path, refused)| (*kind, path.into(), *refused))
                .collect(),
            hosts: ["a.com:443".to_owned()].into(),
            ..Observations::default()
        };
        Needs::of(&seen, &around)
    }

    fn words(list: &BTreeSet<String>) -> Vec<&str> {
        list.iter().map(String::as_str).collect()
    }

    #[test]
    fn the_smallest_profile_covers_what_was_needed() {
        use FileUse::{Execute, Look, Read, Write};
        let needs = needs(&[
            (Read, "/usr/lib/libc.so", false),
            (Read, "/proc/self/maps", false),
            (Read, "/h/work/src/main.py", false),
            (Execute, "/h/.nvm/versions/node/v24/bin/node", true),
            (Look, "/opt/tool/node_modules/a/index.js", true),
            (Look, "/opt/tool/missing/index.js", true),
            (Look, "/h/seen", false),
            (Read, "/etc/tool.conf", true),
            (Read, "/h/.config/tool/settings", true),
            (Write, "/h/.local/share/tool/missing.db", true),
            (Write, "/tmp/missing", false),
            (Read, "/h/.ssh/id", true),
            (Read, "/h/.claude/settings.json", true),
            (Read, "/h", true),
        ]);
        assert_eq!(
            words(&needs.read),
            [
                "/etc/tool.conf",
                "/opt/tool",
                "project",
                "~/.config/tool",
                "~/.nvm/versions/node/v24"
            ]
        );
        assert_eq!(words(&needs.write), ["tmp", "~/.local/share/tool"]);
        assert_eq!(
            words(&needs.withheld),
            ["/h/.claude/settings.json", "/h/.ssh/id"]
        );
        assert_eq!(needs.profile()["network"], json!(["a.com:443"]));
    }

    #[test]
    fn many_files_of_a_directory_stand_for_it() {
        use FileUse::Write;
        let needs = needs(&[
            (Write, "/h/data/a/x", true),
            (Write, "/h/data/b/x", true),
            (Write, "/h/data/c/x", true),
            (Write, "/h/data/d/x", true),
            (Write, "/h/data/d/e/x", true),
            (Write, "/h/a/x", true),
            (Write, "/h/b/x", true),
        ]);
        assert_eq!(words(&needs.write), ["~/a", "~/b", "~/data"]);
    }
}
