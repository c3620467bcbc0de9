//! Checks whether a command that fetches a package pins its version.

use trunkline_config::{Package, Registry, Server};

use super::report::{Step, StepName, StepStatus};

/// Warns of a command that fetches whatever version is current.
pub(super) fn check(server: &Server) -> Option<Step> {
    let package = Package::of(&server.entry)?;
    if package.is_pinned {
        return None;
    }
    let name = &package.name;
    let (message, fix) = match package.registry {
        Registry::Image => (
            format!("the image {name} is not pinned: whoever publishes it decides what runs"),
            format!("pin its digest in the command: {name}@sha256:…"),
        ),
        _ => (
            format!("the version of {name} is not pinned: whoever publishes it decides what runs"),
            format!("pin its version in the command: {name}@1.2.3"),
        ),
    };
    let mut step = Step::ok(StepName::Program, message);
    step.status = StepStatus::Warning;
    step.cause = Some("unpinned");
    step.fix = Some(fix);
    Some(step)
}
