//! `trunkline completions`: a completion script for a shell.

use clap::CommandFactory;

use crate::args::Args;
use crate::exit::Exit;
use crate::output;

pub(crate) fn run(shell: clap_complete::Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "trunkline", &mut script);
    output::result_bytes(&script);
    Exit::Done
}
