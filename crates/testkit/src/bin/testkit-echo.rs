//! The fastest MCP server we can write, for benchmarks: what a host adds is what it costs.
//!
//! One thread, one read of whatever has arrived, one write of all the answers. `--tools N` lists N generated tools
//! instead of `echo` alone, `--legacy` knows no `server/discover`, and `--raw-limit` sends each line back unread: the
//! most that pipes and two processes can do.
#![allow(
    clippy::print_stderr,
    clippy::expect_used,
    reason = "a test server complains on stderr"
)]

use std::process::exit;

use memchr::{memchr, memchr2, memmem, memrchr};
use rustix::{
    buffer::spare_capacity,
    io::{read, retry_on_intr, write},
    pipe::fcntl_setpipe_size,
    stdio::{stdin, stdout},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use trunkline_testkit::{LEGACY_VERSIONS, MODERN_VERSION, generated};

const CHUNK: usize = 64 << 10;
/// From this size on a message is worth larger pipes.
const LARGE: usize = 32 << 10;
const LARGE_PIPE: usize = 1 << 20;

#[derive(Clone, Copy, Default)]
struct Options {
    tools: usize,
    legacy: bool,
    raw_limit: bool,
}

fn main() {
    let options = options();
    let mut input = Vec::with_capacity(CHUNK);
    let mut output = Vec::with_capacity(CHUNK);
    let mut modern = true;
    let mut grown = false;
    loop {
        let known = input.len();
        if input.capacity() - known < CHUNK / 2 {
            input.reserve(if grown { known.max(LARGE_PIPE) } else { CHUNK });
        }
        match retry_on_intr(|| read(stdin(), spare_capacity(&mut input))) {
            Ok(1..) => {}
            Ok(0) | Err(_) => exit(0),
        }
        if input.len() >= LARGE && !grown {
            grown = true;
            // Larger pipes are a favour, not a need.
            fcntl_setpipe_size(stdin(), LARGE_PIPE).ok();
            fcntl_setpipe_size(stdout(), LARGE_PIPE).ok();
        }
        // Only the new bytes can hold a newline: a long line is not searched again and again.
        let Some(end) = memrchr(b'\n', &input[known..]).map(|at| known + at + 1) else {
            continue;
        };
        if options.raw_limit {
            send(&input[..end]);
        } else {
            let mut rest = &input[..end];
            while let Some(at) = memchr(b'\n', rest) {
                answer(&rest[..at], &options, &mut modern, &mut output);
                rest = &rest[at + 1..];
            }
            send(&output);
            output.clear();
        }
        input.drain(..end);
    }
}

fn options() -> Options {
    let mut options = Options::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--legacy" => options.legacy = true,
            "--raw-limit" => options.raw_limit = true,
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
    eprintln!("usage: testkit-echo [--tools N] [--legacy] [--raw-limit]");
    exit(64)
}

fn send(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match retry_on_intr(|| write(stdout(), bytes)) {
            Ok(count) => bytes = &bytes[count..],
            Err(_) => exit(1),
        }
    }
}

/// A request as far as it is looked at. Texts stay as they were spelt.
#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    arguments: Option<Arguments<'a>>,
    #[serde(borrow, rename = "protocolVersion")]
    protocol_version: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
}

fn answer(line: &[u8], options: &Options, modern: &mut bool, out: &mut Vec<u8>) {
    if line.trim_ascii().is_empty() {
        return;
    }
    if let Some((id, text)) = call_at_a_glance(line) {
        open(id, *modern, out);
        put(
            out,
            &[r#""content":[{"type":"text","text":"#, text, "}]}}\n"],
        );
        return;
    }
    let Ok(request) = serde_json::from_slice::<Request>(line) else {
        return error("null", -32700, "parse error", out);
    };
    let (Some(id), Some(method)) = (request.id, request.method) else {
        return;
    };
    let id = id.get();
    match method.get() {
        r#""tools/call""# => match request.params.and_then(|params| params.arguments?.text) {
            Some(text) if text.get().starts_with('"') => {
                open(id, *modern, out);
                put(
                    out,
                    &[r#""content":[{"type":"text","text":"#, text.get(), "}]}}\n"],
                );
            }
            _ => error(id, -32602, "echo wants a string `text`", out),
        },
        r#""tools/list""# => list(id, options.tools, *modern, out),
        r#""server/discover""# if !options.legacy => {
            open(id, true, out);
            put(
                out,
                &[
                    r#""supportedVersions":[""#,
                    MODERN_VERSION,
                    r#""],"capabilities":{"tools":{}},"#,
                    r#""ttlMs":0,"cacheScope":"private","#,
                    r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"testkit-echo","version":"1.0.0"}}}}"#,
                    "\n",
                ],
            );
        }
        r#""initialize""# => {
            *modern = false;
            let asked = request
                .params
                .and_then(|params| params.protocol_version)
                .map(|version| version.get().trim_matches('"'));
            let version = LEGACY_VERSIONS
                .into_iter()
                .find(|known| asked == Some(known))
                .unwrap_or(LEGACY_VERSIONS[0]);
            open(id, false, out);
            put(
                out,
                &[
                    r#""protocolVersion":""#,
                    version,
                    r#"","capabilities":{"tools":{}},"#,
                    r#""serverInfo":{"name":"testkit-echo","version":"1.0.0"}}}"#,
                    "\n",
                ],
            );
        }
        r#""ping""# => put(out, &[r#"{"jsonrpc":"2.0","id":"#, id, ",\"result\":{}}\n"]),
        _ => error(id, -32601, "method not found", out),
    }
}

/// The id and the raw text of an `echo` call written as the SDKs write it; what a server costs must not blur what its
/// clients cost, so the usual spellings are recognised without parsing.
fn call_at_a_glance(line: &[u8]) -> Option<(&str, &str)> {
    const OPEN: &[u8] = br#""arguments":{"text":""#;
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let id_first = line
        .strip_prefix(br#"{"jsonrpc":"2.0","id":"#)
        .and_then(|rest| {
            let (id, rest) = rest.split_at(memchr(b',', &rest[..rest.len().min(32)])?);
            rest.starts_with(br#","method":"tools/call","#)
                .then_some(id)
        });
    let id_last = || {
        let rest = line.strip_prefix(br#"{"method":"tools/call","#)?;
        let rest = rest.strip_suffix(b"}")?;
        let (rest, id) = rest.split_at(memrchr(b':', rest)? + 1);
        rest.ends_with(br#","jsonrpc":"2.0","id":"#).then_some(id)
    };
    let id = id_first.or_else(id_last)?;
    if !id.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let start = memmem::find(line, OPEN)? + OPEN.len();
    let mut end = start;
    loop {
        end += memchr2(b'"', b'\\', line.get(end..)?)?;
        if line[end] == b'"' {
            break;
        }
        end += 2;
    }
    if line.get(end + 1) != Some(&b'}') {
        return None;
    }
    let text = str::from_utf8(&line[start - 1..=end]).ok()?;
    Some((str::from_utf8(id).ok()?, text))
}

fn list(id: &str, count: usize, modern: bool, out: &mut Vec<u8>) {
    open(id, modern, out);
    if modern {
        put(out, &[r#""ttlMs":0,"cacheScope":"private","#]);
    }
    put(
        out,
        &[
            r#""tools":[{"name":"echo","description":"Says it back","inputSchema":{"type":"object","#,
            r#""properties":{"text":{"type":"string"}},"required":["text"]}}"#,
        ],
    );
    let mut tools = String::with_capacity(count * 512);
    for index in 0..count {
        tools.push(',');
        generated::write_tool(index, &mut tools);
    }
    put(out, &[&tools, "]}}\n"]);
}

/// Opens a result object, so that at least one more field must follow.
fn open(id: &str, modern: bool, out: &mut Vec<u8>) {
    put(out, &[r#"{"jsonrpc":"2.0","id":"#, id, r#","result":{"#]);
    if modern {
        put(out, &[r#""resultType":"complete","#]);
    }
}

fn error(id: &str, code: i32, message: &str, out: &mut Vec<u8>) {
    let code = code.to_string();
    put(
        out,
        &[
            r#"{"jsonrpc":"2.0","id":"#,
            id,
            r#","error":{"code":"#,
            &code,
            r#","message":""#,
            message,
            "\"}}\n",
        ],
    );
}

fn put(out: &mut Vec<u8>, parts: &[&str]) {
    for part in parts {
        out.extend_from_slice(part.as_bytes());
    }
}
