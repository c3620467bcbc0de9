//! Parses the command line of a prompt: `/mcp__server__prompt one "two words" key=value` (CTX-2).

/// A parsed command line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandLine {
    /// The prompt's name, without the slash.
    pub name: String,
    /// The words after it, without quotes.
    pub words: Vec<String>,
}

impl CommandLine {
    /// Parses a line. Spaces separate words; single or double quotes group them, and a backslash
    /// escapes the next character, except between single quotes. An `Err` describes the syntax
    /// error.
    ///
    /// ```
    /// use trunkline::context::CommandLine;
    ///
    /// let line = CommandLine::parse(r#"/mcp__git__review main title="a fix""#)?;
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
                // Empty quotes are a word, too.
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
