//! The namespaces of users and processes.

use std::fs;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use nix::sched::{CloneFlags, unshare};
use rustix::process::{getgid, getuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, configure_capability_in_ambient_set,
    set_capabilities,
};

use super::control::{self, Go};
use super::{INIT, because, supervisor};

/// What `init` needs to build the sandbox, inside of it.
const NEEDED: [CapabilitySet; 3] = [
    CapabilitySet::SYS_ADMIN,
    CapabilitySet::NET_ADMIN,
    CapabilitySet::SETPCAP,
];

/// The stage that creates the namespaces in place of the supervisor.
pub(super) fn run() -> Result<ExitCode, String> {
    supervisor::ignore_requests_to_end()?;
    super::init::end_with_parent()?;
    enter()?;
    let control = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)
        .map_err(because("the control socket is missing"))?;
    let control = UnixStream::from(control);
    // The supervisor is gone.
    if control::receive::<Go>(&control)
        .map_err(because("the rules"))?
        .is_none()
    {
        return Ok(ExitCode::SUCCESS);
    }
    let mut child = supervisor::spawn(INIT, control.into())?;
    let failed = "the server's pipes cannot be released";
    let null = fs::File::options().read(true).write(true).open("/dev/null");
    let null = null.map_err(because(failed))?;
    rustix::stdio::dup2_stdin(&null).map_err(because(failed))?;
    rustix::stdio::dup2_stdout(&null).map_err(because(failed))?;
    let status = child.wait().map_err(because("the sandbox was lost"))?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(super::FAILED)
    })
}

/// Enters a user namespace in which the user is the same, and lets children be in a new process
/// namespace.
pub(super) fn enter() -> Result<(), String> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID).map_err(|error| {
        format!(
            "user namespaces are not available here: {error}; {}",
            hint()
        )
    })?;
    let write = |file: &str, text: String| {
        let opened = fs::File::options().write(true).open(file);
        opened
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| format!("{file} cannot be written: {error}; {}", hint()))
    };
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;

    // Unless the user is root, executing a program loses capabilities that are not ambient.
    let own = capabilities(None).map_err(because("the capabilities are unknown"))?;
    let sets = CapabilitySets {
        inheritable: own.permitted,
        ..own
    };
    set_capabilities(None, sets).map_err(because("the capabilities cannot be kept"))?;
    for capability in NEEDED {
        configure_capability_in_ambient_set(capability, true)
            .map_err(|error| format!("no {capability:?} inside: {error}; {}", hint()))?;
    }
    Ok(())
}

/// How to allow user namespaces on this machine.
pub(super) fn hint() -> String {
    let is =
        |name: &str, value: &str| fs::read_to_string(name).is_ok_and(|text| text.trim() == value);
    if is(
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
    ) {
        return "AppArmor restricts them: give the trunkline program a profile with `userns,`, or \
                run `sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
            .to_owned();
    }
    if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        return "run `sysctl kernel.unprivileged_userns_clone=1`".to_owned();
    }
    if is("/proc/sys/user/max_user_namespaces", "0") {
        return "run `sysctl user.max_user_namespaces=10000`".to_owned();
    }
    "in a container, allow it to create user namespaces and to mount /proc".to_owned()
}
