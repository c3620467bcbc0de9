//! Foreign servers on the network: other people's HTTP, SSE and WebSocket, and a real proxy.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::lab::Lab;
use crate::service::Service;

/// The program with one server in its config.
fn lab(entry: &serde_json::Value) -> Lab {
    let lab = Lab::with(&[]);
    lab.write_servers(&json!({"s": entry}));
    lab
}

/// Calls, and progress that comes while the call runs.
fn check_everything(lab: &Lab) {
    assert_eq!(
        lab.call(&["s", "get-sum", "a:=2", "b:=3"]),
        "The sum of 2 and 3 is 5.\n"
    );
    let long = [
        "s",
        "trigger-long-running-operation",
        "duration:=2",
        "steps:=4",
    ];
    let screen = lab.run_on_terminal(&[&["call"], &long[..]].concat());
    // The last step and the result come together.
    assert!(screen.contains("[3/4]"), "{screen}");
    // We refuse it ourselves, or else the server does.
    let wrong = ["call", "s", "get-sum", "a=x", "b:=3"];
    let ours = lab.run(&wrong);
    assert_eq!(ours.code, Some(2), "{ours:#?}");
    let theirs = lab.run(&[&wrong[..], &["--no-validate"]].concat());
    assert_eq!(theirs.code, Some(1), "{theirs:#?}");
    let listed = lab.run(&["list", "--json"]).done().json();
    assert_eq!(listed[0]["state"], "connected", "{listed}");
    assert!(
        listed[0]["resources"].as_u64() > Some(0) && listed[0]["prompts"].as_u64() > Some(0),
        "{listed}"
    );
}

#[test]
fn everything_over_streamable_http() {
    let service = Service::everything("streamableHttp");
    check_everything(&lab(
        &json!({"type": "http", "url": service.url("http", "/mcp")}),
    ));
}

#[test]
fn everything_over_sse() {
    let service = Service::everything("sse");
    check_everything(&lab(
        &json!({"type": "sse", "url": service.url("http", "/sse")}),
    ));
}

#[test]
fn a_url_without_a_type_finds_out_which_of_the_two_it_is_and_remembers() {
    for (mode, path, verdict) in [("sse", "/sse", "sse"), ("streamableHttp", "/mcp", "legacy")] {
        let service = Service::everything(mode);
        let lab = lab(&json!({"url": service.url("http", path)}));
        for _ in 0..2 {
            assert_eq!(lab.call(&["s", "echo", "message=hi"]), "Echo: hi\n");
            let remembered =
                fs::read_to_string(lab.home().join(".cache/trunkline/eras.json")).unwrap();
            assert!(
                remembered.contains(&format!("\"{verdict}\"")),
                "{remembered}"
            );
        }
    }
}

#[test]
fn supergateway_over_websocket() {
    let service = Service::supergateway("ws");
    check_everything(&lab(
        &json!({"type": "ws", "url": service.url("ws", "/message")}),
    ));
}

#[test]
fn supergateway_over_sse() {
    let service = Service::supergateway("sse");
    check_everything(&lab(
        &json!({"type": "sse", "url": service.url("http", "/sse")}),
    ));
}

#[test]
fn the_python_sdks_websocket() {
    let service = Service::python("venv-legacy", "websocket_server.py");
    let lab = lab(&json!({"type": "ws", "url": service.url("ws", "/ws")}));
    assert_eq!(lab.call(&["s", "add", "a:=2", "b:=3"]), "5\n");
}

#[test]
fn fastmcp_over_http() {
    let service = Service::python("venv", "fastmcp_server.py");
    let lab = lab(&json!({"type": "http", "url": service.url("http", "/mcp")}));
    assert_eq!(lab.call(&["s", "add", "a:=2", "b:=3"]), "5\n");
    assert_eq!(lab.call(&["s", "count", "to:=5"]), "counted to 5\n");
    let listed = lab.run(&["list", "--json"]).done().json();
    assert_eq!(listed[0]["protocolVersion"], "2026-07-28", "{listed}");
}

#[test]
fn the_typescript_sdks_example() {
    let service = Service::sdk_example("simpleStreamableHttp");
    let lab = lab(&json!({"type": "http", "url": service.url("http", "/mcp")}));
    let greeting = lab.call(&["s", "greet", "name=Ada"]);
    assert!(greeting.contains("Ada"), "{greeting}");
    // Its notifications come on the stream of the call, and on the other one.
    let greetings = lab.call(&["s", "multi-greet", "name=Ada"]);
    assert!(greetings.contains("Ada"), "{greetings}");
}

/// tinyproxy finds the server under a name that only it knows, so whoever reaches the server went
/// through it.
#[test]
fn through_tinyproxy() {
    let ways: [&[&str]; 2] = [&["-m"], &["-Urm"]];
    let permitted = |flags: &&&[&str]| {
        let mut probe = Command::new("unshare");
        probe
            .args(**flags)
            .args(["mount", "--bind", "/etc/hostname", "/etc/hosts"]);
        probe.output().is_ok_and(|output| output.status.success())
    };
    let Some(unshare) = ways.iter().find(permitted) else {
        let in_ci = std::env::var_os("CI").is_some();
        assert!(
            !in_ci,
            "this test must run in CI: nothing can be mounted here"
        );
        return;
    };
    let server = Service::everything("streamableHttp");
    let lab = lab(
        &json!({"type": "http", "url": format!("http://tools.corp.test:{}/mcp", server.port())}),
    );
    let (hosts, settings) = (
        lab.project.join("hosts"),
        lab.project.join("tinyproxy.conf"),
    );
    fs::write(&hosts, "127.0.0.1 localhost tools.corp.test\n").unwrap();
    let proxy = Service::start(|port| {
        let text =
            format!("Port {port}\nListen 127.0.0.1\nBasicAuth me secret\nLogLevel Critical\n");
        fs::write(&settings, text).unwrap();
        let line = format!(
            "mount --bind {} /etc/hosts && exec tinyproxy -d -c {}",
            hosts.display(),
            settings.display()
        );
        let mut command = Command::new("unshare");
        command.args(*unshare).args(["sh", "-c", &line]);
        command
    });
    let call = ["call", "s", "get-sum", "a:=2", "b:=3"];
    let with = |url: &str| lab.run_with(&[("HTTP_PROXY", url)], &call);
    let through = with(&format!("http://me:secret@127.0.0.1:{}", proxy.port())).done();
    assert_eq!(through.stdout, "The sum of 2 and 3 is 5.\n");
    let refused = with(&proxy.url("http", ""));
    assert_eq!(refused.code, Some(3), "{refused:#?}");
    assert!(refused.stderr.contains("407"), "{refused:#?}");
    let without = lab.run(&call);
    assert_eq!(without.code, Some(3), "{without:#?}");
}
