//! The files of a repository that an approval pins: what they are now, and how they differ from
//! what was approved. Approvals keep hashes only; the approved content may be in the repository's
//! history.

use std::path::Path;
use std::time::{Duration, SystemTime};

use trunkline_config::{EntryStatus, RepositoryFile, Server};

use crate::history;

/// The longest file that is compared.
const MAX_BYTES: u64 = 1024 * 1024;

/// The most lines shown of each side.
const MAX_LINES: usize = 12;

/// The equal lines in front of a difference.
const CONTEXT: usize = 2;

/// A file whose content has changed since it was approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScriptChange {
    /// Its path in the repository.
    pub(crate) path: String,
    /// Its size and age.
    pub(crate) facts: String,
    pub(crate) lines: Vec<ScriptLine>,
}

/// A line about a change, or of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScriptLine {
    Note(String),
    Same(String),
    Removed(String),
    Added(String),
}

/// Returns the changed files of a server in the repository at `root`. Reads files, and runs `git`.
pub(crate) fn changes(server: &Server, root: &Path) -> Vec<ScriptChange> {
    let EntryStatus::PendingApproval {
        before: Some(before),
    } = &server.status
    else {
        return Vec::new();
    };
    let changed = server.entry.files.iter().filter_map(|file| {
        let approved = before.files.get(&file.path)?;
        let is_changed = *approved != file.sha256;
        is_changed.then(|| describe(root, &file.path, approved, &file.sha256))
    });
    changed.collect()
}

fn describe(root: &Path, path: &str, approved: &str, now: &str) -> ScriptChange {
    let file = root.join(path);
    let metadata = file.metadata().ok();
    let size = metadata.as_ref().map(std::fs::Metadata::len);
    let age = metadata.and_then(|metadata| metadata.modified().ok());
    let age = age.map(|modified| {
        SystemTime::now()
            .duration_since(modified)
            .unwrap_or_default()
    });
    let facts = match (size, age) {
        (Some(size), Some(age)) => format!("{size} bytes, modified {}", ago(age)),
        (Some(size), None) => format!("{size} bytes"),
        (None, _) => "it cannot be read".to_owned(),
    };
    let note = |text: &str| vec![ScriptLine::Note(text.to_owned())];
    let lines = match content(&file, size) {
        None => note("too long to be shown, or not text"),
        Some(text) if RepositoryFile::hash_of(text.as_bytes()) != now => {
            note("it has changed again just now: run this anew")
        }
        Some(text) => match history::find(root, path, approved) {
            Some(old) => difference(&old, &text),
            None => beginning(&text),
        },
    };
    ScriptChange {
        path: path.to_owned(),
        facts,
        lines,
    }
}

/// Reads a text.
fn content(file: &Path, size: Option<u64>) -> Option<String> {
    let is_shown = size.is_some_and(|size| size <= MAX_BYTES) && file.is_file();
    let bytes = std::fs::read(file).ok().filter(|_| is_shown)?;
    String::from_utf8(bytes).ok()
}

/// Formats an age.
fn ago(age: Duration) -> String {
    match age.as_secs() {
        0..60 => "just now".to_owned(),
        seconds @ 60..3600 => format!("{} min ago", seconds / 60),
        seconds @ 3600..172_800 => format!("{} h ago", seconds / 3600),
        seconds => format!("{} days ago", seconds / 86_400),
    }
}

/// Returns the lines that differ, from the first to the last of them.
fn difference(old: &str, new: &str) -> Vec<ScriptLine> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let equal = |one: &mut dyn Iterator<Item = (&&str, &&str)>| {
        one.take_while(|(one, other)| one == other).count()
    };
    let head = equal(&mut old.iter().zip(&new));
    let (removed, added) = (&old[head..], &new[head..]);
    let tail = equal(&mut removed.iter().rev().zip(added.iter().rev()));
    let (removed, added) = (
        &removed[..removed.len() - tail],
        &added[..added.len() - tail],
    );
    let mut lines = vec![ScriptLine::Note(format!("from line {}:", head + 1))];
    let before = &new[head.saturating_sub(CONTEXT)..head];
    lines.extend(
        before
            .iter()
            .map(|line| ScriptLine::Same((*line).to_owned())),
    );
    push_some(&mut lines, removed, "removed", ScriptLine::Removed);
    push_some(&mut lines, added, "added", ScriptLine::Added);
    if removed.is_empty() && added.is_empty() {
        lines = vec![ScriptLine::Note("only line ends differ".to_owned())];
    }
    lines
}

/// Returns the first lines of a text whose approved content nobody has kept.
fn beginning(new: &str) -> Vec<ScriptLine> {
    let note = "the repository's history lacks what was approved; it begins now:";
    let mut lines = vec![ScriptLine::Note(note.to_owned())];
    let new: Vec<&str> = new.lines().collect();
    push_some(&mut lines, &new, "", ScriptLine::Same);
    lines
}

fn push_some(
    lines: &mut Vec<ScriptLine>,
    all: &[&str],
    what: &str,
    line: impl Fn(String) -> ScriptLine,
) {
    let shown = all.iter().take(MAX_LINES);
    lines.extend(shown.map(|text| line((*text).to_owned())));
    if all.len() > MAX_LINES {
        let more = all.len() - MAX_LINES;
        let plural = if more == 1 { "" } else { "s" };
        let note = format!("… {more} more line{plural} {what}");
        lines.push(ScriptLine::Note(note.trim_end().to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(lines: &[ScriptLine]) -> String {
        let line = |line: &ScriptLine| match line {
            ScriptLine::Note(text) => format!("# {text}\n"),
            ScriptLine::Same(text) => format!("  {text}\n"),
            ScriptLine::Removed(text) => format!("- {text}\n"),
            ScriptLine::Added(text) => format!("+ {text}\n"),
        };
        lines.iter().map(line).collect()
    }

    #[test]
    fn the_lines_that_differ_are_shown_with_what_is_before_them() {
        for (old, new, expected) in [
            (
                "a\nb\nc\nd\ne",
                "a\nb\nc\nX\ne",
                "# from line 4:\n  b\n  c\n- d\n+ X\n",
            ),
            ("a", "a\nb", "# from line 2:\n  a\n+ b\n"),
            ("a\nb", "b", "# from line 1:\n- a\n"),
            ("x\nx", "x\nx\nx", "# from line 3:\n  x\n  x\n+ x\n"),
            ("a\r\n", "a\n", "# only line ends differ\n"),
        ] {
            assert_eq!(shown(&difference(old, new)), expected, "{old:?} {new:?}");
        }
        let long = "x\n".repeat(MAX_LINES + 2);
        let all = shown(&difference("", &long));
        assert!(all.ends_with("+ x\n# … 2 more lines added\n"), "{all}");
    }

    #[test]
    fn ages_are_rounded_down() {
        for (seconds, expected) in [
            (3, "just now"),
            (90, "1 min ago"),
            (7_300, "2 h ago"),
            (200_000, "2 days ago"),
        ] {
            assert_eq!(ago(Duration::from_secs(seconds)), expected);
        }
    }
}
