//! A model with all kinds of servers for tests, and tests of the loop.

mod latency;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;
use trunkline::tool::Pool;
use trunkline_config::{ApprovedEntry, EntryStatus, Layout, Loader, ServerSet};

use super::data::{
    Detail, Offers, PromptItem, PromptParameter, ResourceItem, Server, Snapshot, Status,
};
use super::doc::{DocLine, Tone};
use super::model::{Model, update};
use super::msg::{Effect, Msg};

/// A name that tries to steer the terminal.
pub(super) const HOSTILE: &str = "evil\u{1b}[2J\nerror: \u{202e}宽e\u{301}";

/// A model of this size with one server of each kind.
pub(super) fn model(width: u16, height: u16) -> Model {
    let mut model = empty(width, height);
    let now = model.now;
    send(&mut model, Msg::Snapshot(Box::new(snapshot(now))));
    model
}

/// A model that has heard of no server yet.
pub(super) fn empty(width: u16, height: u16) -> Model {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(50_531);
    let now = (Instant::now(), time);
    Model::new(
        now,
        (width, height),
        "~/shop".to_owned(),
        "trunkline".to_owned(),
    )
}

pub(super) fn send(model: &mut Model, msg: Msg) -> Vec<Effect> {
    let now = model.now;
    update(model, now, msg)
}

/// Types keys, long after the last ones: `⏎` Enter, `⎋` Esc, `⇥` Tab, `↑↓←→`, `⌃x` with Control,
/// `⑤` F5, `②` F2.
pub(super) fn press(model: &mut Model, keys: &str) -> Vec<Effect> {
    model.now += Duration::from_secs(2);
    let mut effects = Vec::new();
    let mut keys = keys.chars();
    while let Some(c) = keys.next() {
        let (code, modifiers) = match c {
            '⏎' => (KeyCode::Enter, KeyModifiers::NONE),
            '⎋' => (KeyCode::Esc, KeyModifiers::NONE),
            '⇥' => (KeyCode::Tab, KeyModifiers::NONE),
            '↑' => (KeyCode::Up, KeyModifiers::NONE),
            '↓' => (KeyCode::Down, KeyModifiers::NONE),
            '←' => (KeyCode::Left, KeyModifiers::NONE),
            '→' => (KeyCode::Right, KeyModifiers::NONE),
            '⑤' => (KeyCode::F(5), KeyModifiers::NONE),
            '②' => (KeyCode::F(2), KeyModifiers::NONE),
            '⌃' => {
                let c = keys.next().unwrap();
                (KeyCode::Char(c), KeyModifiers::CONTROL)
            }
            c => (KeyCode::Char(c), KeyModifiers::NONE),
        };
        effects.extend(send(model, Msg::Key(KeyEvent::new(code, modifiers))));
    }
    effects
}

/// A configuration with a new and a changed server of the project.
pub(super) fn configuration() -> Arc<ServerSet> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join(".mcp.json"),
        json!({"mcpServers": {
            "docs": {"command": "node", "args": ["docs.js", "--root", "~/.ssh"], "env": {"TOKEN": "s3cr3t-value"}},
            "tickets": {"type": "http", "url": "https://tickets.example/mcp"},
        }})
        .to_string(),
    )
    .unwrap();
    let mut set = Loader::new(Layout::under("/nonexistent"), dir.path()).load(&[]);
    let hide = |path: &str| path.replace(dir.path().to_str().unwrap(), "/home/ada/shop");
    for server in &mut set.servers {
        server.entry.source = hide(&server.entry.source);
        server.entry.base = Some(Path::new("/home/ada/shop").to_owned());
        if server.entry.name == "docs" {
            let mut before = server.entry.clone();
            if let trunkline_config::TransportEntry::Stdio(stdio) = &mut before.transport {
                stdio.args.truncate(1);
            }
            before.written = None;
            server.status = EntryStatus::PendingApproval {
                before: Some(Box::new(ApprovedEntry::of(&before))),
            };
        }
    }
    Arc::new(set)
}

fn server(name: &str, scope: &'static str, status: Status, cause: &str) -> Server {
    Server {
        key: (name.into(), scope),
        transport: "stdio",
        status,
        cause: cause.to_owned(),
        said: String::new(),
        offers: Arc::default(),
        takes_sign_in: false,
        entry: None,
    }
}

/// The tools, resources and prompts of a server.
pub(super) fn offers() -> Arc<Offers> {
    let pool = Pool::from_lists([(
        "github",
        json!({"tools": [
            {"name": "create_issue", "description": "Create an issue in a repository.\nLabels must exist.",
             "inputSchema": {"type": "object", "properties": {
                "repo": {"type": "string", "description": "owner/name"},
                "title": {"type": "string"},
                "count": {"type": "integer", "minimum": 1, "maximum": 5, "default": 2},
                "size": {"type": "string", "enum": ["small", "large"]},
                "labels": {"type": "array", "items": {"type": "string", "enum": ["bug", "docs"]}},
                "urgent": {"type": "boolean"},
                "extra": {"type": "object"},
             }, "required": ["repo", "title"]}},
            {"name": "delete_repo", "description": "Delete a repository", "annotations": {"destructiveHint": true},
             "inputSchema": {"type": "object", "properties": {"repo": {"type": "string"}}}},
            {"name": HOSTILE, "description": HOSTILE, "inputSchema": {"type": "object"}},
            {"name": "search", "description": "Search code", "annotations": {"readOnlyHint": true, "openWorldHint": true},
             "inputSchema": {"type": "object"}},
        ]})
        .into(),
    )]);
    Arc::new(Offers {
        tools: pool.tools().to_vec(),
        resources: vec![
            ResourceItem {
                uri: "repo://acme/shop/README.md".to_owned(),
                name: "README".to_owned(),
                about: "The first page".to_owned(),
                is_template: false,
            },
            ResourceItem {
                uri: "repo://acme/{name}/{path}".to_owned(),
                name: "File".to_owned(),
                about: "Any file of a repository".to_owned(),
                is_template: true,
            },
        ],
        prompts: vec![
            PromptItem {
                name: "review".to_owned(),
                about: "Review a change".to_owned(),
                parameters: vec![PromptParameter {
                    name: "number".to_owned(),
                    about: Some("The pull request".to_owned()),
                    required: true,
                }],
            },
            PromptItem {
                name: "greet".to_owned(),
                about: "Say hello".to_owned(),
                parameters: Vec::new(),
            },
        ],
        cached: false,
    })
}

pub(super) fn snapshot(now: Instant) -> Snapshot {
    let set = configuration();
    let at = |name: &str| {
        set.servers
            .iter()
            .position(|server| server.entry.name == name)
    };
    let mut github = server("github", "user", Status::Connected, "");
    github.offers = offers();
    github.transport = "http";
    github.takes_sign_in = true;
    let mut linear = server(
        "linear",
        "user",
        Status::NeedsAuth,
        "the server asks for a sign-in",
    );
    linear.transport = "http";
    linear.takes_sign_in = true;
    let retry_at = Some(now + Duration::from_millis(3200));
    let waiting = Status::Connecting {
        attempt: 2,
        retry_at,
    };
    let mut docs = server(
        "docs",
        "project",
        Status::PendingApproval { changed: true },
        "",
    );
    docs.entry = at("docs");
    let mut tickets = server(
        "tickets",
        "project",
        Status::PendingApproval { changed: false },
        "",
    );
    tickets.entry = at("tickets");
    tickets.transport = "http";
    let empty = server("empty", "user", Status::Connected, "");
    let mut off = server("off", "user", Status::Disabled, "");
    off.entry = at("tickets");
    let mut brave = server(
        "brave",
        "local",
        Status::Failed,
        "the server's process exited with status 1",
    );
    brave.said = "BRAVE_API_KEY is not set".to_owned();
    Snapshot {
        servers: vec![
            brave,
            server("browser", "local", waiting, "the connection was lost"),
            docs,
            tickets,
            empty,
            server(HOSTILE, "user", Status::Failed, "no"),
            github,
            linear,
            off,
        ],
        set,
        problems: Vec::new(),
    }
}

/// The overview of a server.
pub(super) fn detail(name: &str, scope: &'static str) -> Msg {
    let mut lines = vec![
        DocLine::field("cause", "exited with code 1: BRAVE_API_KEY is not set").tone(Tone::Bad),
        DocLine::field("cure", "trunkline doctor brave").tone(Tone::Hint),
        DocLine::field("source", "/home/ada/.claude.json (local scope)"),
        DocLine::field("shadows", "user scope, /home/ada/.claude.json"),
        DocLine::field("entry", "command: npx"),
        DocLine::own(""),
        DocLine::heading("Standard error"),
    ];
    lines.extend(DocLine::foreign(
        "Error: BRAVE_API_KEY is not set\n    at main (index.js:12)",
    ));
    Msg::Detail(Box::new(Detail {
        key: (name.into(), scope),
        lines,
    }))
}
