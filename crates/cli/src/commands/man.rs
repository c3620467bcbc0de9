//! `trunkline man`: manual pages, from the definition of the command line.

use std::path::Path;

use clap::CommandFactory;
use serde_json::json;

use crate::args::Args;
use crate::exit::Exit;
use crate::output::{self, Lines};

pub(crate) fn run(out: Option<&Path>, as_json: bool) -> Exit {
    let command = Args::command();
    let Some(out) = out else {
        let mut page = Vec::new();
        return match clap_mangen::Man::new(command).render(&mut page) {
            Ok(()) => {
                output::result_bytes(&page);
                Exit::Done
            }
            Err(error) => {
                output::error(&format!("cannot render the page: {error}"), None);
                Exit::Failed
            }
        };
    };
    let written =
        std::fs::create_dir_all(out).and_then(|()| clap_mangen::generate_to(command, out));
    if let Err(error) = written {
        let what = format!("cannot write to {}: {error}", out.display());
        output::error(&what, Some("choose a directory that you can write to"));
        return Exit::Usage;
    }
    if as_json {
        output::json(&json!({"directory": out}));
    } else {
        let mut lines = Lines::one(format!("wrote manual pages to {}", out.display()));
        lines.push("  read one with: man -l FILE");
        output::result(lines);
    }
    Exit::Done
}
