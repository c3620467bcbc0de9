//! Command lines given where only a program is expected.

/// Splits a command line such as `npx -y pkg` into words; `None` if it may be a single program.
///
/// A path may contain spaces, so only a text that begins with a bare program name is split. Single
/// and double quotes group words as they do in a shell.
///
/// ```
/// use trunkline_config::split_command;
///
/// let words = split_command("npx -y 'my pkg'").unwrap();
/// assert_eq!(words, ["npx", "-y", "my pkg"]);
/// assert_eq!(split_command("/opt/My Tools/server"), None);
/// ```
pub fn split_command(text: &str) -> Option<Vec<String>> {
    let words = split_words(text)?;
    let first = words.first()?;
    let is_bare = !first.is_empty() && !first.contains(['/', '\\', '$']);
    // `My Server.exe` is one program.
    let end = text.trim_end().to_ascii_lowercase();
    let is_one = [".exe", ".cmd", ".bat", ".app"]
        .iter()
        .any(|extension| end.ends_with(extension) && words.len() == 2);
    (words.len() > 1 && is_bare && !is_one).then_some(words)
}

/// The words of a command line; `None` if a quote is not closed.
pub fn split_words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_command_line_is_split() {
        let cases: &[(&str, &[&str])] = &[
            ("npx", &[]),
            ("", &[]),
            (" npx ", &[]),
            ("npx x", &["npx", "x"]),
            ("npx  -y\t@a/b ", &["npx", "-y", "@a/b"]),
            ("sh -c 'a b; c'", &["sh", "-c", "a b; c"]),
            ("node \"a b\".js ''", &["node", "a b.js", ""]),
            ("npx it's", &[]),
            ("/opt/My Tools/server", &[]),
            ("./run me", &[]),
            ("C:\\Program Files\\x.exe", &[]),
            ("My Server.exe", &[]),
            ("${HOME}/my server", &[]),
            ("uvx \"mcp server\" .", &["uvx", "mcp server", "."]),
        ];
        for (text, words) in cases {
            let split = split_command(text);
            assert_eq!(split.as_deref().unwrap_or_default(), *words, "{text:?}");
        }
    }
}
