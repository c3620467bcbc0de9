//! Names that `add` accepts (CFG-3).

use std::collections::{HashMap, HashSet};

/// Hands out names, each of them once.
#[derive(Default)]
pub(super) struct Names {
    taken: HashSet<String>,
    /// The number to try next for a name that is taken, so that a thousand equal names cost a thousand steps.
    next: HashMap<String, usize>,
}

impl Names {
    /// `original` with every unfit character replaced, and numbered when that name is taken.
    pub(super) fn fit(&mut self, original: &str) -> String {
        let mut base: String = original
            .trim()
            .chars()
            .map(|letter| match letter {
                'A'..='Z' | 'a'..='z' | '0'..='9' | '_' | '-' => letter,
                _ => '-',
            })
            .collect();
        if base.is_empty() {
            base.push_str("server");
        }
        let mut name = base.clone();
        while !self.taken.insert(name.clone()) {
            let number = self.next.entry(base.clone()).or_insert(2);
            name = format!("{base}-{number}");
            *number += 1;
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_fit_and_given_once() {
        let mut names = Names::default();
        let given = [
            "git hub",
            "git.hub",
            "git-hub-2",
            "git/hub",
            "",
            " ",
            "Größe",
            "a_b",
        ];
        let expected = [
            "git-hub",
            "git-hub-2",
            "git-hub-2-2",
            "git-hub-3",
            "server",
            "server-2",
            "Gr--e",
            "a_b",
        ];
        assert_eq!(given.map(|name| names.fit(name)), expected);
    }
}
