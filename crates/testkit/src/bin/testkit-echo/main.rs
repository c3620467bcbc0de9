//! The fastest MCP server we can write, for benchmarks of hosts.
//!
//! One thread responds to everything that has arrived: over stdin and stdout, or with `--http` or
//! `--ws` over a socket, whose URL it prints; the end of stdin ends it. `--tools N` lists N
//! generated tools besides `echo`, `--legacy` does not know `server/discover`, `--hang` sends no
//! responses, and `--raw-limit` returns each line unread: the most that pipes and two processes can
//! do.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::expect_used,
    reason = "a test server complains on stderr"
)]

mod answer;
mod http;
mod net;
mod pipe;
mod ws;

use std::process::exit;

#[derive(Clone, Copy, Default)]
struct Options {
    tools: usize,
    legacy: bool,
    raw_limit: bool,
    hang: bool,
    /// The scheme of the URL to listen at.
    listen: Option<&'static str>,
}

fn main() {
    let options = options();
    match options.listen {
        Some(scheme) => {
            let error = net::serve(scheme, &options);
            eprintln!("cannot listen: {error}");
            exit(1)
        }
        None => pipe::serve(&options),
    }
}

fn options() -> Options {
    let mut options = Options::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--legacy" => options.legacy = true,
            "--raw-limit" => options.raw_limit = true,
            "--hang" => options.hang = true,
            "--http" => options.listen = Some("http"),
            "--ws" => options.listen = Some("ws"),
            "--tools" => match arguments.next().map(|count| count.parse()) {
                Some(Ok(count)) => options.tools = count,
                _ => usage(),
            },
            _ => usage(),
        }
    }
    options
}

fn usage() -> ! {
    eprintln!("usage: testkit-echo [--tools N] [--legacy] [--hang] [--raw-limit | --http | --ws]");
    exit(64)
}
