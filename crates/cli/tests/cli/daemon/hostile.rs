//! Clients that mean no good.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::DaemonLab;
use crate::lab::{echo, parsed, skipped};

/// One that every user may start.
const PYTHON: &str = "/usr/bin/python3";

fn connect(lab: &DaemonLab) -> UnixStream {
    let stream = UnixStream::connect(lab.socket()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
        .set_write_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
}

fn answer(stream: UnixStream) -> Value {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    parsed(&line)
}

#[test]
fn a_bad_first_line_is_refused_and_neighbours_are_unharmed() {
    let lab = DaemonLab::with([("s", echo())], &[]);
    // These never finish their first line.
    let _idle: Vec<UnixStream> = (0..20)
        .map(|_| {
            let mut stream = connect(&lab);
            stream.write_all(b"{\"trunkline\":1").unwrap();
            stream
        })
        .collect();
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\xff\x00\n",
        b"{}\n",
        b"[1,2]\n",
    ] {
        let mut stream = connect(&lab);
        stream.write_all(garbage).unwrap();
        assert_eq!(answer(stream)["code"], "badHello");
    }
    let mut stream = connect(&lab);
    stream.write_all(b"{\"trunkline\":99}\n").unwrap();
    assert_eq!(answer(stream)["code"], "version");
    // 100 MB without a line feed: cut, not collected.
    let mut stream = connect(&lab);
    let chunk = vec![b'x'; 1 << 20];
    let refused = (0..100).find(|_| stream.write_all(&chunk).is_err());
    assert!(
        refused.is_some_and(|megabytes| megabytes < 10),
        "{refused:?}"
    );
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    // After the first line, a client that floods or leaves harms only itself.
    let run = lab.run(&["call", "s", "echo", "n=1"]);
    assert_eq!((run.code, &*run.out), (Some(0), "{\"n\":1}\n"), "{run:#?}");
    let memory = lab.status()["memoryBytes"].as_u64().unwrap();
    assert!(memory < 64 << 20, "{memory}");
}

#[test]
fn another_user_is_refused_even_if_the_socket_is_open_to_all() {
    use std::os::unix::fs::PermissionsExt;

    let can = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    let is_root = rustix::process::geteuid().is_root();
    let as_nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    if !is_root
        || !can(Command::new("setpriv").args(as_nobody).arg("true"))
        || !can(Command::new("setpriv")
            .args(as_nobody)
            .args([PYTHON, "--version"]))
    {
        skipped("it needs root, setpriv and python3");
        return;
    }
    let lab = DaemonLab::with([("s", echo())], &[]);
    let open = |path: &std::path::Path| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    };
    let socket = lab.socket();
    let above: Vec<_> = socket
        .ancestors()
        .take_while(|path| path.starts_with(lab.lab.scratch.path()))
        .map(|path| {
            (
                path.to_owned(),
                std::fs::metadata(path).unwrap().permissions(),
            )
        })
        .collect();
    for (path, _) in &above {
        open(path);
    }
    let script = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.settimeout(20)\n\
                  s.connect(sys.argv[1])\n\
                  s.sendall(b'{\"trunkline\":1,\"version\":\"0\",\"purpose\":\"control\",\"command\":\"status\"}\\n')\n\
                  print(repr(s.recv(100)))";
    let ask = |user: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(user).args([PYTHON, "-c", script]).arg(&socket);
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        text(&output.stdout) + &text(&output.stderr)
    };
    let own = ask(&["--reuid=0"]);
    let foreign = ask(&as_nobody);
    for (path, permissions) in above {
        std::fs::set_permissions(path, permissions).unwrap();
    }
    assert!(own.contains("welcome"), "{own}");
    assert!(!foreign.contains("welcome"), "{foreign}");
    assert!(
        foreign.contains("b''") || foreign.contains("Broken pipe") || foreign.contains("reset"),
        "{foreign}"
    );
    assert!(
        lab.log().contains("refused a connection of another user"),
        "{}",
        lab.log()
    );
}
