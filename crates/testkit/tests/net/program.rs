//! Network servers as processes of their own.

use std::{
    io::{BufRead, BufReader},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
};

use serde_json::json;
use trunkline_testkit::{Scratch, Script, bin, wait_for};

use crate::browser::{Browser, LIMIT};

struct Program {
    child: Child,
    url: String,
}

impl Program {
    fn start(arguments: &[&str], script: &Script) -> Self {
        let mut child = Command::new(bin("testkit-server"))
            .args(arguments)
            .args(["--inline", &script.to_json()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut url).unwrap();
        Self {
            child,
            url: url.trim_end().into(),
        }
    }

    fn address(&self) -> SocketAddr {
        let rest = self.url.split_once("://").unwrap().1;
        rest.split('/').next().unwrap().parse().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn each_transport_listens_says_where_and_dies() {
    let scratch = Scratch::new();
    for (transport, start, end) in [
        ("http", "http://", "/mcp"),
        ("sse", "http://", "/sse"),
        ("ws", "ws://", "/mcp"),
    ] {
        let file = scratch.join(transport);
        let arguments = ["--listen", transport, "--port-file", file.to_str().unwrap()];
        let mut program = Program::start(&arguments, &Script::default());
        assert!(program.url.starts_with(start) && program.url.ends_with(end));
        assert_eq!(scratch.read(transport), program.url);
        let address = program.address();
        let mut open = Browser::to(address);
        program.child.kill().unwrap();
        program.child.wait().unwrap();
        assert_eq!(open.rest().0, b"");
        assert!(TcpStream::connect(address).is_err());
        let port = address.port().to_string();
        let again = Program::start(
            &["--listen", transport, "--port", &port],
            &Script::default(),
        );
        assert_eq!(again.url, program.url);
        TcpStream::connect(address).unwrap();
    }
}

#[test]
fn a_script_really_ends_the_process() {
    let script = Script::default().tool("exit", json!([{"exit": 7}]));
    let arguments = ["--listen", "http", "--answers", "json", "--no-sessions"];
    let mut program = Program::start(&arguments, &script);
    let headers = [
        ("Accept", "application/json, text/event-stream"),
        ("Content-Type", "application/json"),
    ];
    let mut client = Browser::to(program.address());
    let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    assert_eq!(client.fetch("POST", "/mcp", &headers, ping).json()["id"], 1);
    let call =
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "exit"}});
    client.send("POST", "/mcp", &headers, call.to_string().as_bytes());
    let status = wait_for(LIMIT, "the end", || program.child.try_wait().unwrap());
    assert_eq!(status.code(), Some(7));
}

#[test]
fn a_bad_command_line_is_refused() {
    for arguments in [
        &["--listen", "carrier-pigeon", "--inline", "{}"][..],
        &["--listen"],
        &["--port", "x"],
    ] {
        let output = Command::new(bin("testkit-server"))
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(64));
        assert!(!output.stderr.is_empty());
    }
}
