//! Arbitrary configuration files: no panic, problems have a position in the file, at most one
//! server of a name runs, and a project's own files make nothing run.
#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use trunkline_config::{
    ApprovedEntry, EntryStatus, Layout, Loader, ServerSet, changes_since_approval, fuzzing,
    signature,
};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let lines = text.split('\n').count();

    let everywhere = fuzzing::load(&text, false);
    let in_project = fuzzing::load(&text, true);
    let mut sets = vec![everywhere, in_project];
    // The whole loader; without files only the argument counts.
    if text.trim_start().starts_with(['{', '[']) {
        let loader = Loader::new(Layout::under("/nowhere"), "/nowhere");
        sets.push(loader.mcp_config([&*text]).load(&[]));
    }
    for set in &sets {
        check(set, lines);
    }
    // A repository's servers wait for the user, whatever its settings say.
    for server in &sets[1].servers {
        let waits = matches!(
            server.status,
            EntryStatus::PendingApproval { .. } | EntryStatus::Rejected { .. }
        );
        assert!(waits, "{:?} runs unasked", server.entry.name);
    }
});

fn check(set: &ServerSet, lines: usize) {
    for problem in &set.diagnostics {
        assert!(problem.line.is_none_or(|line| 0 < line && line <= lines));
        assert!(!problem.message.is_empty());
    }
    let mut running = HashSet::new();
    for server in &set.servers {
        let entry = &server.entry;
        if matches!(server.status, EntryStatus::Active | EntryStatus::Disabled) {
            assert!(running.insert(&entry.name), "two of {:?}", entry.name);
            assert!(set.policy.blocks(entry).is_none());
        }
        assert!(!entry.name.trim().is_empty() && entry.name != "workspace");
        // Displaying and storing an entry does not panic, and reports no change.
        let _ = (signature(entry), entry.hash(), format!("{entry:?}"));
        assert_eq!(changes_since_approval(&ApprovedEntry::of(entry), entry), []);
    }
}
