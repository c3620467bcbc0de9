//! Whole files of every client (CFG-11).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod details;
mod mistakes;
mod never_panics;
mod samples;

use trunkline_config::import::ImportedServers;

/// The diagnostics as displayed.
fn shown(found: &ImportedServers) -> Vec<String> {
    let diagnostics = found.diagnostics.iter();
    diagnostics.map(ToString::to_string).collect()
}
