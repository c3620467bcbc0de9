//! Landlock: the same paths once more, enforced by the kernel's security module.
//!
//! The mount namespace alone enforces the rules for files. Where the kernel has Landlock, it holds
//! even if a mount could be undone, and it keeps signals and abstract sockets inside.

use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath,
    PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::because;
use super::mounts::Own;
use super::plan::{Content, Mount, TMP};
use crate::rules::Access;

/// The newest version that is used.
const NEWEST: ABI = ABI::V6;

/// The newest version of Landlock that this kernel has and the sandbox uses; `None` without it.
pub fn abi() -> Option<u32> {
    let is_there = |abi: &ABI| {
        let rules = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(*abi));
        let rules = match Scope::from_all(*abi) {
            scope if scope.is_empty() => rules,
            scope => rules.and_then(|rules| rules.scope(scope)),
        };
        rules.and_then(Ruleset::create).is_ok()
    };
    let versions = [ABI::V6, ABI::V5, ABI::V3, ABI::V2, ABI::V1];
    versions.into_iter().find(is_there).map(|abi| abi as u32)
}

/// Restricts this process and its children, as far as the kernel can.
pub(super) fn restrict(mounts: &[Mount], own: Own) -> Result<(), String> {
    let failed = "Landlock refuses the rules";
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))
        .and_then(|rules| rules.scope(Scope::from_all(NEWEST)))
        .and_then(Ruleset::create)
        .map_err(because(failed))?;
    // Listing what is visible tells nothing new.
    rules = allow(rules, Path::new("/"), AccessFs::ReadDir.into())?;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    rules = allow(rules, Path::new("/proc"), read)?;
    let devices = read | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    rules = allow(rules, Path::new("/dev"), devices)?;
    let all = AccessFs::from_all(NEWEST);
    let mut memory = all;
    if !own.execute {
        memory.remove(AccessFs::Execute);
    }
    rules = allow(rules, Path::new("/dev/shm"), memory)?;
    if own.is_tmp_writable {
        rules = allow(rules, Path::new(TMP), memory)?;
    } else {
        rules = allow(rules, Path::new(TMP), read)?;
    }
    for mount in mounts {
        let Content::Bind {
            is_dir,
            access,
            execute,
            ..
        } = &mount.content
        else {
            continue;
        };
        let mut access = match access {
            Access::Read => AccessFs::from_read(NEWEST),
            Access::Write => all,
        };
        if !execute {
            access.remove(AccessFs::Execute);
        }
        if !is_dir {
            access &= AccessFs::from_file(NEWEST);
        }
        rules = allow(rules, &mount.target, access)?;
    }
    let status = rules.restrict_self().map_err(because(failed))?;
    match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, LandlockStatus::Available { .. }) => {
            Err(format!("{failed}: they are not enforced"))
        }
        _ => Ok(()),
    }
}

fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, String> {
    let fd = PathFd::new(path).map_err(because(path.display().to_string()))?;
    rules
        .add_rule(PathBeneath::new(fd, access))
        .map_err(because(format_args!("Landlock: {}", path.display())))
}
