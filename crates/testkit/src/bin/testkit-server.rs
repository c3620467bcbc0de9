//! A scripted MCP server on stdio or a socket; see the README of `trunkline-testkit`.
#![allow(clippy::print_stderr, reason = "a test server complains on stderr")]

use std::{path::Path, process::exit};

use trunkline_testkit::{
    Script,
    net::{Answers, Listen},
    scripted,
};

/// The exit code for a bad command line or script (`EX_USAGE`).
const USAGE: i32 = 64;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Err(problem) = run(&arguments) {
        eprintln!("testkit-server: {problem}");
        exit(USAGE)
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let (mut script, mut listen) = (None, None);
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if word == "--no-sessions" {
            listen.get_or_insert_with(Listen::default).no_sessions = true;
            continue;
        }
        let value = words.next().ok_or_else(usage)?;
        match word {
            "--script" => script = Some(Script::load(Path::new(value))?),
            "--inline" => script = Some(Script::parse(value)?),
            "--grandchild" => scripted::run_grandchild(value),
            "--listen" => listen.get_or_insert_with(Listen::default).transport = value.into(),
            "--port-file" => {
                listen.get_or_insert_with(Listen::default).port_file = Some(value.into());
            }
            "--port" => {
                let port = value.parse().map_err(|e| format!("--port {value}: {e}"))?;
                listen.get_or_insert_with(Listen::default).port = port;
            }
            "--answers" => {
                listen.get_or_insert_with(Listen::default).answers = match value {
                    "json" => Answers::Json,
                    "sse" => Answers::Sse,
                    _ => return Err(usage()),
                };
            }
            _ => return Err(usage()),
        }
    }
    let script = script.ok_or_else(usage)?;
    match listen {
        Some(listen) => listen.serve(script),
        None => scripted::serve_process(script),
    }
}

fn usage() -> String {
    "usage: testkit-server [--listen http|sse|ws [--port N] [--port-file FILE] [--answers json|sse] [--no-sessions]] \
     (--script FILE.json|FILE.toml | --inline JSON)"
        .into()
}
