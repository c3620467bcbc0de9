//! Edits of JSON text: the result is JSON and equals the same edit of a tree, and everything else
//! keeps its spelling.
//!
//! The input is the keys that lead to the member, each terminated by NUL, then an empty one; then
//! the value, terminated by NUL; then the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use trunkline_config::fuzzing::{get, remove, set};

fuzz_target!(|data: &[u8]| {
    let input = String::from_utf8_lossy(data);
    // serde_json treats this key specially when it builds a tree.
    if input.contains("$serde_json") {
        return;
    }
    let mut rest = &*input;
    let mut path = Vec::new();
    while let Some((key, after)) = rest.split_once('\0') {
        rest = after;
        if key.is_empty() {
            break;
        }
        path.push(key);
    }
    let (value, text) = rest.split_once('\0').unwrap_or(("1", rest));
    let value: Value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
    // serde_json reads long numbers inexactly, so they may not survive a round trip.
    if serde_json::from_str::<Value>(&value.to_string())
        .ok()
        .as_ref()
        != Some(&value)
    {
        return;
    }

    let plain = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_json = serde_json::from_str::<&RawValue>(plain).is_ok();
    let is_blank = plain.trim_matches([' ', '\t', '\r', '\n']).is_empty();
    let before = serde_json::from_str::<Value>(plain);
    let found = get(text, &path);
    let edited = set(text, &path, &value);
    let left = remove(text, &path);
    if !is_json && !is_blank {
        assert!(found.is_err() && edited.is_err() && (path.is_empty() || left.is_err()));
        return;
    }

    if let Ok(edited) = &edited {
        let now = edited.strip_prefix('\u{feff}').unwrap_or(edited);
        serde_json::from_str::<&RawValue>(now).expect("an edit broke the text");
        let raw = get(edited, &path)
            .expect("it can be read")
            .expect("it is there");
        assert_eq!(
            serde_json::from_str::<Value>(&raw).expect("it is JSON"),
            value
        );
        // Repeating the edit changes nothing.
        assert_eq!(set(edited, &path, &value).as_ref(), Ok(edited));
        // The tree is stricter (nesting, lone surrogates, huge numbers), so only accepted texts are
        // compared.
        let tree = match &before {
            Ok(tree) => Some(tree.clone()),
            Err(_) => is_blank.then(|| Value::Object(Map::new())),
        };
        if let (Some(mut tree), Ok(now)) = (tree, serde_json::from_str::<Value>(now)) {
            *member(&mut tree, &path).expect("the tree can be edited, too") = value;
            assert_eq!(now, tree);
        }
    }
    if let Ok(Some(left)) = &left {
        let now = left.strip_prefix('\u{feff}').unwrap_or(left);
        serde_json::from_str::<&RawValue>(now).expect("a removal broke the text");
        assert_eq!(remove(left, &path), Ok(None));
        if let (Ok(mut tree), Ok(now)) = (before, serde_json::from_str::<Value>(now)) {
            let (last, parents) = path.split_last().expect("something was removed");
            let parent = member(&mut tree, parents).expect("the tree has it, too");
            parent
                .as_object_mut()
                .expect("an object")
                .shift_remove(*last);
            assert_eq!(now, tree);
        }
    }
    assert_eq!(
        matches!(left, Ok(Some(_))),
        matches!(found, Ok(Some(_))) && !path.is_empty()
    );
});

/// The member at `path`, created if necessary; `None` if a parent is not an object.
fn member<'t>(mut tree: &'t mut Value, path: &[&str]) -> Option<&'t mut Value> {
    for (depth, key) in path.iter().enumerate() {
        let object = tree.as_object_mut()?;
        let fresh = if depth + 1 == path.len() {
            Value::Null
        } else {
            Value::Object(Map::new())
        };
        tree = object.entry(*key).or_insert(fresh);
    }
    Some(tree)
}
