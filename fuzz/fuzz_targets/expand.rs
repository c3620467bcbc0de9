//! Variables: other text stays unchanged, values are inserted verbatim, and text before a dollar
//! has no influence.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trunkline_config::{Environment, fuzzing};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let some = Environment::of([("A", "one"), ("EMPTY", ""), ("DOLLARS", "$A${A}$")]);
    let none = Environment::of::<&str, &str>([]);

    let (expanded, warnings) = fuzzing::expand(&text, &some);
    assert!(warnings.len() <= text.matches('$').count());
    let (untouched, _) = fuzzing::expand(&text, &none);
    if !text.contains(":-") {
        assert_eq!(untouched, text);
    }

    let first = text.find('$').unwrap_or(text.len());
    let (before, after) = text.split_at(first);
    assert_eq!(
        expanded,
        before.to_owned() + &fuzzing::expand(after, &some).0
    );

    // A value that looks like a variable is not expanded.
    let quoted = format!("{before}${{DOLLARS}}");
    assert_eq!(
        fuzzing::expand(&quoted, &some).0,
        format!("{before}$A${{A}}$")
    );
});
