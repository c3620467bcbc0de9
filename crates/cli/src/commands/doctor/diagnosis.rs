//! What a check concludes: the cause of a failure, and what mends it.

use std::path::PathBuf;

use trunkline_config::{Scope, Server, ServerEntry};

use crate::standing::{last_word, quoted};

/// The cause of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Diagnosis {
    /// The name of the cause in `--json`.
    pub(super) cause: &'static str,
    /// What is wrong, on one line. It may quote foreign text.
    pub(super) message: String,
    /// A command that mends it, or an instruction.
    pub(super) fix: Option<String>,
    /// What `--fix` does about it.
    pub(super) repair: Option<Repair>,
}

impl Diagnosis {
    pub(super) fn new(cause: &'static str, message: impl Into<String>) -> Self {
        Self {
            cause,
            message: message.into(),
            fix: None,
            repair: None,
        }
    }

    pub(super) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    pub(super) fn repair(mut self, repair: Repair) -> Self {
        self.repair = Some(repair);
        self
    }
}

/// A change that `--fix` makes by itself: it neither weakens security nor guesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Repair {
    /// Adds `-y` to the arguments of `npx`, which otherwise waits for an answer.
    AddYes,
    /// Sets the `type` of a server whose answers show which one it is.
    SetType(&'static str),
    /// Sets the URL, within the same host, and the type if that is known too.
    SetUrl {
        url: String,
        kind: Option<&'static str>,
    },
    /// Replaces a command by the full path of the program of that name.
    SetCommand {
        from: String,
        to: PathBuf,
        /// The directory that also holds the program's interpreter.
        search: Option<PathBuf>,
    },
    /// Makes a file of the user executable.
    MakeExecutable(PathBuf),
}

/// The server of a diagnosis, for the commands in its fix.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub(super) name: &'a str,
    scope: Scope,
    source: &'a str,
    /// Whether several files have an entry of this name.
    is_ambiguous: bool,
}

impl<'a> Subject<'a> {
    pub(super) fn of(server: &'a Server) -> Self {
        Self {
            is_ambiguous: !server.shadows.is_empty(),
            ..Self::of_entry(&server.entry)
        }
    }

    pub(super) fn of_entry(entry: &'a ServerEntry) -> Self {
        Self {
            name: &entry.name,
            scope: entry.scope,
            source: &entry.source,
            is_ambiguous: false,
        }
    }

    /// Returns the command that edits the entry with these options; for an entry that the program
    /// does not edit, an instruction to change `what` in its file.
    pub(super) fn edit(&self, options: &str, what: &str) -> String {
        if !matches!(self.scope, Scope::Local | Scope::Project | Scope::User) {
            return format!("{what} in {}", self.source);
        }
        let scope = if self.is_ambiguous {
            format!(" -s {}", self.scope)
        } else {
            String::new()
        };
        format!("trunkline edit {}{scope} {options}", quoted(self.name))
    }

    /// Returns a subcommand of the program for this server.
    pub(super) fn command(&self, command: &str) -> String {
        format!("trunkline {command} {}", last_word(self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_entries_that_can_be_edited_are_mended_by_edit() {
        let mut entry = ServerEntry::stdio("a b", "c", [""; 0]);
        entry.source = "/etc/x.json".to_owned();
        for (scope, expected) in [
            (Scope::User, "trunkline edit 'a b' --url U"),
            (Scope::Local, "trunkline edit 'a b' --url U"),
            (Scope::Enterprise, "set \"url\" in /etc/x.json"),
            (Scope::Dynamic, "set \"url\" in /etc/x.json"),
        ] {
            entry.scope = scope;
            let subject = Subject::of_entry(&entry);
            assert_eq!(subject.edit("--url U", "set \"url\""), expected);
        }
        entry.scope = Scope::User;
        let subject = Subject {
            is_ambiguous: true,
            ..Subject::of_entry(&entry)
        };
        assert_eq!(subject.edit("--x", ""), "trunkline edit 'a b' -s user --x");
    }
}
