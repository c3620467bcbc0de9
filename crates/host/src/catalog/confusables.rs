//! Finds names that a person or a model could mistake for one another: `get_issue` with a Cyrillic
//! `і`, `GetItem` and `Getltem`.

use std::collections::HashMap;

use unicode_security::skeleton;

/// Maximum number of reported pairs.
const MAX_PAIRS: usize = 100;

/// Returns pairs of distinct names that look the same, each name paired with the first it
/// resembles.
pub(super) fn confusable_pairs<'n>(names: impl Iterator<Item = &'n str>) -> Vec<[&'n str; 2]> {
    let mut seen: HashMap<String, &str> = HashMap::with_capacity(names.size_hint().0);
    let mut pairs = Vec::new();
    for name in names {
        let first = *seen.entry(appearance(name)).or_insert(name);
        if first != name && pairs.len() < MAX_PAIRS {
            pairs.push([first, name]);
        }
    }
    pairs
}

/// Maps a name to a form shared by all names that look like it, in the spirit of Unicode's UTS 39.
/// Capitals and hyphens map to the characters they are easily misread as.
fn appearance(name: &str) -> String {
    let mut appearance = String::with_capacity(name.len() + 4);
    if name.is_ascii() {
        for c in name.chars() {
            push(&mut appearance, c);
        }
    } else {
        for c in skeleton(name) {
            push(&mut appearance, c);
        }
    }
    appearance
}

fn push(appearance: &mut String, c: char) {
    match c {
        '0' => appearance.push('o'),
        '1' | 'I' | '|' => appearance.push('l'),
        'm' => appearance.push_str("rn"),
        '-' => appearance.push('_'),
        c if c.is_ascii() => appearance.push(c.to_ascii_lowercase()),
        c => appearance.extend(c.to_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confusable_names_are_paired() {
        for (one, other, alike) in [
            ("get_issue", "get_\u{456}ssue", true),
            ("paypal", "p\u{430}yp\u{430}l", true),
            ("GetItem", "Getltem", true),
            ("modern", "modem", true),
            ("read-file", "read_file", true),
            ("v0", "vO", true),
            ("delete", "ｄｅｌｅｔｅ", true),
            ("ad\u{200b}d", "add", true),
            ("get_issue", "get_issues", false),
            ("tool_1", "tool_2", false),
            ("größe", "grösse", false),
        ] {
            let pairs = confusable_pairs([one, other].into_iter());
            assert_eq!(pairs.len(), usize::from(alike), "{one} {other}");
        }
        assert!(confusable_pairs(["same", "same"].into_iter()).is_empty());
    }
}
