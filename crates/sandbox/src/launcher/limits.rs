//! Limits on resources.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::because;
use crate::profile::Limits;

/// Processes of ours that count: those in the sandbox's user namespace, which are `init`, and the
/// supervisor or `enter`. The threads of the proxy are outside.
const OWN_PROCESSES: u64 = 2;

pub(super) fn no_core_dumps() -> Result<(), String> {
    set(Resource::Core, 0, "core dumps")
}

pub(super) fn apply(limits: &Limits) -> Result<(), String> {
    no_core_dumps()?;
    let mega = 1024 * 1024;
    if let Some(memory) = limits.memory_mb {
        set(Resource::Data, memory.saturating_mul(mega), "memory")?;
    }
    if let Some(processes) = limits.processes {
        // Where this has no effect, the cgroup has.
        set(Resource::Nproc, processes + OWN_PROCESSES, "processes")?;
    }
    if let Some(files) = limits.open_files {
        set(Resource::Nofile, files, "open files")?;
    }
    if let Some(seconds) = limits.cpu_seconds {
        set(Resource::Cpu, seconds, "CPU time")?;
    }
    // The memory that cannot be swapped, and queues of messages and signals, are the machine's.
    set(Resource::Memlock, 8 * mega, "locked memory")?;
    set(Resource::Msgqueue, 819_200, "message queues")?;
    set(Resource::Rtprio, 0, "priorities")
}

/// Lowers a limit; it stays as it is where it is lower.
fn set(resource: Resource, limit: u64, what: &str) -> Result<(), String> {
    let own = getrlimit(resource);
    let least = |own: Option<u64>| Some(own.map_or(limit, |own| own.min(limit)));
    let lower = Rlimit {
        current: least(own.current),
        maximum: least(own.maximum),
    };
    setrlimit(resource, lower).map_err(because(format_args!("{what} cannot be limited")))
}
