//! Every attempt of the hostile server succeeds without a sandbox, and fails in one.

use std::collections::BTreeMap;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Child, Command};

use serde_json::{Value, json};
use trunkline_testkit::bin;

use crate::lab::{Lab, parsed};

/// Attempts that the machine itself may refuse: to a user who is not root, or for lack of a device.
const MAY_FAIL_FREELY: [&str; 3] = [
    "load a BPF program",
    "set a sysctl",
    "talk to the hypervisor",
];

/// The targets of a hostile server, outside of its sandbox.
struct Outside {
    lab: Lab,
    victim: Child,
    tcp: TcpListener,
    udp: UdpSocket,
    name: String,
    _abstract: UnixListener,
    _socket: UnixListener,
}

impl Outside {
    fn new() -> Self {
        let lab = Lab::new();
        for (file, text) in [
            ("home/.ssh/id_ed25519", "private"),
            ("home/.bashrc", "# mine\n"),
            ("home/.claude/settings.json", "{}"),
            ("work/file", "x"),
        ] {
            lab.scratch.write(file, text);
        }
        std::fs::create_dir_all(lab.at("w")).unwrap();
        let name = format!("trunkline-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let echo = udp.try_clone().unwrap();
        std::thread::spawn(move || {
            while let Ok((_, from)) = echo.recv_from(&mut [0; 8]) {
                let _ = echo.send_to(b"y", from);
            }
        });
        Self {
            victim: Command::new("sleep").arg("300").spawn().unwrap(),
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp,
            name,
            _abstract: UnixListener::bind_addr(&address).unwrap(),
            _socket: UnixListener::bind(lab.at("home/.claude/daemon.sock")).unwrap(),
            lab,
        }
    }

    /// Lets the hostile server try everything, with this `sandbox`.
    fn attempts(&self, sandbox: &Value, writable: &str) -> BTreeMap<String, String> {
        let (lab, home) = (&self.lab, self.lab.scratch.home());
        let (marker, value) = lab.scratch.marker().env();
        let entry = json!({
            "command": bin("testkit-hostile"), "sandbox": sandbox, "env": {marker: value},
        });
        lab.servers("home/.claude.json", &json!({ "hostile": entry }));
        let udp = self.udp.local_addr().unwrap().to_string();
        let targets = json!({
            "secret": home.join(".ssh/id_ed25519"), "home": home, "startup": home.join(".bashrc"),
            "config": home.join(".claude/settings.json"), "project_file": lab.at("work/file"),
            "writable": writable, "tcp": self.tcp.local_addr().unwrap().to_string(), "udp": udp,
            "name": udp, "abstract": self.name, "socket": home.join(".claude/daemon.sock"),
            "victim": self.victim.id(), "variable": "OUR_VARIABLE",
        });
        // A descriptor that the program inherits, and could pass on.
        let open = format!("exec 9<{}/.ssh/id_ed25519; exec \"$@\"", home.display());
        let targets = targets.to_string();
        let words = [
            "--json",
            "call",
            "hostile",
            "escape",
            "--json-args",
            &targets,
        ];
        let mut command = lab.started_by(&["sh", "-c", &open, "sh"], &words);
        command
            .env("OUR_VARIABLE", "ours")
            .current_dir(lab.at("work"));
        let output = lab.finish(&mut command).json();
        let report = parsed(output["content"][0]["text"].as_str().unwrap());
        let report = report.as_object().unwrap().iter();
        report
            .map(|(name, result)| (name.clone(), result.as_str().unwrap().to_owned()))
            .collect()
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

#[test]
fn nothing_gets_out_and_without_a_sandbox_everything_does() {
    let outside = Outside::new();
    let writable = outside.lab.at("w").to_str().unwrap().to_owned();
    let free = outside.attempts(&json!(false), &writable);
    for (attempt, result) in &free {
        let may_fail = MAY_FAIL_FREELY.contains(&attempt.as_str());
        assert!(
            may_fail || result.starts_with("done"),
            "{attempt}: {result}"
        );
    }
    // Undo what has been done.
    outside.lab.scratch.write("home/.bashrc", "# mine\n");

    let limits = json!({"processes": 40, "openFiles": 100, "memoryMB": 512});
    let confined = outside.attempts(&json!({ "limits": limits }), "/tmp");
    assert_eq!(free.len(), confined.len());
    for (attempt, result) in &confined {
        assert!(result.starts_with("refused"), "{attempt}: {result}");
    }
    assert_eq!(outside.lab.scratch.read("home/.bashrc"), "# mine\n");
}

#[test]
fn the_network_can_be_opened_for_one_host_only() {
    let outside = Outside::new();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    for network in [json!("loopback"), json!([format!("127.0.0.1:{port}")])] {
        let results = outside.attempts(&json!({ "network": network }), "/tmp");
        for attempt in [
            "connect out",
            "send a datagram",
            "connect to an abstract socket",
        ] {
            assert!(
                results[attempt].starts_with("refused"),
                "{network}: {}",
                results[attempt]
            );
        }
    }
}
