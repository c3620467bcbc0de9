//! Whole files of every client, and what becomes of them (CFG-11).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod details;
mod mistakes;
mod never_panics;
mod samples;

use trunkline_config::import::Found;

/// The diagnostics as a person sees them.
fn shown(found: &Found) -> Vec<String> {
    let diagnostics = found.diagnostics.iter();
    diagnostics.map(ToString::to_string).collect()
}
