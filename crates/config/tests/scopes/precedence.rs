//! CFG-1: precedence of scopes with the same name.

use proptest::prelude::*;
use serde_json::{Value, json};
use trunkline_config::{ConnectorEntry, EntryStatus, TransportEntry};

use crate::lab::{
    GLOBAL, Lab, MANAGED, MANAGED_SETTINGS, PROJECT, USER, commands, of_project, server,
};

/// The sources that may have the name, strongest first, except for the enterprise configuration.
const PLACES: [&str; 7] = [
    "dynamic",
    "local",
    "near",
    "above",
    "user",
    "settings",
    "connector",
];

fn connector(name: &str) -> ConnectorEntry {
    ConnectorEntry {
        name: name.to_owned(),
        id: "i".to_owned(),
        url: "https://connector.example/".to_owned(),
        proxy_url: String::new(),
    }
}

#[test]
fn each_scope_beats_all_weaker_ones() {
    let order = ["dynamic", "local", "project", "user", "claudeai"];
    for strongest in 0..order.len() {
        let lab = Lab::new();
        let present = |scope: &str| order[strongest..].contains(&scope);
        let mut global = json!({});
        if present("local") {
            global = of_project(&commands([("s", "local")]));
        }
        if present("user") {
            global["mcpServers"] = json!({"s": {"command": "user"}});
        }
        lab.put(GLOBAL, global);
        if present("project") {
            lab.put(PROJECT, commands([("s", "project")]));
        }
        let mut loader = lab.loader().approve_project(true);
        if present("dynamic") {
            loader = loader.mcp_config([commands([("s", "dynamic")]).to_string()]);
        }
        let set = loader.load(&[connector("s")]);
        let scopes: Vec<_> = set
            .servers
            .iter()
            .map(|server| server.entry.scope.name())
            .collect();
        assert_eq!(scopes, order[strongest..]);
        assert_eq!(set.active().count(), 1);
        assert_eq!(set.servers[0].status, EntryStatus::Active);
        assert_eq!(set.servers[0].shadows.len(), order.len() - strongest - 1);
    }
}

#[test]
fn the_company_s_file_beats_them_all() {
    let lab = Lab::new();
    lab.put(MANAGED, commands([("s", "managed")]));
    lab.put(GLOBAL, of_project(&commands([("s", "local")])));
    lab.check(&["s enterprise [managed] active"]);
}

#[test]
fn the_whole_entry_wins_and_nothing_is_merged_into_it() {
    let lab = Lab::new();
    let weak = json!({
        "command": "weak", "args": ["a"], "env": {"K": "v"}, "cwd": "/weak", "timeout": 5, "connectTimeout": 6,
        "alwaysLoad": true, "disabled": true, "tools": {"allow": ["x"]}, "sandbox": {"network": "none"},
    });
    let mut global = of_project(&server("s", &json!({"command": "strong"})));
    global["mcpServers"] = json!({"s": weak});
    lab.put(GLOBAL, global);
    let set = lab.load();
    lab.check_set(
        &set,
        &[
            "s local [strong] active",
            "s user [weak a] shadowed by local (home/.claude.json)",
        ],
    );
    let entry = set.active().next().unwrap();
    let TransportEntry::Stdio(stdio) = &entry.transport else {
        panic!("a child process");
    };
    assert!(stdio.env.is_empty() && stdio.cwd.is_none());
    assert_eq!((entry.timeout, entry.connect_timeout), (None, None));
    assert!(!entry.always_load && !entry.disabled && entry.sandbox.is_none());
    assert!(entry.tools.offers("anything"));
}

#[test]
fn another_transport_wins_as_a_whole_too() {
    let lab = Lab::new();
    let mut global = of_project(&server("s", &json!({"url": "https://h.example/"})));
    global["mcpServers"] = json!({"s": {"command": "weak"}});
    lab.put(GLOBAL, global);
    lab.check(&[
        "s local [https://h.example/] active",
        "s user [weak] shadowed by local (home/.claude.json)",
    ]);
}

#[test]
fn a_blocked_dynamic_entry_does_not_hide_an_earlier_one() {
    let lab = Lab::new();
    lab.put(
        MANAGED_SETTINGS,
        json!({"deniedMcpServers": [{"serverCommand": ["denied"]}]}),
    );
    let arguments = ["fine", "denied"].map(|command| commands([("s", command)]).to_string());
    let set = lab.loader().mcp_config(arguments).load(&[]);
    let active: Vec<_> = set.active().map(|entry| entry.transport.argv()).collect();
    assert_eq!(active, [Some(vec!["fine"])], "{:?}", lab.servers(&set));
}

/// The settings about the project's servers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Approval {
    Silence,
    Approved,
    Rejected,
    Both,
}

/// The entry of one source: whether policy denies it, and whether it disables itself.
#[derive(Clone, Copy, Debug)]
struct Entry {
    denied: bool,
    disabled: bool,
}

#[derive(Clone, Debug)]
struct Mix {
    entries: [Option<Entry>; PLACES.len()],
    managed: Option<Entry>,
    approval: Approval,
    /// Whether the name is disabled and enabled for the project.
    off: bool,
    on: bool,
}

fn mix() -> impl Strategy<Value = Mix> {
    let entry = || {
        let present = (any::<bool>(), prop::bool::weighted(0.3))
            .prop_map(|(denied, disabled)| Entry { denied, disabled });
        prop::option::weighted(0.6, present)
    };
    let approval = prop_oneof![
        Just(Approval::Silence),
        Just(Approval::Approved),
        Just(Approval::Rejected),
        Just(Approval::Both),
    ];
    let entries = prop::collection::vec(entry(), PLACES.len());
    let managed = prop::option::weighted(0.1, (any::<bool>(), any::<bool>()));
    (
        entries,
        managed,
        approval,
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.3),
    )
        .prop_map(|(entries, managed, approval, off, on)| Mix {
            entries: entries.try_into().unwrap(),
            managed: managed.map(|(denied, disabled)| Entry { denied, disabled }),
            approval,
            off,
            on,
        })
}

impl Mix {
    fn entry(&self, place: &str) -> Option<Entry> {
        let at = PLACES.iter().position(|known| *known == place).unwrap();
        self.entries[at]
    }

    /// A file with the entry of the source, or an empty one.
    fn file(&self, place: &str) -> Value {
        let Some(entry) = self.entry(place) else {
            return json!({"mcpServers": {}});
        };
        server("s", &json!({"command": place, "disabled": entry.disabled}))
    }

    fn write(&self, lab: &Lab) {
        let mut local = self.file("local");
        let names = |yes: bool| if yes { json!(["s"]) } else { json!([]) };
        let approved = matches!(self.approval, Approval::Approved | Approval::Both);
        let rejected = matches!(self.approval, Approval::Rejected | Approval::Both);
        local["enabledMcpjsonServers"] = names(approved);
        local["disabledMcpjsonServers"] = names(rejected);
        local["disabledMcpServers"] = names(self.off);
        local["enabledMcpServers"] = names(self.on);
        let mut global = of_project(&local);
        global["mcpServers"] = self.file("user")["mcpServers"].take();
        lab.put(GLOBAL, global);
        lab.put(USER, self.file("settings"));
        lab.put("repo/x/.mcp.json", self.file("near"));
        lab.put(PROJECT, self.file("above"));
        let mut denied: Vec<_> = PLACES
            .iter()
            .filter(|place| self.entry(place).is_some_and(|entry| entry.denied))
            .map(|place| json!({"serverCommand": [place]}))
            .collect();
        if self.entry("connector").is_some_and(|entry| entry.denied) {
            denied.push(json!({"serverUrl": "https://connector.example/*"}));
        }
        if let Some(entry) = self.managed {
            let managed = json!({"command": "managed", "disabled": entry.disabled});
            lab.put(MANAGED, server("s", &managed));
            if entry.denied {
                denied.push(json!({"serverCommand": ["managed"]}));
            }
        }
        lab.put(MANAGED_SETTINGS, json!({"deniedMcpServers": denied}));
    }

    /// The expected result, written independently of the implementation: the source and its status.
    fn expected(&self) -> Vec<(&'static str, &'static str)> {
        if let Some(entry) = self.managed {
            let status = if entry.denied {
                "blocked"
            } else {
                self.switched(entry)
            };
            return vec![("managed", status)];
        }
        let mut won = false;
        let mut standings = Vec::new();
        for place in PLACES {
            let Some(entry) = self.entry(place) else {
                continue;
            };
            let of_project = matches!(place, "near" | "above");
            // A connector has no entry that could disable it.
            let entry = Entry {
                disabled: entry.disabled && place != "connector",
                ..entry
            };
            let status = if entry.denied {
                "blocked"
            } else if of_project && matches!(self.approval, Approval::Rejected | Approval::Both) {
                "rejected"
            } else if of_project && self.approval == Approval::Silence {
                "pending"
            } else if won {
                "shadowed"
            } else {
                won = true;
                self.switched(entry)
            };
            standings.push((place, status));
        }
        standings
    }

    fn switched(&self, entry: Entry) -> &'static str {
        if self.off || (entry.disabled && !self.on) {
            "disabled"
        } else {
            "active"
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn in_any_mix_the_strongest_that_may_run_wins(mix in mix()) {
        let mut lab = Lab::new();
        lab.cd("repo/x");
        mix.write(&lab);
        let loader = lab.loader().mcp_config([mix.file("dynamic").to_string()]);
        let connectors: Vec<_> = mix.entry("connector").map(|_| connector("s")).into_iter().collect();
        let set = loader.load(&connectors);
        let found: Vec<_> = set
            .servers
            .iter()
            .map(|server| {
                let place = server.entry.transport.argv().map_or("connector", |argv| argv[0]);
                let status = match &server.status {
                    EntryStatus::Active => "active",
                    EntryStatus::Disabled => "disabled",
                    other => other.name().unwrap(),
                };
                (place, status.strip_suffix("-approval").unwrap_or(status))
            })
            .collect();
        prop_assert_eq!(&found, &mix.expected());
        let of_host: Vec<_> = set.for_host().map(|entry| entry.disabled).collect();
        let expected: Vec<_> = mix
            .expected()
            .iter()
            .filter_map(|(_, status)| match *status {
                "active" => Some(false),
                "disabled" => Some(true),
                _ => None,
            })
            .collect();
        prop_assert_eq!(of_host, expected);
        for server in &set.servers {
            if let EntryStatus::Shadowed { by } = &server.status {
                let winner = set.for_host().next().unwrap();
                prop_assert_eq!((by.scope, &by.source), (winner.scope, &winner.source));
            }
        }
    }
}
