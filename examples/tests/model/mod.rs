//! A model that wants to call one tool, and then says what the tool said. It speaks HTTP and
//! streams, as the real ones do.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// Which API it has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Api {
    Anthropic,
    OpenAi,
}

pub(crate) struct FakeModel {
    url: String,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl FakeModel {
    pub(crate) fn start(api: Api, tool: &str, arguments: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (record, tool) = (Arc::clone(&requests), tool.to_owned());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let request = read(&mut stream, api);
                let events = match said(api, &request) {
                    None => wanting(api, &tool, &arguments),
                    Some(said) => saying(api, &format!("The tool said: {said}")),
                };
                record.lock().unwrap().push(request);
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n").unwrap();
                for event in events {
                    stream
                        .write_all(format!("event: x\ndata: {event}\n\n").as_bytes())
                        .unwrap();
                }
                stream.write_all(b"data: [DONE]\n\n").unwrap();
            }
        });
        Self { url, requests }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap().clone()
    }
}

/// Reads one request and makes sure that it is one that the API takes.
fn read(stream: &mut TcpStream, api: Api) -> Value {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
    }
    let head = head.to_lowercase();
    let (path, key) = match api {
        Api::Anthropic => ("post /v1/messages ", "x-api-key: key"),
        Api::OpenAi => ("post /chat/completions ", "authorization: bearer key"),
    };
    assert!(head.starts_with(path) && head.contains(key), "{head}");
    let length = head.split("content-length: ").nth(1).unwrap();
    let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    serde_json::from_slice(&body).unwrap()
}

/// What the tool said, once it has been called.
fn said(api: Api, request: &Value) -> Option<String> {
    let last = request["messages"].as_array()?.last()?;
    match api {
        Api::Anthropic => {
            let result = last["content"].as_array()?.first()?;
            assert_eq!(result["type"], "tool_result");
            assert_eq!(result["tool_use_id"], "call-1");
            let content = &result["content"];
            let text = content.as_str().or_else(|| content[0]["text"].as_str());
            Some(text.unwrap_or("something else than text").to_owned())
        }
        Api::OpenAi => {
            let called = (last["role"] == "tool").then(|| last["content"].as_str().unwrap());
            called.map(str::to_owned)
        }
    }
}

fn wanting(api: Api, tool: &str, arguments: &Value) -> Vec<Value> {
    let arguments = arguments.to_string();
    let (first, rest) = arguments.split_at(arguments.len() / 2);
    let mut events = saying(api, "Let me see. ");
    match api {
        Api::Anthropic => {
            let piece = |text: &str| json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": text}});
            events.extend([
                json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "call-1", "name": tool, "input": {}}}),
                piece(first),
                piece(rest),
                json!({"type": "content_block_stop", "index": 1}),
                json!({"type": "message_stop"}),
            ]);
        }
        Api::OpenAi => {
            let piece =
                |call: Value| json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]});
            events.extend([
                piece(json!({"index": 0, "id": "call-1", "type": "function", "function": {"name": tool, "arguments": ""}})),
                piece(json!({"index": 0, "function": {"arguments": first}})),
                piece(json!({"index": 0, "function": {"arguments": rest}})),
            ]);
        }
    }
    events
}

fn saying(api: Api, text: &str) -> Vec<Value> {
    match api {
        Api::Anthropic => vec![
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
            json!({"type": "content_block_stop", "index": 0}),
        ],
        Api::OpenAi => vec![json!({"choices": [{"index": 0, "delta": {"content": text}}]})],
    }
}
