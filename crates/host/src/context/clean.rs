//! Text of servers on its way to a model.

/// The text without control characters and what cannot be seen.
pub(super) fn clean(text: &str) -> String {
    text.chars()
        .filter(|c| matches!(c, '\n' | '\t') || !crate::is_harmful(*c))
        .collect()
}
