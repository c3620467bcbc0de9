//! `parse` never panics, whatever a file contains.

use std::path::Path;

use proptest::prelude::*;
use trunkline_config::import::{Client, parse};

use crate::samples::{SAMPLES, text};

/// Text that breaks parsers: punctuation, truncation and multi-byte characters.
const SPLICES: [&str; 34] = [
    "{", "}", "[", "]", "\"", "'", ",", ":", "\\", "/*", "*/", "//", "#", "\n", "\r", "\t", " ",
    "-", "?", "&a", "*a", "!", "|", ">", "%", "=", "${", "$", "é", "\u{feff}", "\u{0}", "null",
    "---", "1e9",
];

/// A sample with pieces removed, repeated or replaced.
fn mutated() -> impl Strategy<Value = (Client, String)> {
    let edit = (
        any::<prop::sample::Index>(),
        0..40_usize,
        0..SPLICES.len() + 1,
    );
    let edits = prop::collection::vec(edit, 1..6);
    (0..SAMPLES.len(), edits).prop_map(|(sample, edits)| {
        let (client, name) = SAMPLES[sample];
        let mut letters: Vec<char> = text(client, name).chars().collect();
        for (at, length, splice) in edits {
            let at = at.index(letters.len() + 1);
            let end = (at + length).min(letters.len());
            let piece: Vec<char> = match SPLICES.get(splice) {
                Some(splice) => splice.chars().collect(),
                None => [&letters[at..end], &letters[at..end]].concat(),
            };
            letters.splice(at..end, piece);
        }
        (client, letters.into_iter().collect())
    })
}

/// Invariants of every result: entries that start something, names that `add` accepts, positions
/// within the text.
fn sound(client: Client, text: &str) -> Result<(), TestCaseError> {
    let found = parse(client, Path::new("mcp.json"), text);
    let mut names = std::collections::HashSet::new();
    for server in &found.servers {
        let entry = &server.entry;
        prop_assert!(entry.contains_key("command") != entry.contains_key("url"));
        let fit = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
        prop_assert!(!server.name.is_empty() && server.name.chars().all(fit));
        prop_assert!(names.insert(server.name.clone()));
    }
    let lines = text.matches('\n').count() + 1;
    for diagnostic in &found.diagnostics {
        prop_assert!(
            diagnostic
                .line
                .is_none_or(|line| (1..=lines).contains(&line))
        );
        prop_assert!(!diagnostic.message.ends_with('.'));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_mutated_sample_gives_sound_entries((client, text) in mutated()) {
        sound(client, &text)?;
    }

    #[test]
    fn any_text_gives_sound_entries(text in any::<String>(), client in 0..Client::ALL.len()) {
        sound(Client::ALL[client], &text)?;
    }
}

#[test]
fn a_truncated_sample_gives_sound_entries() {
    for (client, name) in SAMPLES {
        let text = text(client, name);
        for (end, _) in text.char_indices() {
            sound(client, &text[..end]).unwrap();
        }
    }
}
