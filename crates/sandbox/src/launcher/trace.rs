//! Observes a sandboxed server: `trunkline sandbox learn`.
//!
//! The supervisor traces every process below `enter` and notes the files and addresses that system
//! calls name, with their results. The sandbox stays as it is: tracing changes no result.

use std::collections::HashMap;
use std::fs::{self, File};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::proxy::Asked;
use super::supervisor::Ending;
use super::{because, report};
use crate::learn::{FileUse, Observations};

/// Files that are noted.
const MAX_FILES: usize = 50_000;

/// The longest path, and the longest address.
const MAX_PATH: usize = 4096;
const MAX_ADDRESS: usize = 110;

/// A tracer of all processes below `enter`. It must stay on its thread.
pub(super) struct Tracer {
    /// `enter`, and `init`, which is its child: their own calls are not the server's.
    ours: Vec<Pid>,
    calls: HashMap<Pid, Pending>,
    seen: Observations,
}

/// A system call that has begun.
enum Pending {
    /// Of no interest.
    Other(u64),
    File(u64, FileUse, Vec<PathBuf>),
    Address(u64, String),
}

impl Pending {
    fn number(&self) -> u64 {
        match self {
            Self::Other(number) | Self::File(number, ..) | Self::Address(number, _) => *number,
        }
    }
}

impl Tracer {
    /// Attaches to `enter`, before it starts `init`.
    pub(super) fn attach(enter: u32) -> Result<Self, String> {
        let enter = i32::try_from(enter).map_err(because("the process id"))?;
        let enter = Pid::from_raw(enter);
        let options = Options::PTRACE_O_TRACESYSGOOD
            | Options::PTRACE_O_TRACEFORK
            | Options::PTRACE_O_TRACEVFORK
            | Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_TRACEEXEC
            | Options::PTRACE_O_EXITKILL;
        ptrace::seize(enter, options).map_err(|error| {
            format!("the server cannot be observed: {error}; allow it with `sysctl kernel.yama.ptrace_scope=1`")
        })?;
        Ok(Self {
            ours: vec![enter],
            calls: HashMap::new(),
            seen: Observations::default(),
        })
    }

    /// Follows all processes to their ends.
    fn run(&mut self) {
        loop {
            match waitpid(None, Some(WaitPidFlag::__WALL)) {
                Ok(status) => self.handle(status),
                Err(nix::errno::Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }

    fn handle(&mut self, status: WaitStatus) {
        let (pid, signal) = match status {
            WaitStatus::PtraceSyscall(pid) => {
                self.syscall(pid);
                (pid, None)
            }
            WaitStatus::PtraceEvent(pid, _, event) => {
                let is_fork = event == ptrace::Event::PTRACE_EVENT_FORK as i32
                    || event == ptrace::Event::PTRACE_EVENT_VFORK as i32
                    || event == ptrace::Event::PTRACE_EVENT_CLONE as i32;
                // The only child of `enter` is `init`.
                if is_fork
                    && self.ours.first() == Some(&pid)
                    && let Ok(child) = ptrace::getevent(pid)
                    && let Ok(child) = i32::try_from(child)
                {
                    self.ours.push(Pid::from_raw(child));
                }
                (pid, None)
            }
            WaitStatus::Stopped(pid, signal) => (pid, Some(signal)),
            WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..) => {
                self.calls.remove(&pid);
                return;
            }
            _ => return,
        };
        let signal = signal.filter(|signal| *signal != Signal::SIGTRAP);
        let _ = if self.ours.contains(&pid) {
            ptrace::cont(pid, signal)
        } else {
            ptrace::syscall(pid, signal)
        };
    }

    /// A call begins or ends.
    fn syscall(&mut self, pid: Pid) {
        let Ok(registers) = ptrace::getregs(pid) else {
            return;
        };
        let (number, result) = (registers.orig_rax, registers.rax.cast_signed());
        let pending = self
            .calls
            .remove(&pid)
            .filter(|call| call.number() == number);
        match pending {
            Some(call) => self.ended(call, result),
            // A call begins with this result. Otherwise a process that has just been created
            // returns from its creation.
            None if result == -i64::from(libc::ENOSYS) => {
                let arguments = [
                    registers.rdi,
                    registers.rsi,
                    registers.rdx,
                    registers.r10,
                    registers.r8,
                ];
                self.calls.insert(pid, begun(pid, number, arguments));
            }
            None => {}
        }
    }

    fn ended(&mut self, call: Pending, result: i64) {
        if self.seen.files.len() >= MAX_FILES {
            self.seen.is_incomplete = true;
            return;
        }
        match call {
            Pending::File(_, kind, paths) => {
                let refused = result < 0;
                for path in paths {
                    self.seen.files.insert((kind, path, refused));
                }
            }
            Pending::Address(_, address) => _ = self.seen.addresses.insert(address),
            Pending::Other(_) => {}
        }
    }
}

/// Traces the server on this thread, while another one runs `events`. Writes what was seen.
pub(super) fn follow(
    tracer: Option<Tracer>,
    file: &Path,
    events: impl FnOnce(Asked) -> Result<Ending, ()> + Send + 'static,
) -> Result<Ending, ()> {
    let mut tracer = tracer.ok_or(())?;
    let asked = Asked::default();
    let theirs = Arc::clone(&asked);
    let events = std::thread::Builder::new()
        .spawn(move || events(theirs))
        .map_err(|_| ())?;
    tracer.run();
    let ending = events.join().map_err(|_| ())?;
    tracer
        .seen
        .hosts
        .clone_from(&asked.lock().unwrap_or_else(PoisonError::into_inner));
    let text = serde_json::to_vec(&tracer.seen).map_err(|_| ())?;
    if let Err(error) = fs::write(file, text) {
        report(&format!("what was observed cannot be written: {error}"));
    }
    ending
}

/// What a call is about.
fn begun(pid: Pid, number: u64, arguments: [u64; 5]) -> Pending {
    let [one, two, three, four, _] = arguments;
    let Ok(call) = i64::try_from(number) else {
        return Pending::Other(number);
    };
    let cwd = libc::AT_FDCWD.cast_unsigned().into();
    let file = |kind, places: &[(u64, u64)]| {
        let paths = places
            .iter()
            .filter_map(|(dir, path)| path_at(pid, *dir, *path));
        Pending::File(number, kind, paths.collect())
    };
    match call {
        libc::SYS_open => file(opened(two), &[(cwd, one)]),
        libc::SYS_openat => file(opened(three), &[(one, two)]),
        libc::SYS_openat2 => {
            let flags = read_memory(pid, three, 8).and_then(|bytes| bytes.try_into().ok());
            file(opened(flags.map_or(0, u64::from_ne_bytes)), &[(one, two)])
        }
        libc::SYS_stat | libc::SYS_lstat | libc::SYS_access | libc::SYS_readlink => {
            file(FileUse::Look, &[(cwd, one)])
        }
        libc::SYS_newfstatat
        | libc::SYS_statx
        | libc::SYS_faccessat
        | libc::SYS_faccessat2
        | libc::SYS_readlinkat => file(FileUse::Look, &[(one, two)]),
        libc::SYS_execve => file(FileUse::Execute, &[(cwd, one)]),
        libc::SYS_execveat => file(FileUse::Execute, &[(one, two)]),
        libc::SYS_creat
        | libc::SYS_mkdir
        | libc::SYS_rmdir
        | libc::SYS_unlink
        | libc::SYS_truncate
        | libc::SYS_chmod
        | libc::SYS_chown
        | libc::SYS_utime
        | libc::SYS_utimes => file(FileUse::Write, &[(cwd, one)]),
        libc::SYS_mkdirat
        | libc::SYS_unlinkat
        | libc::SYS_fchmodat
        | libc::SYS_fchownat
        | libc::SYS_utimensat => file(FileUse::Write, &[(one, two)]),
        libc::SYS_rename | libc::SYS_link => file(FileUse::Write, &[(cwd, one), (cwd, two)]),
        libc::SYS_symlink => file(FileUse::Write, &[(cwd, two)]),
        libc::SYS_symlinkat => file(FileUse::Write, &[(two, three)]),
        libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => {
            file(FileUse::Write, &[(one, two), (three, four)])
        }
        libc::SYS_connect => match address(pid, two, three) {
            Some(Target::File(path)) => Pending::File(number, FileUse::Connect, vec![path]),
            Some(Target::Network(address)) => Pending::Address(number, address),
            None => Pending::Other(number),
        },
        _ => Pending::Other(number),
    }
}

fn opened(flags: u64) -> FileUse {
    let writing = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
    if flags & u64::from(writing.unsigned_abs()) == 0 {
        FileUse::Read
    } else {
        FileUse::Write
    }
}

/// The path at an address of a process, which starts from a directory descriptor.
fn path_at(pid: Pid, dir: u64, address: u64) -> Option<PathBuf> {
    let text = read_text(pid, address)?;
    if text.is_empty() {
        return None;
    }
    let path = PathBuf::from(std::ffi::OsString::from_vec(text));
    if path.is_absolute() {
        return Some(path);
    }
    // Only the lower half is the number.
    let dir = (dir & 0xffff_ffff) as u32;
    let base = if dir == libc::AT_FDCWD.cast_unsigned() {
        fs::read_link(format!("/proc/{pid}/cwd"))
    } else {
        fs::read_link(format!("/proc/{pid}/fd/{dir}"))
    };
    Some(base.ok()?.join(path))
}

enum Target {
    File(PathBuf),
    Network(String),
}

/// Where a socket address leads. The proxy's own is inside, as is everything else on loopback.
fn address(pid: Pid, at: u64, length: u64) -> Option<Target> {
    let length = usize::try_from(length).ok()?.min(MAX_ADDRESS);
    let bytes = read_memory(pid, at, length)?;
    let family = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    let port = || Some(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?));
    match i32::from(family) {
        libc::AF_UNIX => {
            let name = bytes.get(2..)?.split(|byte| *byte == 0).next()?;
            let path = PathBuf::from(std::ffi::OsString::from_vec(name.to_vec()));
            path.is_absolute().then_some(Target::File(path))
        }
        libc::AF_INET => {
            let octets: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            let ip = Ipv4Addr::from(octets);
            (!ip.is_loopback()).then_some(Target::Network(format!("{ip}:{}", port()?)))
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            let ip = Ipv6Addr::from(octets);
            (!ip.is_loopback()).then_some(Target::Network(format!("[{ip}]:{}", port()?)))
        }
        _ => None,
    }
}

fn read_text(pid: Pid, address: u64) -> Option<Vec<u8>> {
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut text = Vec::new();
    while text.len() < MAX_PATH {
        let at = address.checked_add(text.len() as u64)?;
        // Not beyond the page, which may be the last one.
        let mut chunk = [0; 256];
        let length = chunk.len().min(4096 - (at % 4096) as usize);
        let count = memory
            .read_at(&mut chunk[..length], at)
            .ok()
            .filter(|count| *count > 0)?;
        match chunk[..count].iter().position(|byte| *byte == 0) {
            Some(end) => {
                text.extend_from_slice(&chunk[..end]);
                return Some(text);
            }
            None => text.extend_from_slice(&chunk[..count]),
        }
    }
    None
}

fn read_memory(pid: Pid, address: u64, length: usize) -> Option<Vec<u8>> {
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut bytes = vec![0; length];
    memory.read_exact_at(&mut bytes, address).ok()?;
    Some(bytes)
}
