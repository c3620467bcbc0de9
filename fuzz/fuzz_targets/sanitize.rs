//! Any text, and the strings of any JSON: nothing hidden is left, once is enough, and JSON stays JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trunkline::Json;
use trunkline::text::{MAX_SHOWN, is_harmful, sanitize, sanitize_json, shown};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let (clean, removed) = sanitize(&text);
    let (again, more) = sanitize(&clean);
    assert_eq!(again, clean);
    assert!(more.is_empty());
    for c in clean.chars() {
        // An emoji keeps its joiners and its selector.
        let allowed = matches!(c, '\n' | '\u{200d}' | '\u{fe0f}');
        assert!(allowed || !is_harmful(c), "{c:?} is left");
    }
    if removed.is_empty() {
        assert!(clean.is_empty() == text.is_empty());
    }
    assert!(shown(&text).0.chars().count() <= MAX_SHOWN + 13);

    if let Ok(json) = Json::parse(text.into_owned()) {
        let (clean, removed) = sanitize_json(&json);
        let (again, more) = sanitize_json(&clean);
        assert_eq!(again, clean);
        assert!(more.is_empty());
        // What a tree can hold says the same both ways.
        if let Ok(mut tree) = json.to_value() {
            let of_tree = trunkline::text::sanitize_value(&mut tree);
            if let Ok(value) = clean.to_value()
                && !json.as_str().contains("$serde_json")
            {
                assert_eq!(value, tree);
            }
            // A key that comes twice is once in a tree.
            assert!(of_tree.total() <= removed.total());
        }
    }
});
