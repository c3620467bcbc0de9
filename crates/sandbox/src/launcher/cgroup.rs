//! A control group, for limits that hold for all processes together.

use std::fs;
use std::path::{Path, PathBuf};

use crate::profile::Limits;

/// The names of our groups begin with this; the process id of the supervisor follows.
const PREFIX: &str = "trunkline-sandbox-";

/// `init`, `enter` and the proxy's threads, which may be in the group.
const OWN_PROCESSES: u64 = 2;

/// A control group, removed when it is dropped.
pub(super) struct Cgroup {
    dir: PathBuf,
}

impl Cgroup {
    /// Creates a group where this user may. `None` if there is none and the limits hold without.
    pub(super) fn create(limits: &Limits) -> Result<Option<Self>, String> {
        let Some(processes) = limits.processes else {
            return Ok(None);
        };
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let found = parents(&groups, &mounts)
            .into_iter()
            .find_map(|parent| Self::in_parent(&parent, processes));
        if let Some(group) = &found {
            group.limit_memory(limits);
        }
        match found {
            Some(group) => Ok(Some(group)),
            None if rlimit_counts() => Ok(None),
            None => Err(
                "the number of processes cannot be limited: root is exempt from the limit for \
                 users, and no control group with \"pids\" can be created; run as another user, or \
                 set \"limits\": {\"processes\": null}"
                    .to_owned(),
            ),
        }
    }

    fn in_parent(parent: &Path, processes: u64) -> Option<Self> {
        remove_stale(parent);
        let dir = parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&dir).ok()?;
        let group = Self { dir };
        // Missing if the parent does not pass the controller on; then dropping it removes it.
        let limit = (processes + OWN_PROCESSES).to_string();
        let file = group.dir.join("pids.max");
        fs::File::options().write(true).open(&file).ok()?;
        fs::write(&file, limit).ok()?;
        Some(group)
    }

    /// Bounds the memory of all processes together, where the group can.
    fn limit_memory(&self, limits: &Limits) {
        let file = self.dir.join("memory.max");
        if let (Some(memory), true) = (limits.memory_mb, file.exists()) {
            let _ = fs::write(file, memory.saturating_mul(1024 * 1024).to_string());
        }
    }

    /// Moves a process into the group.
    pub(super) fn add(&self, pid: u32) -> Result<(), String> {
        fs::write(self.dir.join("cgroup.procs"), pid.to_string())
            .map_err(super::because("the control group cannot be entered"))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.dir);
    }
}

/// Removes the groups of supervisors that were killed.
fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Whether the limit for users counts only this sandbox: not for root, and not before Linux 5.14.
fn rlimit_counts() -> bool {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    !rustix::process::getuid().is_root() && version >= (5, 14)
}

/// Directories in which a group may be created.
fn parents(groups: &str, mounts: &str) -> Vec<PathBuf> {
    let mut parents = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let is_v1 = controllers
            .split(',')
            .any(|controller| controller == "pids");
        if !is_v1 && !controllers.is_empty() {
            continue;
        }
        let Some(mount) = mounts.lines().find_map(|line| mount_point(line, is_v1)) else {
            continue;
        };
        let own = mount.join(path.trim_start_matches('/'));
        // A group that has processes passes no controllers on, but its parent may.
        if !is_v1 && let Some(above) = own.parent().filter(|above| above.starts_with(&mount)) {
            parents.push(above.to_owned());
        }
        parents.push(own);
    }
    parents
}

/// The mount point of the hierarchy, if this line of `mountinfo` is about it.
fn mount_point(line: &str, is_v1: bool) -> Option<PathBuf> {
    let (before, after) = line.split_once(" - ")?;
    let mut after = after.split(' ');
    let (kind, _, options) = (after.next()?, after.next()?, after.next()?);
    let fits = if is_v1 {
        kind == "cgroup" && options.split(',').any(|option| option == "pids")
    } else {
        kind == "cgroup2"
    };
    fits.then(|| before.split(' ').nth(4).map(PathBuf::from))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_created_where_the_process_is() {
        let mounts = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
        let groups = "0::/user.slice/app.slice/x.scope\n";
        let expected = [
            "/sys/fs/cgroup/user.slice/app.slice",
            "/sys/fs/cgroup/user.slice/app.slice/x.scope",
        ];
        assert_eq!(parents(groups, mounts), expected.map(PathBuf::from));

        let mounts = "31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      32 24 0:28 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";
        let groups = "8:pids:/a\n4:memory:/b\n";
        assert_eq!(
            parents(groups, mounts),
            [PathBuf::from("/sys/fs/cgroup/pids/a")]
        );
        assert!(parents("", "").is_empty());
        assert!(parents(groups, "").is_empty());
    }
}
