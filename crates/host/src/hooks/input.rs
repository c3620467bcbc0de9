//! The input of a hook: a JSON object.
//!
//! Its members keep the text that they arrived with. A tree has limits of depth and size, and a
//! hook that is shown less than the server receives could be bypassed.

use serde_json::Value;
use trunkline_wire::Json;

/// The members of a hook's input, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct HookInput(Vec<(String, String)>);

impl HookInput {
    /// Adds a member, or replaces the one of this name.
    pub(super) fn insert(&mut self, name: &str, value: impl Into<Json>) {
        self.insert_text(name, value.into().as_str().to_owned());
    }

    /// Adds a member whose value is this JSON text.
    pub(super) fn insert_text(&mut self, name: &str, text: String) {
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.to_owned(), text));
    }

    /// Adds all members of another input.
    pub(super) fn extend(&mut self, other: &Self) {
        for (name, value) in &other.0 {
            self.insert_text(name, value.clone());
        }
    }

    /// Returns the text of the object.
    pub(super) fn to_text(&self) -> String {
        let length = self
            .0
            .iter()
            .map(|(name, value)| name.len() + value.len() + 8);
        let mut text = String::with_capacity(length.sum::<usize>() + 2);
        for (name, value) in &self.0 {
            text.push(if text.is_empty() { '{' } else { ',' });
            text.push_str(&Value::from(&**name).to_string());
            text.push(':');
            text.push_str(value);
        }
        if text.is_empty() {
            text.push('{');
        }
        text.push('}');
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_keep_their_text() {
        let mut input = HookInput::default();
        assert_eq!(input.to_text(), "{}");
        input.insert("a", json!(1));
        input.insert("b\"", json!("x"));
        input.insert("a", json!({"c": null}));
        assert_eq!(input.to_text(), r#"{"b\"":"x","a":{"c":null}}"#);
    }
}
