//! CFG-7: allow and deny lists.

use serde_json::{Value, json};

use crate::lab::{GLOBAL, Lab, MANAGED_SETTINGS, SHARED, USER, commands, of_project, server};

/// The servers that policy is tried on.
fn servers() -> Value {
    json!({"mcpServers": {
        "a": {"command": "npx", "args": ["-y", "a"]},
        "b": {"command": "npx", "args": ["-y", "b"]},
        "web": {"url": "https://web.example/mcp"},
    }})
}

/// Writes settings and returns the servers that run.
fn running(files: &[(&str, Value)]) -> String {
    let lab = Lab::new();
    lab.put(GLOBAL, servers());
    for (file, content) in files {
        lab.put(file, content);
    }
    let set = lab.load();
    assert_eq!(set.servers.len(), 3);
    let names: Vec<_> = set.active().map(|entry| entry.name.clone()).collect();
    names.join(" ")
}

fn allow(rules: &Value) -> Value {
    json!({"allowedMcpServers": rules})
}

fn deny(rules: &Value) -> Value {
    json!({"deniedMcpServers": rules})
}

#[test]
fn what_is_allowed() {
    let name = |name: &str| json!({"serverName": name});
    let command = |last: &str| json!({"serverCommand": ["npx", "-y", last]});
    let url = |url: &str| json!({"serverUrl": url});
    for (rules, runs) in [
        (json!([]), ""),
        (json!([name("a")]), "a"),
        (json!([name("A")]), ""),
        (json!([name("a"), name("web")]), "a web"),
        (json!([command("b")]), "b"),
        // If commands are listed, a name is not enough for a command; likewise for URLs.
        (json!([name("a"), name("web"), command("b")]), "b web"),
        (
            json!([name("a"), name("web"), url("https://other.example/*")]),
            "a",
        ),
        (json!([url("https://web.example/*")]), "web"),
        (json!([url("https://*.example/mcp"), command("a")]), "a web"),
        (json!([{"serverCommand": ["npx", "-y"]}]), ""),
        (json!([{"serverCommand": ["npx"]}]), ""),
        (json!([{"serverCommand": ["-y", "npx", "a"]}]), ""),
        // A malformed rule allows nothing.
        (json!(["a"]), ""),
        (json!([{"serverName": "a", "serverUrl": "*"}]), ""),
        (json!("a"), ""),
    ] {
        for file in [USER, MANAGED_SETTINGS] {
            assert_eq!(running(&[(file, allow(&rules))]), runs, "{file} {rules}");
        }
    }
    assert_eq!(running(&[]), "a b web");
}

#[test]
fn what_is_denied() {
    for (rules, runs) in [
        (json!([]), "a b web"),
        (json!([{"serverName": "a"}]), "b web"),
        (json!([{"serverCommand": ["npx", "-y", "b"]}]), "a web"),
        (json!([{"serverCommand": ["npx", "-y"]}]), "a b web"),
        (json!([{"serverUrl": "https://web.example/*"}]), "a b"),
        (json!([{"serverUrl": "*web*"}]), "a b"),
        (json!([{"serverUrl": "https://other.example/*"}]), "a b web"),
        // Better deny too much than too little.
        (json!(["a"]), "b web"),
        (
            json!([{"serverName": "a", "serverUrl": "https://web.example/*"}]),
            "b",
        ),
    ] {
        for file in [USER, MANAGED_SETTINGS] {
            assert_eq!(running(&[(file, deny(&rules))]), runs, "{file} {rules}");
        }
    }
}

#[test]
fn a_deny_list_that_is_no_list_denies_what_can_be_guessed() {
    for rules in [json!({"serverName": "a"}), json!("a")] {
        assert_eq!(
            running(&[(MANAGED_SETTINGS, deny(&rules))]),
            "b web",
            "{rules}"
        );
    }
}

#[test]
fn deny_wins_over_allow_in_every_combination_of_files() {
    for allowing in [USER, MANAGED_SETTINGS] {
        for denying in [USER, MANAGED_SETTINGS] {
            let rules = json!([{"serverName": "a"}, {"serverName": "b"}]);
            let mut first = allow(&rules);
            let denied = json!([{"serverName": "a"}]);
            let files = if allowing == denying {
                first["deniedMcpServers"] = denied;
                vec![(allowing, first)]
            } else {
                vec![(allowing, first), (denying, deny(&denied))]
            };
            assert_eq!(running(&files), "b", "{allowing} {denying}");
        }
    }
}

#[test]
fn the_lists_of_company_and_user_count_together() {
    let a = || allow(&json!([{"serverName": "a"}]));
    let web = || allow(&json!([{"serverName": "web"}]));
    assert_eq!(running(&[(MANAGED_SETTINGS, a()), (USER, web())]), "a web");
    assert_eq!(
        running(&[(MANAGED_SETTINGS, a()), (USER, allow(&json!([])))]),
        "a"
    );
    let denied = |name: &str| deny(&json!([{"serverName": name}]));
    assert_eq!(
        running(&[(MANAGED_SETTINGS, denied("a")), (USER, denied("web"))]),
        "b"
    );
}

#[test]
fn with_managed_lists_only_the_user_allows_nothing_and_still_denies() {
    let managed = |mut settings: Value| {
        settings["allowManagedMcpServersOnly"] = json!(true);
        settings
    };
    let a = || allow(&json!([{"serverName": "a"}]));
    let all = || allow(&json!([{"serverName": "a"}, {"serverName": "b"}, {"serverName": "web"}]));
    assert_eq!(
        running(&[(MANAGED_SETTINGS, managed(a())), (USER, all())]),
        "a"
    );
    assert_eq!(
        running(&[(MANAGED_SETTINGS, managed(json!({}))), (USER, a())]),
        "a b web"
    );
    let denied = deny(&json!([{"serverName": "a"}]));
    assert_eq!(
        running(&[(MANAGED_SETTINGS, managed(all())), (USER, denied)]),
        "b web"
    );
    // Only managed settings may set this.
    assert_eq!(
        running(&[(MANAGED_SETTINGS, a()), (USER, managed(all()))]),
        "a b web"
    );
    assert_eq!(
        running(&[(MANAGED_SETTINGS, a()), (SHARED, managed(all()))]),
        "a"
    );
}

#[test]
fn managed_settings_that_cannot_be_read_let_nothing_run() {
    let cases: [&[u8]; 5] = [b"", b"{", b"[]", b"\xff", b"{\"allowedMcpServers\": [}"];
    for bytes in cases {
        let lab = Lab::new();
        lab.put(GLOBAL, commands([("s", "c")]));
        lab.put_bytes(MANAGED_SETTINGS, bytes);
        let set = lab.load();
        assert_eq!(
            lab.servers(&set),
            [
                "s user [c] blocked: the lists of allowed and denied servers cannot be read, so no server may run (etc/managed-settings.json)"
            ]
        );
        assert_eq!(set.diagnostics.len(), 1);
    }
    let lab = Lab::new();
    lab.put(GLOBAL, commands([("s", "c")]));
    std::fs::create_dir(lab.at(MANAGED_SETTINGS)).unwrap();
    assert_eq!(lab.load().active().count(), 0);
}

#[test]
fn broken_managed_settings_do_not_keep_what_they_said_before() {
    let lab = Lab::new();
    lab.put(GLOBAL, commands([("s", "c")]));
    lab.put(MANAGED_SETTINGS, "{}");
    let loader = lab.loader();
    assert_eq!(loader.load(&[]).active().count(), 1);
    lab.put(MANAGED_SETTINGS, "{");
    assert_eq!(loader.load(&[]).active().count(), 0);
}

#[test]
fn every_scope_is_subject_to_policy() {
    let lab = Lab::new();
    lab.put(
        MANAGED_SETTINGS,
        deny(&json!([{"serverCommand": ["evil"]}, {"serverUrl": "https://evil.example/*"}])),
    );
    let mut global = of_project(&commands([("l", "evil")]));
    global["mcpServers"] =
        json!({"u": {"command": "evil"}, "v": {"type": "sse", "url": "https://evil.example/"}});
    lab.put(GLOBAL, global);
    lab.put(USER, json!({"mcpServers": {"w": {"type": "ws", "url": "wss://evil.example/"}}, "deniedMcpServers": [{"serverUrl": "wss://evil.example/*"}]}));
    lab.put(crate::lab::PROJECT, commands([("p", "evil")]));
    lab.put("plugin/.mcp.json", commands([("g", "evil")]));
    let loader = lab
        .loader()
        .approve_project(true)
        .plugin_dirs([lab.at("plugin")])
        .mcp_config([commands([("d", "evil")]).to_string()]);
    let connector = trunkline_config::ConnectorEntry {
        name: "claude.ai E".to_owned(),
        id: "i".to_owned(),
        url: "https://evil.example/mcp".to_owned(),
        proxy_url: String::new(),
    };
    let set = loader.load(&[connector]);
    assert_eq!(set.servers.len(), 8);
    assert_eq!(set.for_host().count(), 0, "{:?}", lab.servers(&set));
}

/// Whether an entry named `s` runs with these rules.
fn runs(rules: &Value, entry: &Value) -> bool {
    let lab = Lab::new();
    lab.put(MANAGED_SETTINGS, rules);
    lab.put(GLOBAL, server("s", entry));
    let set = lab
        .loader_with(&[
            ("CMD", "evil"),
            ("HALF", "il"),
            ("HOST", "evil.example"),
            ("NONE", ""),
        ])
        .load(&[]);
    set.active().count() == 1
}

#[test]
fn a_variable_hides_no_command() {
    let rules = deny(&json!([{"serverCommand": ["evil", "x"]}]));
    for entry in [
        json!({"command": "evil", "args": ["x"]}),
        json!({"command": "$CMD", "args": ["x"]}),
        json!({"command": "${CMD}", "args": ["x"]}),
        json!({"command": "${env:CMD}", "args": ["x"]}),
        json!({"command": "ev${HALF}", "args": ["x"]}),
        json!({"command": "${UNSET:-evil}", "args": ["x"]}),
        json!({"command": "evil${NONE}", "args": ["${UNSET:-x}"]}),
        json!({"command": "evil", "args": ["${keyring:s/a}"]}),
        json!({"type": "stdio", "command": "evil", "args": ["x"], "env": {"A": "b"}, "cwd": "/", "url": "https://ok.example/"}),
    ] {
        assert!(!runs(&rules, &entry), "{entry}");
    }
    for entry in [
        json!({"command": "evil"}),
        json!({"command": "evil", "args": ["x", "y"]}),
        json!({"command": "evil", "args": ["$UNSET"]}),
    ] {
        assert!(runs(&rules, &entry), "{entry}");
    }
}

#[test]
fn a_variable_fulfils_no_allowed_command_by_its_name() {
    let rules = allow(&json!([{"serverCommand": ["${CMD}"]}, {"serverCommand": ["fine"]}]));
    assert!(!runs(&rules, &json!({"command": "${CMD}"})));
    assert!(!runs(&rules, &json!({"command": "${keyring:s/a}"})));
    assert!(runs(&rules, &json!({"command": "${UNSET:-fine}"})));
}

#[test]
fn no_spelling_of_a_denied_url_gets_through() {
    for pattern in [
        "https://evil.example/mcp",
        "https://evil.example/*",
        "https://EVIL.example:443/*",
        "https://*.example/*",
        "*://evil.example/*",
        "*evil.example*",
    ] {
        let rules = deny(&json!([{"serverUrl": pattern}]));
        for url in [
            "https://evil.example/mcp",
            "HTTPS://Evil.Example:443/mcp",
            "https://user@evil.example/mcp",
            "https://user:pw@evil.example/mcp",
            "https://good.example@evil.example/mcp",
            "https://evil.example./mcp",
            "https://evil.example/a/../mcp",
            "https://evil.example/a/%2e%2e/mcp",
            "https://evil.example/%6dcp",
            "https://evil.example/mcp?x=y",
            "https://evil.example/mcp#x",
            "https://evil.example/mcp/",
            "https:\\\\evil.example\\mcp",
            " https://evil.example/mcp ",
            "https://ｅｖｉｌ.example/mcp",
            "https://evil%2eexample/mcp",
            "https://${HOST}/mcp",
            "https://$HOST/mcp",
            "https://ev${HALF}.example/mcp",
            "${UNSET:-https://evil.example/mcp}",
            "https://${UNSET}/mcp",
            "https://${keyring:s/a}/mcp",
            "https://proxy.example.com/?mcp_url=https%3A%2F%2Fevil.example%2Fmcp",
        ] {
            assert!(!runs(&rules, &json!({"url": url})), "{pattern} {url}");
        }
        assert!(
            runs(&rules, &json!({"url": "https://good.test/mcp"})),
            "{pattern}"
        );
    }
}

#[test]
fn punycode_is_the_same_host() {
    for (pattern, url) in [
        ("https://bücher.example/*", "https://xn--bcher-kva.example/"),
        ("https://xn--bcher-kva.example/*", "https://BÜCHER.example/"),
    ] {
        assert!(!runs(
            &deny(&json!([{"serverUrl": pattern}])),
            &json!({"url": url})
        ));
        assert!(runs(
            &allow(&json!([{"serverUrl": pattern}])),
            &json!({"url": url})
        ));
    }
}

#[test]
fn an_allowed_url_cannot_be_stretched() {
    let rules = allow(&json!([{"serverUrl": "https://*.good.example/api/*"}]));
    for url in [
        "https://evil.example/.good.example/api/x",
        "https://evil.example?.good.example/api/x",
        "https://evil.example#.good.example/api/x",
        "https://x.good.example@evil.example/api/x",
        "https://x.good.example.evil.example/api/x",
        "https://x.good.example:8443/api/x",
        "http://x.good.example/api/x",
        "https://x.good.example/api/../x",
        "https://x.good.example/api/%2e%2e/x",
        "https://good.example/api/x",
        "https://${UNSET}.good.example/api/x",
        "https://user@x.good.example/api/x",
    ] {
        assert!(!runs(&rules, &json!({"url": url})), "{url}");
    }
    assert!(runs(
        &rules,
        &json!({"url": "https://X.Good.Example:443/api/x"})
    ));
}

#[test]
fn a_denied_name_is_denied_in_every_spelling() {
    for name in ["my.server", "my_server", "my server", "my/server"] {
        let lab = Lab::new();
        lab.put(GLOBAL, commands([(name, "c")]));
        lab.put(USER, deny(&json!([{"serverName": "my.server"}])));
        assert_eq!(lab.load().active().count(), 0, "{name}");
    }
}

#[test]
fn a_rule_that_is_not_understood_is_named() {
    let lab = Lab::new();
    lab.put(
        USER,
        "{\"deniedMcpServers\": [{\"serverName\": \"ok\"},\n{\"serverNmae\": \"x\"}, 5]}",
    );
    let told = "\"deniedMcpServers\": write {\"serverName\": …}, {\"serverCommand\": […]} or {\"serverUrl\": …}, one in each element";
    lab.check_with_problems(
        &[],
        &[
            &format!("home/.claude/settings.json:2:1: {told}"),
            &format!("home/.claude/settings.json:2:22: {told}"),
        ],
    );
}

#[test]
fn the_rule_and_its_file_are_named() {
    let lab = Lab::new();
    lab.put(GLOBAL, servers());
    lab.put(
        MANAGED_SETTINGS,
        deny(&json!([{"serverCommand": ["npx", "-y", "a"]}])),
    );
    lab.put(
        USER,
        allow(&json!([{"serverName": "a"}, {"serverName": "b"}])),
    );
    lab.check(&[
        "a user [npx -y a] blocked: denied by {\"serverCommand\":[\"npx\",\"-y\",\"a\"]} (etc/managed-settings.json)",
        "b user [npx -y b] active",
        "web user [https://web.example/mcp] blocked: its name is not in allowedMcpServers (home/.claude/settings.json)",
    ]);
}
