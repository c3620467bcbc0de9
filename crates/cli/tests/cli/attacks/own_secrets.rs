//! Leaks of our own secrets and those of entries.

use serde_json::json;

use crate::lab::Lab;

/// Variables that hold our own secrets.
const OURS: [&str; 4] = [
    "CLAUDE_CODE_OAUTH_TOKEN",
    "ANTHROPIC_API_KEY",
    "MCP_CLIENT_SECRET",
    "MCP_XAA_IDP_CLIENT_SECRET",
];

/// A child does not inherit our secrets; what its entry sets is the user's own choice.
pub(super) fn in_a_childs_environment() {
    let lab = Lab::new();
    let seen = |name: &str| format!("env > '{}'", lab.at(name).display());
    let shell = |line: String| json!({"command": "sh", "args": ["-c", line]});
    let mut given = shell(seen("given"));
    given["env"] = json!({"ANTHROPIC_API_KEY": "given by the entry"});
    let helped = json!({"type": "http", "url": "http://127.0.0.1:9/mcp",
        "headersHelper": format!("{}; echo '{{}}'", seen("helper"))});
    let servers = json!({"child": shell(seen("child")), "given": given, "helped": helped});
    lab.servers("home/.claude.json", &servers);
    let mut command = lab.bare(&["list"]);
    lab.finish(
        command
            .envs(OURS.map(|name| (name, "hunter2")))
            .env("ENABLE_CLAUDEAI_MCP_SERVERS", "false"),
    );
    let editor = format!("{}; true", seen("editor"));
    let mut command = lab.bare(&["edit", "child", "--editor"]);
    lab.finish(
        command
            .envs(OURS.map(|name| (name, "hunter2")))
            .env("VISUAL", editor),
    );
    for file in ["child", "given", "helper", "editor"] {
        let seen = lab.scratch.read(file);
        assert!(seen.contains("HOME="), "{file}: {seen}");
        assert!(!seen.contains("hunter2"), "{file}: {seen}");
    }
    assert!(lab.scratch.read("given").contains("given by the entry"));
}

/// A reference to our secrets stays as it is.
pub(super) fn in_a_reference() {
    let lab = Lab::new();
    let line = format!("echo \"$1 $COPY\" > '{}'", lab.at("seen").display());
    let servers = json!({
        "child": {"command": "sh", "args": ["-c", line, "sh", "${CLAUDE_CODE_OAUTH_TOKEN}"],
            "env": {"COPY": "${env:CLAUDE_CODE_OAUTH_TOKEN}"}},
        "remote": {"type": "http", "url": "http://127.0.0.1:9/${CLAUDE_CODE_OAUTH_TOKEN}",
            "headers": {"X": "$CLAUDE_CODE_OAUTH_TOKEN"}},
    });
    lab.servers("home/.claude.json", &servers);
    let mut command = lab.bare(&["list"]);
    let run = lab.finish(
        command
            .env("CLAUDE_CODE_OAUTH_TOKEN", "hunter2")
            .env("ENABLE_CLAUDEAI_MCP_SERVERS", "false"),
    );
    run.never_says("hunter2");
    assert!(!lab.scratch.read("seen").contains("hunter2"));
    for server in ["child", "remote"] {
        let told = format!("server \"{server}\": the variable CLAUDE_CODE_OAUTH_TOKEN holds");
        assert!(run.out.contains(&told), "{}", run.out);
    }
}

/// The file of approvals holds hashes where secrets were.
pub(super) fn in_the_file_of_approvals() {
    let lab = Lab::new();
    let entry = |secret: &str| {
        json!({
            "local": {"command": "true", "args": ["--token", secret, format!("--api-key={secret}")],
                "env": {"K": secret}, "license": secret},
            "remote": {"type": "http", "url": format!("https://u:{secret}@h.example/?k={secret}"),
                "headers": {"H": secret}, "headersHelper": format!("echo {secret}")},
        })
    };
    lab.servers(".mcp.json", &entry("hunter2"));
    lab.plainly(&["approve", "--all"]).never_says("hunter2");
    let kept = lab.scratch.read("home/.claude/trunkline/approvals.json");
    assert!(
        kept.contains("sha256") && !kept.contains("hunter2"),
        "{kept}"
    );
    lab.servers(".mcp.json", &entry("hunter3"));
    let run = lab.plainly(&["list"]);
    run.never_says("hunter");
    for field in [
        "args",
        "env.K",
        "license",
        "url",
        "headers.H",
        "headersHelper",
    ] {
        let told = format!("~ {field}: different value");
        assert!(run.out.contains(&told), "{told}: {}", run.out);
    }
}
