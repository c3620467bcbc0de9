//! Files of other clients: no panic, problems have a position in the file, and results have the
//! shape of an entry.
//!
//! The first byte chooses the client.
#![no_main]

use std::collections::HashSet;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use trunkline_config::import::{Client, parse};
use trunkline_config::{check_new_name, fuzzing};

fuzz_target!(|data: &[u8]| {
    let Some((choice, data)) = data.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(data);
    let count = Client::ALL.len() + 1;
    let (client, file) = match usize::from(*choice) % count {
        // VS Code has two kinds of files.
        9 => (Client::VsCode, "settings.json"),
        index => (Client::ALL[index], "mcp.json"),
    };
    let found = parse(client, Path::new(file), &text);
    let lines = text
        .split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'])
        .count();
    for problem in &found.diagnostics {
        assert!(
            problem.line.is_none_or(|line| 0 < line && line <= lines),
            "{problem}"
        );
        assert!(!problem.message.is_empty());
    }
    let mut names = HashSet::new();
    for server in &found.servers {
        assert_eq!(check_new_name(&server.name), Ok(()));
        assert!(names.insert(&server.name), "two of {:?}", server.name);
        let entry = serde_json::to_string(&server.entry).expect("an entry is JSON");
        // URLs are checked when the entry is added; its shape must be valid before.
        let reason = fuzzing::unusable(&entry);
        let about_url = |reason: &String| reason.to_lowercase().contains("url\"");
        assert!(reason.as_ref().is_none_or(about_url), "{reason:?} {entry}");
        let _ = format!("{server:?}");
    }
});
