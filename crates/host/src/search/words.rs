//! Splits text into comparable words: `createIssue`, `create_issue` and "creating issues" yield the
//! same two.

/// Words that do not identify a tool.
const STOP_WORDS: &[&str] = &[
    "a", "about", "all", "am", "an", "and", "another", "any", "are", "as", "at", "be", "been",
    "by", "can", "could", "did", "do", "does", "for", "from", "give", "has", "have", "how", "i",
    "if", "in", "into", "is", "it", "its", "just", "let", "like", "mcp", "me", "my", "need", "not",
    "now", "of", "on", "or", "other", "our", "out", "please", "should", "so", "some", "that",
    "the", "their", "them", "then", "there", "these", "they", "this", "those", "to", "tool", "us",
    "use", "used", "uses", "using", "want", "was", "we", "what", "when", "where", "which", "who",
    "why", "will", "with", "would", "you", "your",
];

/// Returns whether a lowercase word does not identify a tool.
pub(super) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// Calls `visit` with each word in lowercase, not stemmed. Words end at other characters and where
/// a capital starts a new word.
pub(super) fn words(text: &str, mut visit: impl FnMut(&str)) {
    let mut word = String::new();
    let mut end = |word: &mut String| {
        if !word.is_empty() {
            visit(word);
            word.clear();
        }
    };
    let mut chars = text.chars().peekable();
    let mut after_lowercase = false;
    let mut after_uppercase = false;
    while let Some(c) = chars.next() {
        if !c.is_alphanumeric() {
            end(&mut word);
            (after_lowercase, after_uppercase) = (false, false);
            continue;
        }
        if is_unspaced_script(c) {
            end(&mut word);
            word.push(c);
            end(&mut word);
            (after_lowercase, after_uppercase) = (false, false);
            continue;
        }
        let is_uppercase = c.is_uppercase();
        // `aB`, and the `Se` of `HTTPServer`.
        let before_lowercase = chars.peek().is_some_and(|next| next.is_lowercase());
        if is_uppercase && (after_lowercase || (after_uppercase && before_lowercase)) {
            end(&mut word);
        }
        if c.is_ascii() {
            word.push(c.to_ascii_lowercase());
        } else {
            word.extend(c.to_lowercase());
        }
        (after_lowercase, after_uppercase) = (!is_uppercase, is_uppercase);
    }
    end(&mut word);
}

/// Scripts without spaces, where each character counts as a word.
fn is_unspaced_script(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Returns the approximate stem of an English word, so that `files`, `deletes`, `creating` and
/// `navigation` match `file`, `delete`, `create` and `navigate`.
pub(super) fn stem(word: &str) -> &str {
    if word.len() <= 3 || !word.is_ascii() {
        return word;
    }
    let word = strip_plural(word);
    let word = strip_ending(word);
    // `query` and `querie` share a stem.
    let shorter = word.strip_suffix("ie").or_else(|| word.strip_suffix('y'));
    let word = shorter.filter(|stem| stem.len() >= 3).unwrap_or(word);
    if word.len() > 3 {
        word.strip_suffix('e').unwrap_or(word)
    } else {
        word
    }
}

fn strip_plural(word: &str) -> &str {
    if word.ends_with("ss") || word.ends_with("us") || word.ends_with("is") {
        return word;
    }
    for ending in ["sses", "shes", "ches", "xes", "zes"] {
        if word.ends_with(ending) {
            return &word[..word.len() - 2];
        }
    }
    word.strip_suffix('s').unwrap_or(word)
}

fn strip_ending(word: &str) -> &str {
    let has_vowel = |stem: &str| stem.bytes().any(|byte| b"aeiouy".contains(&byte));
    for ending in ["ing", "ed"] {
        if let Some(stem) = word.strip_suffix(ending)
            && stem.len() >= 3
            && has_vowel(stem)
        {
            return undouble(stem);
        }
    }
    if let Some(stem) = word.strip_suffix("ion")
        && stem.len() >= 4
        && stem.ends_with(['t', 's'])
    {
        return stem;
    }
    if let Some(stem) = word.strip_suffix("ment")
        && stem.len() >= 4
    {
        return stem;
    }
    word
}

/// Turns `runn` into `run`.
fn undouble(stem: &str) -> &str {
    let bytes = stem.as_bytes();
    match bytes {
        [.., a, b] if a == b && stem.len() > 3 && !b"lsz".contains(b) => &stem[..stem.len() - 1],
        _ => stem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        words(text, |word| found.push(word.to_owned()));
        found
    }

    #[test]
    fn words_split_at_separators_and_case_changes() {
        for (text, expected) in [
            ("create_issue", vec!["create", "issue"]),
            ("createIssue", vec!["create", "issue"]),
            ("HTTPServer-v2", vec!["http", "server", "v2"]),
            ("base64 of s3://x", vec!["base64", "of", "s3", "x"]),
            ("API-post-search", vec!["api", "post", "search"]),
            ("Größe ÄÖ", vec!["größe", "äö"]),
            ("検索する now", vec!["検", "索", "す", "る", "now"]),
            ("", vec![]),
            ("--", vec![]),
        ] {
            assert_eq!(split(text), expected, "{text}");
        }
    }

    #[test]
    fn word_forms_share_a_stem() {
        for family in [
            &["file", "files", "filing"][..],
            &["query", "queries", "querying"],
            &["create", "creates", "created", "creating", "creation"],
            &["navigate", "navigation", "navigating"],
            &["delete", "deletion", "deleted"],
            &["run", "runs", "running"],
            &["deploy", "deployment", "deployments", "deployed"],
            &["directory", "directories"],
            &["search", "searches", "searching"],
            &["box", "boxes"],
            &["commit", "commits", "committed", "committing"],
            &["execute", "executes", "execution"],
        ] {
            for form in family {
                assert_eq!(stem(form), stem(family[0]), "{form}");
            }
        }
        for (one, other) in [
            ("status", "statu"),
            ("string", "str"),
            ("this", "thi"),
            ("bus", "bu"),
        ] {
            assert_ne!(stem(one), other);
        }
    }

    #[test]
    fn stop_words_are_sorted() {
        assert!(STOP_WORDS.is_sorted());
        assert!(is_stop_word("the") && !is_stop_word("file"));
    }
}
