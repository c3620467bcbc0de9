//! The line that somebody types to use a prompt: `/mcp__server__prompt one "two words" key=value` (CTX-2).

/// A line, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandLine {
    /// The prompt's name, without the slash.
    pub name: String,
    /// The words behind it, without quotes.
    pub words: Vec<String>,
}

impl CommandLine {
    /// Takes a line apart: words are separated by spaces; quotes, single or double, hold words together, and a backslash takes the
    /// next character as it is, but not between single quotes. An `Err` says what is wrong with it.
    ///
    /// ```
    /// let line = trunkline::context::CommandLine::parse(r#"/mcp__git__review main title="a fix""#)?;
    /// assert_eq!(line.name, "mcp__git__review");
    /// assert_eq!(line.words, ["main", "title=a fix"]);
    /// # Ok::<(), &str>(())
    /// ```
    pub fn parse(line: &str) -> Result<Self, &'static str> {
        let mut words = split(line)?.into_iter();
        let name = words.next().unwrap_or_default();
        let name = name.strip_prefix('/').unwrap_or(&name).to_owned();
        if name.is_empty() {
            return Err("it names no prompt");
        }
        Ok(Self {
            name,
            words: words.collect(),
        })
    }
}

fn split(line: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"') | None, '\\') => {
                let next = rest.next().ok_or("it ends in a backslash")?;
                word.get_or_insert_default().push(next);
            }
            (None, '"' | '\'') => {
                quote = Some(c);
                // Nothing between quotes is a word, too.
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_words_together() {
        for (line, expected) in [
            ("p", vec!["p"]),
            ("  /p \t a\n", vec!["p", "a"]),
            (r#"p "a b" 'c "d'"#, vec!["p", "a b", "c \"d"]),
            (r#"p k="v w"x"#, vec!["p", "k=v wx"]),
            (r#"p a\ b "c\"d" '\'"#, vec!["p", "a b", "c\"d", "\\"]),
            (r#"p "" ''"#, vec!["p", "", ""]),
        ] {
            let parsed = CommandLine::parse(line).unwrap();
            let mut words = vec![parsed.name];
            words.extend(parsed.words);
            assert_eq!(words, expected, "{line}");
        }
        for line in ["", " ", "/", "p \"a", "p 'a", "p \\"] {
            assert!(CommandLine::parse(line).is_err(), "{line}");
        }
    }
}
