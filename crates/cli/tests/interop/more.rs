//! Twenty more foreign servers, one row each: SDKs in five languages, every protocol version, two
//! behind wrappers. None of them reaches out when it starts; their keys are made up.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Map, Value, json};

use crate::catalog::compare;
use crate::lab::Lab;
use crate::servers::{installed, node};

/// How a server is started.
enum Start {
    /// A script in `node_modules`.
    Node(&'static str),
    /// A program in a Python environment.
    Python(&'static str),
}

struct Foreign {
    name: &'static str,
    start: Start,
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    /// The newest version it speaks.
    version: &'static str,
    /// How many tools it has at least.
    tools: usize,
}

const PLAIN: Foreign = Foreign {
    name: "",
    start: Start::Node(""),
    args: &[],
    env: &[],
    version: "2025-11-25",
    tools: 1,
};

const ALL: [Foreign; 20] = [
    Foreign {
        name: "tavily",
        start: Start::Node("tavily-mcp/build/index.js"),
        env: &[("TAVILY_API_KEY", "none")],
        tools: 5,
        ..PLAIN
    },
    Foreign {
        name: "exa",
        start: Start::Node("exa-mcp-server/dist/stdio.cjs"),
        env: &[("EXA_API_KEY", "none")],
        tools: 2,
        ..PLAIN
    },
    Foreign {
        name: "context7",
        start: Start::Node("@upstash/context7-mcp/dist/index.js"),
        version: "2026-07-28",
        tools: 2,
        ..PLAIN
    },
    Foreign {
        name: "brave",
        start: Start::Node("@brave/brave-search-mcp-server/dist/index.js"),
        env: &[("BRAVE_API_KEY", "none")],
        tools: 8,
        ..PLAIN
    },
    Foreign {
        name: "github",
        start: Start::Node("@modelcontextprotocol/server-github/dist/index.js"),
        version: "2024-11-05",
        tools: 26,
        ..PLAIN
    },
    Foreign {
        name: "gitlab",
        start: Start::Node("@modelcontextprotocol/server-gitlab/dist/index.js"),
        env: &[("GITLAB_PERSONAL_ACCESS_TOKEN", "none")],
        version: "2024-11-05",
        tools: 9,
        ..PLAIN
    },
    Foreign {
        name: "slack",
        start: Start::Node("@modelcontextprotocol/server-slack/dist/index.js"),
        env: &[("SLACK_BOT_TOKEN", "none"), ("SLACK_TEAM_ID", "T0")],
        version: "2024-11-05",
        tools: 8,
        ..PLAIN
    },
    Foreign {
        name: "maps",
        start: Start::Node("@modelcontextprotocol/server-google-maps/dist/index.js"),
        env: &[("GOOGLE_MAPS_API_KEY", "none")],
        version: "2024-11-05",
        tools: 7,
        ..PLAIN
    },
    Foreign {
        name: "everart",
        start: Start::Node("@modelcontextprotocol/server-everart/dist/index.js"),
        env: &[("EVERART_API_KEY", "none")],
        version: "2024-11-05",
        ..PLAIN
    },
    Foreign {
        name: "hubspot",
        start: Start::Node("@hubspot/mcp-server/dist/index.js"),
        env: &[("PRIVATE_APP_ACCESS_TOKEN", "none")],
        version: "2025-11-25",
        tools: 21,
        ..PLAIN
    },
    Foreign {
        name: "chart",
        start: Start::Node("@antv/mcp-server-chart/build/index.js"),
        tools: 27,
        ..PLAIN
    },
    Foreign {
        name: "taskmanager",
        start: Start::Node("@kazuph/mcp-taskmanager/dist/index.js"),
        tools: 10,
        ..PLAIN
    },
    // C#, behind a wrapper in Node.
    Foreign {
        name: "azure",
        start: Start::Node("@azure/mcp/index.js"),
        args: &["server", "start"],
        env: &[("AZURE_MCP_COLLECT_TELEMETRY", "false")],
        tools: 40,
        ..PLAIN
    },
    // Rust, behind a wrapper in Node.
    Foreign {
        name: "moon",
        start: Start::Node("@moonrepo/cli/moon.js"),
        args: &["mcp"],
        env: &[("PROTO_OFFLINE", "1")],
        tools: 10,
        ..PLAIN
    },
    // Go.
    Foreign {
        name: "grafana",
        start: Start::Python("venv/bin/mcp-grafana"),
        env: &[("GRAFANA_URL", "http://127.0.0.1:9")],
        version: "2026-07-28",
        tools: 50,
        ..PLAIN
    },
    Foreign {
        name: "aws-documentation",
        start: Start::Python("venv/bin/awslabs.aws-documentation-mcp-server"),
        version: "2026-07-28",
        tools: 4,
        ..PLAIN
    },
    Foreign {
        name: "duckduckgo",
        start: Start::Python("venv/bin/duckduckgo-mcp-server"),
        version: "2026-07-28",
        tools: 2,
        ..PLAIN
    },
    Foreign {
        name: "alchemy",
        start: Start::Python("venv/bin/mcp-alchemy"),
        env: &[("DB_URL", "sqlite:///alchemy.db")],
        version: "2026-07-28",
        tools: 4,
        ..PLAIN
    },
    Foreign {
        name: "redis",
        start: Start::Python("venv-legacy/bin/redis-mcp-server"),
        args: &["--url", "redis://127.0.0.1:9/0"],
        tools: 40,
        ..PLAIN
    },
    Foreign {
        name: "calculator",
        start: Start::Python("venv-legacy/bin/mcp-server-calculator"),
        ..PLAIN
    },
];

impl Foreign {
    fn named(name: &str) -> &'static Self {
        let found = ALL.iter().find(|server| server.name == name);
        found.unwrap_or_else(|| panic!("there is no {name}"))
    }

    fn command(&self) -> (PathBuf, Vec<String>) {
        match self.start {
            Start::Node(script) => node(script, self.args),
            Start::Python(program) => {
                let args = self.args.iter().map(ToString::to_string);
                (installed().join(program), args.collect())
            }
        }
    }

    /// Its place in a config.
    fn entry(&self, lab: &Lab) -> Value {
        let (command, args) = self.command();
        let own = self
            .env
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        let env: Map<String, Value> = lab
            .server_env()
            .into_iter()
            .chain(own)
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        json!({ "command": command, "args": args, "env": env })
    }

    /// The server itself, for a client that is not ours.
    fn process(&self, lab: &Lab) -> Command {
        let (program, args) = self.command();
        let mut command = lab.command(program);
        command.args(args);
        command
            .envs(lab.server_env())
            .envs(self.env.iter().copied());
        command
    }
}

/// A lab with these servers. Its project is a repository with a commit, as some of them want it.
fn lab(servers: &[&Foreign]) -> Lab {
    let lab = Lab::with(&[]);
    lab.git(&["init", "--quiet", "--initial-branch", "main"]);
    let who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"];
    let commit = ["commit", "--quiet", "--allow-empty", "--message", "first"];
    lab.git(&[&who[..], &commit].concat());
    fs::create_dir(lab.project.join(".moon")).unwrap();
    fs::write(lab.project.join(".moon/workspace.yml"), "projects: []\n").unwrap();
    let entries = servers
        .iter()
        .map(|server| (server.name.to_owned(), server.entry(&lab)));
    lab.write_servers(&Value::Object(entries.collect()));
    lab
}

fn check(name: &str) {
    let server = Foreign::named(name);
    let lab = lab(&[server]);
    let command = &mut server.process(&lab);
    compare(&lab, name, server.version, command, server.tools);
}

/// One test a server, so that each is judged alone.
macro_rules! whole_catalogs {
    ($($test:ident: $name:literal;)*) => {
        $(#[test]
        fn $test() {
            check($name);
        })*

        #[test]
        fn every_server_is_compared() {
            assert_eq!([$($name),*], ALL.map(|server| server.name));
        }
    };
}

whole_catalogs! {
    tavily_is_shown_whole: "tavily";
    exa_is_shown_whole: "exa";
    context7_is_shown_whole: "context7";
    brave_is_shown_whole: "brave";
    github_is_shown_whole: "github";
    gitlab_is_shown_whole: "gitlab";
    slack_is_shown_whole: "slack";
    maps_is_shown_whole: "maps";
    everart_is_shown_whole: "everart";
    hubspot_is_shown_whole: "hubspot";
    chart_is_shown_whole: "chart";
    taskmanager_is_shown_whole: "taskmanager";
    azure_is_shown_whole: "azure";
    moon_is_shown_whole: "moon";
    grafana_is_shown_whole: "grafana";
    aws_documentation_is_shown_whole: "aws-documentation";
    duckduckgo_is_shown_whole: "duckduckgo";
    alchemy_is_shown_whole: "alchemy";
    redis_is_shown_whole: "redis";
    calculator_is_shown_whole: "calculator";
}

#[test]
fn all_twenty_connect_side_by_side_each_in_its_version() {
    let lab = lab(&ALL.each_ref());
    let list = lab.run(&["list", "--json"]).done().json();
    for server in &ALL {
        let mut rows = list.as_array().unwrap().iter();
        let row = rows.find(|row| row["name"] == server.name).unwrap();
        assert_eq!(row["state"], "connected", "{row}");
        assert_eq!(row["protocolVersion"], server.version, "{row}");
    }
}

/// It declares resources and does not know how to list them.
#[test]
fn a_list_that_hubspot_does_not_know_is_a_note_and_its_catalog_is_kept() {
    let lab = lab(&[Foreign::named("hubspot")]);
    let first = lab.run(&["tools", "--json"]).done();
    assert_eq!(first.stderr, "");
    let row = &lab.run(&["--lazy", "list", "--json"]).done().json()[0];
    assert_eq!(
        (&row["state"], &row["cached"]),
        (&json!("pending"), &json!(true)),
        "{row}"
    );
    assert!(!row["notes"].as_array().unwrap().is_empty(), "{row}");
}
