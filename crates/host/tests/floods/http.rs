//! Floods over HTTP: on the GET stream, in a POST response, and over HTTP+SSE.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use trunkline::ServerEntry;
use trunkline::config::TransportEntry;
use trunkline_config::{HttpEntry, HttpFlavour};
use trunkline_testkit::net::{RawHttp, Reply, Request, gzip};

use crate::bench::{Entry, Flooder, Lab, Signal};
use crate::text::{Flood, block};

/// Answers like a legacy server with one tool.
pub(crate) fn answer(message: &Value) -> Option<Value> {
    let id = message.get("id")?;
    let answer = match message["method"].as_str()? {
        "initialize" => json!({"result": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "flooder", "version": "1"},
        }}),
        "tools/list" => {
            json!({"result": {"tools": [{"name": "flood", "inputSchema": {"type": "object"}}]}})
        }
        _ => json!({"error": {"code": -32601, "message": "unknown method"}}),
    };
    let mut answer = answer;
    answer["jsonrpc"] = json!("2.0");
    answer["id"] = id.clone();
    Some(answer)
}

/// The repeated bytes of the body, as chunks.
struct Body {
    packed: bool,
    chunks: Vec<u8>,
}

impl Body {
    fn of(flood: &Flood) -> Self {
        let (packed, size, bytes) = match flood {
            Flood::Messages(text) => (
                false,
                16 << 10,
                block(format!("data: {text}\n\n").as_bytes()),
            ),
            Flood::Events(bytes) => (false, 16 << 10, bytes.clone()),
            Flood::ByteChunks(bytes) => (false, 1, bytes.clone()),
            Flood::Gzip(bytes) => (true, 16 << 10, bytes.clone()),
            other => panic!("{other:?} cannot be sent over HTTP"),
        };
        let mut chunks = Vec::new();
        for piece in bytes.chunks(size) {
            chunks.extend(format!("{:x}\r\n", piece.len()).bytes());
            chunks.extend(piece);
            chunks.extend(b"\r\n");
        }
        Self { packed, chunks }
    }

    fn begin(&self, reply: &mut Reply) {
        let mut headers = vec![("content-type", "text/event-stream")];
        if self.packed {
            headers.push(("content-encoding", "gzip"));
        }
        reply.head(200, &headers);
    }

    fn pour(&self, signal: &Signal, reply: &mut Reply) {
        while !signal.is_over() && !reply.client_gone() {
            reply.raw(&self.chunks);
            signal.sent();
        }
        reply.close();
    }
}

fn message(request: &Request) -> Value {
    serde_json::from_slice(&request.body).unwrap_or_default()
}

fn entry(flavour: HttpFlavour, name: &str, url: String) -> Entry {
    let http = HttpEntry::new(flavour, url);
    Entry::Server(ServerEntry::new(name, TransportEntry::Http(http)))
}

/// Floods on the server's own stream.
pub(crate) fn start(lab: &Lab, name: &str, flood: &Flood) -> Option<Flooder> {
    let (body, signal) = (Body::of(flood), Arc::clone(&lab.signal));
    let server = RawHttp::start(move |request, reply| {
        if request.method == "GET" {
            body.begin(reply);
            if reply.wait_until(|| signal.is_on()) {
                body.pour(&signal, reply);
            }
            return;
        }
        match answer(&message(request)) {
            Some(answer) => reply.json(200, &answer),
            None => reply.status(202),
        };
    });
    Some(Flooder {
        entry: entry(HttpFlavour::Streamable, name, server.url()),
        tool: None,
        begun: None,
        keep: Box::new(server),
    })
}

/// Answers every call with a large result.
pub(crate) fn start_results(lab: &Lab, name: &str, flood: &Flood) -> Option<Flooder> {
    let Flood::Results(result) = flood else {
        panic!("{flood:?} is no result");
    };
    let (result, signal) = (result.clone(), Arc::clone(&lab.signal));
    let server = RawHttp::start(move |request, reply| {
        let message = message(request);
        if message["method"] == "tools/call" {
            signal.sent();
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            reply.json(200, &answer);
            return;
        }
        match answer(&message) {
            _ if request.method == "GET" => reply.status(405),
            Some(answer) => reply.json(200, &answer),
            None => reply.status(202),
        };
    });
    Some(Flooder {
        entry: entry(HttpFlavour::Streamable, name, server.url()),
        tool: Some("flood"),
        begun: None,
        keep: Box::new(server),
    })
}

/// Floods instead of answering.
pub(crate) fn start_post(lab: &Lab, name: &str, flood: &Flood) -> Option<Flooder> {
    let (body, signal) = (Body::of(flood), Arc::clone(&lab.signal));
    let server = RawHttp::start(move |request, reply| {
        let message = message(request);
        if message["method"] == "tools/call" {
            body.begin(reply);
            return body.pour(&signal, reply);
        }
        match answer(&message) {
            _ if request.method == "GET" => reply.status(405),
            Some(answer) => reply.json(200, &answer),
            None => reply.status(202),
        };
    });
    Some(Flooder {
        entry: entry(HttpFlavour::Streamable, name, server.url()),
        tool: Some("flood"),
        begun: None,
        keep: Box::new(server),
    })
}

/// Floods on the HTTP+SSE stream.
pub(crate) fn start_sse(lab: &Lab, name: &str, flood: &Flood) -> Option<Flooder> {
    let (body, signal) = (Body::of(flood), Arc::clone(&lab.signal));
    let answers = Arc::new(Mutex::new(Vec::<String>::new()));
    let server = RawHttp::start(move |request, reply| {
        if request.method != "GET" {
            let answer = answer(&message(request));
            answers
                .lock()
                .unwrap()
                .extend(answer.map(|answer| format!("data: {answer}\n\n")));
            reply.status(202);
            return;
        }
        let put = |text: &str| {
            if body.packed {
                gzip(text)
            } else {
                text.as_bytes().to_vec()
            }
        };
        body.begin(reply);
        answers.lock().unwrap().clear();
        reply.chunk(put("event: endpoint\ndata: /post\n\n"));
        let waited = reply.wait_until(|| signal.is_on() || !answers.lock().unwrap().is_empty());
        let mut on = waited;
        while on && !signal.is_on() {
            let said = std::mem::take(&mut *answers.lock().unwrap()).concat();
            reply.chunk(put(&said));
            on = reply.wait_until(|| signal.is_on() || !answers.lock().unwrap().is_empty());
        }
        if on {
            body.pour(&signal, reply);
        }
    });
    Some(Flooder {
        entry: entry(HttpFlavour::Sse, name, server.url()),
        tool: None,
        begun: None,
        keep: Box::new(server),
    })
}
