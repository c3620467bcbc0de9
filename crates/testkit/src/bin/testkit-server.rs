//! An MCP server on stdin and stdout whose behaviour is a script: see the README of `trunkline-testkit`.
#![allow(clippy::print_stderr, reason = "a test server complains on stderr")]

use std::{path::Path, process::exit};

use trunkline_testkit::{Script, scripted};

/// The code of a bad command line or script (`EX_USAGE`).
const USAGE: i32 = 64;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let script = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--script", path] => Script::load(Path::new(path)),
        ["--inline", json] => Script::parse(json),
        ["--grandchild", settings] => scripted::run_grandchild(settings),
        _ => Err("usage: testkit-server --script FILE.json|FILE.toml | --inline JSON".into()),
    };
    match script {
        Ok(script) => scripted::serve_process(script),
        Err(problem) => {
            eprintln!("testkit-server: {problem}");
            exit(USAGE)
        }
    }
}
