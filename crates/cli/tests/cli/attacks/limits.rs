//! Servers that try to exceed memory limits (SEC-4).

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trunkline_testkit::net::{RawHttp, Reply, Request};
use trunkline_testkit::wait_for;

use crate::lab::{Lab, Run, echo};

/// The limits of SEC-4: one message, and all lists of a server.
const MESSAGE: u64 = 64 << 20;
const CATALOG: u64 = 128 << 20;

/// The time limit of a command, on a busy machine.
const SOON: Duration = Duration::from_mins(1);

/// The allowed peak memory, as a multiple of the limit.
const TIMES: u64 = 3;

/// Runs a command and returns its peak memory.
fn peak(lab: &Lab, arguments: &[&str]) -> (Run, u64) {
    let mut running = lab.start(&mut lab.command(arguments));
    let status = format!("/proc/{}/status", running.child.id());
    let mut peak = 0;
    let _ = wait_for(SOON, "the program's end", || {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
        peak = peak.max(kilobytes.unwrap_or(0_u64) * 1024);
        running.child.try_wait().unwrap()
    });
    assert!(
        peak > 0,
        "the program ended before its memory was looked at"
    );
    (running.end(), peak)
}

/// A server with custom responses to `tools/list` and `tools/call`.
fn server(special: impl Fn(&Value, &mut Reply) -> bool + Send + Sync + 'static) -> RawHttp {
    RawHttp::start(move |request: &Request, reply: &mut Reply| {
        let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let id = &message["id"];
        let result = match message["method"].as_str() {
            _ if request.method == "GET" => {
                reply.status(405);
                return;
            }
            Some("initialize") => json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
                "serverInfo": {"name": "attacker", "version": "1"},
            }),
            Some(_) if !id.is_null() => {
                if special(&message, reply) {
                    return;
                }
                match message["method"].as_str() {
                    Some("tools/list") => {
                        json!({"tools": [{"name": "big", "inputSchema": {"type": "object"}}]})
                    }
                    Some("prompts/list") => json!({"prompts": [{"name": "p"}]}),
                    Some("resources/list") => json!({"resources": []}),
                    Some("resources/templates/list") => json!({"resourceTemplates": []}),
                    _ => {
                        let error = json!({"code": -32601, "message": "unknown"});
                        reply.json(200, &json!({"jsonrpc": "2.0", "id": id, "error": error}));
                        return;
                    }
                }
            }
            _ => {
                reply.status(202);
                return;
            }
        };
        reply.json(200, &json!({"jsonrpc": "2.0", "id": id, "result": result}));
    })
}

/// Writes a body of this many megabytes.
fn pour(reply: &mut Reply, megabytes: usize) {
    let block = vec![b' '; 1 << 20];
    for _ in 0..megabytes {
        if reply.client_gone() {
            return;
        }
        reply.raw(&block);
    }
}

fn over_the_message_limit(head: &'static str) {
    let server = server(move |message, reply| {
        if message["method"] != "tools/call" {
            return false;
        }
        reply.raw(format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{head}\r\n"
        ));
        pour(reply, 1536);
        reply.close();
        true
    });
    let lab = Lab::with_entries(|_| json!({"s": {"type": "http", "url": server.url()}}));
    let (run, peak) = peak(&lab, &["call", "s", "big"]);
    assert_ne!(run.code, Some(0), "{run:?}");
    assert!(run.err.contains("longer than"), "{}", run.err);
    assert!(peak <= TIMES * MESSAGE, "{} MB", peak >> 20);
}

/// `Content-Length: N, N`, which is a valid way to write N.
pub(super) fn combined_length() {
    over_the_message_limit("content-length: 1610612736, 1610612736\r\n");
}

/// The same header twice.
pub(super) fn repeated_length() {
    over_the_message_limit("content-length: 1610612736\r\ncontent-length: 1610612736\r\n");
}

/// No length at all.
pub(super) fn no_length() {
    over_the_message_limit("connection: close\r\n");
}

/// A list whose pages are as long as a message may be.
pub(super) fn endless_list() {
    let page = "x".repeat(60 << 20);
    let server = server(move |message, reply| {
        if message["method"] != "tools/list" {
            return false;
        }
        let cursor = message["params"]["cursor"].as_str().unwrap_or("0");
        let next = cursor.parse::<u32>().unwrap_or(0) + 1;
        let tool = json!({"name": format!("t{next}"), "inputSchema": {"type": "object"}});
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{"tools":[{tool}],"nextCursor":"{next}","padding":"{page}"}}}}"#,
            message["id"]
        );
        reply.respond(200, &[("content-type", "application/json")], text);
        true
    });
    let lab = Lab::with_entries(|_| json!({"s": {"type": "http", "url": server.url()}}));
    let begun = Instant::now();
    let (run, peak) = peak(&lab, &["list", "--json"]);
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    assert!(peak <= TIMES * CATALOG, "{} MB", peak >> 20);
    assert!(
        run.out.contains("64 MB") || run.err.contains("64 MB"),
        "{run:?}"
    );
}

/// A device or a pipe in place of a certificate, beside a server with none.
pub(super) fn devices_as_certificates() {
    let lab = Lab::with_entries(|lab| {
        let pipe = lab.at("pipe");
        let made = Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let entry =
            |ca: &str| json!({"type": "http", "url": "https://127.0.0.1:9/mcp", "tls": {"ca": ca}});
        json!({
            "device": entry("/dev/zero"),
            "pipe": entry(pipe.to_str().unwrap()),
            "healthy": lab.scratch.entry("healthy", &echo()),
        })
    });
    let begun = Instant::now();
    let (run, peak) = peak(&lab, &["list", "--json"]);
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    assert!(peak <= TIMES * MESSAGE, "{} MB", peak >> 20);
    assert_eq!(
        run.out.matches("is not a regular file").count(),
        2,
        "{}",
        run.out
    );
}

/// A response just below the limit on messages that unfolds into many values: the command, the
/// method and its result (or `!` and its error), and what the program says.
type Case = (
    &'static [&'static str],
    &'static str,
    fn() -> String,
    &'static str,
);

/// Results of calls.
pub(super) fn many_values_in_results() {
    let call: &[&str] = &["call", "s", "big"];
    unfold([
        (
            call,
            "tools/call",
            || list(r#"{"content":["#, "{}", "]}"),
            "blocks",
        ),
        (
            call,
            "tools/call",
            || list(r#"{"toolResult":{"content":["#, "{}", "]}}"),
            "blocks",
        ),
        (
            call,
            "tools/call",
            || list(r#"{"content":[],"structuredContent":["#, "0", "]}"),
            "",
        ),
    ]);
}

/// Deep nesting, and requests for input.
pub(super) fn many_values_in_requests() {
    let call: &[&str] = &["call", "s", "big"];
    unfold([
        (
            call,
            "tools/call",
            || nested(r#"{"content":[],"structuredContent":"#),
            "",
        ),
        (
            call,
            "tools/call",
            || list(r#"{"content":[],"_meta":{"a":["#, "0", "]}}"),
            "",
        ),
        (
            call,
            "tools/call",
            || {
                list(
                    r#"{"resultType":"input_required","inputRequests":{"#,
                    r#""":{}"#,
                    "}}",
                )
            },
            "inputs",
        ),
        (
            call,
            "tools/call",
            || {
                list(
                    r#"!{"code":-32042,"message":"m","data":{"elicitations":["#,
                    "{}",
                    "]}}",
                )
            },
            "too many pages",
        ),
    ]);
}

/// Definitions of tools.
pub(super) fn many_values_in_tools() {
    let call: &[&str] = &["call", "s", "big"];
    unfold([
        (
            call,
            "tools/list",
            || {
                tool(&list(
                    r#""inputSchema":{"properties":{"a":{"enum":["#,
                    "0",
                    "]}}}",
                ))
            },
            "values",
        ),
        (
            call,
            "tools/list",
            || {
                tool(&list(
                    r#""inputSchema":{"properties":{"#,
                    r#""abcde":{}"#,
                    "}}",
                ))
            },
            "values",
        ),
        (
            call,
            "tools/list",
            || tool(&list(r#""_meta":{"a":["#, "0", "]}")),
            "values",
        ),
    ]);
}

/// Resources and prompts.
pub(super) fn many_values_in_context() {
    unfold([
        (
            &["read", "s", "a:b"],
            "resources/read",
            || list(r#"{"contents":["#, "{}", "]}"),
            "too many",
        ),
        (
            &["prompt", "s", "p"],
            "prompts/get",
            || list(r#"{"messages":["#, r#"{"content":{}}"#, "]}"),
            "blocks",
        ),
    ]);
}

fn unfold<const N: usize>(cases: [Case; N]) {
    for (arguments, method, body, expected) in cases {
        let body = body();
        let what = body[..body.len().min(60)].to_owned();
        let server = server(move |message, reply| {
            if message["method"] != method {
                return false;
            }
            let (member, body) = match body.strip_prefix('!') {
                Some(error) => ("error", error),
                None => ("result", &*body),
            };
            let id = &message["id"];
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":{body}}}"#);
            reply.respond(200, &[("content-type", "application/json")], text);
            true
        });
        let lab = Lab::with_entries(|_| json!({"s": {"type": "http", "url": server.url()}}));
        let (run, peak) = peak(&lab, arguments);
        assert!(run.code.is_some(), "{what}: {run:?}");
        let said = format!("{}{}", run.out, run.err);
        let head: String = said.chars().take(2000).collect();
        assert!(said.contains(expected), "{what}: {head}");
        assert!(peak <= TIMES * MESSAGE, "{what}: {} MB", peak >> 20);
    }
}

/// Repeats an element until the text is nearly as long as a message may be.
fn list(start: &str, element: &str, end: &str) -> String {
    let count = (60 << 20) / (element.len() + 1);
    let mut text = String::with_capacity(61 << 20);
    text.push_str(start);
    for at in 0..count {
        if at > 0 {
            text.push(',');
        }
        text.push_str(element);
    }
    text.push_str(end);
    text
}

fn nested(start: &str) -> String {
    let depth = 30 << 20;
    format!(
        "{start}{}\"\u{e9}\"{}}}",
        "[".repeat(depth),
        "]".repeat(depth)
    )
}

/// A list with one tool that has these members.
fn tool(members: &str) -> String {
    format!(r#"{{"tools":[{{"name":"big",{members}}}]}}"#)
}
