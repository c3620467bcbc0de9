//! Renders Markdown for a terminal: headings, lists, code, quotes, tables, and links as text (URL).

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::line::Line;
use super::lines::Lines;
use super::rendered::verbatim_line;
use super::style::{Style, is_utf8};
use super::table::{Column, Table};

/// The deepest indentation, whatever the nesting.
const MAX_INDENT: usize = 24;

/// Renders a text for a terminal of this width.
pub(super) fn lines(text: &str, width: usize) -> Lines {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut renderer = Renderer {
        width,
        ..Renderer::default()
    };
    for event in Parser::new_ext(text, options) {
        renderer.event(event);
    }
    renderer.end_line();
    renderer.lines
}

#[derive(Default)]
struct Renderer {
    width: usize,
    lines: Lines,
    /// The line at work, behind its indentation.
    line: Line,
    /// Whether a gap precedes the next block.
    gap: bool,
    styles: Vec<Style>,
    /// The next number of each open list; `None` for bullets.
    lists: Vec<Option<u64>>,
    quotes: usize,
    /// The bullet of the item that has just begun.
    bullet: Option<String>,
    links: Vec<String>,
    in_code: bool,
    table: Option<TableState>,
}

#[derive(Default)]
struct TableState {
    rows: Vec<Vec<Line>>,
    row: Vec<Line>,
}

impl Renderer {
    fn event(&mut self, event: Event) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.in_code => self.code(&text),
            Event::Text(text) => {
                let style = self.style();
                self.line.push_whole(style, &text);
            }
            Event::Code(code) => self.line.push_whole(Style::Literal, &code),
            Event::InlineHtml(html) => self.line.push_whole(Style::Dim, &html),
            Event::Html(html) => {
                for line in html.lines() {
                    self.line.push_whole(Style::Dim, line);
                    self.end_line();
                }
            }
            // A line of the author stays a line: not everything that looks like Markdown is.
            Event::SoftBreak | Event::HardBreak if self.table.is_none() => self.end_line(),
            Event::SoftBreak | Event::HardBreak => self.line.push(Style::Plain, " "),
            Event::Rule => {
                self.block();
                let rule = if is_utf8() { "─" } else { "-" };
                let rule = rule.repeat(self.width.saturating_sub(self.indent()).min(40));
                self.line.push(Style::Dim, rule);
                self.end_line();
                self.gap = true;
            }
            Event::TaskListMarker(done) => {
                let mark = if done { "[x] " } else { "[ ] " };
                self.line.push(Style::Plain, mark);
            }
            Event::FootnoteReference(label) => {
                self.line.push(Style::Dim, format_args!("[{label}]"));
            }
            Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.line.push_whole(Style::Literal, &text);
            }
        }
    }

    fn start(&mut self, tag: Tag) {
        match tag {
            Tag::Paragraph if self.bullet.is_none() => self.block(),
            Tag::Heading { .. } => {
                self.block();
                self.styles.push(Style::Name);
            }
            Tag::BlockQuote(_) => {
                self.block();
                self.quotes += 1;
            }
            Tag::CodeBlock(kind) => {
                self.block();
                if let CodeBlockKind::Fenced(language) = kind
                    && !language.is_empty()
                {
                    self.line.push(Style::Dim, format_args!("  {language}"));
                    self.end_line();
                }
                self.in_code = true;
            }
            Tag::List(first) => {
                self.end_line();
                if self.lists.is_empty() {
                    self.block();
                }
                self.lists.push(first);
            }
            Tag::Item => {
                self.end_line();
                self.gap = false;
                let bullet = if is_utf8() { "•" } else { "-" };
                self.bullet = Some(match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let shown = format!("{number}. ");
                        *number += 1;
                        shown
                    }
                    _ => format!("{bullet} "),
                });
            }
            Tag::Table(_) => {
                self.block();
                self.table = Some(TableState::default());
            }
            Tag::TableHead | Tag::Strong => self.styles.push(Style::Name),
            Tag::Emphasis => self.styles.push(Style::Emphasis),
            Tag::Strikethrough => self.styles.push(Style::Dim),
            Tag::Link { dest_url, .. } => self.links.push(dest_url.into_string()),
            Tag::Image { dest_url, .. } => {
                self.line.push(Style::Dim, "[image] ");
                self.links.push(dest_url.into_string());
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => {
                self.end_line();
                self.gap = true;
            }
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.end_line();
                self.gap = true;
            }
            TagEnd::BlockQuote(_) => {
                self.end_line();
                self.quotes = self.quotes.saturating_sub(1);
                self.gap = true;
            }
            TagEnd::CodeBlock => {
                self.in_code = false;
                self.gap = true;
            }
            TagEnd::List(_) => {
                self.end_line();
                self.lists.pop();
                self.gap = self.lists.is_empty();
            }
            TagEnd::Item => {
                self.end_line();
                self.bullet = None;
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.line);
                if let Some(table) = &mut self.table {
                    table.row.push(cell);
                }
            }
            TagEnd::TableHead | TagEnd::TableRow => {
                if tag == TagEnd::TableHead {
                    self.styles.pop();
                }
                if let Some(table) = &mut self.table {
                    let row = std::mem::take(&mut table.row);
                    table.rows.push(row);
                }
            }
            TagEnd::Table => self.end_table(),
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                let url = self.links.pop().unwrap_or_default();
                if !url.is_empty() && !self.line.as_str().ends_with(&url) {
                    self.line.push(Style::Plain, " (");
                    self.line.push(Style::Literal, url);
                    self.line.push(Style::Plain, ")");
                }
            }
            _ => {}
        }
    }

    fn style(&self) -> Style {
        match self.styles.last() {
            Some(style) => *style,
            None if self.links.is_empty() => Style::Plain,
            None => Style::Literal,
        }
    }

    /// Begins a block, below a gap.
    fn block(&mut self) {
        self.end_line();
        if self.gap && !self.lines.is_empty() {
            self.lines.push_gap();
        }
        self.gap = false;
    }

    fn indent(&self) -> usize {
        (self.lists.len() * 2).min(MAX_INDENT)
    }

    /// Returns what precedes a line.
    fn prefix(&mut self) -> Line {
        let bullet = self.bullet.take();
        let indent = self.indent();
        let mut prefix = Line::new();
        let bar = if is_utf8() { "│ " } else { "| " };
        prefix.push(Style::Dim, bar.repeat(self.quotes.min(MAX_INDENT / 2)));
        match bullet {
            Some(bullet) => {
                prefix.push(Style::Plain, " ".repeat(indent.saturating_sub(2)));
                prefix.push(Style::Dim, bullet);
            }
            None => prefix.push(Style::Plain, " ".repeat(indent)),
        }
        prefix
    }

    fn end_line(&mut self) {
        if self.line.is_empty() && self.bullet.is_none() {
            return;
        }
        let mut line = self.prefix();
        let hang = line.width();
        line.append(&std::mem::take(&mut self.line));
        self.lines.push_line(line.hang(hang));
    }

    fn code(&mut self, text: &str) {
        for line in text.lines() {
            let prefix = self.prefix().and(Style::Plain, "    ");
            self.lines
                .push_line(verbatim_line(prefix, Style::Literal, line));
        }
    }

    fn end_table(&mut self) {
        let Some(TableState { rows, .. }) = self.table.take() else {
            return;
        };
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut table = Table::new(vec![Column::Flexible; columns]);
        for row in rows {
            table.row(row);
        }
        let room = self.width.saturating_sub(self.indent());
        for row in table.lines(Some(room)).rows(None) {
            let mut line = self.prefix();
            line.append(&row);
            self.lines.push_line(line);
        }
        self.gap = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let bullet = if is_utf8() { "•" } else { "-" };
        let bar = if is_utf8() { "│" } else { "|" };
        let expected = expected.replace('•', bullet).replace('│', bar);
        assert_eq!(lines(text, 60).render(Some(60), false), expected);
    }

    #[test]
    fn every_element_is_rendered() {
        check(
            "# Title\n\nSome *text* with `code`\nand [a link](https://h.example/x).\n",
            "Title\n\nSome text with code\nand a link (https://h.example/x).\n",
        );
        check(
            "- one\n- two\n  - three\n\n1. first\n2. second\n",
            "• one\n• two\n  • three\n\n1. first\n2. second\n",
        );
        check(
            "text\n\n```sh\nls  -l\n\tcat\n```\n\n> quoted\n> more\n",
            "text\n\n  sh\n    ls  -l\n            cat\n\n│ quoted\n│ more\n",
        );
        check(
            "| name | n |\n|---|--:|\n| alpha | 1 |\n| b | 22 |\n",
            "name   n\nalpha  1\nb      22\n",
        );
        check("<https://h.example>", "https://h.example\n");
        check("- [x] done\n- [ ] open", "• [x] done\n• [ ] open\n");
    }

    #[test]
    fn hostile_markdown_is_harmless() {
        let evil = "\u{1b}[2J\u{202e}";
        let text = format!(
            "# {evil}\n\n[{evil}](http://{evil})\n\n```{evil}\n{evil}\n```\n\n|{evil}|\n|--|\n"
        );
        let shown = lines(&text, 60).render(Some(60), true);
        let own = shown.replace("\u{1b}[0m", "").replace("\u{1b}[1m", "");
        let own = own.replace("\u{1b}[2m", "").replace("\u{1b}[36m", "");
        assert!(!own.contains(['\u{1b}', '\u{202e}']), "{own:?}");
        let deep = format!("{}x", "> - ".repeat(500));
        assert!(!lines(&deep, 60).is_empty());
    }
}
