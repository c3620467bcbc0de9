//! The units that `daemon install` writes, for systemd itself.

use std::fs;
use std::time::Duration;

use trunkline_testkit::wait_until;

use crate::lab::Lab;
use crate::servers::Server;

/// How long the socket may take to be there.
const LISTENS_WITHIN: Duration = Duration::from_secs(20);

#[test]
fn systemd_accepts_the_units_and_starts_the_daemon_for_its_first_client() {
    let lab = Lab::with(&[Server::Everything]);
    let runtime = lab.home().join("run");
    fs::create_dir_all(&runtime).unwrap();
    lab.private(&runtime);
    let variables = [("XDG_RUNTIME_DIR", runtime.to_str().unwrap())];
    lab.run_with(&variables, &["daemon", "install"]).done();
    let units = lab.home().join(".config/systemd/user");
    let units = ["trunkline.socket", "trunkline.service"].map(|name| units.join(name));
    let mut verify = lab.command("systemd-analyze");
    let verify = verify.args(["--user", "verify"]).args(&units);
    let verified = verify.envs(variables).output();
    let verified = verified.unwrap();
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success(), "{said}");
    assert!(!said.contains("trunkline"), "{said}");

    // As the units say it: the directory and its mode, the socket, the command.
    let service = fs::read_to_string(&units[1]).unwrap();
    let command = service
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    let command = command.unwrap().replace('"', "");
    let directory = runtime.join("trunkline");
    fs::create_dir(&directory).unwrap();
    lab.private(&directory);
    let socket = directory.join("daemon.sock");
    let mut activate = lab.command("systemd-socket-activate");
    activate.arg("--listen").arg(&socket);
    for name in ["HOME", "PATH", "XDG_RUNTIME_DIR"] {
        activate.args(["--setenv", name]);
    }
    activate.args(command.split(' ')).envs(variables);
    let daemon = lab.start(&mut activate);
    wait_until(LISTENS_WITHIN, || socket.exists());
    let echo = ["-v", "call", "everything", "echo", "message=hi"];
    let mut call = lab.program(&echo);
    let called = call.envs(variables).output().unwrap();
    let said = String::from_utf8_lossy(&called.stderr);
    assert_eq!(String::from_utf8_lossy(&called.stdout).trim(), "Echo: hi");
    assert!(said.contains("is run by the daemon"), "{said}");
    let mut stop = lab.program(&["daemon", "stop"]);
    assert!(stop.envs(variables).status().unwrap().success());
    assert_eq!(daemon.end().code, Some(0));
}
