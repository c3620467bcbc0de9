//! A second, crude reading of a text (CFG-6).
//!
//! The first reading (`words`) follows a shell's quotes. A quote that the shell does not see, in a
//! comment, a here-document or a nested escape, would hide from it whatever follows. Here no
//! character opens anything: quotes and backslashes are dropped, the text is split at white space
//! and at every metacharacter, and whatever a shell might still replace becomes a wildcard.

use std::ffi::OsStr;
use std::path::Path;

use super::words::{ANYTHING, GLOB, UNKNOWN, numeric_escape};

/// How many unknown parts of one word are read.
const MAX_UNKNOWN: usize = 16;

/// The maximum length of a text. A longer one could not be an argument of any program.
const MAX_TEXT: usize = 256 << 10;

/// Characters that make a text more than one plain word.
const SYNTAX: &str = "\\\"'`$*?[]^#~(){}<>;|&!";

/// The words of a text, in the alphabet of `words`.
#[derive(Default)]
pub(super) struct CrudeWords {
    pub(super) words: Vec<String>,
    /// The directories before the first unknown part of a word.
    pub(super) directories: Vec<String>,
    /// The spellings of the text without anything that separates or quotes, if it quotes at all,
    /// one per line.
    pub(super) squeezed: String,
    /// The text is too long, or a word has more unknown parts than are read.
    pub(super) is_cut: bool,
}

/// Reads a text in its crude spellings.
pub(super) fn read(text: &str) -> CrudeWords {
    let mut read = CrudeWords::default();
    if !text.contains(|c: char| SYNTAX.contains(c) || c.is_whitespace()) {
        return read;
    }
    if text.len() > MAX_TEXT {
        read.is_cut = true;
        return read;
    }
    let is_quoted = text.contains(['"', '\'']);
    for spelling in spellings(text) {
        Reader::new(&mut read, Quotes::Dropped).all(&spelling);
        if is_quoted {
            Reader::new(&mut read, Quotes::Separate).all(&spelling);
        }
        if is_quoted || text.contains('\\') {
            read.squeezed.push_str(&squeezed(&spelling));
            read.squeezed.push('\n');
        }
    }
    read
}

/// Whether a name may be torn apart by this reading, so that it has to be looked for in a text.
pub(super) fn is_odd(name: &str) -> bool {
    name.contains(is_dropped)
}

/// Whether squeezed texts may name an odd file: they contain the name, or a wildcard and the start
/// of the name. A name without its extension does.
pub(super) fn may_name(squeezed: &str, name: &str) -> bool {
    let stem = Path::new(name).file_stem().and_then(OsStr::to_str);
    let name = stem.unwrap_or(name);
    let mut parts = name.split(is_dropped).filter(|part| !part.is_empty());
    squeezed.contains(&self::squeezed(name))
        || (squeezed.contains('*') && parts.next().is_none_or(|part| squeezed.contains(part)))
}

/// A text without what separates words. Every wildcard is a `*`.
fn squeezed(text: &str) -> String {
    let mut squeezed: String = text.chars().filter(|c| !is_dropped(*c)).collect();
    if text.contains(['*', '?', '[', '$', '`']) {
        squeezed.push('*');
    }
    squeezed
}

fn is_dropped(c: char) -> bool {
    c.is_whitespace() || c == ',' || SYNTAX.contains(c)
}

/// The text as it is, with escapes such as `\x6d` resolved, and each with its lines continued.
fn spellings(text: &str) -> Vec<String> {
    let mut spellings = vec![text.to_owned()];
    if text.contains('\\') {
        spellings.push(unescaped(text));
    }
    if text.contains("\\\n") {
        let continued: Vec<_> = spellings.iter().map(|text| joined(text)).collect();
        spellings.extend(continued);
    }
    spellings.dedup();
    spellings
}

/// A text without line breaks behind backslashes.
fn joined(text: &str) -> String {
    let mut lines = text.split('\n');
    let mut joined = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        if joined.ends_with('\\') {
            joined.truncate(joined.trim_end_matches('\\').len());
        } else {
            joined.push('\n');
        }
        joined.push_str(line);
    }
    joined
}

/// A text with `\x6d`, `\155`, `\u006d` and `\u{6d}` resolved, however many backslashes there are.
fn unescaped(text: &str) -> String {
    let mut unescaped = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        unescaped.push_str(&rest[..at]);
        rest = rest[at..].trim_start_matches('\\');
        match numeric_escape(rest) {
            Some((Some(c), after)) => {
                unescaped.push(c);
                rest = after;
            }
            _ => unescaped.push('\\'),
        }
    }
    unescaped.push_str(rest);
    unescaped
}

/// What a quote does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    /// Nothing: `./ma"in"`.
    Dropped,
    /// It ends a word: `load"./x.rb"`.
    Separate,
}

/// Reads one spelling of a text.
struct Reader<'r> {
    read: &'r mut CrudeWords,
    quotes: Quotes,
    word: String,
    /// A brace was opened since the last white space, so that a comma separates alternatives.
    in_braces: bool,
}

impl<'r> Reader<'r> {
    fn new(read: &'r mut CrudeWords, quotes: Quotes) -> Self {
        Self {
            read,
            quotes,
            word: String::new(),
            in_braces: false,
        }
    }

    fn all(mut self, text: &str) {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            match c {
                '\\' => {}
                '"' | '\'' if self.quotes == Quotes::Dropped => {}
                '$' => rest = self.dollar(rest),
                '*' | '?' => self.word.push(GLOB),
                '[' | '^' | '#' => self.word.push(UNKNOWN),
                '~' if self.word.is_empty() => self.word.push(UNKNOWN),
                '(' => self.parenthesis(),
                '{' => {
                    self.end_unknown();
                    self.in_braces = true;
                }
                ',' if self.in_braces => self.end_unknown(),
                ')' | '}' | '`' if goes_on(rest) => {
                    self.end_unknown();
                    self.word.push(UNKNOWN);
                }
                c if c.is_whitespace() => {
                    self.end();
                    self.in_braces = false;
                }
                '"' | '\'' | ')' | '}' | '`' | ';' | '|' | '&' | '<' | '>' => self.end(),
                c => self.word.push(c),
            }
        }
        self.end();
    }

    /// Reads what follows a `$`, and returns the rest of the text.
    fn dollar<'t>(&mut self, rest: &'t str) -> &'t str {
        let name = |text: &str| {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            text.find(|c| !is_name(c)).unwrap_or(text.len())
        };
        if let Some(inner) = rest.strip_prefix('{') {
            let end = name(inner);
            if end > 0 && inner[end..].starts_with('}') {
                self.word.push(GLOB);
                return &inner[end + 1..];
            }
        }
        if rest.starts_with(|c: char| c.is_ascii_digit() || "@*#?!-$".contains(c)) {
            self.word.push(GLOB);
            return &rest[1..];
        }
        let end = name(rest);
        // `$'…'`, `$(…)`, `$[…]`, `${…:-…}`
        self.word.push(if end == 0 { UNKNOWN } else { GLOB });
        &rest[end..]
    }

    /// An opening parenthesis: of a pattern (`@(a|b)`), of a call or of a subshell.
    fn parenthesis(&mut self) {
        let is_pattern = self.word.ends_with(['@', '!', '+', GLOB]) || self.word.contains('/');
        if self.word.ends_with(['@', '!', '+']) {
            self.word.pop();
        }
        if is_pattern {
            self.end_unknown();
        } else {
            self.end();
        }
    }

    /// Ends a word whose last part is not known.
    fn end_unknown(&mut self) {
        if !self.word.is_empty() {
            self.read.add(&self.word);
            self.word.push(UNKNOWN);
            self.end();
        }
    }

    fn end(&mut self) {
        let word = std::mem::take(&mut self.word);
        self.read.add(&word);
    }
}

/// Whether a word goes on behind a closing bracket.
fn goes_on(rest: &str) -> bool {
    let next = rest.chars().find(|c| !"\\\"'".contains(*c));
    next.is_some_and(|c| !c.is_whitespace() && !";|&<>(){}`,".contains(c))
}

impl CrudeWords {
    fn add(&mut self, word: &str) {
        let mut rest = word;
        for _ in 0..MAX_UNKNOWN {
            let Some(first) = rest.find([GLOB, UNKNOWN]) else {
                self.words.push(rest.to_owned());
                return;
            };
            self.add_wild(rest, first);
            // What follows may start in a directory that another word names.
            let Some(slash) = rest[first..].find('/') else {
                return;
            };
            rest = rest[first + slash..].trim_start_matches('/');
        }
        self.is_cut = true;
    }

    /// Adds a word whose first unknown part is at `first`.
    fn add_wild(&mut self, word: &str, first: usize) {
        if let Some(slash) = word[..first].rfind('/') {
            let directory = &word[..=slash];
            self.directories.push(directory.to_owned());
            if let Some(value) = directory.rsplit(['=', ',', ':', ';']).next() {
                self.directories.push(value.to_owned());
            }
        }
        let globs = [GLOB; 2].iter().collect::<String>();
        if let Some(at) = word.find(UNKNOWN) {
            // Nothing behind this is known, not even whether a directory is among it.
            let (known, after) = word.split_at(at);
            if !known.is_empty() {
                let end = if after.contains('/') {
                    ANYTHING
                } else {
                    UNKNOWN
                };
                self.words.push(format!("{known}{end}"));
            }
        } else if word.contains(&globs) {
            self.words.push(word.replace(&globs, &ANYTHING.to_string()));
        } else {
            self.words.push(word.to_owned());
        }
    }
}
