//! Translates the variables of other clients (CFG-5).

use super::fields::shown;

/// How many variables and fields the notes of one entry name.
const MAX_NAMED: usize = 10;

/// The syntax of a client's variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// None: a dollar sign is plain text.
    None,
    /// Editors: `${env:X}`, `${workspaceFolder}`, `${input:id}`.
    Editor,
    /// Shells: `$X`, `${X}`.
    Shell,
    /// opencode: `{env:X}`, `{file:path}`.
    Braces,
}

/// Translates the texts of one entry and collects notes for the user.
pub(super) struct Translator {
    dialect: Dialect,
    by_hand: Vec<String>,
    /// Fields where a dollar sign is plain text for the client but a variable for us.
    plain: Vec<String>,
    left_off: usize,
}

/// What follows a dollar sign.
enum Reference<'a> {
    /// `${inside}`.
    Braced(&'a str),
    /// `$NAME`.
    Bare(&'a str),
}

impl Translator {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            by_hand: Vec::new(),
            plain: Vec::new(),
            left_off: 0,
        }
    }

    /// Translates `text`, the value of a field such as `env.TOKEN`.
    pub(super) fn text(&mut self, text: &str, place: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        // Searching for a missing brace after each of a million dollar signs would take hours.
        let last_brace = text.rfind('}').unwrap_or_default();
        while let Some(at) = rest.find(['$', '{']) {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let closes = text.len() - rest.len() < last_brace;
            let taken = self.variable(rest, closes, place, &mut out);
            rest = &rest[taken..];
        }
        out.push_str(rest);
        out
    }

    /// Translates the start of `rest` and returns its length.
    fn variable(&mut self, rest: &str, closes: bool, place: &str, out: &mut String) -> usize {
        if rest.starts_with('{') {
            let opencode = closes && self.dialect == Dialect::Braces;
            let taken = if opencode {
                self.braces(rest, out)
            } else {
                None
            };
            return taken.unwrap_or_else(|| {
                out.push('{');
                1
            });
        }
        let Some((reference, length)) = reference(rest, closes) else {
            out.push('$');
            return 1;
        };
        let whole = &rest[..length];
        match (self.dialect, reference) {
            (Dialect::Editor, Reference::Braced(inside)) => {
                if let Some(ours) = editor(inside) {
                    out.push_str(&ours);
                    return length;
                }
                self.foreign(inside, whole, place);
            }
            (Dialect::Shell, Reference::Bare(name)) => {
                out.extend(["${", name, "}"]);
                return length;
            }
            (Dialect::Shell, Reference::Braced(inside)) if is_ours(inside) => {}
            _ => self.note_plain(place),
        }
        out.push_str(whole);
        length
    }

    /// `{env:X}` becomes `${X}`; the content of a file cannot be expressed in an entry.
    fn braces(&mut self, rest: &str, out: &mut String) -> Option<usize> {
        if !rest.starts_with("{env:") && !rest.starts_with("{file:") {
            return None;
        }
        let end = rest.find('}')?;
        let whole = &rest[..=end];
        if let Some(name) = rest[1..end]
            .strip_prefix("env:")
            .filter(|name| is_name(name))
        {
            out.extend(["${", name, "}"]);
        } else {
            out.push_str(whole);
            self.note_by_hand(whole);
        }
        Some(end + 1)
    }

    /// An editor's variable without an equivalent here, or a name that the editor does not expand.
    fn foreign(&mut self, inside: &str, whole: &str, place: &str) {
        let kind = inside.split(':').next().unwrap_or_default();
        let known = ["input", "command", "config", "env", "file"];
        let folders = [
            "workspaceFolder",
            "workspaceFolderBasename",
            "workspaceRootFolderName",
        ];
        let open = [
            "cwd",
            "execPath",
            "file",
            "selectedText",
            "defaultBuildTask",
        ];
        if inside.contains(':') && known.contains(&kind)
            || folders.contains(&kind)
            || open.iter().any(|name| inside.starts_with(name))
        {
            self.note_by_hand(whole);
        } else {
            self.note_plain(place);
        }
    }

    fn note_by_hand(&mut self, variable: &str) {
        let variable = shown(variable);
        if self.by_hand.contains(&variable) {
            return;
        }
        if self.by_hand.len() < MAX_NAMED {
            self.by_hand.push(variable);
        } else {
            self.left_off += 1;
        }
    }

    fn note_plain(&mut self, place: &str) {
        let place = shown(place);
        if self.plain.len() < MAX_NAMED && !self.plain.contains(&place) {
            self.plain.push(place);
        }
    }

    /// The notes for the user.
    pub(super) fn notes(self, client: &str) -> Vec<String> {
        let mut notes: Vec<String> = self
            .by_hand
            .iter()
            .map(|variable| format!("{variable} must be replaced by hand"))
            .collect();
        if self.left_off > 0 {
            notes.push(format!(
                "{} more variables must be replaced by hand",
                self.left_off
            ));
        }
        if !self.plain.is_empty() {
            notes.push(format!(
                "a \"$\" in {} is plain text for {client} but begins a variable here: check it",
                self.plain.join(", ")
            ));
        }
        notes
    }
}

/// The reference that our own expansion would find at the start of `rest`, and its length.
fn reference(rest: &str, closes: bool) -> Option<(Reference<'_>, usize)> {
    let after = rest.strip_prefix('$')?;
    if let Some(inside) = after.strip_prefix('{') {
        if !closes {
            return None;
        }
        let end = inside.find('}')?;
        return Some((Reference::Braced(&inside[..end]), end + 3));
    }
    let end = after
        .find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'))
        .unwrap_or(after.len());
    let name = &after[..end];
    is_name(name).then_some((Reference::Bare(name), end + 1))
}

/// Our equivalent of an editor's variable.
fn editor(inside: &str) -> Option<String> {
    Some(match inside {
        "workspaceFolder" | "workspaceRoot" => "${CLAUDE_PROJECT_DIR}".to_owned(),
        "userHome" => "${HOME}".to_owned(),
        "pathSeparator" | "/" => std::path::MAIN_SEPARATOR.to_string(),
        _ => {
            let name = inside.strip_prefix("env:").filter(|name| is_name(name))?;
            format!("${{{name}}}")
        }
    })
}

/// `NAME` or `NAME:-default`.
fn is_ours(inside: &str) -> bool {
    is_name(inside.split_once(":-").map_or(inside, |(name, _)| name))
}

/// Whether a text is a valid name of an environment variable.
pub(super) fn is_name(name: &str) -> bool {
    name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str =
        "a \"$\" in env.X is plain text for Them but begins a variable here: check it";

    fn check(dialect: Dialect, given: &str, expected: &str, notes: &[&str]) {
        let mut translator = Translator::new(dialect);
        assert_eq!(
            translator.text(given, "env.X"),
            expected,
            "{dialect:?} {given}"
        );
        assert_eq!(translator.notes("Them"), notes, "{dialect:?} {given}");
    }

    #[test]
    fn editors_variables_become_ours_and_the_rest_is_noted() {
        let cases: [(&str, &str, &[&str]); 12] = [
            ("Bearer ${env:TOKEN}!", "Bearer ${TOKEN}!", &[]),
            (
                "${userHome}/${workspaceFolder}",
                "${HOME}/${CLAUDE_PROJECT_DIR}",
                &[],
            ),
            ("${workspaceFolder", "${workspaceFolder", &[]),
            (
                "${input:key}",
                "${input:key}",
                &["${input:key} must be replaced by hand"],
            ),
            (
                "${workspaceFolderBasename}",
                "${workspaceFolderBasename}",
                &["${workspaceFolderBasename} must be replaced by hand"],
            ),
            (
                "${workspaceFolder:api}",
                "${workspaceFolder:api}",
                &["${workspaceFolder:api} must be replaced by hand"],
            ),
            (
                "${env:ProgramFiles(x86)}",
                "${env:ProgramFiles(x86)}",
                &["${env:ProgramFiles(x86)} must be replaced by hand"],
            ),
            (
                "${file:/k}",
                "${file:/k}",
                &["${file:/k} must be replaced by hand"],
            ),
            ("${TOKEN}", "${TOKEN}", &[PLAIN]),
            ("pa$word", "pa$word", &[PLAIN]),
            ("$5 {x} $", "$5 {x} $", &[]),
            ("é$é{", "é$é{", &[]),
        ];
        for (given, expected, notes) in cases {
            check(Dialect::Editor, given, expected, notes);
        }
    }

    #[test]
    fn each_other_dialect_has_its_own_variables() {
        use Dialect::{Braces, None, Shell};
        check(Shell, "$A-${B}-${C:-d}", "${A}-${B}-${C:-d}", &[]);
        check(Shell, "${a b}", "${a b}", &[PLAIN]);
        check(Braces, "{env:A}{a}", "${A}{a}", &[]);
        let by_hand = &["{file:~/k} must be replaced by hand"];
        check(Braces, "{file:~/k}", "{file:~/k}", by_hand);
        check(Braces, "${A}", "${A}", &[PLAIN]);
        check(None, "${A}", "${A}", &[PLAIN]);
        check(None, "{env:A} $", "{env:A} $", &[]);
    }

    #[test]
    fn many_dollar_signs_take_no_time() {
        for dialect in [
            Dialect::None,
            Dialect::Editor,
            Dialect::Shell,
            Dialect::Braces,
        ] {
            for text in ["${", "{env:", "$", "}${", "{{}"] {
                let text = text.repeat(100_000);
                assert!(Translator::new(dialect).text(&text, "x").len() <= text.len());
            }
        }
    }

    #[test]
    fn notes_stay_few_and_never_show_a_value() {
        let mut translator = Translator::new(Dialect::Editor);
        for n in 0..100 {
            translator.text(&format!("hunter2$x{n} ${{input:{n}}}"), &format!("env.{n}"));
        }
        let notes = translator.notes("Them");
        assert_eq!(notes.len(), 12);
        assert!(!notes.concat().contains("hunter2"));
    }
}
