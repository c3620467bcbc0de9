//! A tree of files as it is on disk, each of them anything: no panic, and a repository's files make nothing run.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use trunkline_config::{ConnectorEntry, EntryStatus, Environment, Layout, Loader, Scope};

/// The files, in the order in which the parts of the input are written to them. A part ends with a NUL; an empty one is no
/// file at all.
const FILES: [&str; 10] = [
    "repo/.mcp.json",
    "home/.claude.json",
    "home/.claude/settings.json",
    "repo/.claude/settings.json",
    "repo/.claude/settings.local.json",
    "managed/managed-settings.json",
    "home/.claude/plugins/installed_plugins.json",
    "plugin/.claude-plugin/plugin.json",
    "plugin/.mcp.json",
    "home/.claude/trunkline/approvals.json",
];

/// In memory where there is such a file system: these files are written thousands of times a second.
static TREE: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let base = if memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    };
    let tree = base.join(format!("trunkline-fuzz-tree-{}", std::process::id()));
    for file in FILES {
        let file = tree.join(file);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a scratch folder");
    }
    fs::create_dir_all(tree.join("repo/.git")).expect("a scratch folder");
    tree
});

fuzz_target!(|data: &[u8]| {
    let tree = &*TREE;
    let mut parts = data.split(|byte| *byte == 0);
    for file in FILES {
        let file = tree.join(file);
        match parts.next() {
            Some(part) if !part.is_empty() => {
                // The files name each other by where they are.
                let part = String::from_utf8_lossy(part).replace("TREE", &tree.to_string_lossy());
                fs::write(file, part).expect("a file");
            }
            _ => drop(fs::remove_file(file)),
        }
    }
    let layout = Layout {
        managed_dir: tree.join("managed"),
        ..Layout::under(tree.join("home"))
    };
    let connectors = [ConnectorEntry {
        name: "claude.ai C".to_owned(),
        id: "c".to_owned(),
        url: "https://h/mcp".to_owned(),
        proxy_url: String::new(),
    }];
    let loader = Loader::new(layout, tree.join("repo"))
        .environment(Environment::of([("A", "one")]))
        .plugin_dirs([tree.join("plugin")]);
    let set = loader.load(&connectors);
    // Asked again, it says the same.
    let again = loader.load(&connectors);
    let standings = |set: &trunkline_config::ServerSet| {
        let servers = set.servers.iter();
        let told = servers.map(|server| (server.entry.name.clone(), server.status.clone()));
        told.collect::<Vec<_>>()
    };
    assert_eq!(standings(&set), standings(&again));
    assert_eq!(set.diagnostics, again.diagnostics);

    let user_files = [1, 2, 5].map(|index| tree.join(FILES[index]));
    if user_files.iter().all(|file| !file.exists()) {
        for server in &set.servers {
            let runs = server.entry.scope == Scope::Project
                && matches!(server.status, EntryStatus::Active | EntryStatus::Disabled);
            assert!(!runs, "{:?} runs unasked", server.entry.name);
        }
    }
});
