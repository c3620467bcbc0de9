//! What a shell asks: the words up to the cursor, of which the last one is to be completed.

use super::Shell;

/// A request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    shell: Shell,
    /// The program's name, and the words up to the cursor.
    pub(super) words: Vec<String>,
    /// The part of the last word that bash keeps.
    kept: usize,
}

impl Request {
    /// Reads the request; `None` if its last word is quoted in a way that is not understood.
    pub(super) fn of_environment(shell: Shell) -> Option<Self> {
        let var = |name: &str| std::env::var(name).ok();
        match shell {
            Shell::Bash => Self::of_line(&var("_TRUNKLINE_LINE")?, &var("_TRUNKLINE_BREAKS")?),
            Shell::Zsh | Shell::Fish => {
                let words = std::env::args().skip_while(|word| word != "--").skip(1);
                let index = var("_TRUNKLINE_INDEX").and_then(|index| index.parse().ok());
                Self::of_words(shell, words.collect(), index)
            }
        }
    }

    fn of_words(shell: Shell, mut words: Vec<String>, index: Option<usize>) -> Option<Self> {
        if let Some(index) = index {
            words.resize(index + 1, String::new());
        }
        Self {
            shell,
            words,
            kept: 0,
        }
        .checked()
    }

    /// Splits the line of bash, whose own words end at each of `breaks`.
    fn of_line(line: &str, breaks: &str) -> Option<Self> {
        let mut words: Vec<String> = Vec::new();
        let mut last = 0;
        for (at, space) in line.match_indices([' ', '\t', '\n']) {
            words.extend(Some(line[last..at].to_owned()).filter(|word| !word.is_empty()));
            last = at + space.len();
        }
        let current = &line[last..];
        let is_break = |c: char| ":=@".contains(c) && breaks.contains(c);
        let kept = current.rfind(is_break).map_or(0, |at| at + 1);
        words.push(current.to_owned());
        Self {
            shell: Shell::Bash,
            words,
            kept,
        }
        .checked()
    }

    /// Drops the alias `mcp`, and rejects what cannot be completed.
    fn checked(mut self) -> Option<Self> {
        if self.words.len() > 2 && self.words[1] == "mcp" {
            self.words.remove(1);
        }
        let current = self.words.last()?;
        let is_quoted = current.contains(['\'', '"', '\\', '$', '`']);
        // A word with spaces arrives as several words, so that their number means nothing.
        let is_odd = self
            .words
            .iter()
            .any(|word| word.contains(['\'', '"', '`']));
        (self.words.len() > 1 && !is_quoted && !is_odd).then_some(self)
    }

    /// Returns whether an option is being typed.
    pub(super) fn wants_option(&self) -> bool {
        self.words.last().is_some_and(|word| word.starts_with('-'))
    }

    /// Returns the line for a candidate; `None` if bash cannot take it.
    pub(super) fn line(&self, value: &str, help: &str) -> Option<String> {
        let with_help = |separator: char, value: &str| match help {
            "" => value.to_owned(),
            help => format!("{value}{separator}{help}"),
        };
        match self.shell {
            Shell::Bash => {
                let kept = self.words.last()?.get(..self.kept)?;
                value.strip_prefix(kept).map(str::to_owned)
            }
            Shell::Zsh => Some(with_help(':', &value.replace(':', "\\:"))),
            Shell::Fish => Some(with_help('\t', value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BREAKS: &str = " \t\n\"'><=;|&(:";

    #[test]
    fn the_line_of_bash_is_split_into_whole_words() {
        for (line, words, candidate, shown) in [
            ("trunkline ca", &["trunkline", "ca"][..], "call", "call"),
            (
                "trunkline call  s ",
                &["trunkline", "call", "s", ""],
                "echo",
                "echo",
            ),
            (
                "trunkline call s t key=va",
                &["trunkline", "call", "s", "t", "key=va"],
                "key=value",
                "value",
            ),
            (
                "trunkline read s file:///t",
                &["trunkline", "read", "s", "file:///t"],
                "file:///tmp",
                "///tmp",
            ),
            (
                // No blank to bash.
                "trunkline get a\u{a0}b",
                &["trunkline", "get", "a\u{a0}b"],
                "a\u{a0}bc",
                "a\u{a0}bc",
            ),
            (
                "trunkline mcp get x",
                &["trunkline", "get", "x"],
                "xy",
                "xy",
            ),
        ] {
            let request = Request::of_line(line, BREAKS).unwrap();
            assert_eq!(request.words, words);
            assert_eq!(
                request.line(candidate, "help").as_deref(),
                Some(shown),
                "{line}"
            );
        }
        for line in [
            "",
            "trunkline",
            "trunkline get 'a b",
            "trunkline get $X",
            "trunkline get \"a\" ",
        ] {
            assert_eq!(Request::of_line(line, BREAKS), None, "{line}");
        }
        let request = Request::of_line("trunkline call s t key=va", " ").unwrap();
        assert_eq!(request.line("key=value", "").as_deref(), Some("key=value"));
    }

    #[test]
    fn zsh_and_fish_get_descriptions() {
        let words = || ["trunkline", "read", "s", "a"].map(str::to_owned).to_vec();
        let zsh = Request::of_words(Shell::Zsh, words(), Some(3)).unwrap();
        assert_eq!(zsh.line("a:b", "Help").as_deref(), Some("a\\:b:Help"));
        let fish = Request::of_words(Shell::Fish, words(), None).unwrap();
        assert_eq!(fish.line("a:b", "Help").as_deref(), Some("a:b\tHelp"));
        assert_eq!(fish.line("a", "").as_deref(), Some("a"));
        // The cursor is in front of later words.
        let early = Request::of_words(Shell::Zsh, words(), Some(1)).unwrap();
        assert_eq!(early.words, ["trunkline", "read"]);
    }
}
