//! Holes that attackers found: each attempt fails in a sandbox, and succeeds where nothing stops
//! it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::lab::{Lab, echo};
use crate::pty;

/// A lab with the user's server "s" in this sandbox, and these settings.
fn lab(sandbox: impl FnOnce(&Lab) -> Value, settings: &Value) -> Lab {
    let lab = Lab::new();
    let mut entry = lab.scratch.entry("s", &echo());
    entry["sandbox"] = sandbox(&lab);
    lab.servers("home/.claude.json", &json!({ "s": entry }));
    lab.write_json("home/.claude/settings.json", settings);
    std::fs::create_dir_all(lab.at("work")).unwrap();
    lab
}

/// The output of a command in the server's sandbox.
fn tried(lab: &Lab, words: &[&str]) -> String {
    let arguments = [&["sandbox", "try", "s", "--"], words].concat();
    let mut command = lab.bare(&arguments);
    command.current_dir(lab.at("work"));
    let run = lab.finish(&mut command);
    assert!(!run.out.is_empty(), "{words:?}: {run:#?}");
    run.out.trim().to_owned()
}

/// The output of the same command without a sandbox.
fn freely(words: &[&str]) -> String {
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A command that connects to a socket file.
fn connecting(socket: &Path) -> [&str; 4] {
    let script = "use IO::Socket::UNIX; \
                  print IO::Socket::UNIX->new(Peer => $ARGV[0]) ? 'in' : \"refused: $!\";";
    ["perl", "-e", script, socket.to_str().unwrap()]
}

#[test]
fn the_terminal_is_not_there() {
    let script = "if echo question > /dev/tty; then echo in; else echo refused; fi";
    for (words, expected) in [
        (
            &["sandbox", "try", "s", "--", "sh", "-c", script][..],
            "refused",
        ),
        (&["--version"], "in"),
    ] {
        let lab = lab(|_| json!(true), &json!({}));
        let (_terminal, ours) = pty::open();
        // The terminal becomes that of a new session.
        let mut command = if expected == "in" {
            let mut command = Command::new("setsid");
            command.args(["-w", "-c", "sh", "-c", script]);
            command
        } else {
            lab.started_by(&["setsid", "-w", "-c"], words)
        };
        let run = lab.finish(command.stdin(Stdio::from(ours)));
        assert_eq!(run.out.trim(), expected, "{run:#?}");
    }
}

#[test]
fn a_ceiling_of_patterns_does_not_allow_an_entry_to_name_this_machine() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let _ = client.read(&mut [0; 1024]);
            let _ = client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let script = format!(
        "use IO::Socket::INET; \
         my ($p) = ($ENV{{http_proxy}} // '') =~ m|//([^/]+)| or print('no proxy'), exit; \
         my $s = IO::Socket::INET->new(PeerAddr => $p) or print(\"refused: $!\"), exit; \
         print $s \"GET http://127.0.0.1:{port}/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n\"; \
         print scalar <$s>;"
    );
    let profiles = |network: Value| {
        json!({
            "sandboxProfiles": {"ceiling": {"network": network}}, "requireSandbox": {"*": "ceiling"},
        })
    };
    for (settings, expected) in [
        (profiles(json!([format!("*:{port}")])), "no proxy"),
        (
            profiles(json!([format!("127.0.0.1:{port}")])),
            "HTTP/1.1 200 OK",
        ),
        (json!({}), "HTTP/1.1 200 OK"),
    ] {
        let entry = json!({"network": [format!("127.0.0.1:{port}")]});
        let lab = lab(|_| entry, &settings);
        let out = tried(&lab, &["perl", "-e", &script]);
        assert_eq!(out, expected, "{settings}");
    }
}

#[test]
fn a_helper_for_headers_does_not_run_where_a_sandbox_is_required() {
    for (settings, is_run) in [
        (json!({"requireSandbox": true}), false),
        (json!({"requireSandbox": ["h"]}), false),
        (json!({"requireSandbox": ["other"]}), true),
    ] {
        let lab = Lab::new();
        let helper = format!("touch {}; echo '{{}}'", lab.at("ran").display());
        let entry = json!({
            "type": "http", "url": "http://127.0.0.1:1/mcp", "headersHelper": helper,
        });
        lab.servers("home/.claude.json", &json!({ "h": entry }));
        lab.write_json("home/.claude/settings.json", &settings);
        let run = lab.plainly(&["call", "h", "x"]);
        assert_eq!(lab.at("ran").exists(), is_run, "{settings}: {run:#?}");
        let told = run
            .err
            .contains("\"headersHelper\" would run outside of the sandbox");
        assert_eq!(told, !is_run, "{settings}: {run:#?}");
    }
}

#[test]
fn a_project_that_is_the_home_directory_hides_what_home_hides() {
    let lab = lab(|_| json!({"write": ["project"]}), &json!({}));
    let home = lab.scratch.home();
    lab.scratch.write("home/.ssh/id", "private");
    lab.scratch.write("home/notes/today", "notes");
    let script = "cat .ssh/id notes/today; echo x >> .bashrc; echo x >> notes/today";
    let mut command = lab.bare(&["sandbox", "try", "s", "--", "sh", "-c", script]);
    let run = lab.finish(command.current_dir(&home));
    assert_eq!(run.out, "notes", "{run:#?}");
    assert!(!home.join(".bashrc").exists());
    assert_eq!(lab.scratch.read("home/notes/today"), "notesx\n");
    let cat = ["sh", "-c", "cat \"$0\"/.ssh/id", home.to_str().unwrap()];
    assert_eq!(freely(&cat), "private");
}

#[test]
fn the_daemon_is_not_reached_through_a_granted_runtime_directory() {
    let lab = lab(|lab| json!({"write": [lab.at("run")]}), &json!({}));
    let own = lab.at("run/trunkline");
    std::fs::create_dir_all(&own).unwrap();
    lab.scratch.write("run/file", "x");
    let socket = own.join("daemon.sock");
    let _daemon = UnixListener::bind(&socket).unwrap();
    assert_eq!(freely(&connecting(&socket)), "in");
    for words in [
        &connecting(&socket)[..],
        // It cannot be found or replaced either.
        &["sh", "-c", "ls run; mkdir run/trunkline || echo refused"],
    ] {
        let arguments = [&["sandbox", "try", "s", "--"], words].concat();
        let mut command = lab.bare(&arguments);
        let run = lab.finish(command.env("XDG_RUNTIME_DIR", lab.at("run")));
        assert!(
            run.out.contains("refused") && !run.out.contains("trunkline"),
            "{run:#?}"
        );
    }
}

#[test]
fn a_socket_in_a_granted_directory_is_covered_unless_it_is_granted_itself() {
    for (grants, expected) in [
        (&["dir"][..], "refused: Connection refused"),
        (&["dir", "dir/a socket"], "in"),
    ] {
        let grant = |lab: &Lab| {
            std::fs::create_dir_all(lab.at("dir")).unwrap();
            let paths: Vec<_> = grants.iter().map(|grant| lab.at(grant)).collect();
            json!({ "write": paths })
        };
        let lab = lab(grant, &json!({}));
        let socket = lab.at("dir/a socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        assert_eq!(freely(&connecting(&socket)), "in");
        assert_eq!(tried(&lab, &connecting(&socket)), expected);
        // Its own ones work, and it cannot uncover ours.
        let dir = lab.at("dir");
        let script = "use IO::Socket::UNIX; chdir $ARGV[0]; \
                      my $l = IO::Socket::UNIX->new(Local => 'own', Listen => 1); \
                      print IO::Socket::UNIX->new(Peer => 'own') ? 'in' : \"refused: $!\"; \
                      print unlink('a socket') ? ' removed' : ' kept';";
        let own = tried(&lab, &["perl", "-e", script, dir.to_str().unwrap()]);
        assert_eq!(own, "in kept", "{grants:?}");
    }
}

#[test]
fn the_programs_that_start_are_bounded() {
    let copied = |dir: &str| format!("cp /bin/true {dir}/t && {dir}/t && echo in || echo refused");
    // 319 and 279 are memfd_create; flag 16 asks for an executable file.
    let memory = |flags: u32| {
        let number = if cfg!(target_arch = "x86_64") {
            319
        } else {
            279
        };
        format!(
            "perl -e 'my $n = \"m\"; my $fd = syscall({number}, $n, {flags}); \
             $fd >= 0 or print(\"refused: $!\"), exit; \
             open(my $to, q(>&=), $fd); binmode $to; open(my $from, q(<), q(/bin/true)); \
             local $/; syswrite $to, <$from>; \
             system {{\"/proc/$$/fd/$fd\"}} q(true); print $? == 0 ? q(in) : q(refused)'"
        )
    };
    let attempts = [copied("/tmp"), copied("/dev/shm"), memory(0), memory(16)];
    for (sandbox, expected) in [
        (json!(true), "in"),
        (json!({"execute": ["project"]}), "refused"),
        (json!({"execute": ["tmp"]}), "in"),
    ] {
        let lab = lab(|_| sandbox.clone(), &json!({}));
        for attempt in &attempts {
            let out = tried(&lab, &["sh", "-c", attempt]);
            assert!(out.starts_with(expected), "{sandbox} {attempt}: {out}");
        }
    }
}

#[test]
fn an_entry_of_a_repository_takes_no_variable_into_a_required_sandbox() {
    let passed = json!({
        "sandboxProfiles": {"default": {"env": ["OUR_TOKEN"]}}, "requireSandbox": true,
    });
    for (file, settings, is_told) in [
        (".mcp.json", json!({"requireSandbox": true}), true),
        (".mcp.json", passed, false),
        (".mcp.json", json!({}), false),
        ("home/.claude.json", json!({"requireSandbox": true}), false),
    ] {
        for place in ["env", "args", "command"] {
            let lab = Lab::new();
            let mut entry = lab.scratch.entry("s", &echo());
            entry["sandbox"] = json!(true);
            match place {
                "env" => entry["env"]["X"] = json!("${OUR_TOKEN:-none}"),
                "args" => entry["args"] = json!(["a", "--token=$OUR_TOKEN"]),
                _ => entry["command"] = json!("run-${OUR_TOKEN}"),
            }
            lab.servers(file, &json!({ "s": entry }));
            lab.write_json("home/.claude/settings.json", &settings);
            let mut command = lab.bare(&["sandbox", "explain", "s"]);
            let run = lab.finish(command.env("OUR_TOKEN", "ours"));
            let told = run.err.contains("it contains your variable OUR_TOKEN");
            assert_eq!(told, is_told, "{file} {settings} {place}: {run:#?}");
            // A variable that is not set reveals nothing.
            let run = lab.plainly(&["sandbox", "explain", "s"]);
            assert!(!run.err.contains("it contains your variable"), "{run:#?}");
        }
    }
}
