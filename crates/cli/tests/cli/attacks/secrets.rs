//! Secrets on the screen, in logs and in files (SEC-1).

use serde_json::json;

use crate::lab::{Lab, echo, files_under};

/// A password without a recognisable name or shape.
const SECRET: &str = "hunter2x";

/// Entries with a secret in every place where one can stand, by what the masking rules know of.
pub(crate) fn entries(lab: &Lab) -> serde_json::Value {
    // It repeats to everybody what it was given.
    let script = echo()
        .on_start(json!([{"stderr": format!("started with {SECRET}")}]))
        .tool("fail", json!([{"stderr": format!("key {SECRET}")}, {"replyError": {"code": -1, "message": format!("bad key {SECRET}")}}]))
        .tool("crash", json!([{"stderr": format!("key {SECRET}")}, {"exit": 1}]));
    let mut script: serde_json::Value = serde_json::from_str(&script.to_json()).unwrap();
    script["serverInfo"] =
        json!({"name": format!("I know {SECRET}"), "title": SECRET, "version": SECRET});
    script["instructions"] = json!(format!("use {SECRET}"));
    let script = trunkline_testkit::Script::parse(&script.to_string()).unwrap();
    let mut talks = lab.scratch.entry("talks", &script);
    talks["env"]["TALK_TOKEN"] = json!(SECRET);
    json!({
        "talks": talks,
        "docker": {"command": "no-such-program", "args": ["run", "-e", format!("GITHUB_TOKEN={SECRET}"), format!("--env=API_KEY={SECRET}"), "image"]},
        "curl": {"command": "no-such-program", "args": ["--header", format!("Authorization: Bearer {SECRET}"), "-H", format!("X-Key: {SECRET}")]},
        "db": {"command": "no-such-program", "args": [format!("postgresql://user:{SECRET}@db.example/app"), format!("--password={SECRET}")]},
        "line": {"command": format!("no-such-program --api-key {SECRET}1")},
        "url": {"type": "http", "url": format!("http://me:{SECRET}@127.0.0.1:9/mcp?k={SECRET}&d=${{UNSET:-{SECRET}}}")},
        "head": {"type": "http", "url": "http://127.0.0.1:9/", "headers": {"X-Auth": SECRET, "X-Default": format!("${{UNSET:-{SECRET}}}")}},
        "again": {"command": "no-such-program", "args": ["-c", format!("echo {SECRET}")], "env": {"FOOTOK": SECRET}, "note": {"about": [SECRET]}},
        "literal": {"type": "http", "url": "http://127.0.0.1:9/", "headersHelper": format!("echo '{{\"X-Helper\": \"{SECRET}\"}}'")},
        "odd": {"command": "no-such-program", "args": ["--token", format!("-{SECRET}9Kq2"), "--app-key", SECRET, format!("--token1={SECRET}"), format!("--token:{SECRET}"), "--basic-auth", format!("u:{SECRET}"), format!("a=b;AccountKey={SECRET}=="), format!("root:{SECRET}@tcp(h:3306)/db"), format!("jdbc:oracle:thin:u/{SECRET}@h"), format!("sv=1&sig={SECRET}"), format!("https://hooks.slack.com/services/T0/B0/{SECRET}9Kq2")]},
        "helper": {"type": "http", "url": "http://127.0.0.1:9/", "headersHelper": format!("echo '{{\"Authorization\": \"Bearer {SECRET}\"}}'")},
    })
}

/// Every command that prints, over entries of the user, of the project and of another client.
pub(super) fn on_every_screen() {
    let lab = Lab::new();
    let entries = entries(&lab);
    lab.servers("home/.claude.json", &entries);
    let project = |first: &str| {
        let entries = entries.as_object().unwrap().iter();
        let mut shared: serde_json::Value = entries
            .map(|(name, entry)| (format!("p-{name}"), entry.clone()))
            .collect::<serde_json::Map<_, _>>()
            .into();
        shared["p-db"]["args"][1] = json!(first);
        lab.servers(".mcp.json", &shared)
    };
    project("--password=before");
    lab.servers("home/.cursor/mcp.json", &entries);
    let names: Vec<&str> = [
        "talks", "docker", "curl", "db", "line", "url", "head", "helper", "again", "literal", "odd",
    ]
    .into();
    let mut commands: Vec<Vec<&str>> = vec![
        vec!["get", "p-docker"],
        vec!["approve", "p-url"],
        vec!["list"],
        vec!["list", "--json"],
        vec!["status"],
        vec!["status", "--json"],
        vec!["tools"],
        vec!["tools", "--json"],
        vec!["search", "echo"],
        vec!["prompts"],
        vec!["resources"],
        vec!["call", "talks", "fail"],
        vec!["call", "talks", "crash"],
        vec!["call", "talks", "fail", "--json"],
        vec!["--trace", "trace.jsonl", "call", "talks", "fail"],
        vec!["--trace", "-", "call", "talks", "fail"],
        vec!["import", "cursor", "--dry-run"],
        vec!["import", "cursor", "--dry-run", "--json"],
        vec!["approve", "--all"],
        vec!["logs"],
        vec!["logs", "--json"],
    ];
    for name in &names {
        commands.push(vec!["get", name]);
        commands.push(vec!["get", name, "--json"]);
        commands.push(vec!["tools", name]);
        commands.push(vec!["call", name, "t", "--json"]);
    }
    for words in &commands {
        let run = lab.plainly(words);
        assert!(run.code.is_some(), "{run:#?}");
        run.never_says(SECRET);
    }
    // What was approved has changed: the difference is shown.
    project(&format!("--password={SECRET}"));
    for words in [
        &["list"][..],
        &["status"],
        &["approve", "p-db"],
        &["list", "--json"],
    ] {
        lab.plainly(words).never_says(SECRET);
    }
    // The attacker's own files; what approvals keep has a row of its own.
    let written = [
        "approvals.json",
        ".claude.json",
        ".mcp.json",
        "mcp.json",
        "stdout",
        "stderr",
        "talks.json",
    ];
    for file in files_under(lab.scratch.path()) {
        let name = file.file_name().unwrap().to_str().unwrap();
        let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
        assert!(
            written.contains(&name) || !text.contains(SECRET),
            "{}",
            file.display()
        );
    }
}

/// Masking that hides which code runs, or where it runs, would help an attacker more than a secret
/// on the screen.
pub(super) fn not_what_one_needs() {
    let lab = Lab::new();
    let project = lab.scratch.path().display().to_string();
    let trace = format!("  File \"{project}/server.py\", line 3, in main");
    let script = echo().on_start(
        json!([{"stderr": &trace}, {"stderr": "production mode on port 3000"}, {"exit": 1}]),
    );
    let mut entry = lab.scratch.entry("s", &script);
    entry["env"]["PROJECT"] = json!(project);
    entry["env"]["MODE"] = json!("production");
    entry["env"]["PORT"] = json!("3000");
    lab.servers("home/.claude.json", &json!({"s": entry}));
    for words in [&["list"][..], &["logs", "s"]] {
        let run = lab.plainly(words);
        for line in [
            "  File \"[DIR]/server.py\", line 3, in main\n",
            "production mode on port 3000\n",
        ] {
            assert!(run.out.contains(line), "{line}: {}", run.out);
        }
    }
}

/// A server that repeats its secret as other programs would write it.
pub(super) fn in_other_spellings() {
    let secret = "Zx9/qW+e7Rt=";
    let spellings = [
        secret,
        "Zx9/qW%2Be7Rt%3D",
        "Zx9%2fqW%2be7Rt%3d",
        "Zx9\\/qW+e7Rt=",
        "Zx9/qW\\u002be7Rt\\u003d",
        "Zx9&#x2F;qW&plus;e7Rt&#61;",
        "Wng5L3FXK2U3UnQ9",
        "dXNlcjpaeDkvcVcrZTdSdD0=",
        "QmVhcmVyIFp4OS9xVytlN1J0PQ==",
    ];
    let all = spellings.join(" , ");
    let script = echo()
        .on_start(json!([{"stderr": &all}]))
        .tool(
            "fail",
            json!([{"stderr": &all}, {"replyError": {"code": -1, "message": &all}}]),
        )
        .tool("crash", json!([{"stderr": &all}, {"exit": 1}]));
    let lab = Lab::new();
    let mut entry = lab.scratch.entry("s", &script);
    entry["env"]["K"] = json!(secret);
    lab.servers("home/.claude.json", &json!({"s": entry}));
    for words in [
        &["call", "s", "fail"][..],
        &["call", "s", "crash"],
        &["--trace", "-", "call", "s", "fail"],
        &["list"],
        &["logs", "s"],
        &["logs", "s", "--json"],
    ] {
        let run = lab.plainly(words);
        for spelling in spellings {
            run.never_says(spelling);
        }
    }
}
