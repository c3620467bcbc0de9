//! A document: lines of ours and of others, wrapped for a width and scrolled.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::picture::PictureRow;
use super::text;

/// The most rows that a document keeps.
const MAX_ROWS: usize = 50_000;

/// The width of the labels in front of fields.
pub(super) const LABEL: usize = 10;

/// How a line is painted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tone {
    #[default]
    Plain,
    Dim,
    Bold,
    Good,
    Bad,
    Warn,
    Hint,
}

/// Who wrote a line. Foreign text stands behind a mark, so that it cannot pass for ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Origin {
    #[default]
    Own,
    Foreign,
}

/// One line, before it is wrapped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DocLine {
    /// A label in front; its continuation is indented.
    pub(super) label: &'static str,
    pub(super) text: String,
    pub(super) tone: Tone,
    pub(super) origin: Origin,
    /// A row of a picture in place of text.
    pub(super) picture: PictureRow,
}

impl DocLine {
    /// A line of ours. Foreign parts of it must have gone through [`text::line`].
    pub(super) fn own(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// A field: a label and its value.
    pub(super) fn field(label: &'static str, text: impl Into<String>) -> Self {
        Self {
            label,
            text: text.into(),
            ..Self::default()
        }
    }

    /// A heading.
    pub(super) fn heading(text: impl Into<String>) -> Self {
        Self::own(text).tone(Tone::Bold)
    }

    /// The lines of a foreign text.
    pub(super) fn foreign(text: &str) -> impl Iterator<Item = Self> + '_ {
        text::lines(text).map(|text| Self {
            text,
            origin: Origin::Foreign,
            ..Self::default()
        })
    }

    /// A row of a foreign picture.
    pub(super) fn picture(row: PictureRow) -> Self {
        Self {
            picture: row,
            origin: Origin::Foreign,
            ..Self::default()
        }
    }

    pub(super) fn tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }
}

/// One row of a wrapped document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) label: &'static str,
    /// Whether the text is indented below a label.
    pub(super) indented: bool,
    pub(super) text: String,
    pub(super) tone: Tone,
    pub(super) origin: Origin,
    pub(super) picture: PictureRow,
}

type Wrapped = Rc<Vec<Row>>;

/// The rows for a width.
#[derive(Debug)]
struct Layout {
    width: usize,
    rows: Wrapped,
    /// Whether rows are missing at the end.
    is_cut: bool,
}

/// A document with its scroll position. Wrapping is cached by width.
#[derive(Debug, Default)]
pub(super) struct Doc {
    lines: Vec<DocLine>,
    wrapped: RefCell<Option<Layout>>,
    top: Cell<usize>,
    /// The largest useful scroll position, as last drawn.
    bottom: Cell<usize>,
    page: Cell<usize>,
    /// Whether the last row has been on the screen.
    seen_end: Cell<bool>,
}

impl Doc {
    pub(super) fn new(lines: Vec<DocLine>) -> Self {
        Self {
            lines,
            ..Self::default()
        }
    }

    #[cfg(test)]
    pub(super) fn lines(&self) -> &[DocLine] {
        &self.lines
    }

    /// Takes the lines out.
    pub(super) fn take(&mut self) -> Vec<DocLine> {
        std::mem::take(&mut self.lines)
    }

    /// Replaces the lines and keeps the scroll position.
    pub(super) fn replace(&mut self, lines: Vec<DocLine>) {
        if self.lines != lines {
            self.lines = lines;
            self.wrapped.take();
            self.seen_end.set(false);
        }
    }

    /// Returns all rows for a width.
    pub(super) fn rows(&self, width: usize) -> Wrapped {
        let mut cache = self.wrapped.borrow_mut();
        if let Some(layout) = &*cache
            && layout.width == width
        {
            return Rc::clone(&layout.rows);
        }
        let mut is_cut = false;
        let mut rows = Vec::with_capacity(self.lines.len());
        for line in &self.lines {
            let indented = !line.label.is_empty();
            let mark = if line.origin == Origin::Foreign { 2 } else { 0 };
            let room = width.saturating_sub(mark + if indented { LABEL } else { 0 });
            for (at, text) in text::wrap(&line.text, room).into_iter().enumerate() {
                rows.push(Row {
                    label: if at == 0 { line.label } else { "" },
                    indented,
                    text,
                    tone: line.tone,
                    origin: line.origin,
                    picture: line.picture.clone(),
                });
            }
            if rows.len() > MAX_ROWS {
                rows.truncate(MAX_ROWS);
                rows.push(Row {
                    label: "",
                    indented: false,
                    text: "… cut: too long to be shown in full".to_owned(),
                    tone: Tone::Warn,
                    origin: Origin::Own,
                    picture: PictureRow::default(),
                });
                is_cut = true;
                break;
            }
        }
        let rows = Rc::new(rows);
        *cache = Some(Layout {
            width,
            rows: Rc::clone(&rows),
            is_cut,
        });
        rows
    }

    /// Returns the first row to draw in an area, and remembers the limits of scrolling.
    pub(super) fn window(&self, rows: usize, height: usize) -> usize {
        let bottom = rows.saturating_sub(height);
        self.bottom.set(bottom);
        self.page.set(height);
        self.top.set(self.top.get().min(bottom));
        if self.top.get() == bottom && !self.is_cut() {
            self.seen_end.set(true);
        }
        self.top.get()
    }

    pub(super) fn scroll(&self, by: isize) {
        let top = self.top.get().saturating_add_signed(by);
        self.top.set(top.min(self.bottom.get()));
    }

    pub(super) fn page(&self) -> isize {
        isize::try_from(self.page.get().saturating_sub(1).max(1)).unwrap_or(1)
    }

    pub(super) fn to_start(&self) {
        self.top.set(0);
    }

    pub(super) fn to_end(&self) {
        self.top.set(self.bottom.get());
    }

    /// Returns whether the end cannot be shown, because the document is too long.
    pub(super) fn is_cut(&self) -> bool {
        let layout = self.wrapped.borrow();
        layout.as_ref().is_some_and(|layout| layout.is_cut)
    }

    pub(super) fn has_seen_end(&self) -> bool {
        self.seen_end.get()
    }

    /// Returns the position for the screen: `35%`; `None` if everything is visible.
    pub(super) fn position(&self) -> Option<String> {
        let bottom = self.bottom.get();
        (bottom > 0).then(|| format!("{}%", self.top.get() * 100 / bottom))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_wraps_below_its_labels_and_scrolls_within_its_limits() {
        let doc = Doc::new(vec![
            DocLine::field("cause", "one two three"),
            DocLine::own("end"),
        ]);
        let rows = doc.rows(LABEL + 8);
        let texts: Vec<_> = rows
            .iter()
            .map(|row| (row.label, row.text.as_str()))
            .collect();
        assert_eq!(texts, [("cause", "one two"), ("", "three"), ("", "end")]);
        assert!(Rc::ptr_eq(&rows, &doc.rows(LABEL + 8)), "cached");
        assert_eq!(doc.window(3, 2), 0);
        assert!(!doc.has_seen_end());
        doc.scroll(5);
        assert_eq!(doc.window(3, 2), 1);
        assert!(doc.has_seen_end());
        doc.scroll(-5);
        assert_eq!(doc.window(3, 2), 0);
    }

    #[test]
    fn the_end_of_a_document_that_is_cut_is_never_seen() {
        let doc = Doc::new(vec![DocLine::own("x"); MAX_ROWS + 1]);
        let rows = doc.rows(20);
        assert!(rows.last().unwrap().text.starts_with("… cut"));
        doc.window(rows.len(), 10);
        doc.to_end();
        doc.window(rows.len(), 10);
        assert!(!doc.has_seen_end());
        let whole = Doc::new(vec![DocLine::own("x"); MAX_ROWS]);
        let rows = whole.rows(20);
        whole.window(rows.len(), rows.len());
        assert!(whole.has_seen_end());
    }

    #[test]
    fn foreign_lines_are_escaped_and_marked() {
        let lines: Vec<_> = DocLine::foreign("a\u{1b}[2J\nb").collect();
        assert_eq!(lines[0].text, "a\\u{1b}[2J");
        assert!(lines.iter().all(|line| line.origin == Origin::Foreign));
    }
}
