//! Starting servers.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use trunkline_testkit::Scratch;
use trunkline_transport::StdioServer;

use crate::support::{Child, exited};

fn failure(server: &StdioServer) -> String {
    server.spawn().err().expect("no such server").to_string()
}

#[tokio::test]
async fn a_server_that_cannot_be_started_is_a_clear_error() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let plain = scratch.write("plain", "#!/bin/sh\n");
    let orphan = scratch.write("orphan", "#!/no/such/interpreter\n");
    fs::set_permissions(&orphan, fs::Permissions::from_mode(0o755)).unwrap();
    let (plain, orphan) = (plain.to_str().unwrap(), orphan.to_str().unwrap());
    let directory = scratch.path().to_str().unwrap();
    let nowhere = "/no/such/directory";
    let cases = [
        (
            "no-such-program-x1",
            None,
            "command not found: no-such-program-x1".to_owned(),
        ),
        (
            "/no/such/program",
            None,
            "command not found: /no/such/program".to_owned(),
        ),
        ("", None, "command not found: ".to_owned()),
        (plain, None, format!("not executable: {plain}")),
        (
            directory,
            None,
            format!("{directory} could not be started: it is a directory"),
        ),
        (
            orphan,
            None,
            format!(
                "{orphan} could not be started: the interpreter named in its first line is missing"
            ),
        ),
        (
            "/bin/sh",
            Some(nowhere),
            format!("its working directory does not exist: {nowhere}"),
        ),
        (
            "/bin/sh",
            Some(plain),
            format!("its working directory does not exist: {plain}"),
        ),
    ];
    for (command, cwd, expected) in cases {
        let server = StdioServer {
            command: command.to_owned(),
            cwd: cwd.map(Into::into),
            ..StdioServer::default()
        };
        assert_eq!(failure(&server), expected, "{command}");
    }
}

#[tokio::test]
async fn arguments_environment_and_directory_arrive_verbatim() {
    let scratch = Scratch::new();
    let arguments = [
        "$(touch x); *",
        "",
        "a b",
        "'\"\\",
        "é\n`id`",
        "--",
        "$HOME",
    ];
    let script = scratch.write(
        "script.sh",
        r#"printf '%s\0' "$@" > args; printf '%s\0' "$ODD" "$PATH" "$(pwd -P)" > rest; exit 7"#,
    );
    let mut args = vec![script.to_str().unwrap().to_owned()];
    args.extend(arguments.map(str::to_owned));
    let child = Child::start(StdioServer {
        command: "sh".to_owned(),
        args,
        env: BTreeMap::from([("ODD".to_owned(), "$(touch y); 'é'\n".to_owned())]),
        cwd: Some(scratch.home()),
        ..StdioServer::default()
    });
    assert_eq!(*child.closed().await.reason(), exited(7));
    let read = |name: &str| {
        let text = scratch.read(Path::new("home").join(name));
        let parts: Vec<_> = text.split_terminator('\0').map(str::to_owned).collect();
        parts
    };
    assert_eq!(read("args"), arguments);
    let home = fs::canonicalize(scratch.home()).unwrap();
    let path = std::env::var("PATH").unwrap();
    assert_eq!(
        read("rest"),
        ["$(touch y); 'é'\n", &path, home.to_str().unwrap()]
    );
    let files = fs::read_dir(scratch.home()).unwrap().count();
    assert_eq!(files, 2, "no shell has read them");
}
