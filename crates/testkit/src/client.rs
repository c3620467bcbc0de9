//! A blocking MCP client that shows the raw lines of a server.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{MODERN_VERSION, Script, bin, wait_for};

const LIMIT: Duration = Duration::from_secs(10);

/// A server process with its pipes, killed on drop.
#[derive(Debug)]
pub struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    errors: Receiver<Vec<u8>>,
    next_id: u64,
    modern: bool,
}

impl Client {
    /// Starts a program with piped stdin, stdout and stderr.
    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a server process");
        let stdin = child.stdin.take();
        let lines = lines_of(child.stdout.take().expect("piped"));
        let errors = lines_of(child.stderr.take().expect("piped"));
        Self {
            child,
            stdin,
            lines,
            errors,
            next_id: 1,
            modern: true,
        }
    }

    /// Starts a scripted server.
    pub fn script(script: &Script) -> Self {
        Self::spawn(
            Command::new(bin("testkit-server"))
                .arg("--inline")
                .arg(script.to_json()),
        )
    }

    /// Performs the legacy handshake and returns its result; requests then have no modern `_meta`.
    #[track_caller]
    pub fn initialize(&mut self, version: &str) -> Value {
        self.modern = false;
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let answer = self.request("initialize", params);
        self.notify("notifications/initialized", &json!({}));
        answer["result"].clone()
    }

    /// Sets whether requests have modern `_meta`.
    pub fn set_modern(&mut self, modern: bool) {
        self.modern = modern;
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a line as it is.
    pub fn send_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        // The server may be gone.
        stdin.write_all(format!("{line}\n").as_bytes()).ok();
    }

    /// Sends a request without waiting; returns its id.
    pub fn send(&mut self, method: &str, mut params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        if self.modern {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(MODERN_VERSION);
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        self.send_line(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        );
        id
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: &Value) {
        self.send_line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// Sends a request and returns the response; earlier messages are dropped.
    #[track_caller]
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// Calls a tool and returns the response.
    #[track_caller]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "`json!` at the call reads better without a borrow"
    )]
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool and returns the text of its first block.
    #[track_caller]
    pub fn call_text(&mut self, tool: &str, arguments: Value) -> String {
        let answer = self.call(tool, arguments);
        answer["result"]["content"][0]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("no text in {answer}"))
            .to_owned()
    }

    /// Waits for a response; earlier messages are dropped.
    #[track_caller]
    pub fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.message();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// The next message.
    #[track_caller]
    pub fn message(&mut self) -> Value {
        let line = self.line().expect("a message before the end of stdout");
        serde_json::from_slice(&line)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&line)))
    }

    /// The next line of stdout without its newline; `None` at the end.
    ///
    /// # Panics
    /// When there is none in ten seconds.
    #[track_caller]
    pub fn line(&mut self) -> Option<Vec<u8>> {
        receive(&self.lines, "stdout")
    }

    /// The next line, if it comes within `limit`.
    pub fn line_within(&mut self, limit: Duration) -> Option<Vec<u8>> {
        self.lines.recv_timeout(limit).ok()
    }

    /// The next line of stderr; `None` at the end.
    #[track_caller]
    pub fn error_line(&mut self) -> Option<Vec<u8>> {
        receive(&self.errors, "stderr")
    }

    /// Closes the server's stdin.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Waits for the end of the process.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        wait_for(LIMIT, "the server to end", || {
            self.child.try_wait().expect("a child to wait for")
        })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[track_caller]
fn receive(lines: &Receiver<Vec<u8>>, what: &str) -> Option<Vec<u8>> {
    match lines.recv_timeout(LIMIT) {
        Ok(line) => Some(line),
        Err(RecvTimeoutError::Disconnected) => None,
        Err(RecvTimeoutError::Timeout) => panic!("no line on {what} in {LIMIT:?}"),
    }
}

fn lines_of(stream: impl std::io::Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}
