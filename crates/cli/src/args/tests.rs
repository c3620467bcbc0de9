//! The help of every command, as it looks at 80 and 160 columns, with and without colours.
//!
//! The commands come from the parser, so a new one is included by itself. `INSTA_UPDATE=always`
//! writes its snapshot.

use std::fmt::Write as _;

use clap::CommandFactory;

use super::{Args, MAX_HELP_WIDTH};

/// Returns the help of a command at a width.
fn help(path: &[String], columns: usize, has_colour: bool) -> String {
    let command = Args::command().term_width(columns.min(MAX_HELP_WIDTH));
    let words = ["trunkline"]
        .into_iter()
        .chain(path.iter().map(String::as_str));
    let asked = command.try_get_matches_from(words.chain(["--help"]));
    let help = asked.unwrap_err().render();
    if has_colour {
        help.ansi().to_string().replace('\u{1b}', "␛")
    } else {
        help.to_string()
    }
}

/// Collects the paths of all visible commands.
fn collect(command: &clap::Command, path: &[String], found: &mut Vec<Vec<String>>) {
    found.push(path.to_vec());
    for inner in command.get_subcommands() {
        if inner.get_name() != "help" && !inner.is_hide_set() {
            let path = [path, &[inner.get_name().to_owned()]].concat();
            collect(inner, &path, found);
        }
    }
}

#[test]
fn every_help_looks_as_it_did() {
    let mut paths = Vec::new();
    collect(&Args::command(), &[], &mut paths);
    assert!(paths.len() > 30, "{paths:?}");
    for path in paths {
        let mut shown = String::new();
        for (columns, has_colour) in [(80, false), (160, false), (80, true), (160, true)] {
            let text = help(&path, columns, has_colour);
            if !has_colour {
                let too_wide = text.lines().find(|line| line.chars().count() > columns);
                assert_eq!(too_wide, None, "{path:?} at {columns} columns");
            }
            let colour = if has_colour { ", coloured" } else { "" };
            let _ = writeln!(shown, "=== {columns} columns{colour}\n{text}");
        }
        let name = [&["help".to_owned()], &*path].concat().join("-");
        insta::assert_snapshot!(name, shown);
    }
}
