//! `trunkline serve --http`, with the program itself as its client (GW-1, GW-2).

use rustix::process::Signal;
use serde_json::{Value, json};
use trunkline_testkit::net::TestCa;
use trunkline_testkit::wait_for;

use crate::lab::{Lab, Run, Running, SOON, echo, parsed};
use crate::signals::send;

/// A gateway in front of the servers of its lab.
struct Server<'l> {
    running: Running<'l>,
    /// `http://127.0.0.1:PORT/mcp`
    url: String,
}

fn serve<'l>(lab: &'l Lab, more: &[&str]) -> Server<'l> {
    let words = [&["serve", "--http", "127.0.0.1:0", "--json"], more].concat();
    let running = lab.start(&mut lab.command(&words));
    let url = wait_for(SOON, "the URL", || {
        let out = lab.scratch.read("stdout");
        let line = out.lines().next()?;
        Some(parsed(line)["url"].as_str()?.to_owned())
    });
    Server { running, url }
}

impl Server<'_> {
    /// Ends the gateway as Ctrl-C does.
    fn end(self) -> Run {
        send(&self.running, Signal::INT);
        self.running.end()
    }
}

/// Calls a tool through the gateway, as the entry says.
fn call(entry: Value, tool: &str, env: &[(&str, &str)]) -> Run {
    let lab = Lab::with_entries(|_| json!({ "gw": entry }));
    let mut command = lab.command(&["call", "gw", tool, r#"{"a":1}"#]);
    command.envs(env.iter().copied());
    lab.finish(&mut command)
}

const ECHOED: &str = "{\"a\":1}\n";

#[test]
fn clients_of_all_kinds_call_through_the_gateway() {
    let lab = Lab::with([("s", echo())]);
    let server = serve(&lab, &[]);
    let url = &server.url;
    let legacy = [("MCP_PROTOCOL_NEGOTIATION", "legacy")];
    let http = json!({"type": "http", "url": url});
    call(http.clone(), "mcp__s__echo", &[]).is(0, ECHOED, "");
    call(http, "mcp__s__echo", &legacy).is(0, ECHOED, "");
    let one = json!({"type": "http", "url": format!("{url}/s")});
    call(one.clone(), "echo", &[]).is(0, ECHOED, "");
    call(one, "echo", &legacy).is(0, ECHOED, "");
    let sse = json!({"type": "sse", "url": url.replace("/mcp", "/sse")});
    call(sse, "mcp__s__echo", &[]).is(0, ECHOED, "");
    let unnamed = json!({"url": url});
    call(unnamed, "mcp__s__echo", &[]).is(0, ECHOED, "");
    let end = server.end();
    assert_eq!(end.code, Some(130), "{end:#?}");
}

#[test]
fn a_token_is_created_shown_once_used_listed_and_revoked() {
    let lab = Lab::with([("s", echo())]);
    let created = lab.plainly(&[
        "serve",
        "token",
        "create",
        "laptop",
        "--expires",
        "30",
        "--json",
    ]);
    let created = created.json();
    let token = created["token"].as_str().unwrap();
    assert!(token.starts_with("trunkline_") && token.len() > 50);
    assert_eq!(created["status"], "valid");
    let plain = lab.plainly(&["serve", "token", "create", "phone"]);
    let other = plain.out.trim_end().to_owned();
    assert!(other.starts_with("trunkline_"), "{plain:#?}");

    let server = serve(&lab, &["--require-token"]);
    let entry = |token: &str| {
        let headers = json!({"Authorization": format!("Bearer {token}")});
        json!({"type": "http", "url": server.url, "headers": headers})
    };
    call(entry(token), "mcp__s__echo", &[]).is(0, ECHOED, "");
    let none = json!({"type": "http", "url": server.url});
    assert_eq!(call(none, "mcp__s__echo", &[]).code, Some(4));
    assert_ne!(
        call(entry("trunkline_wrong"), "mcp__s__echo", &[]).code,
        Some(0)
    );

    // The gateway runs, so its output must stay in its files.
    let admin = |words: &[&str]| {
        let mut command = lab.bare(words);
        let output = command.output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let (code, listed) = admin(&["serve", "token", "list", "--json"]);
    assert_eq!(code, Some(0));
    let listed = parsed(&listed);
    assert_eq!(listed.as_array().unwrap().len(), 2);
    assert!(!listed.to_string().contains(token), "{listed}");
    let (code, _) = admin(&["serve", "token", "revoke", created["id"].as_str().unwrap()]);
    assert_eq!(code, Some(0));
    let (code, _) = admin(&["serve", "token", "revoke", "laptop"]);
    assert_eq!(code, Some(2), "there is no valid one left");
    wait_for(SOON, "the revocation", || {
        (call(entry(token), "mcp__s__echo", &[]).code != Some(0)).then_some(())
    });
    call(entry(&other), "mcp__s__echo", &[]).is(0, ECHOED, "");
    let (_, text) = admin(&["serve", "token", "list"]);
    assert!(
        text.contains("laptop") && text.contains("revoked"),
        "{text}"
    );
    assert_eq!(server.end().code, Some(130));
}

#[test]
fn tls_serves_the_given_certificate() {
    let lab = Lab::with([("s", echo())]);
    let ca = TestCa::new();
    let authority = ca.write(&lab.scratch);
    let (certificate, key) = ca.server().write(&lab.scratch, "server");
    let files = [certificate.to_str().unwrap(), key.to_str().unwrap()];
    let server = serve(&lab, &["--tls-cert", files[0], "--tls-key", files[1]]);
    assert!(server.url.starts_with("https://"), "{}", server.url);
    let trusted = json!({"type": "http", "url": server.url, "tls": {"ca": authority}});
    call(trusted, "mcp__s__echo", &[]).is(0, ECHOED, "");
    let untrusted = json!({"type": "http", "url": server.url});
    assert_eq!(call(untrusted, "mcp__s__echo", &[]).code, Some(3));
    assert_eq!(server.end().code, Some(130));
    let swapped = [
        "serve",
        "--http",
        "0",
        "--tls-cert",
        files[1],
        "--tls-key",
        files[0],
    ];
    let refused = lab.run(&swapped);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(refused.err.contains("holds no certificate"), "{refused:#?}");
}

#[test]
fn a_port_in_use_and_a_bad_address_are_refused() {
    let lab = Lab::with([("s", echo())]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = lab.run(&["serve", "--http", &address]);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(
        refused
            .err
            .contains(&format!("error: cannot listen on {address}")),
        "{refused:#?}"
    );
    assert_eq!(lab.run(&["serve", "--http", "example.com"]).code, Some(2));
    assert_eq!(lab.run(&["serve", "--require-token"]).code, Some(2));
}
