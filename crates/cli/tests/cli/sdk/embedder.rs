//! A program that embeds Trunkline, and the one in the guide.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::lab::{Lab, parsed};

pub(super) const SOON: Duration = Duration::from_secs(30);
pub(super) const GONE: Duration = Duration::from_secs(5);

/// The user's settings in a lab.
pub(super) const SETTINGS: &str = "home/.claude/settings.json";

/// A program that embeds Trunkline, and has a server `calc`.
pub(super) struct Embedder<'a> {
    lab: &'a Lab,
    pub(super) child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    /// Messages other than responses.
    pub(super) seen: Vec<Value>,
    asked: u32,
}

impl<'a> Embedder<'a> {
    /// Starts the program with the lab's configuration.
    pub(super) fn start(lab: &'a Lab) -> Self {
        Self::spawn(lab, &mut lab.command(&["sdk"]))
    }

    pub(super) fn spawn(lab: &'a Lab, command: &mut Command) -> Self {
        // What may be called is another matter, unless a test makes it its own.
        if !lab.at(SETTINGS).exists() {
            allow_all(lab);
        }
        let stderr = std::fs::File::create(lab.at("stderr")).unwrap();
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr);
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        // Whatever comes on standard output must be JSON, or the test hears of the end too early.
        std::thread::spawn(move || {
            for line in stdout.lines() {
                let _ = sender.send(parsed(&line.unwrap()));
            }
        });
        Self {
            lab,
            stdin: child.stdin.take(),
            child,
            lines,
            seen: Vec::new(),
            asked: 0,
        }
    }

    pub(super) fn say(&mut self, line: impl AsRef<[u8]>) {
        let line = [line.as_ref(), b"\n"].concat();
        self.stdin.as_mut().unwrap().write_all(&line).unwrap();
    }

    pub(super) fn hear(&mut self) -> Value {
        self.lines
            .recv_timeout(SOON)
            .expect("a line from the program")
    }

    /// Sends a request and returns its id.
    pub(super) fn begin(&mut self, request: &Value) -> String {
        self.asked += 1;
        let id = format!("ask_{}", self.asked);
        self.say(
            json!({"type": "control_request", "request_id": id, "request": request}).to_string(),
        );
        id
    }

    /// Waits for a response while serving `calc`.
    pub(super) fn end(&mut self, id: &str) -> Value {
        loop {
            let line = self.hear();
            if line["type"] == "control_response" && line["response"]["request_id"] == id {
                return line["response"].clone();
            }
            let is_message = line["request"]["subtype"] == "mcp_message";
            if !(is_message && self.serve(&line)) {
                self.seen.push(line);
            }
        }
    }

    pub(super) fn ask(&mut self, request: &Value) -> Value {
        let id = self.begin(request);
        self.end(&id)
    }

    /// Returns the response of a successful request.
    #[track_caller]
    pub(super) fn done(&mut self, request: &Value) -> Value {
        let response = self.ask(request);
        assert_eq!(response["subtype"], "success", "{response}");
        response["response"].clone()
    }

    /// Returns the code and message of a failed request.
    #[track_caller]
    pub(super) fn refused(&mut self, request: &Value) -> (String, String) {
        let response = self.ask(request);
        assert_eq!(response["subtype"], "error", "{response}");
        let text = |key: &str| response[key].as_str().unwrap().to_owned();
        (text("code"), self.lab.plain(&text("error")))
    }

    #[track_caller]
    pub(super) fn call(&mut self, name: &str, arguments: &Value) -> Value {
        self.done(&json!({"subtype": "call_tool", "name": name, "arguments": arguments}))
    }

    /// Initializes with these servers.
    #[track_caller]
    pub(super) fn initialize(&mut self, servers: &[&str]) -> Value {
        self.done(&json!({"subtype": "initialize", "sdkMcpServers": servers}))
    }

    /// The state of a server.
    pub(super) fn state(&mut self, name: &str) -> Value {
        let status = self.done(&json!({"subtype": "mcp_status"}));
        let rows = status["mcpServers"].as_array().unwrap();
        let row = rows.iter().find(|row| row["name"] == name);
        row.unwrap_or(&Value::Null)["state"].clone()
    }

    /// Answers a message, unless it is a call of `never`.
    fn serve(&mut self, line: &Value) -> bool {
        let (id, request) = (&line["request_id"], &line["request"]);
        let message = &request["message"];
        let outcome = match message["method"].as_str().unwrap() {
            "initialize" => {
                json!({"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "calc", "version": "1"}}})
            }
            "tools/list" => json!({"result": {"tools": [
                {"name": "add", "inputSchema": {"type": "object"}},
                {"name": "never", "inputSchema": {"type": "object"}},
            ]}}),
            "tools/call" if message["params"]["name"] == "never" => return false,
            "tools/call" => {
                let arguments = &message["params"]["arguments"];
                let sum = arguments["a"].as_i64().unwrap() + arguments["b"].as_i64().unwrap();
                json!({"result": {"content": [{"type": "text", "text": sum.to_string()}]}})
            }
            _ => json!({"error": {"code": -32601, "message": "no such method"}}),
        };
        let mut answer = json!({"jsonrpc": "2.0", "id": message["id"]});
        answer
            .as_object_mut()
            .unwrap()
            .extend(outcome.as_object().unwrap().clone());
        let response = if request["server_name"] == "calc" {
            json!({"subtype": "success", "request_id": id, "response": {"mcp_response": answer}})
        } else {
            json!({"subtype": "error", "request_id": id, "error": "there is no such server here"})
        };
        self.say(json!({"type": "control_response", "response": response}).to_string());
        true
    }

    /// Ends the program by closing its stdin, and returns its stderr.
    #[track_caller]
    pub(super) fn finish(mut self) -> String {
        drop(self.stdin.take());
        self.ended(0)
    }

    #[track_caller]
    pub(super) fn ended(&mut self, code: i32) -> String {
        let status = trunkline_testkit::wait_for(SOON, "the program's end", || {
            self.child.try_wait().unwrap()
        });
        self.lab.scratch.assert_no_processes(GONE);
        let err = self.lab.plain(&self.lab.scratch.read("stderr"));
        assert_eq!(status.code(), Some(code), "{err}");
        err
    }
}

/// A rule that allows all calls.
pub(super) fn allow_all(lab: &Lab) {
    lab.write_json(SETTINGS, &json!({"permissions": {"allow": ["mcp__*"]}}));
}

pub(super) fn example() -> &'static str {
    concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/examples/embedder.py"
    )
}

/// The Python program of the guide, with the lab's configuration.
pub(super) fn python(lab: &Lab) -> Command {
    let mut command = lab.started_by(
        &["python3", example()],
        &["--mcp-config", ".mcp-config.json"],
    );
    command.stdin(Stdio::null());
    command
}
