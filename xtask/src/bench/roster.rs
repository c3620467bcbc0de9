//! Who takes part: each client, where it comes from and how it is called. A new client is one function here.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use super::clients::{Bench, Call, Client, EARLIER, OURS, POOLED};
use super::install::{Installer, path_text, path_with};
use super::process::clean_home;
use super::real;
use super::scenarios::{Kind, Scenario, Server};
use super::{Layout, Options};

/// How many servers the program's own `list` shows.
const MANY: usize = 30;

/// Installs and builds what the options ask for. Only a missing server is an error: without it nothing can run.
pub(super) fn assemble(
    layout: &Layout,
    options: &Options,
    scenarios: &[Scenario],
) -> anyhow::Result<Bench> {
    let installer = Installer {
        layout,
        offline: options.no_install,
    };
    let server = installer
        .workspace("testkit-echo", &["-p", "trunkline-testkit", "--bins"])
        .map_err(anyhow::Error::msg)
        .context("cannot build the echo server")?;
    let server = path_text(&server);
    let config = layout.out.join("servers.json");
    let servers = json!({ "mcpServers": { "echo": { "command": server, "args": [] } } });
    fs::write(&config, servers.to_string())
        .with_context(|| format!("cannot write {}", config.display()))?;
    let many = layout.out.join("many-servers.json");
    let entry = |index| {
        (
            format!("echo{index}"),
            json!({ "command": server, "args": [] }),
        )
    };
    let servers: Map<String, Value> = (0..MANY).map(entry).collect();
    fs::write(&many, json!({ "mcpServers": servers }).to_string())
        .with_context(|| format!("cannot write {}", many.display()))?;

    let wanted =
        |name: &str| options.peers.is_empty() || options.peers.iter().any(|peer| peer == name);
    let any = |names: &[&str]| names.iter().any(|name| wanted(name));
    let roster = Roster { layout, installer };
    // The program takes long to build, and few scenarios run it.
    let runs_program = scenarios
        .iter()
        .any(|scenario| matches!(scenario.kind, Kind::Oneshot | Kind::Servers));
    let program = runs_program.then(|| {
        let package = ["-p", "trunkline-cli"];
        roster.installer.workspace("trunkline", &package)
    });
    let mut clients = vec![roster.ours(&config, &many, program)];
    let mut env = clean_home(layout);
    if any(&["rmcp", POOLED]) {
        clients.extend(roster.rmcp());
    }
    if any(&["ts1", "ts2", "mcporter", "inspector"]) {
        let node = roster.installer.node();
        env.extend(node.as_deref().ok().map(path_with));
        if any(&["ts1", "ts2"]) {
            clients.extend(roster.typescript(&node));
        }
        if any(&["mcporter", "inspector"]) {
            clients.extend(roster.oneshot(&node, &config));
        }
    }
    if wanted("python") {
        clients.push(roster.python());
    }
    if wanted("limit") {
        clients.push(roster.rust("limit", "limit (no JSON)".to_owned()));
    }
    if wanted(EARLIER) {
        clients.push(claude_code());
    }
    clients.retain(|client| client.name == OURS || wanted(client.name));
    clients.sort_by_key(Client::place);
    for client in &clients {
        for call in [&client.common, &client.oneshot, &client.servers] {
            if let Call::Broken(reason) = call {
                println!("{}: not available: {reason}", client.label);
            }
        }
    }
    let foreign = scenarios
        .iter()
        .any(|scenario| scenario.server != Server::Echo);
    let everything = everything(layout, foreign && !options.no_install);
    Ok(Bench {
        clients,
        server,
        everything,
        real: real::script(layout, &layout.root.join("target/interop")),
        env,
    })
}

/// The command of server-everything, which is among the foreign servers of the tests.
fn everything(layout: &Layout, install: bool) -> Result<Vec<String>, String> {
    if install {
        crate::interop::install_servers().map_err(|error| format!("{error:#}"))?;
    }
    let modules = layout.root.join("target/interop/node_modules");
    let script = modules.join("@modelcontextprotocol/server-everything/dist/index.js");
    if !script.is_file() {
        return Err("server-everything is not installed".to_owned());
    }
    let node = modules.join("node/bin/node");
    Ok(vec![
        path_text(&node),
        path_text(&script),
        "stdio".to_owned(),
    ])
}

struct Roster<'a> {
    layout: &'a Layout,
    installer: Installer<'a>,
}

impl Roster<'_> {
    /// The public API for most scenarios, the real program for the one-shot and for `list`.
    fn ours(&self, config: &Path, many: &Path, program: Option<Result<PathBuf, String>>) -> Client {
        // With the product's lock file, so that the product's versions are measured.
        let lock = self.layout.source("ours").join("Cargo.lock");
        let built = fs::copy(self.layout.root.join("Cargo.lock"), lock)
            .map_err(|error| format!("cannot copy Cargo.lock: {error}"))
            .and_then(|_| self.installer.package("ours", "trunkline-bench", &[]));
        let (mut oneshot, mut servers) = (Call::Absent, Call::Absent);
        if let Some(program) = program {
            let (config, many) = (path_text(config), path_text(many));
            let call = ["call", "echo", "echo", "text=hello"];
            let call = [&["--mcp-config", &config][..], &call].concat();
            oneshot = Call::new(program.clone(), &call);
            servers = Call::new(program, &["--mcp-config", &many, "list"]);
        }
        Client {
            name: OURS,
            label: format!("trunkline {}", env!("CARGO_PKG_VERSION")),
            common: Call::new(built, &[]),
            oneshot,
            servers,
            slow: false,
            fewer_calls: 1,
        }
    }

    /// The SDK as it is, and with a pool of connections, which it makes no use of by default.
    fn rmcp(&self) -> [Client; 2] {
        let plain = self.rust("rmcp", format!("rmcp {}", self.rmcp_version()));
        let common = match &plain.common {
            Call::Argv(argv) => {
                let pooled = argv.iter().cloned().chain(["--pooled".to_owned()]);
                Call::Argv(pooled.collect())
            }
            _ => Call::Broken("could not be built".to_owned()),
        };
        let pooled = Client {
            name: POOLED,
            label: format!("{} pooled", plain.label),
            common,
            oneshot: Call::Absent,
            servers: Call::Absent,
            slow: false,
            fewer_calls: 1,
        };
        [plain, pooled]
    }

    /// A Rust program `bench-<name>` from `bench/<name>`.
    fn rust(&self, name: &'static str, label: String) -> Client {
        let built = self
            .installer
            .package(name, &format!("bench-{name}"), &["--locked"]);
        Client {
            name,
            label,
            common: Call::new(built, &[]),
            oneshot: Call::Absent,
            servers: Call::Absent,
            slow: false,
            fewer_calls: 1,
        }
    }

    /// Both TypeScript SDKs.
    fn typescript(&self, node: &Result<PathBuf, String>) -> [Client; 2] {
        let installed = self.installer.npm("typescript", node);
        let client = |name, file, package: &str| {
            let script = path_text(&self.layout.out.join("typescript").join(file));
            let version = self.npm_version("typescript", package);
            Client {
                name,
                label: format!("TypeScript {package} {version}")
                    .replace("@modelcontextprotocol/", ""),
                common: Call::new(node_of(&installed, node), &[&script]),
                oneshot: Call::Absent,
                servers: Call::Absent,
                slow: true,
                fewer_calls: 1,
            }
        };
        [
            client("ts1", "sdk1.mjs", "@modelcontextprotocol/sdk"),
            client("ts2", "sdk2.mjs", "@modelcontextprotocol/client"),
        ]
    }

    fn python(&self) -> Client {
        let source = self.layout.source("python");
        let (requirements, script) = (
            source.join("requirements.txt"),
            path_text(&source.join("client.py")),
        );
        let venv = self.layout.out.join("venv");
        let installed = self.installer.venv(&venv, &requirements);
        let pinned = fs::read_to_string(&requirements).unwrap_or_default();
        let version = pinned.lines().find_map(|line| line.strip_prefix("mcp=="));
        Client {
            name: "python",
            label: format!("Python mcp {}", version.unwrap_or("?")),
            common: Call::new(installed.map(|()| venv.join("bin/python")), &[&script]),
            oneshot: Call::Absent,
            servers: Call::Absent,
            slow: true,
            fewer_calls: 10,
        }
    }

    /// Programs with a command line of their own, which take part in the one-shot scenario only. Started by
    /// `node` directly: `npx` would add its own start to their time.
    fn oneshot(&self, node: &Result<PathBuf, String>, config: &Path) -> [Client; 2] {
        let installed = self.installer.npm("oneshot", node);
        let config = path_text(config);
        let client = |name, package: &str, script: &str, rest: &[&str]| {
            let packages = self.layout.out.join("oneshot/node_modules");
            let script = path_text(&packages.join(package).join(script));
            Client {
                name,
                label: format!("{name} {}", self.npm_version("oneshot", package)),
                common: Call::Absent,
                oneshot: Call::new(
                    node_of(&installed, node),
                    &[&[script.as_str()], rest].concat(),
                ),
                servers: Call::Absent,
                slow: true,
                fewer_calls: 1,
            }
        };
        let inspect = [
            "--cli",
            "--config",
            &config,
            "--server",
            "echo",
            "--method",
            "tools/call",
        ];
        let echo = ["--tool-name", "echo", "--tool-arg", "text=hello"];
        [
            client(
                "mcporter",
                "mcporter",
                "dist/cli.js",
                &["--config", &config, "call", "echo.echo", "text=hello"],
            ),
            client(
                "inspector",
                "@modelcontextprotocol/inspector",
                "clients/launcher/build/index.js",
                &[&inspect[..], &echo].concat(),
            ),
        ]
    }

    fn rmcp_version(&self) -> String {
        let manifest = self.layout.source("rmcp").join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).unwrap_or_default();
        let pinned = manifest.split("version = \"=").nth(1);
        pinned
            .and_then(|rest| rest.split('"').next())
            .unwrap_or("?")
            .to_owned()
    }

    /// The version that the `package.json` of a folder of `bench/` asks for.
    fn npm_version(&self, folder: &str, package: &str) -> String {
        let manifest =
            fs::read(self.layout.source(folder).join("package.json")).unwrap_or_default();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap_or_default();
        manifest["dependencies"][package]
            .as_str()
            .unwrap_or("?")
            .to_owned()
    }
}

/// What `claude mcp list` took for 30 fast stdio servers on two cores of such a machine; not measured again here, as it needs an
/// account.
fn claude_code() -> Client {
    Client {
        name: EARLIER,
        label: "Claude Code 2.1 (measured earlier)".to_owned(),
        common: Call::Absent,
        oneshot: Call::Absent,
        servers: Call::Earlier {
            ms: 630.0,
            peak_mb: 154.0,
        },
        slow: true,
        fewer_calls: 1,
    }
}

/// The `node` program, once a client's packages are there, too.
fn node_of(
    installed: &Result<(), String>,
    node: &Result<PathBuf, String>,
) -> Result<PathBuf, String> {
    installed.clone()?;
    Ok(node.clone()?.join("node"))
}
