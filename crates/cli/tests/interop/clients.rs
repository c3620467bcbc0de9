//! Other people's clients, behind which `trunkline serve` shows server-everything: the SDKs of both
//! eras over stdio and HTTP, the inspector and mcporter.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::lab::Lab;
use crate::servers::{Server, installed};
use crate::service::Service;

/// A client whose script in `clients` tries everything and prints a JSON object.
struct Client {
    /// Its interpreter in `target/interop`.
    interpreter: &'static str,
    script: &'static str,
    /// The version that it speaks, if it tells.
    version: Option<&'static str>,
    /// Whether it can cancel a call.
    cancels: bool,
}

const TYPESCRIPT_1: Client = Client {
    interpreter: "node_modules/node/bin/node",
    script: "typescript1.mjs",
    version: None,
    cancels: true,
};

const TYPESCRIPT_2: Client = Client {
    interpreter: "node_modules/node/bin/node",
    script: "typescript2.mjs",
    version: Some("2026-07-28"),
    cancels: true,
};

const PYTHON_1: Client = Client {
    interpreter: "venv-legacy/bin/python",
    script: "python1.py",
    version: None,
    cancels: false,
};

const PYTHON_2: Client = Client {
    interpreter: "venv/bin/python",
    script: "python2.py",
    version: Some("2026-07-28"),
    cancels: true,
};

const FASTMCP: Client = Client {
    interpreter: "venv/bin/python",
    script: "fastmcp_client.py",
    version: None,
    cancels: false,
};

/// The gateway over HTTP, and its URL.
fn gateway(lab: &Lab) -> (Service, String) {
    let service = Service::start(|port| {
        let address = format!("127.0.0.1:{port}");
        lab.program(&["--no-daemon", "serve", "--http", &address])
    });
    let url = service.url("http", "/mcp");
    (service, url)
}

/// The words that start the gateway on stdio.
fn stdio_words(lab: &Lab) -> Vec<String> {
    let command = lab.program(&["--no-daemon", "serve"]);
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_str().unwrap().to_owned())
        .collect()
}

fn finish(mut command: Command) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn try_over(lab: &Lab, client: &Client, way: &str, words: &[String]) {
    let scripts = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/interop/clients");
    let mut command = lab.command(installed().join(client.interpreter));
    command
        .arg(scripts.join(client.script))
        .arg(way)
        .args(words)
        .env("PACKAGES", installed());
    let said: Value = serde_json::from_str(&finish(command)).unwrap();
    let context = format!("{} over {way}: {said}", client.script);
    let has = |member: &str, name: &str| {
        let names = said[member].as_array().unwrap();
        assert!(names.contains(&json!(name)), "{member} of {context}");
    };
    has("tools", "mcp__everything__get-sum");
    has("prompts", "mcp__everything__simple-prompt");
    assert_eq!(said["echo"], "Echo: héllo", "{context}");
    assert_ne!(said["resource"].as_str().unwrap(), "", "{context}");
    assert_ne!(said["prompt"].as_str().unwrap(), "", "{context}");
    let progress: Vec<f64> = serde_json::from_value(said["progress"].clone()).unwrap();
    // The last step and the result come together, and some clients are done with the result.
    assert!(progress.starts_with(&[1.0, 2.0, 3.0]), "{context}");
    let question = said["asked"][0].as_str().unwrap();
    assert!(question.starts_with("[everything] "), "{context}");
    let elicited = said["elicited"].as_str().unwrap();
    assert!(elicited.contains("- Name: Ada"), "{context}");
    if client.cancels {
        assert_eq!(said["cancelled"], true, "{context}");
    }
    if let Some(version) = client.version {
        assert_eq!(said["version"], version, "{context}");
    }
}

/// Tries a client on both ways. At the end, no server is left.
fn try_client(client: &Client) {
    let lab = Lab::with(&[Server::Everything]);
    try_over(&lab, client, "stdio", &stdio_words(&lab));
    let (service, url) = gateway(&lab);
    try_over(&lab, client, "http", &[url]);
    drop(service);
}

#[test]
fn typescript_1_uses_everything_through_the_gateway() {
    try_client(&TYPESCRIPT_1);
}

#[test]
fn typescript_2_uses_everything_through_the_gateway() {
    try_client(&TYPESCRIPT_2);
}

#[test]
fn python_1_uses_everything_through_the_gateway() {
    try_client(&PYTHON_1);
}

#[test]
fn python_2_uses_everything_through_the_gateway() {
    try_client(&PYTHON_2);
}

#[test]
fn fastmcp_uses_everything_through_the_gateway() {
    try_client(&FASTMCP);
}

#[test]
fn the_inspector_and_mcporter_use_the_gateway() {
    let lab = Lab::with(&[Server::Everything]);
    let program = |name: &str| {
        let bin = installed().join("node_modules/.bin");
        let mut command = lab.command(bin.join("node"));
        command.arg(bin.join(name));
        command
    };
    let mut listed = program("mcp-inspector");
    listed.arg("--cli").args(stdio_words(&lab));
    let listed = finish({
        listed.args(["--method", "tools/list"]);
        listed
    });
    assert!(listed.contains("mcp__everything__get-sum"), "{listed}");

    let (_service, url) = gateway(&lab);
    let mut called = program("mcp-inspector");
    called.args(["--cli", &url, "--transport", "http"]);
    called.args(["--method", "tools/call"]);
    called.args(["--tool-name", "mcp__everything__echo"]);
    called.args(["--tool-arg", "message=hi"]);
    let called = finish(called);
    assert!(called.contains("Echo: hi"), "{called}");

    let mut called = program("mcporter");
    called.args(["call", &format!("{url}.mcp__everything__echo")]);
    called.args(["message=hi", "--allow-http"]);
    assert_eq!(finish(called).trim(), "Echo: hi");
}
