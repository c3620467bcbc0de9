//! Builds the file system of the sandbox: an empty one, in which only granted paths exist.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive,
    mount_change, mount_remount, unmount,
};
use rustix::process::{chdir, pivot_root};

use super::because;
use super::plan::{Content, Mount, TMP};
use crate::rules::{Access, Rules};

/// The old root and the new one while the latter is built.
const OLD: &str = "/old";
const NEW: &str = "/new";

/// Sizes of what is kept in memory.
const ROOT_OPTIONS: &str = "mode=0755,size=16m,nr_inodes=64k";
const TMP_OPTIONS: &str = "mode=1777,size=512m,nr_inodes=256k";
const SHM_OPTIONS: &str = "mode=1777,size=64m,nr_inodes=4k";

/// The devices that exist. Not the terminal: a server must not ask in our place.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// What may be done with the directories that a sandbox has of its own.
#[derive(Clone, Copy)]
pub(super) struct Own {
    /// Whether `/tmp` can be written.
    pub(super) is_tmp_writable: bool,
    /// Whether programs can be started from memory: from `/tmp` and `/dev/shm`.
    pub(super) execute: bool,
}

impl Own {
    pub(super) fn of(rules: &Rules) -> Self {
        Self {
            is_tmp_writable: rules.tmp,
            execute: rules.own_execute.tmp,
        }
    }
}

/// Replaces the root of this process, which is in its own mount namespace.
pub(super) fn build(mounts: &[Mount], own: Own) -> Result<(), String> {
    mount_change(
        "/",
        MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC,
    )
    .map_err(because("the mounts cannot be made private"))?;
    // What the directory holds comes back into sight below the old root.
    mount_tmpfs(Path::new("/tmp"), ROOT_OPTIONS)?;
    fs::create_dir("/tmp/old").map_err(because(OLD))?;
    fs::create_dir("/tmp/new").map_err(because(NEW))?;
    chdir("/tmp").map_err(because("/tmp"))?;
    pivot_root(".", "old").map_err(because("the root cannot be replaced"))?;
    chdir("/").map_err(because("/"))?;
    mount_tmpfs(Path::new(NEW), ROOT_OPTIONS)?;

    own_directories()?;
    for mount in mounts {
        add(mount)?;
    }
    restrict(mounts, own)?;

    chdir(NEW).map_err(because(NEW))?;
    let failed = "the old root cannot be left";
    pivot_root(".", ".").map_err(because(failed))?;
    // The old root lies on top of the new one.
    unmount(".", UnmountFlags::DETACH).map_err(because(failed))?;
    chdir("/").map_err(because("/"))
}

fn mount_tmpfs(target: &Path, options: &str) -> Result<(), String> {
    let options = std::ffi::CString::new(options).map_err(because("options"))?;
    mount(
        "tmpfs",
        target,
        "tmpfs",
        MountFlags::NOSUID | MountFlags::NODEV,
        options.as_c_str(),
    )
    .map_err(|error| {
        format!(
            "a private file system: {error}; {}",
            super::namespaces::hint()
        )
    })
}

/// `/proc`, `/dev` and `/tmp` of the sandbox itself.
fn own_directories() -> Result<(), String> {
    for dir in ["proc", "dev", "dev/shm", "tmp"] {
        let path = Path::new(NEW).join(dir);
        fs::create_dir(&path).map_err(because(dir))?;
    }
    let proc = Path::new(NEW).join("proc");
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", &proc, "proc", flags, None).map_err(|error| {
        let hint = super::namespaces::hint();
        format!("the processes of the sandbox cannot be shown in /proc: {error}; {hint}")
    })?;
    for device in DEVICES {
        let source = Path::new(OLD).join("dev").join(device);
        let target = Path::new(NEW).join("dev").join(device);
        if !source.exists() {
            continue;
        }
        fs::write(&target, "").map_err(because(device))?;
        mount_bind(&source, &target).map_err(because(device))?;
    }
    for (name, to) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        symlink(to, Path::new(NEW).join("dev").join(name)).map_err(because(name))?;
    }
    mount_tmpfs(&Path::new(NEW).join("dev/shm"), SHM_OPTIONS)?;
    mount_tmpfs(&Path::new(NEW).join("tmp"), TMP_OPTIONS)
}

/// A path below another root.
fn below(root: &str, path: &Path) -> PathBuf {
    Path::new(root).join(path.strip_prefix("/").unwrap_or(path))
}

/// Opens a path below a root, no part of which may be a link.
fn open_below(root: &str, path: &Path) -> std::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = open(root, flags | OFlags::DIRECTORY, Mode::empty())?;
    let path = path.strip_prefix("/").unwrap_or(path);
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    Ok(openat2(root, path, flags, Mode::empty(), resolve)?)
}

/// A path that leads to what is open.
fn through_fd(fd: &OwnedFd) -> PathBuf {
    Path::new(OLD).join(format!("proc/self/fd/{}", fd.as_raw_fd()))
}

fn add(entry: &Mount) -> Result<(), String> {
    let target = below(NEW, &entry.target);
    let failed = || because::<std::io::Error>(entry.target.display().to_string());
    if let Some(above) = target.parent() {
        fs::create_dir_all(above).map_err(failed())?;
    }
    match &entry.content {
        Content::Dir => fs::create_dir_all(&target).map_err(failed()),
        // An earlier mount may show one already.
        Content::Link(_) if target.symlink_metadata().is_ok() => Ok(()),
        Content::Link(to) => symlink(to, &target).map_err(failed()),
        // Without devices, nothing can be done with one.
        Content::Socket => {
            let onto = match open_below(NEW, &entry.target) {
                Ok(onto) => onto,
                // It has gone meanwhile.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(failed()(error)),
            };
            let null = Path::new(OLD).join("dev/null");
            mount_bind(&null, through_fd(&onto)).map_err(|error| failed()(error.into()))
        }
        Content::Bind { source, is_dir, .. } => {
            if target.symlink_metadata().is_err() {
                if *is_dir {
                    fs::create_dir(&target).map_err(failed())?;
                } else {
                    fs::write(&target, "").map_err(failed())?;
                }
            }
            // Mounts below a directory cannot be left out of it.
            // Both ends are opened without following links: a server that writes to the project may
            // exchange a directory for a link meanwhile.
            let from = open_below(OLD, source).map_err(failed())?;
            let onto = open_below(NEW, &entry.target).map_err(failed())?;
            mount_bind_recursive(through_fd(&from), through_fd(&onto))
                .map_err(|error| failed()(error.into()))
        }
    }
}

/// Makes every mount as weak as its grant: read-only, without devices and set-uid programs.
fn restrict(mounts: &[Mount], own: Own) -> Result<(), String> {
    let text = fs::read_to_string(Path::new(OLD).join("proc/self/mountinfo"))
        .map_err(because("the mounts are unknown"))?;
    for line in text.lines() {
        let Some((point, current)) = mount_of(line) else {
            continue;
        };
        let Ok(inner) = point.strip_prefix(NEW) else {
            continue;
        };
        let inner = Path::new("/").join(inner);
        let weaker = restriction(&inner, mounts, own);
        mount_remount(&point, MountFlags::BIND | current | weaker, "").map_err(because(
            format_args!("{} cannot be restricted", inner.display()),
        ))?;
    }
    Ok(())
}

/// The flags of the mount at a path of the sandbox.
fn restriction(path: &Path, mounts: &[Mount], own: Own) -> MountFlags {
    let always = MountFlags::NOSUID | MountFlags::NODEV;
    let memory = if own.execute {
        always
    } else {
        always | MountFlags::NOEXEC
    };
    if path.starts_with("/dev") {
        let is_memory = path == Path::new("/dev/shm");
        // Devices stay devices.
        let device = MountFlags::NOSUID | MountFlags::NOEXEC;
        return if is_memory { memory } else { device };
    }
    // The last one that covers it lies on top.
    let granted = mounts.iter().rev().find_map(|mount| match &mount.content {
        Content::Bind {
            access, execute, ..
        } if path.starts_with(&mount.target) => Some((*access, *execute)),
        _ => None,
    });
    match granted {
        Some((access, execute)) => {
            let mut flags = always;
            if access == Access::Read {
                flags |= MountFlags::RDONLY;
            }
            if !execute {
                flags |= MountFlags::NOEXEC;
            }
            flags
        }
        None if path == Path::new(TMP) && own.is_tmp_writable => memory,
        // The root, /proc, and whatever else there may be.
        None => always | MountFlags::RDONLY,
    }
}

/// The mount point of a line of `mountinfo`, and the flags that it has to keep.
fn mount_of(line: &str) -> Option<(PathBuf, MountFlags)> {
    let mut fields = line.split(' ').skip(4);
    let (point, options) = (fields.next()?, fields.next()?);
    let mut flags = MountFlags::empty();
    for option in options.split(',') {
        flags |= match option {
            "ro" => MountFlags::RDONLY,
            "nosuid" => MountFlags::NOSUID,
            "nodev" => MountFlags::NODEV,
            "noexec" => MountFlags::NOEXEC,
            "noatime" => MountFlags::NOATIME,
            "nodiratime" => MountFlags::NODIRATIME,
            "relatime" => MountFlags::RELATIME,
            _ => MountFlags::empty(),
        };
    }
    Some((unescape(point), flags))
}

/// Decodes `\040` and the like.
fn unescape(text: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        let octal = more
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(octal.unwrap_or(*first));
        rest = if octal.is_some() { &more[3..] } else { more };
    }
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_names_its_mount_and_flags() {
        let line = "36 35 98:0 /mnt1 /new/a\\040b rw,nosuid,relatime master:1 - ext4 /dev/root rw";
        let (point, flags) = mount_of(line).unwrap();
        assert_eq!(point, Path::new("/new/a b"));
        assert_eq!(flags, MountFlags::NOSUID | MountFlags::RELATIME);
        assert!(mount_of("nonsense").is_none());
    }

    /// A directory that is exchanged for a link after the plan was made leads nowhere, although an
    /// ordinary open would follow it.
    #[test]
    fn no_link_is_followed_between_the_plan_and_the_mount() {
        use std::io::Read as _;

        let root = std::env::temp_dir().join(format!("exchange-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for dir in ["secret", "work/in"] {
            fs::create_dir_all(root.join(dir)).unwrap();
            fs::write(root.join(dir).join("file"), dir).unwrap();
        }
        let (root_text, planned) = (root.to_str().unwrap(), Path::new("/work/in/file"));
        assert!(open_below(root_text, planned).is_ok());
        fs::rename(root.join("work/in"), root.join("work/before")).unwrap();
        for to in ["../secret", root.join("secret").to_str().unwrap()] {
            let _ = fs::remove_file(root.join("work/in"));
            symlink(to, root.join("work/in")).unwrap();
            let mut stolen = String::new();
            let mut followed = fs::File::open(below(root_text, planned)).unwrap();
            followed.read_to_string(&mut stolen).unwrap();
            assert_eq!(stolen, "secret");
            assert!(open_below(root_text, planned).is_err(), "{to}");
            assert!(
                open_below(root_text, Path::new("/work/in")).is_err(),
                "{to}"
            );
        }
        let _ = fs::remove_dir_all(&root);
    }

    #[test]
    fn a_mount_is_as_weak_as_the_last_grant_that_covers_it() {
        let bind = |target: &str, access, execute| Mount {
            target: target.into(),
            content: Content::Bind {
                source: target.into(),
                is_dir: true,
                access,
                execute,
            },
        };
        let mounts = [
            bind("/p", Access::Read, true),
            bind("/p/out", Access::Write, false),
        ];
        let read_only = MountFlags::RDONLY;
        let own = Own {
            is_tmp_writable: true,
            execute: true,
        };
        for (path, flags) in [
            ("/p", read_only),
            ("/p/mount", read_only),
            ("/p/out", MountFlags::NOEXEC),
            ("/p/out/mount", MountFlags::NOEXEC),
            ("/", read_only),
            ("/proc", read_only),
            ("/tmp", MountFlags::empty()),
        ] {
            let expected = flags | MountFlags::NOSUID | MountFlags::NODEV;
            let found = restriction(path.as_ref(), &mounts, own);
            assert_eq!(found, expected, "{path}");
        }
        let own = Own {
            is_tmp_writable: false,
            execute: false,
        };
        let restriction = |path: &str| restriction(path.as_ref(), &mounts, own);
        assert!(restriction(TMP).contains(read_only));
        assert!(restriction("/dev/shm").contains(MountFlags::NOEXEC));
    }
}
