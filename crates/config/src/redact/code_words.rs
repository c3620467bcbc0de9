//! Finds the words of a command line that decide which code runs: programs, packages, scripts.
//!
//! The user who approves an entry must see them, whatever they look like. `npx -y sk-…` runs a
//! package of that name.

use super::secret_names::is_secret_name;
use crate::approval::is_interpreter;

/// Programs that fetch and run a package.
const RUNNERS: [&str; 13] = [
    "npx", "pnpx", "bunx", "npm", "pnpm", "yarn", "bun", "uvx", "uv", "pipx", "deno", "docker",
    "podman",
];

/// Their subcommands, which come before the package.
const SUBCOMMANDS: [&str; 10] = [
    "dlx", "exec", "x", "run", "tool", "create", "init", "add", "install", "start",
];

/// Their flags that take no value, besides those that begin with `--no-`.
const SWITCHES: [&str; 22] = [
    "-y",
    "--yes",
    "-q",
    "--quiet",
    "-s",
    "--silent",
    "-v",
    "--verbose",
    "--offline",
    "--isolated",
    "--refresh",
    "--prefer-offline",
    "--prefer-online",
    "--ignore-existing",
    "--bun",
    "-A",
    "-i",
    "-t",
    "-it",
    "-d",
    "--rm",
    "--init",
];

/// Flags whose value also chooses code, so that the package is still to come.
const CODE_FLAGS: [&str; 20] = [
    "-p",
    "--package",
    "--with",
    "--with-editable",
    "--from",
    "--spec",
    "--registry",
    "--index",
    "--index-url",
    "--default-index",
    "--extra-index-url",
    "--python",
    "-r",
    "--require",
    "--import",
    "--loader",
    "--experimental-loader",
    "-I",
    "--directory",
    "--project",
];

/// Flags whose value is a variable or a header, and never code.
const DATA_FLAGS: [&str; 6] = ["-e", "--env", "-H", "--header", "-u", "--user"];

/// What the next word may be.
#[derive(Clone, Copy, PartialEq)]
enum Expected {
    /// A program.
    Program,
    /// The package of a runner.
    Package,
    /// The script of an interpreter.
    Script,
    /// An argument.
    Argument,
}

/// Walks through the words of a command line.
pub(super) struct CodeWords {
    expected: Expected,
    /// The word before is a flag that may take this one as its value.
    after: After,
}

/// The kind of the word before.
#[derive(Clone, Copy, PartialEq)]
enum After {
    Word,
    /// `--no-color`: takes no value.
    Switch,
    CodeFlag,
    DataFlag,
    UnknownFlag,
}

impl CodeWords {
    /// Starts with a program.
    pub(super) fn new() -> Self {
        Self {
            expected: Expected::Program,
            after: After::Word,
        }
    }

    /// Whether the next word decides, or may decide, which code runs.
    pub(super) fn next(&mut self, word: &str) -> bool {
        let after = std::mem::replace(&mut self.after, After::Word);
        if word.len() > 1 && word.starts_with('-') && self.expected != Expected::Program {
            return self.flag(word);
        }
        if after == After::DataFlag {
            return false;
        }
        let is_shown = match self.expected {
            // `NAME=value program`
            Expected::Program | Expected::Script if is_assignment(word) => return false,
            // `/c` of `cmd`.
            Expected::Script if word.len() == 2 && word.starts_with('/') => return true,
            Expected::Package if SUBCOMMANDS.contains(&word) => return true,
            Expected::Argument => after == After::Switch,
            // It may be the value of the flag before.
            Expected::Package if matches!(after, After::UnknownFlag | After::CodeFlag) => {
                return true;
            }
            Expected::Script if after == After::CodeFlag => return true,
            Expected::Program | Expected::Package | Expected::Script => {
                self.expected = Expected::Argument;
                true
            }
        };
        let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
        let name = name.strip_suffix(".exe").unwrap_or(name);
        if RUNNERS.contains(&name) {
            self.expected = Expected::Package;
        } else if is_interpreter(word) {
            self.expected = Expected::Script;
        }
        is_shown
    }

    /// Reads a flag. One with its value is shown if the value chooses code.
    fn flag(&mut self, word: &str) -> bool {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        let is_code_flag = CODE_FLAGS.contains(&name);
        if value.is_some() {
            return is_code_flag && self.expected != Expected::Argument;
        }
        self.after = if word.starts_with("--no-") {
            After::Switch
        } else if DATA_FLAGS.contains(&name) && self.expected == Expected::Package {
            After::DataFlag
        } else if self.expected == Expected::Argument {
            After::UnknownFlag
        } else if is_code_flag {
            After::CodeFlag
        } else if SWITCHES.contains(&name) {
            After::Switch
        } else {
            After::UnknownFlag
        };
        // No interpreter has such a flag: these are arguments of something else.
        if self.expected == Expected::Script && is_secret_name(name.trim_start_matches('-')) {
            self.expected = Expected::Argument;
        }
        false
    }
}

fn is_assignment(word: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name = word.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| !name.is_empty() && name.chars().all(is_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words that decide which code runs.
    fn shown(line: &str) -> String {
        let mut words = CodeWords::new();
        let shown: Vec<_> = line.split(' ').filter(|word| words.next(word)).collect();
        shown.join(" ")
    }

    #[test]
    fn programs_packages_and_scripts_decide() {
        for (line, expected) in [
            ("npx -y PKG --token SECRET", "npx PKG"),
            ("npx -y --no-token PKG SECRET", "npx PKG"),
            ("npx --token PKG", "npx PKG"),
            ("npx --registry URL PKG SECRET", "npx URL PKG"),
            ("npx --package=A B --key SECRET", "npx --package=A B"),
            ("npm exec -- PKG", "npm exec PKG"),
            ("pnpm dlx PKG SECRET", "pnpm dlx PKG"),
            ("uvx --with A B --api-key SECRET", "uvx A B"),
            ("uv tool run PKG SECRET", "uv tool run PKG"),
            ("env A=b npx -y PKG SECRET", "env npx PKG"),
            ("cmd /c npx -y PKG SECRET", "cmd /c npx PKG"),
            ("docker run -i --rm -e A=b IMAGE SECRET", "docker run IMAGE"),
            ("node SCRIPT --token SECRET", "node SCRIPT"),
            ("node --no-warnings SCRIPT SECRET", "node SCRIPT"),
            ("python3 -u SCRIPT --token SECRET", "python3 SCRIPT"),
            ("server --token SECRET", "server"),
            ("server --no-token WORD SECRET", "server WORD"),
            ("server git --token SECRET", "server"),
            ("server SECRET", "server"),
        ] {
            assert_eq!(shown(line), expected, "{line}");
        }
    }
}
