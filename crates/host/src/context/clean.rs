//! Text of servers on its way to a model.

use crate::sanitize::sanitize;

/// The text without control characters and what cannot be seen (TOOL-3).
pub(super) fn clean(text: &str) -> String {
    sanitize(text).0.into_owned()
}
