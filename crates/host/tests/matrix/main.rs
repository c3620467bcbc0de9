//! Runs every transport through the same behaviours; a test's name gives the behaviour and the
//! transport.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test's helpers fail the test by panicking, and tell seeds and figures on the terminal"
)]

mod alone;
mod behaviours;
mod cycles;
mod faults;
mod lab;
mod labs;
mod random;
mod waiting;

use labs::net::Net;
use labs::{connector, http, in_process, sdk, sse, stdio, ws};

/// Generates one test per behaviour and transport.
macro_rules! matrix {
    ($($transport:ident: $lab:ty => $($behaviour:ident)*;)*) => {
        $(mod $transport {
            #[allow(clippy::wildcard_imports, reason = "the labs' names come from the table below")]
            use super::*;
            $(#[test]
            fn $behaviour() {
                alone::run(behaviours::$behaviour::<$lab>());
            })*
        })*
    };
}

matrix! {
    // A pipe cannot be cut while both ends live; a crash cuts it.
    over_stdio: stdio::Stdio => connect list call progress cancel crash slow stall garbage oversize shutdown;
    // A single JSON body cannot carry progress.
    over_http_json: Net<http::LegacyJson> => connect list call cancel crash cut slow stall garbage oversize shutdown;
    over_http_sse: Net<http::LegacySse> => connect list call progress cancel crash cut slow stall garbage oversize shutdown;
    over_http_modern: Net<http::Modern> => connect list call progress cancel crash cut slow stall garbage oversize shutdown;
    over_sse: Net<sse::Sse> => connect list call progress cancel crash cut slow stall garbage oversize shutdown;
    over_sse_ide: Net<sse::SseIde> => connect list call progress cancel crash cut slow stall garbage oversize shutdown;
    over_ws: Net<ws::Ws> => connect list call progress cancel crash cut slow stall garbage oversize shutdown;
    over_claudeai_proxy: Net<connector::ClaudeAi> => connect list call progress cancel crash cut slow stall garbage oversize shutdown;
    // The streams are those of the embedding process: once cut, there is nothing to reconnect to.
    over_sdk: sdk::Sdk => connect list call progress cancel crash slow stall garbage oversize shutdown;
    // No wire, responses are values, and the server ends with this process.
    within_the_process: in_process::InProcess => connect list call progress cancel panic slow shutdown;
    over_ws_ide: Net<ws::WsIde> => connect list call progress cancel crash cut slow stall garbage oversize shutdown;
}
