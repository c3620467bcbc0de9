//! Keeps the memory of this program, which holds secrets, from other programs of the user.
//!
//! The umask is left alone: servers inherit it, and theirs are the user's files. Every file that
//! this program creates has its mode from the start.

/// Forbids core dumps and, on Linux, reading this process's memory and environment: by a debugger,
/// through `/proc`, or by a server. Nothing here can fail in a way that matters more than running.
pub(crate) fn apply() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};

        let mut limit = getrlimit(Resource::Core);
        limit.current = Some(0);
        let _ = setrlimit(Resource::Core, limit);
    }
    // A core dump that goes to a program ignores the limit.
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};

        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::process::{DumpableBehavior, Resource, dumpable_behavior, getrlimit};

    #[test]
    fn neither_a_core_dump_nor_a_debugger_sees_the_memory() {
        super::apply();
        assert_eq!(getrlimit(Resource::Core).current, Some(0));
        let behavior = dumpable_behavior().unwrap();
        assert!(matches!(behavior, DumpableBehavior::NotDumpable));
    }
}
