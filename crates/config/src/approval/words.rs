//! The words of an argument or a command line that may name a file (CFG-6).
//!
//! A text is read in several ways at once: as a whole, as words of a shell with quotes, escapes and
//! braces resolved, and as parts between separators. A reading too many costs nothing, since only
//! words that name existing files matter. The value of a variable, a substitution or a glob is not
//! known; it becomes a wildcard.

use std::collections::{BTreeSet, HashSet};

use percent_encoding::percent_decode_str;

use super::crude;

/// Stands for text that is known only when a shell runs: a variable or a substitution.
pub(super) const UNKNOWN: char = '\u{1}';

/// Stands for a glob.
pub(super) const GLOB: char = '\u{2}';

/// Stands for any text, in which there may be directories.
pub(super) const ANYTHING: char = '\u{6}';

/// How many words one word with braces may become.
const MAX_ALTERNATIVES: usize = 256;

/// How deeply substitutions are read.
const MAX_DEPTH: usize = 4;

/// The distinct words of an entry.
#[derive(Default)]
pub(super) struct Words {
    pub(super) list: Vec<String>,
    seen: HashSet<String>,
    /// Directories that words with wildcards start in.
    pub(super) directories: BTreeSet<String>,
    /// Texts in which names with separators are looked for.
    pub(super) squeezed: String,
    /// A word has more alternatives than are read.
    pub(super) is_cut: bool,
}

impl Words {
    /// Adds the words of an argument or a command line.
    pub(super) fn add_text(&mut self, text: &str) {
        self.add(text);
        self.add_parts(text);
        self.add_shell_words(text, 0);
        // `env -S` spells a space like this.
        if text.contains("\\_") {
            self.add_shell_words(&text.replace("\\_", " "), 0);
        }
        self.add_crude_words(text);
    }

    /// Adds the words that are found without regard to quotes.
    fn add_crude_words(&mut self, text: &str) {
        let read = crude::read(text);
        self.is_cut |= read.is_cut;
        for word in &read.words {
            self.add_with_values(word);
        }
        self.directories.extend(read.directories);
        self.squeezed.push_str(&read.squeezed);
    }

    /// Adds the words between white space, quotes and operators, and parts of them.
    fn add_parts(&mut self, text: &str) {
        for word in text.split(char::is_whitespace) {
            self.add(word);
            for part in word.split(is_syntax) {
                self.add_with_values(part);
            }
            // `$PWD/run.sh`, `${CLAUDE_PROJECT_DIR}/run.sh`
            for part in word.split('$').skip(1) {
                let path = part.split_once('/').map_or("", |(_, path)| path);
                self.add(path.split(is_syntax).next().unwrap_or_default());
            }
        }
    }

    fn add_shell_words(&mut self, text: &str, depth: usize) {
        let mut inner = Vec::new();
        for word in split(text, &mut inner) {
            let words = alternatives(&word);
            self.is_cut |= words.len() >= MAX_ALTERNATIVES;
            for word in words {
                self.add_with_values(&word);
            }
        }
        for text in inner {
            if depth < MAX_DEPTH {
                self.add_shell_words(&text, depth + 1);
            } else {
                self.is_cut = true;
            }
        }
    }

    /// Adds a word and the values in it: `--import=./hook.js`, `-cp a.jar:b.jar`, `-r./hook.js`,
    /// `@args.txt`.
    fn add_with_values(&mut self, word: &str) {
        self.add(word);
        if let Some((_, value)) = word.split_once('=') {
            self.add(value);
        }
        for piece in word.split(['=', ',', ':', ';']) {
            self.add(piece);
            // `${X:-./main}`
            self.add(piece.trim_start_matches(['-', '+', '?']));
        }
        let mut glued = word.strip_prefix('-').unwrap_or_default().chars();
        if glued.next().is_some() {
            self.add(glued.as_str());
        }
        self.add(word.strip_prefix('@').unwrap_or_default());
    }

    fn add(&mut self, word: &str) {
        if word.is_empty() || !self.seen.insert(word.to_owned()) {
            return;
        }
        self.list.push(word.to_owned());
        // `file:///repo/ho%6fk.mjs`; an import without a scheme is a URL too.
        if word.contains('%') {
            let decoded = percent_decode_str(word).decode_utf8_lossy().into_owned();
            self.add(&decoded);
        }
        if let Some(path) = word.strip_prefix("file:") {
            self.add(&format!("/{}", path.trim_start_matches('/')));
            self.add(path);
        }
        let home = ["~/", "$HOME/", "${HOME}/"];
        let below = home.iter().find_map(|prefix| word.strip_prefix(prefix));
        if let (Some(path), Some(home)) = (below, std::env::home_dir()) {
            self.add(&home.join(path).to_string_lossy());
        }
        // `$PWD/x` once its quotes are gone.
        let rest = word.strip_prefix(UNKNOWN);
        if let Some(path) = rest.and_then(|rest| rest.strip_prefix('/')) {
            self.add(path);
            if let Some(home) = std::env::home_dir() {
                self.add(&home.join(path).to_string_lossy());
            }
        }
    }
}

/// Characters that separate the words of a command line.
fn is_syntax(c: char) -> bool {
    c.is_whitespace() || "\"'`<>();|&${}[]!".contains(c)
}

/// Splits a text as a shell does, with quotes and escapes resolved. Texts of substitutions are
/// returned in `inner`. Braces stay, unless they are quoted.
fn split(text: &str, inner: &mut Vec<String>) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut rest = text;
    let mut is_double_quoted = false;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\\' => {
                let mut next = rest.chars();
                match next.next() {
                    // A line that continues.
                    Some('\n') | None => {}
                    Some(c) if is_double_quoted && !"$`\"\\".contains(c) => word.extend(['\\', c]),
                    Some(c) => word.push(literal(c)),
                }
                rest = next.as_str();
            }
            '"' => is_double_quoted = !is_double_quoted,
            '\'' if !is_double_quoted => {
                let (quoted, after) = rest.split_once('\'').unwrap_or((rest, ""));
                word.extend(quoted.chars().map(literal));
                rest = after;
            }
            '$' => rest = dollar(rest, &mut word, inner, is_double_quoted),
            '`' => {
                let (command, after) = rest.split_once('`').unwrap_or((rest, ""));
                inner.push(command.to_owned());
                word.push(UNKNOWN);
                rest = after;
            }
            c if is_double_quoted => word.push(literal(c)),
            '*' | '?' | '[' => word.push(GLOB),
            c if c.is_whitespace() || "<>();|&".contains(c) => {
                words.push(std::mem::take(&mut word));
            }
            c => word.push(c),
        }
    }
    words.push(word);
    words
}

/// Stands for a quoted brace or comma, which is no syntax.
fn literal(c: char) -> char {
    match c {
        '{' => '\u{3}',
        '}' => '\u{4}',
        ',' => '\u{5}',
        c => c,
    }
}

fn without_stand_ins(word: &str) -> String {
    let plain = word.replace('\u{3}', "{").replace('\u{4}', "}");
    plain.replace('\u{5}', ",")
}

/// Reads what follows a `$`, and returns the rest of the text.
fn dollar<'t>(
    rest: &'t str,
    word: &mut String,
    inner: &mut Vec<String>,
    is_double_quoted: bool,
) -> &'t str {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match rest.chars().next() {
        Some('\'') if !is_double_quoted => ansi_quoted(&rest[1..], word),
        // `$"…"` is a quoted text.
        Some('"') if !is_double_quoted => rest,
        Some(open @ ('(' | '{')) => {
            let close = if open == '(' { ')' } else { '}' };
            let end = closing(rest, open, close);
            inner.push(rest[1..end].to_owned());
            word.push(UNKNOWN);
            rest.get(end + 1..).unwrap_or_default()
        }
        Some(c) if is_name(c) => {
            word.push(UNKNOWN);
            rest.trim_start_matches(is_name)
        }
        Some(c) if "@*#?!-$".contains(c) => {
            word.push(UNKNOWN);
            &rest[1..]
        }
        _ => {
            word.push('$');
            rest
        }
    }
}

/// The end of a text in brackets that starts with `open`.
fn closing(text: &str, open: char, close: char) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            depth -= 1;
            if depth == 0 {
                return at;
            }
        }
    }
    text.len()
}

/// Reads a text in `$'…'` after its quote, and returns the rest.
fn ansi_quoted<'t>(mut rest: &'t str, word: &mut String) -> &'t str {
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c == '\'' {
            break;
        }
        if c != '\\' {
            word.push(literal(c));
            continue;
        }
        let Some(escape) = rest.chars().next() else {
            break;
        };
        let Some((code, after)) = numeric_escape(rest) else {
            let c = match escape {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                c => c,
            };
            word.push(literal(c));
            rest = &rest[escape.len_utf8()..];
            continue;
        };
        word.push(code.map_or(UNKNOWN, literal));
        rest = after;
    }
    rest
}

/// Reads a code such as `x6d`, `155` or `u{6d}` behind a backslash, and returns its character, if
/// there is one, and the rest.
pub(super) fn numeric_escape(text: &str) -> Option<(Option<char>, &str)> {
    let (radix, skipped, most) = match text.chars().next()? {
        'x' => (16, 1, 2),
        'u' => (16, 1, 4),
        'U' => (16, 1, 8),
        '0'..='7' => (8, 0, 3),
        _ => return None,
    };
    let digits = &text[skipped..];
    let character = |digits: &str| {
        let code = u32::from_str_radix(digits, radix).ok();
        code.and_then(char::from_u32)
    };
    let within = digits
        .strip_prefix('{')
        .and_then(|rest| rest.split_once('}'));
    if let Some((inside, after)) = within.filter(|(inside, _)| inside.len() <= 8)
        && let Some(c) = character(inside)
    {
        return Some((Some(c), after));
    }
    let count = digits.chars().take(most).take_while(|c| c.is_digit(radix));
    let (digits, after) = digits.split_at(count.count());
    Some((character(digits), after))
}

/// The words that a word with braces stands for. A sequence (`{a..c}`) becomes a glob.
fn alternatives(word: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut open = vec![word.to_owned()];
    while let Some(word) = open.pop() {
        if done.len() + open.len() >= MAX_ALTERNATIVES {
            done.extend(open);
            break;
        }
        // The last opening brace has no braces inside.
        let found = word.rfind('{').and_then(|start| {
            let end = start + word[start..].find('}')?;
            Some((start, end))
        });
        let Some((start, end)) = found else {
            done.push(without_stand_ins(&word));
            continue;
        };
        let (before, inside, after) = (&word[..start], &word[start + 1..end], &word[end + 1..]);
        if inside.contains(',') {
            open.extend(
                inside
                    .split(',')
                    .map(|part| format!("{before}{part}{after}")),
            );
        } else if inside.contains("..") {
            open.push(format!("{before}{GLOB}{after}"));
        } else {
            // Not an expansion.
            open.push(format!("{before}\u{3}{inside}\u{4}{after}"));
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Words::default();
        words.add_text(text);
        assert!(!words.is_cut, "{text}");
        words.list
    }

    #[test]
    fn every_spelling_of_a_word_is_found() {
        for (text, word) in [
            ("sh ./main", "./main"),
            (". \"./my server\"", "./my server"),
            (". './my server'", "./my server"),
            (r". ./my\ server", "./my server"),
            (". ./ma\\\nin", "./main"),
            (r". ./$'\x6dain'", "./main"),
            (r". ./$'\155ain'", "./main"),
            (r". ./$'\u006dain'", "./main"),
            (". ./ma{in,x}", "./main"),
            (". ./m{a,b}{in,x}", "./main"),
            (". ./m{a{in,},x}", "./main"),
            (". './ma{in,x}'", "./ma{in,x}"),
            (". ./\"ma\"'in'", "./main"),
            (". $\"./main\"", "./main"),
            ("exec \"$PWD/main\"", "main"),
            ("exec \"${PWD}\"/main", "main"),
            ("$(cat ./main)", "./main"),
            ("x$(x$(x `cat ./main`))", "./main"),
            ("sh\\_./main", "./main"),
            ("a=b;(./main<x)", "./main"),
            ("file:///repo/ho%6fk.mjs", "/repo/hook.mjs"),
            ("./ho%6fk.mjs", "./hook.mjs"),
            ("--import=./hook.js", "./hook.js"),
            ("-r./hook.js", "./hook.js"),
            ("-MEvil", "Evil"),
            ("@./args.txt", "./args.txt"),
            ("-cp a.jar:b.jar", "b.jar"),
            (". ./$x", "./\u{1}"),
            (". ./ma$(echo in)", "./ma\u{1}"),
            (". ./ma?n", "./ma\u{2}n"),
            (". ./ma{h..j}n", "./ma\u{2}n"),
        ] {
            let found = words(text);
            assert!(found.iter().any(|found| found == word), "{text}: {found:?}");
        }
    }

    #[test]
    fn endless_alternatives_are_told() {
        let mut words = Words::default();
        words.add_text(&"{a,b}".repeat(20));
        assert!(words.is_cut);
        assert!(words.list.len() < 2000);
        for odd in [
            "${",
            "$(",
            "`",
            "'",
            "\"",
            "\\",
            "$'\\",
            "$'\\x",
            "{",
            "}{",
            "$",
            "ä\\ö$ü",
        ] {
            Words::default().add_text(odd);
        }
    }
}
