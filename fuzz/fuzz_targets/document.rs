//! JSON with positions: the members are those of the tree, and positions of members and errors are
//! correct.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use serde_json::value::RawValue;
use trunkline_config::fuzzing::{members, position};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let plain = text.strip_prefix('\u{feff}').unwrap_or(&text);
    for offset in [0, plain.len() / 2, plain.len(), plain.len() + 1] {
        check_position(plain, offset);
    }
    let tree = serde_json::from_str::<Value>(plain);
    match members(&text) {
        Ok(members) => {
            serde_json::from_str::<&RawValue>(plain).expect("broken JSON was accepted");
            for (_, value, (line, column)) in &members {
                let line = plain
                    .split('\n')
                    .nth(line - 1)
                    .expect("there is such a line");
                let rest: String = line.chars().skip(column - 1).collect();
                let first = value.split('\n').next().unwrap_or_default();
                assert!(rest.starts_with(first), "{first:?} is not at {rest:?}");
            }
            // serde_json treats this key specially when it builds a tree.
            if text.contains("$serde_json") {
                return;
            }
            let Ok(tree) = tree else { return };
            let tree = tree
                .as_object()
                .expect("it has members, so it is an object");
            for (name, member) in tree {
                // Of repeated members the last counts.
                let (_, value, _) = members
                    .iter()
                    .rfind(|(found, ..)| found == name)
                    .expect("it is there");
                assert_eq!(
                    &serde_json::from_str::<Value>(value).expect("it is JSON"),
                    member
                );
            }
            assert!(members.iter().all(|(name, ..)| tree.contains_key(name)));
        }
        Err(problem) => {
            assert!(
                !tree.is_ok_and(|tree| tree.is_object()) || text.contains("$serde_json"),
                "{problem}"
            );
            let (line, column) = (
                problem.line.expect("a line"),
                problem.column.expect("a column"),
            );
            let line = plain
                .split('\n')
                .nth(line - 1)
                .expect("there is such a line");
            assert!(
                0 < column && column <= line.chars().count() + 1,
                "{problem}"
            );
        }
    }
});

/// Counts lines and characters naively.
fn check_position(text: &str, offset: usize) {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    if end != offset.min(text.len()) {
        return;
    }
    let before = &text[..end];
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count()
        + 1;
    assert_eq!(position(text, offset), (line, column));
}
