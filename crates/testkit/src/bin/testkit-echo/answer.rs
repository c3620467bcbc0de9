//! Responses, independent of the transport.

use memchr::{memchr, memchr2, memmem, memrchr};
use serde::Deserialize;
use serde_json::value::RawValue;
use trunkline_testkit::{LEGACY_VERSIONS, MODERN_VERSION, generated};

use crate::Options;

/// The parsed part of a request. Strings keep their spelling.
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

/// Appends the response to one message, without a newline; a notification has none.
pub(crate) fn answer(line: &[u8], options: &Options, modern: &mut bool, out: &mut Vec<u8>) {
    if line.trim_ascii().is_empty() {
        return;
    }
    if let Some(call) = Call::at_a_glance(line) {
        return call.answer(*modern, out);
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
                let text = text.get();
                Call { id, text }.answer(*modern, out);
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
                ],
            );
        }
        r#""ping""# => put(out, &[r#"{"jsonrpc":"2.0","id":"#, id, r#","result":{}}"#]),
        _ => error(id, -32601, "method not found", out),
    }
}

/// An `echo` call: id and text as spelled.
pub(crate) struct Call<'a> {
    id: &'a str,
    text: &'a str,
}

const CONTENT: &str = r#""content":[{"type":"text","text":"#;
const CONTENT_END: &str = "}]}}";

impl<'a> Call<'a> {
    /// Recognises the usual spellings of SDKs without parsing: the cost of this server must not
    /// blur the cost of its clients.
    pub(crate) fn at_a_glance(line: &'a [u8]) -> Option<Self> {
        const TEXT: &[u8] = br#""arguments":{"text":""#;
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
        let start = memmem::find(line, TEXT)? + TEXT.len();
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
        let id = str::from_utf8(id).ok()?;
        Some(Self { id, text })
    }

    /// The length of its response.
    pub(crate) fn answer_len(&self, modern: bool) -> usize {
        let kind = if modern { COMPLETE.len() } else { 0 };
        let envelope = OPEN.len() + RESULT.len() + CONTENT.len() + CONTENT_END.len();
        envelope + kind + self.id.len() + self.text.len()
    }

    pub(crate) fn answer(&self, modern: bool, out: &mut Vec<u8>) {
        open(self.id, modern, out);
        put(out, &[CONTENT, self.text, CONTENT_END]);
    }
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
    put(out, &[&tools, "]}}"]);
}

const OPEN: &str = r#"{"jsonrpc":"2.0","id":"#;
const RESULT: &str = r#","result":{"#;
const COMPLETE: &str = r#""resultType":"complete","#;

/// Opens a result object; at least one field must follow.
fn open(id: &str, modern: bool, out: &mut Vec<u8>) {
    put(out, &[OPEN, id, RESULT]);
    if modern {
        put(out, &[COMPLETE]);
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
            r#""}}"#,
        ],
    );
}

pub(crate) fn put(out: &mut Vec<u8>, parts: &[&str]) {
    for part in parts {
        out.extend_from_slice(part.as_bytes());
    }
}
