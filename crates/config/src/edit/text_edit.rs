//! Replacements in a text that can be undone.

use serde::{Deserialize, Serialize};

/// Replaces `removed` bytes at `at` by `inserted`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TextEdit {
    /// The offset in the text before any of the edits.
    pub(crate) at: usize,
    /// The number of bytes to remove.
    pub(crate) removed: usize,
    /// The new text.
    pub(crate) inserted: String,
}

impl TextEdit {
    /// Inserts `text` at `at`.
    pub(crate) fn insert(at: usize, text: impl Into<String>) -> Self {
        Self::replace(at, 0, text)
    }

    /// Replaces `removed` bytes at `at`.
    pub(crate) fn replace(at: usize, removed: usize, text: impl Into<String>) -> Self {
        Self {
            at,
            removed,
            inserted: text.into(),
        }
    }

    /// Removes `removed` bytes at `at`.
    pub(crate) fn remove(at: usize, removed: usize) -> Self {
        Self::replace(at, removed, "")
    }
}

/// Applies edits, which are in order and do not overlap; `None` if they do not fit the text.
pub(crate) fn apply(text: &str, edits: &[TextEdit]) -> Option<String> {
    let mut new = String::with_capacity(text.len());
    let mut at = 0;
    for edit in edits {
        new.push_str(text.get(at..edit.at)?);
        new.push_str(&edit.inserted);
        at = edit.at.checked_add(edit.removed)?;
    }
    new.push_str(text.get(at..)?);
    Some(new)
}

/// The edits that turn the result of `edits` back into `text`.
pub(crate) fn inverse(text: &str, edits: &[TextEdit]) -> Option<Vec<TextEdit>> {
    let (mut grown, mut shrunk) = (0, 0);
    let inverted = edits.iter().map(|edit| {
        let old = text.get(edit.at..edit.at.checked_add(edit.removed)?)?;
        let at = (edit.at + grown).checked_sub(shrunk)?;
        grown += edit.inserted.len();
        shrunk += edit.removed;
        Some(TextEdit::replace(at, edit.inserted.len(), old))
    });
    inverted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_apply_in_order_and_their_inverse_restores_the_text() {
        let text = "abcdef";
        let edits = [
            TextEdit::insert(0, "<"),
            TextEdit::remove(1, 2),
            TextEdit::replace(4, 1, "éé"),
            TextEdit::insert(6, ">"),
        ];
        let new = apply(text, &edits).unwrap();
        assert_eq!(new, "<adééf>");
        let back = inverse(text, &edits).unwrap();
        assert_eq!(apply(&new, &back).as_deref(), Some(text));
    }

    #[test]
    fn edits_that_do_not_fit_are_refused() {
        for edit in [
            TextEdit::remove(5, 2),
            TextEdit::insert(7, "x"),
            TextEdit::insert(1, "x"),
            TextEdit::remove(usize::MAX, 2),
        ] {
            assert_eq!(
                apply("éabcd", std::slice::from_ref(&edit)),
                None,
                "{edit:?}"
            );
        }
    }
}
