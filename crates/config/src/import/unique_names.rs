//! Creates names that `add` accepts (CFG-3).

use std::collections::{HashMap, HashSet};

use super::fields::shown;

/// Hands out each name once.
#[derive(Default)]
pub(super) struct UniqueNames {
    taken: HashSet<String>,
    /// The next number to try for a name in use, so that a thousand equal names take a thousand
    /// steps.
    next: HashMap<String, usize>,
}

impl UniqueNames {
    /// `original` with invalid characters replaced, and numbered if that name is in use; and the
    /// reason for renaming.
    pub(super) fn fit(&mut self, original: &str) -> (String, Option<String>) {
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
        let reason = if name == original {
            None
        } else if name == base {
            let rule = "names may contain only letters, digits, \"-\" and \"_\"";
            Some(format!("renamed from \"{}\": {rule}", shown(original)))
        } else {
            let taken = format!("the file has another \"{base}\"");
            Some(format!("renamed from \"{}\": {taken}", shown(original)))
        };
        (name, reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_fit_and_given_once() {
        let mut names = UniqueNames::default();
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
        let fitted = given.map(|name| names.fit(name));
        let reasons = fitted.each_ref().map(|(_, reason)| reason.is_some());
        assert_eq!(reasons, [true, true, true, true, true, true, true, false]);
        assert_eq!(fitted.map(|(name, _)| name), expected);
    }
}
