//! Checks whether a command that fetches a package pins its version.

use trunkline_config::{Package, Pinning, Registry, Server};

use super::report::{Step, StepName, StepStatus};

/// Warns of a command that fetches whatever version is current.
pub(super) fn check(server: &Server) -> Option<Step> {
    let argv = server.entry.transport.argv()?;
    let (message, fix) = match Pinning::of_command(&argv) {
        Pinning::Unpinned(package) => unpinned(&package),
        Pinning::Unclear(runner) => (
            format!("it cannot be told which version it runs with {runner}"),
            format!("call {runner} directly, with a pinned version"),
        ),
        _ => return None,
    };
    let mut step = Step::ok(StepName::Program, message);
    step.status = StepStatus::Warning;
    step.cause = Some("unpinned");
    step.fix = Some(fix);
    Some(step)
}

fn unpinned(package: &Package) -> (String, String) {
    let name = &package.name;
    match package.registry {
        Registry::Image => (
            format!("the image {name} is not pinned: whoever publishes it decides what runs"),
            format!("pin its digest in the command: {name}@sha256:…"),
        ),
        _ => (
            format!("the version of {name} is not pinned: whoever publishes it decides what runs"),
            format!("pin its version in the command: {name}@1.2.3"),
        ),
    }
}
