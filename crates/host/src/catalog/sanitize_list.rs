//! Sanitizes lists of resources, templates and prompts (TOOL-3).

use std::sync::Arc;

use trunkline_wire::Json;
use trunkline_wire::mcp::{Item, ListKind, Prompt, Resource, ResourceTemplate};

use super::lists::{ListState, PerList};
use crate::sanitize::{Removed, sanitize_item};

/// A list item with texts that a model may see.
pub(super) trait ListItem: Item + Clone {
    /// The member that identifies the item to its server.
    const IDENTIFIER: &'static str;

    fn raw(&self) -> &Json;
}

impl ListItem for Resource {
    const IDENTIFIER: &'static str = "uri";

    fn raw(&self) -> &Json {
        &self.raw
    }
}

impl ListItem for ResourceTemplate {
    const IDENTIFIER: &'static str = "uriTemplate";

    fn raw(&self) -> &Json {
        &self.raw
    }
}

impl ListItem for Prompt {
    const IDENTIFIER: &'static str = "name";

    fn raw(&self) -> &Json {
        &self.raw
    }
}

/// Sanitizes the texts of a list and drops items whose identifier contains hidden characters. Both
/// are recorded as problems of the list.
pub(super) fn sanitize_list<T: ListItem>(
    kind: ListKind,
    items: &Arc<[T]>,
    lists: &mut PerList<ListState>,
) -> Arc<[T]> {
    let mut removed = Removed::default();
    let (mut left_out, mut unreadable) = (0_usize, 0_usize);
    let mut changed = false;
    let shown = items.iter().filter_map(|item| {
        let Some((raw, found)) = sanitize_item(item.raw(), T::IDENTIFIER) else {
            left_out += 1;
            return None;
        };
        removed += found;
        if raw.as_str() == item.raw().as_str() {
            return Some(item.clone());
        }
        changed = true;
        let read = T::from_json(raw).ok();
        unreadable += usize::from(read.is_none());
        read
    });
    let shown: Vec<T> = shown.collect();
    if !changed && left_out == 0 {
        return Arc::clone(items);
    }
    let mut state = PerList::of(kind, lists).clone();
    let method = kind.method();
    let removed =
        (!removed.is_empty()).then(|| format!("{method}: removed {removed} from its texts"));
    let skipped = |count: usize, why: &str| {
        let s = if count == 1 { "" } else { "s" };
        (count > 0).then(|| format!("{method}: skipped {count} item{s}: {why}"))
    };
    let hidden = format!("hidden characters in the {}", T::IDENTIFIER);
    let hidden = skipped(left_out, &hidden);
    let unreadable = skipped(unreadable, "unreadable once hidden characters are removed");
    let problems = state.problems.iter().cloned();
    state.problems = problems
        .chain(removed)
        .chain(hidden)
        .chain(unreadable)
        .collect();
    lists.set(kind, state);
    shown.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_sanitized_and_items_with_hidden_identifiers_dropped() {
        let prompt = |value: serde_json::Value| Prompt::from_json(Json::from(value)).unwrap();
        let mut lists = PerList::default();
        let clean: Arc<[Prompt]> = [prompt(json!({"name": "a", "description": "d"}))].into();
        let same = sanitize_list(ListKind::Prompts, &clean, &mut lists);
        assert!(Arc::ptr_eq(&same, &clean));

        let list: Arc<[Prompt]> = [
            prompt(json!({"name": "a", "description": "d\u{200b}", "title": "\u{202e}t"})),
            prompt(json!({"name": "b\u{e0041}", "description": "d"})),
            prompt(json!({"name": "c", "arguments": [{"name": "x\u{200b}"}]})),
        ]
        .into();
        let shown = sanitize_list(ListKind::Prompts, &list, &mut lists);
        assert_eq!(shown.len(), 1);
        assert_eq!(shown[0].description.as_deref(), Some("d"));
        assert_eq!(shown[0].title().as_deref(), Some("t"));
        assert_eq!(
            *PerList::of(ListKind::Prompts, &lists).problems,
            [
                "prompts/list: removed 2 hidden characters (1 zero-width, 1 bidirectional) from its texts",
                "prompts/list: skipped 2 items: hidden characters in the name",
            ]
        );
        // Sanitizing is idempotent.
        let again = sanitize_list(ListKind::Prompts, &shown, &mut lists);
        assert!(Arc::ptr_eq(&again, &shown));
    }
}
