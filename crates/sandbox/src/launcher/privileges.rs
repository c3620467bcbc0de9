//! What `init` gives up before it starts the server.

use std::fs;
use std::os::fd::RawFd;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits,
    set_no_new_privs,
};

use super::because;

/// Gives up all capabilities, for every program that is executed from now on.
pub(super) fn drop_capabilities() -> Result<(), String> {
    let failed = "the capabilities cannot be given up";
    for capability in CapabilitySet::all().iter() {
        match remove_capability_from_bounding_set(capability) {
            // Newer than the kernel.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(format!("{failed}: {error}")),
        }
    }
    clear_ambient_capability_set().map_err(because(failed))?;
    let bits = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED;
    set_capabilities_secure_bits(bits).map_err(because(failed))?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    set_capabilities(None, sets).map_err(because(failed))
}

/// No program gains privileges, and `init` itself cannot be read or traced.
pub(super) fn no_new_privileges() -> Result<(), String> {
    set_no_new_privs(true).map_err(because("new privileges cannot be refused"))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(because("the sandbox cannot be protected"))
}

/// Closes all descriptors but the first three and `keep`: the host's must not be inherited.
pub(super) fn close_other_files(keep: &[RawFd]) -> Result<(), String> {
    let failed = "the open descriptors are unknown";
    let listed = fs::read_dir("/proc/self/fd").map_err(because(failed))?;
    let open: Vec<RawFd> = listed
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for fd in open {
        if fd > 2 && !keep.contains(&fd) {
            // The listing's own is closed already.
            let _ = nix::unistd::close(fd);
        }
    }
    Ok(())
}
