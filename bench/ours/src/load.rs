//! Loading configuration: a tree of files with `n` servers in all scopes, 100 rules of policy, shadowed names and twins.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use bench_client::{Args, Report};
use serde_json::{Map, Value, json};
use trunkline_config::{ConnectorEntry, Editor, Environment, Layout, Loader, Scope, EntryStatus};

use crate::Failure;

/// Loads in one run; the fastest counts, since a busy machine can only make one slower.
const LOADS: usize = 60;

/// What a tree has to show, so that it is known to be what it should be.
struct Expected {
    servers: usize,
    scopes: usize,
}

/// Every scope but the company's, which would keep the others out.
pub(crate) fn all_scopes(args: &Args) -> Result<(), Failure> {
    let tree = Tree::new(args.n)?;
    let (loader, connectors) = tree.six_scopes()?;
    let servers = args.n;
    tree.measure(&loader, &connectors, &Expected { servers, scopes: 6 })
}

/// The company's file alone.
pub(crate) fn enterprise(args: &Args) -> Result<(), Failure> {
    let tree = Tree::new(args.n)?;
    let all = servers(0..args.n, "s");
    tree.write("managed/managed-mcp.json", &json!({ "mcpServers": all }))?;
    let expected = Expected {
        servers: args.n,
        scopes: 1,
    };
    tree.measure(&tree.loader(), &[], &expected)
}

/// A scratch folder with a home, a repository and a company's files in it.
struct Tree {
    root: PathBuf,
    n: usize,
}

impl Tree {
    fn new(n: usize) -> io::Result<Self> {
        let name = format!("trunkline-bench-load-{}", std::process::id());
        let tree = Self {
            root: std::env::temp_dir().join(name),
            n,
        };
        fs::create_dir_all(tree.root.join("repo/.git"))?;
        fs::create_dir_all(tree.root.join("repo/app"))?;
        tree.write("managed/managed-settings.json", &policy())?;
        Ok(tree)
    }

    fn write(&self, name: &str, value: &Value) -> io::Result<()> {
        let file = self.root.join(name);
        fs::create_dir_all(file.parent().unwrap_or(Path::new("/")))?;
        fs::write(file, format!("{value:#}\n"))
    }

    fn layout(&self) -> Layout {
        Layout {
            managed_dir: self.root.join("managed"),
            ..Layout::under(self.root.join("home"))
        }
    }

    fn loader(&self) -> Loader {
        let variables = [("TOKEN", "secret"), ("HOME", "/home/me")];
        Loader::new(self.layout(), self.root.join("repo/app"))
            .environment(Environment::of(variables))
    }

    /// The whole tree, with the project's servers approved.
    fn six_scopes(&self) -> Result<(Loader, Vec<ConnectorEntry>), Failure> {
        let mut next = 0;
        let mut take = |percent: usize| {
            let from = next;
            next += self.n * percent / 100;
            from..next
        };
        let [dynamic, local, root, app, plugin, connectors] =
            [10, 15, 10, 15, 15, 5].map(&mut take);
        let user = next..self.n;
        let plugins: Vec<usize> = plugin.collect();

        // A tenth of the local servers has the name of a user's, which they shadow.
        let mut of_local = servers(local.clone(), "s");
        let shadowing = local.len() / 10;
        for (index, shadowed) in local.clone().zip(user.clone()).take(shadowing) {
            if let Some(entry) = of_local.shift_remove(&format!("s{index}")) {
                of_local.insert(format!("s{shadowed}"), entry);
            }
        }
        let key = self.root.join("repo").display().to_string();
        self.write(
            "home/.claude.json",
            &json!({
                "numStartups": 7,
                "mcpServers": servers(user.clone(), "s"),
                "projects": { key: { "mcpServers": of_local } },
            }),
        )?;
        self.write(
            "repo/.mcp.json",
            &json!({ "mcpServers": servers(root, "s") }),
        )?;
        self.write(
            "repo/app/.mcp.json",
            &json!({ "mcpServers": servers(app, "s") }),
        )?;
        self.write(
            "dynamic.json",
            &json!({ "mcpServers": servers(dynamic, "s") }),
        )?;

        // Half of what the plugins bring is a user's server under another name.
        let (mut enabled, mut installed) = (Map::new(), Map::new());
        for (index, part) in plugins.chunks(plugins.len().div_ceil(3).max(1)).enumerate() {
            let folder = format!("home/.claude/plugins/cache/p{index}");
            let mut brought = Map::new();
            for &at in part {
                let content = if at.is_multiple_of(2) {
                    user.start + at % user.len()
                } else {
                    at
                };
                brought.insert(format!("s{at}"), entry(content));
            }
            self.write(
                &format!("{folder}/.mcp.json"),
                &json!({ "mcpServers": brought }),
            )?;
            self.write(
                &format!("{folder}/.claude-plugin/plugin.json"),
                &json!({ "name": format!("p{index}") }),
            )?;
            let id = format!("p{index}@market");
            let path = self.root.join(&folder);
            installed.insert(
                id.clone(),
                json!([{ "scope": "user", "installPath": path }]),
            );
            enabled.insert(id, json!(true));
        }
        self.write(
            "home/.claude/plugins/installed_plugins.json",
            &json!({ "version": 2, "plugins": installed }),
        )?;
        self.write(
            "home/.claude/settings.json",
            &json!({ "enabledPlugins": enabled }),
        )?;
        let connectors: Vec<_> = connectors
            .map(|index| ConnectorEntry {
                name: format!("claude.ai Connector {index}"),
                id: format!("mcpsrv_{index}"),
                url: format!("https://connector{index}.example.com/mcp"),
                proxy_url: String::new(),
            })
            .collect();

        let dynamic = self.root.join("dynamic.json").display().to_string();
        let loader = self.loader().mcp_config([dynamic]);
        let set = loader.load(&connectors);
        let pending: Vec<_> = set
            .servers
            .iter()
            .filter(|server| matches!(server.status, EntryStatus::PendingApproval { .. }))
            .map(|server| &server.entry)
            .collect();
        Editor::new(self.layout(), self.root.join("repo/app")).approve(&pending)?;
        Ok((loader, connectors))
    }

    fn measure(
        &self,
        loader: &Loader,
        connectors: &[ConnectorEntry],
        expected: &Expected,
    ) -> Result<(), Failure> {
        let mut best = f64::INFINITY;
        for _ in 0..LOADS {
            let start = Instant::now();
            let set = loader.load(connectors);
            best = best.min(start.elapsed().as_secs_f64());
            if set.servers.len() != expected.servers || !set.diagnostics.is_empty() {
                let problem = set.diagnostics.first().map(ToString::to_string);
                return Err(format!("{} servers; {problem:?}", set.servers.len()).into());
            }
        }
        let set = loader.load(connectors);
        let has = |scope: &&Scope| {
            set.servers
                .iter()
                .any(|server| server.entry.scope == **scope)
        };
        let scopes = Scope::ALL.iter().filter(has).count();
        let count = |wanted: fn(&EntryStatus) -> bool| {
            let standings = set.servers.iter().map(|server| &server.status);
            standings.filter(|standing| wanted(standing)).count()
        };
        let twins = count(|standing| matches!(standing, EntryStatus::Suppressed { .. }));
        let shadowed = count(|standing| matches!(standing, EntryStatus::Shadowed { .. }));
        let waiting = count(|standing| matches!(standing, EntryStatus::PendingApproval { .. }));
        if scopes != expected.scopes || waiting > 0 || (scopes > 1 && (twins == 0 || shadowed == 0))
        {
            return Err(format!(
                "{scopes} scopes, {twins} twins, {shadowed} shadowed, {waiting} pending"
            )
            .into());
        }
        Report {
            seconds: best,
            calls: 1,
            connect_seconds: None,
        }
        .print();
        Ok(())
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn servers(range: std::ops::Range<usize>, prefix: &str) -> Map<String, Value> {
    range
        .map(|index| (format!("{prefix}{index}"), entry(index)))
        .collect()
}

/// Two local servers to one remote, as people have them.
fn entry(index: usize) -> Value {
    if index % 3 == 2 {
        json!({
            "type": "http",
            "url": format!("https://mcp{index}.example.com/v1/mcp"),
            "headers": { "Authorization": "Bearer ${TOKEN}", "X-Team": "core" },
        })
    } else {
        json!({
            "type": "stdio",
            "command": "npx",
            "args": ["-y", format!("@example/server-{index}"), "--root", "${HOME}/work"],
            "env": { "API_KEY": "${TOKEN}", "LOG_LEVEL": "${LOG_LEVEL:-warn}" },
        })
    }
}

/// 100 rules, none of which matches, so that each is looked at.
fn policy() -> Value {
    let name = |index| json!({ "serverName": format!("denied{index}") });
    let command =
        |index| json!({ "serverCommand": ["npx", "-y", format!("@denied/server-{index}")] });
    let url = |index| json!({ "serverUrl": format!("https://*.denied{index}.example.org/*") });
    let rules: Vec<Value> = (0..40)
        .map(name)
        .chain((0..20).map(command))
        .chain((0..40).map(url))
        .collect();
    json!({ "deniedMcpServers": rules })
}
