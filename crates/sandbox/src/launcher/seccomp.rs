//! System calls that no server needs, and that reach out of a sandbox.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

use super::because;

/// Which files in memory (`memfd_create`) a server may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// Any.
    Any,
    /// Those that do not ask to be executable; the others are not by themselves.
    NotExecutable,
    /// Only those that ask not to be executable.
    Sealed,
}

/// `MFD_NOEXEC_SEAL` and `MFD_EXEC`, which the constants do not have everywhere.
const NO_EXEC_SEAL: u64 = 8;
const EXEC: u64 = 0x10;

type Calls = BTreeMap<i64, Vec<SeccompRule>>;

/// Refused whatever their arguments are.
const REFUSED: &[i64] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_fanotify_init,
    // Keys of the session, which namespaces do not separate.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Large parts of the kernel with a history.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    // The machine.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // `open_tree_attr`, which the constants do not have yet.
    467,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = &[
    libc::SYS_kexec_file_load,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS__sysctl,
    libc::SYS_lookup_dcookie,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

/// The flag of the x32 calls, which have the same architecture, and those with numbers of their
/// own.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;
#[cfg(target_arch = "x86_64")]
const X32_CALLS: std::ops::RangeInclusive<i64> = 512..=547;

/// Installs the filters, for this process and its children.
pub(super) fn restrict(memory: Memory) -> Result<(), String> {
    for filter in filters(memory)? {
        apply_filter(&filter).map_err(because(
            "the kernel filters no system calls (seccomp is missing)",
        ))?;
    }
    Ok(())
}

fn filters(memory: Memory) -> Result<[BpfProgram; 2], String> {
    let mut refused: Calls = BTreeMap::new();
    for call in REFUSED.iter().chain(REFUSED_HERE) {
        refused.insert(*call, Vec::new());
    }
    refused.insert(libc::SYS_clone, new_namespaces()?);
    let mut sockets = other_families()?;
    sockets.push(other_netlink()?);
    refused.insert(libc::SYS_socket, sockets);
    refused.insert(libc::SYS_socketpair, other_families()?);
    if let Some(rule) = executable_memory(memory)? {
        refused.insert(libc::SYS_memfd_create, vec![rule]);
    }
    refused.insert(libc::SYS_ioctl, terminal_input()?);
    refused.insert(libc::SYS_personality, other_personalities()?);
    #[cfg(target_arch = "x86_64")]
    add_x32(&mut refused);
    // Its flags are behind a pointer; the C library falls back to `clone`.
    let unknown: Calls = [(libc::SYS_clone3, Vec::new())].into();
    let error = |number: i32| SeccompAction::Errno(number.unsigned_abs());
    Ok([
        compile(unknown, error(libc::ENOSYS))?,
        compile(refused, error(libc::EPERM))?,
    ])
}

fn compile(calls: Calls, refusal: SeccompAction) -> Result<BpfProgram, String> {
    let failed = "the filter for system calls";
    let arch: TargetArch = std::env::consts::ARCH.try_into().map_err(because(failed))?;
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, refusal, arch);
    filter
        .and_then(BpfProgram::try_from)
        .map_err(because(failed))
}

/// Refuses every call of the x32 interface that is refused otherwise; it has no exceptions.
#[cfg(target_arch = "x86_64")]
fn add_x32(refused: &mut Calls) {
    let numbers: Vec<i64> = refused.keys().copied().collect();
    for call in numbers
        .into_iter()
        .chain(X32_CALLS)
        .chain([libc::SYS_clone3])
    {
        refused.insert(X32 | call, Vec::new());
    }
}

fn condition(argument: u8, op: SeccompCmpOp, value: u64) -> Result<SeccompCondition, String> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value)
        .map_err(because("the filter for system calls"))
}

fn all_of(conditions: Vec<SeccompCondition>) -> Result<SeccompRule, String> {
    SeccompRule::new(conditions).map_err(because("the filter for system calls"))
}

/// `clone` with a flag for a new namespace.
fn new_namespaces() -> Result<Vec<SeccompRule>, String> {
    let flags = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ];
    let rule = |flag: i32| {
        let flag = u64::from(flag.unsigned_abs());
        all_of(vec![condition(0, SeccompCmpOp::MaskedEq(flag), flag)?])
    };
    flags.into_iter().map(rule).collect()
}

/// Sockets that network namespaces do not separate, such as those to a hypervisor.
fn other_families() -> Result<Vec<SeccompRule>, String> {
    let allowed = [
        libc::AF_UNIX,
        libc::AF_INET,
        libc::AF_INET6,
        libc::AF_NETLINK,
    ];
    let is_other = |family: i32| condition(0, SeccompCmpOp::Ne, u64::from(family.unsigned_abs()));
    let conditions: Result<Vec<_>, _> = allowed.into_iter().map(is_other).collect();
    Ok(vec![all_of(conditions?)?])
}

/// Netlink sockets but those of routing (protocol 0), which programs list their addresses with. The
/// others lead to parts of the kernel with a history.
fn other_netlink() -> Result<SeccompRule, String> {
    let netlink = u64::from(libc::AF_NETLINK.unsigned_abs());
    all_of(vec![
        condition(0, SeccompCmpOp::Eq, netlink)?,
        condition(2, SeccompCmpOp::Ne, 0)?,
    ])
}

/// Files in memory that programs could be started from.
fn executable_memory(memory: Memory) -> Result<Option<SeccompRule>, String> {
    let refused = match memory {
        Memory::Any => return Ok(None),
        Memory::NotExecutable => condition(1, SeccompCmpOp::MaskedEq(EXEC), EXEC)?,
        Memory::Sealed => condition(1, SeccompCmpOp::MaskedEq(NO_EXEC_SEAL), 0)?,
    };
    all_of(vec![refused]).map(Some)
}

/// Typing into the user's terminal.
fn terminal_input() -> Result<Vec<SeccompRule>, String> {
    let requests = [0x5412, 0x541c];
    let rule = |request: u64| all_of(vec![condition(1, SeccompCmpOp::Eq, request)?]);
    requests.into_iter().map(rule).collect()
}

/// Only the usual personality, and asking for it.
fn other_personalities() -> Result<Vec<SeccompRule>, String> {
    Ok(vec![all_of(vec![
        condition(0, SeccompCmpOp::Ne, 0)?,
        condition(0, SeccompCmpOp::Ne, 0xffff_ffff)?,
    ])?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_compile() {
        for memory in [Memory::Any, Memory::NotExecutable, Memory::Sealed] {
            let filters = filters(memory).unwrap();
            assert!(filters.iter().all(|filter| filter.len() > 4));
        }
    }
}
