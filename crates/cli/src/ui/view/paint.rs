//! Small helpers for drawing.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use crate::ui::doc::{Doc, LABEL, Origin, Row, Tone};
use crate::ui::picture::Pixel;
use crate::ui::text;

/// Returns the style of a tone: the terminal's own colours, which the user has chosen.
pub(super) fn style(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Dim => Style::new().add_modifier(Modifier::DIM),
        Tone::Bold => Style::new().add_modifier(Modifier::BOLD),
        Tone::Good => Style::new().fg(Color::Green),
        Tone::Bad => Style::new().fg(Color::Red),
        Tone::Warn => Style::new().fg(Color::Yellow),
        Tone::Hint => Style::new().fg(Color::Cyan),
    }
}

/// The style of the selected row.
pub(super) fn selected() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

/// Returns one row of an area.
pub(super) fn row(area: Rect, y: u16) -> Rect {
    Rect {
        y: area.y + y,
        height: u16::from(y < area.height),
        ..area
    }
}

/// Draws spans in one row of an area.
pub(super) fn put(frame: &mut Frame, area: Rect, y: u16, spans: &[Span]) {
    if y < area.height {
        frame.render_widget(Line::from(spans.to_vec()), row(area, y));
    }
}

/// Draws spans in one row, the whole of it selected.
pub(super) fn put_selected(frame: &mut Frame, area: Rect, y: u16, spans: &[Span]) {
    if y < area.height {
        put(frame, area, y, spans);
        frame.buffer_mut().set_style(row(area, y), selected());
    }
}

/// Adds spaces up to a width.
pub(super) fn fill(spans: &mut Vec<Span>, width: usize) {
    let used: usize = spans.iter().map(Span::width).sum();
    spans.push(Span::raw(" ".repeat(width.saturating_sub(used))));
}

/// Draws a rule with a title.
pub(super) fn rule(frame: &mut Frame, area: Rect, y: u16, title: &str) {
    let room = usize::from(area.width);
    let title = text::fit(title, room.saturating_sub(4));
    let shown = if title.is_empty() {
        String::new()
    } else {
        format!(" {title} ")
    };
    let rest = room.saturating_sub(text::width(&shown) + 1);
    put(
        frame,
        area,
        y,
        &[
            Span::styled("─", style(Tone::Dim)),
            Span::styled(shown, style(Tone::Bold)),
            Span::styled("─".repeat(rest), style(Tone::Dim)),
        ],
    );
}

/// Draws the visible part of a document.
pub(super) fn doc(frame: &mut Frame, area: Rect, doc: &Doc) {
    let rows = doc.rows(usize::from(area.width));
    let height = usize::from(area.height);
    let top = doc.window(rows.len(), height);
    for (y, line) in (0..).zip(rows.iter().skip(top).take(height)) {
        put(frame, area, y, &doc_row(line));
    }
}

fn doc_row(line: &Row) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    if line.indented {
        spans.push(Span::styled(
            text::cell(line.label, LABEL),
            style(Tone::Dim),
        ));
    }
    if line.origin == Origin::Foreign {
        spans.push(Span::styled("│ ", style(Tone::Dim)));
    }
    if line.picture.is_empty() {
        spans.push(Span::styled(line.text.clone(), style(line.tone)));
    }
    spans.extend(line.picture.iter().map(|cell| picture_cell(*cell)));
    spans
}

/// Draws two pixels in one cell: the upper half is the sign, the lower half its background.
fn picture_cell((upper, lower): (Pixel, Pixel)) -> Span<'static> {
    let colour = |[red, green, blue]: [u8; 3]| Color::Rgb(red, green, blue);
    match (upper, lower) {
        (None, None) => Span::raw(" "),
        (Some(upper), None) => Span::styled("▀", Style::new().fg(colour(upper))),
        (None, Some(lower)) => Span::styled("▄", Style::new().fg(colour(lower))),
        (Some(upper), Some(lower)) => {
            Span::styled("▀", Style::new().fg(colour(upper)).bg(colour(lower)))
        }
    }
}
