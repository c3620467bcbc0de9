//! Names with descriptions below a heading, aligned and wrapped.

use super::line::Line;
use super::lines::Lines;
use super::style::Style;

/// The maximum width of the column of names. A wider name has a line of its own.
const MAX_NAMES: usize = 30;

/// Below this width, every description is below its name.
const MIN_WIDTH: usize = 60;

/// The most that is shown of a description, in characters.
const MAX_ABOUT: usize = 400;

const INDENT: usize = 2;

/// A heading and what belongs to it.
pub(crate) struct Group {
    heading: Line,
    entries: Vec<(Line, Line)>,
}

impl Group {
    /// Creates a group with a name and, dimmed, a remark.
    pub(crate) fn new(name: &str, remark: &str) -> Self {
        Self {
            heading: Line::of(Style::Name, name).and(Style::Dim, format_args!("  {remark}")),
            entries: Vec::new(),
        }
    }

    /// Adds an entry with the first paragraph of a description.
    pub(crate) fn entry(&mut self, name: Line, about: &str) {
        self.entry_marked(name, Line::new(), about);
    }

    /// As [`Group::entry`], with a mark in front of the description.
    pub(crate) fn entry_marked(&mut self, name: Line, mut mark: Line, about: &str) {
        mark.push(Style::Plain, summary(about));
        self.entries.push((name, mark));
    }

    /// Lays the group out for a terminal.
    pub(crate) fn lines(&self, width: usize) -> Lines {
        let mut lines = Lines::from(self.heading.clone());
        let widths = self.entries.iter().map(|(name, _)| name.width());
        let names = widths
            .filter(|width| *width <= MAX_NAMES)
            .max()
            .unwrap_or(0);
        let column = if width < MIN_WIDTH {
            INDENT + 2
        } else {
            INDENT + names + 2
        };
        for (name, about) in &self.entries {
            let mut line = Line::plain(" ".repeat(INDENT));
            line.append(name);
            if about.is_empty() {
                lines.push_line(line);
                continue;
            }
            if line.width() + 2 > column {
                lines.push_line(line);
                line = Line::new();
            }
            line.pad(column);
            line.append(about);
            lines.push_line(line.hang(column));
        }
        lines
    }
}

/// Returns the first paragraph of a description on one line, bounded.
fn summary(text: &str) -> String {
    let paragraph = text.trim().split("\n\n").next().unwrap_or_default();
    let words = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    Line::plain(words).cut(MAX_ABOUT).as_str().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_aligned_and_wrapped() {
        let mut group = Group::new("files", "3 tools");
        let name = |text: &str| Line::of(Style::Literal, text);
        group.entry(
            name("read"),
            "Reads a file,\nall of it, and returns its text as UTF-8\n\nMore.",
        );
        group.entry(name("a_name_that_is_much_wider_than_the_column"), "Lists");
        group.entry(name("bare"), "");
        let shown = |width: usize| group.lines(width).render(Some(width), false);
        assert_eq!(
            shown(60),
            "\
files  3 tools
  read  Reads a file, all of it, and returns its text as
        UTF-8
  a_name_that_is_much_wider_than_the_column
        Lists
  bare
"
        );
        assert_eq!(
            shown(50),
            "\
files  3 tools
  read
    Reads a file, all of it, and returns its text
    as UTF-8
  a_name_that_is_much_wider_than_the_column
    Lists
  bare
"
        );
    }

    #[test]
    fn a_hostile_description_never_starts_a_row() {
        let mut group = Group::new("s", "1 tool");
        group.entry(Line::plain("t"), &"\u{1b}[2J\nerror: forged ".repeat(30));
        for row in group.lines(80).render(Some(80), false).lines().skip(1) {
            assert!(row.starts_with("  ") && !row.contains('\u{1b}'), "{row}");
        }
    }
}
