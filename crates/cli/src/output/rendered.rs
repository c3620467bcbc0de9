//! Renders the text of a tool or resource for a terminal: JSON, Markdown, or as it is.

use unicode_width::UnicodeWidthStr as _;

use super::line::Line;
use super::lines::{Lines, MARK, escape_whole};
use super::style::{Style, ellipsis};
use super::{json_view, markdown};

/// Longer text is shown as it is.
const MAX_RENDERED: usize = 1024 * 1024;

/// The most that is shown on a terminal, in bytes and lines.
const MAX_FOREIGN: usize = 4 * 1024 * 1024;
const MAX_FOREIGN_LINES: usize = 50_000;

/// The width of a tab.
const TAB: usize = 8;

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextKind {
    /// Nobody says so.
    Unknown,
    Markdown,
}

impl TextKind {
    /// Returns what a media type says.
    pub(crate) fn of_mime(mime: Option<&str>) -> Self {
        match mime {
            Some(mime) if mime.starts_with("text/markdown") => Self::Markdown,
            _ => Self::Unknown,
        }
    }
}

/// Renders texts of a server for a terminal of this width, each row behind the mark of foreign
/// text. Shows no more than a person scrolls through: lines take many times the memory of text
/// (SEC-4).
pub(crate) fn foreign<T: AsRef<str>>(
    texts: impl IntoIterator<Item = T>,
    kind: TextKind,
    width: usize,
) -> Lines {
    let mut lines = Lines::new();
    let (mut bytes_left, mut lines_left) = (MAX_FOREIGN, MAX_FOREIGN_LINES);
    let mut texts = texts.into_iter();
    for text in texts.by_ref() {
        let text = text.as_ref();
        let most = &text[..text.floor_char_boundary(bytes_left)];
        let last = most.match_indices('\n').nth(lines_left);
        let head = last.map_or(most, |(at, _)| &most[..at]);
        lines.append(rendered(head, kind, width.saturating_sub(MARK.len())));
        bytes_left -= head.len();
        lines_left = MAX_FOREIGN_LINES.saturating_sub(lines.len());
        if head.len() < text.len() || lines_left == 0 {
            let more = format!("{} the rest is not shown here; a pipe gets all", ellipsis());
            lines.push_line(Line::of(Style::Dim, more));
            break;
        }
    }
    lines.marked()
}

/// Renders a text for a terminal of this width.
fn rendered(text: &str, kind: TextKind, width: usize) -> Lines {
    if text.len() > MAX_RENDERED {
        return verbatim(text);
    }
    if let Some(lines) = json_view::lines(text) {
        return lines;
    }
    if kind == TextKind::Markdown || looks_like_markdown(text) {
        return markdown::lines(text, width);
    }
    verbatim(text)
}

/// Returns the lines of a text, with escaped controls.
fn verbatim(text: &str) -> Lines {
    let mut lines = Lines::new();
    for text in text.lines() {
        lines.push_line(verbatim_line(Line::new(), Style::Plain, text));
    }
    lines
}

/// Appends a line of foreign text as it is, with tabs as spaces.
pub(super) fn verbatim_line(mut line: Line, style: Style, text: &str) -> Line {
    // Built apart: the width of a long line takes long to find, for each tab of many.
    let (mut shown, mut width) = (String::new(), 0);
    for (at, part) in text.trim_end_matches('\r').split('\t').enumerate() {
        if at > 0 {
            let stop = (width / TAB + 1) * TAB;
            shown.extend(std::iter::repeat_n(' ', stop - width));
            width = stop;
        }
        let part = escape_whole(part);
        width += part.width();
        shown += &part;
    }
    line.push_whole(style, shown);
    line.verbatim()
}

/// Guesses whether a text is Markdown. Source code and logs, which may contain some of its marks,
/// must not be taken for it.
fn looks_like_markdown(text: &str) -> bool {
    let (mut fences, mut tables, mut headings, mut bullets) = (0, 0, 0, 0);
    let (mut inline, mut code, mut prose) = (0, 0, 0);
    let mut in_fence = false;
    for line in text.lines() {
        let body = line.trim();
        if body.starts_with("```") {
            fences += 1;
            in_fence = !in_fence;
            continue;
        }
        if in_fence || body.is_empty() {
            continue;
        }
        prose += 1;
        let after = body.trim_start_matches('#');
        let level = body.len() - after.len();
        headings += usize::from((1..=6).contains(&level) && after.starts_with(' '));
        let is_rule = |c: char| "|-: ".contains(c);
        tables +=
            usize::from(body.contains("--") && body.contains('|') && body.chars().all(is_rule));
        bullets += usize::from(body.starts_with("- ") || body.starts_with("* "));
        inline += usize::from(body.contains("](") || body.matches("**").count() >= 2);
        let is_code = body.ends_with([';', '{', '}', '\\'])
            || line.starts_with('\t')
            || [
                "#!", "import ", "def ", "from ", "use ", "fn ", "//", "export ",
            ]
            .iter()
            .any(|start| body.starts_with(start));
        code += usize::from(is_code);
    }
    if code * 4 > prose {
        return false;
    }
    let score = 2 * usize::from(fences >= 2)
        + 2 * usize::from(tables > 0)
        + 2 * usize::from(inline > 0)
        + usize::from(headings > 0)
        + usize::from(bullets >= 2);
    score >= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_is_told_from_code() {
        for (text, is_so) in [
            ("plain text", false),
            ("# A heading\n\nSome **bold** text", true),
            ("# A heading\n\n- one\n- two", true),
            ("See [the page](https://h.example).", true),
            ("| a | b |\n|---|---|\n| 1 | 2 |", true),
            ("Use it:\n```sh\nls\n```", true),
            ("# comment\nname: value\n- item\nother: x", false),
            ("#!/bin/sh\n# comment\nfoo() {\n  bar;\n}", false),
            ("import os\n# ** **\ndef f():\n    return 1", false),
            ("2026-01-01 - started\n2026-01-02 - ended", false),
            ("- one\n- two", false),
        ] {
            assert_eq!(looks_like_markdown(text), is_so, "{text}");
        }
    }

    #[test]
    fn no_more_is_laid_out_than_a_person_reads() {
        for texts in [
            vec!["\n".repeat(MAX_FOREIGN_LINES + 5)],
            vec!["x\n".repeat(3); MAX_FOREIGN_LINES],
            vec!["x".repeat(MAX_FOREIGN / 2); 3],
        ] {
            let lines = foreign(&texts, TextKind::Unknown, 80);
            assert!(lines.len() <= MAX_FOREIGN_LINES + 4, "{}", lines.len());
            let shown = lines.to_plain();
            assert!(shown.len() < MAX_FOREIGN + 4 * MAX_FOREIGN_LINES);
            assert!(shown.ends_with("a pipe gets all\n"));
        }
        let all = foreign(["a\nb", "c"], TextKind::Unknown, 80);
        assert_eq!(all.to_plain(), "| a\n| b\n| c\n");
    }

    #[test]
    fn other_text_stays_as_it_is() {
        let shown = rendered("a\tb\r\n  c \u{1b}[2J\n\nd", TextKind::Unknown, 80);
        assert_eq!(shown.to_plain(), "a       b\n  c \\u{1b}[2J\n\nd\n");
        let long = "word ".repeat(40);
        assert_eq!(
            rendered(&long, TextKind::Unknown, 80).rows(Some(79)).len(),
            1
        );
    }
}
