//! Forms: the arguments of a call, and the fields of an elicitation.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::Modifier;
use ratatui::text::Span;
use trunkline::elicit::{Field, FieldKind};
use tui_input::Input;

use super::paint::{doc, fill, put, style};
use crate::output::name;
use crate::ui::doc::{Doc, DocLine, Tone};
use crate::ui::model::form::{Entry, FormState, options};
use crate::ui::model::{FormScreen, Model};
use crate::ui::text;

/// The widest column of labels.
const MAX_LABEL: usize = 22;

/// The most that is shown of an option among others.
const MAX_OPTION: usize = 30;

/// The rows of the description above the fields.
const ABOUT: u16 = 4;

/// The rows of the explanation below the current field.
const EXPLANATION: usize = 3;

/// The longest explanation of a field, in characters.
const MAX_ABOUT: usize = 2000;

pub(super) fn draw_screen(model: &Model, screen: &FormScreen, frame: &mut Frame, area: Rect) {
    let label = format!(" {}/{}", name(&screen.server), name(screen.subject.name()));
    let total = usize::from(area.width);
    let mut spans = vec![Span::styled(
        text::fit(&label, total.saturating_sub(screen.effects.len() + 3)).into_owned(),
        style(Tone::Bold),
    )];
    fill(&mut spans, total.saturating_sub(screen.effects.len() + 1));
    spans.push(Span::styled(screen.effects.clone(), style(Tone::Warn)));
    put(frame, area, 0, &spans);
    let inner = Rect {
        x: area.x + 1,
        y: area.y + 1,
        width: area.width.saturating_sub(2),
        height: area.height.saturating_sub(1),
    };
    let about_rows = screen.about.rows(usize::from(inner.width)).len();
    let about_height = u16::try_from(about_rows).unwrap_or(ABOUT).min(ABOUT);
    let about = Rect {
        height: about_height,
        ..inner
    };
    doc(frame, about, &screen.about);
    let skip = about_height + u16::from(about_height > 0);
    let fields = Rect {
        y: inner.y + skip,
        height: inner.height.saturating_sub(skip),
        ..inner
    };
    let focus = if model.front().is_none() && model.overlay.is_none() {
        Focus::Cursor
    } else {
        Focus::Marked
    };
    draw(&screen.form, focus, frame, fields);
}

/// Returns the rows that a form needs.
pub(super) fn height(form: &FormState) -> usize {
    form.len() + EXPLANATION
}

/// Whether a form takes keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Focus {
    /// Something else takes them.
    None,
    /// The current field is marked, but keys do not count now.
    Marked,
    /// The current field has the cursor.
    Cursor,
}

/// Draws a form.
pub(super) fn draw(form: &FormState, focus: Focus, frame: &mut Frame, area: Rect) {
    let (is_active, has_cursor) = (focus != Focus::None, focus == Focus::Cursor);
    if let Some(raw) = &form.raw {
        return draw_raw(form, raw, has_cursor, frame, area);
    }
    if form.len() == 0 {
        let none = "no arguments: F5 makes the call";
        return put(frame, area, 0, &[Span::styled(none, style(Tone::Dim))]);
    }
    let labels = form
        .form
        .fields
        .iter()
        .map(|field| text::width(field.label()) + 2);
    // The value needs the larger part of the row.
    let most = MAX_LABEL.max(usize::from(area.width) * 2 / 5);
    let labels = labels.max().unwrap_or(8).clamp(8, most);
    let height = usize::from(area.height);
    // The current field and its explanation stay in sight.
    let explained = explanation(form);
    let below = explained
        .rows(usize::from(area.width))
        .len()
        .min(EXPLANATION);
    let top = (form.focus + 1 + below).saturating_sub(height);
    let mut y = 0;
    for (at, field) in form.form.fields.iter().enumerate().skip(top) {
        if y >= area.height {
            break;
        }
        let is_current = is_active && at == form.focus;
        let cursor = is_current && has_cursor;
        draw_field(
            form,
            at,
            field,
            (labels, is_current, cursor),
            frame,
            area,
            y,
        );
        y += 1;
        if is_current && below > 0 {
            let room = Rect {
                x: area.x + 2,
                y: area.y + y,
                width: area.width.saturating_sub(2),
                height: u16::try_from(below)
                    .unwrap_or(1)
                    .min(area.height.saturating_sub(y)),
            };
            doc(frame, room, &explained);
            y += room.height;
        }
    }
    if let Some(problem) = form.problem("") {
        put(
            frame,
            area,
            y,
            &[Span::styled(text::line(problem), style(Tone::Bad))],
        );
    }
}

/// Returns the server's explanation of the current field.
fn explanation(form: &FormState) -> Doc {
    let field = form.form.fields.get(form.focus);
    let about = field.and_then(|field| field.description.as_deref());
    // Only a few rows of it are shown, in every frame.
    let about: String = about.unwrap_or_default().chars().take(MAX_ABOUT).collect();
    Doc::new(DocLine::foreign(&about).collect())
}

fn draw_field(
    form: &FormState,
    at: usize,
    field: &Field,
    (labels, is_current, has_cursor): (usize, bool, bool),
    frame: &mut Frame,
    area: Rect,
    y: u16,
) {
    let star = if field.required { " *" } else { "" };
    let label = text::line(field.label());
    let label = format!("{}{star}", text::fit(&label, labels.saturating_sub(2)));
    let mark = if is_current { "▸" } else { " " };
    let tone = if is_current { Tone::Bold } else { Tone::Plain };
    let mut spans = vec![
        Span::raw(mark),
        Span::styled(text::cell(&label, labels), style(tone)),
        Span::raw(" "),
    ];
    let (hint, hint_tone) = match form.problem(&field.name) {
        Some(problem) => (text::line(problem), Tone::Bad),
        None => (hint(field), Tone::Dim),
    };
    let left = labels + 2;
    let total = usize::from(area.width);
    let hints = text::width(&hint).min(total.saturating_sub(left) * 3 / 5);
    let room = total.saturating_sub(left + hints + 3).max(8);
    match &form.entries[at] {
        Entry::Text(input) => {
            let masked = field.is_secret().then(|| masked(input));
            let input = masked.as_ref().unwrap_or(input);
            let scroll = input.visual_scroll(room.saturating_sub(1));
            let shown = visible(input.value(), scroll, room);
            let underlined = style(Tone::Plain).add_modifier(Modifier::UNDERLINED);
            spans.push(Span::styled(text::cell(&shown, room), underlined));
            if has_cursor {
                let x = left + input.visual_cursor().saturating_sub(scroll);
                let x = area.x + u16::try_from(x).unwrap_or(0);
                frame.set_cursor_position(Position::new(x.min(area.right() - 1), area.y + y));
            }
        }
        Entry::Boolean(value) => {
            for (word, of) in [("no", Some(false)), ("yes", Some(true))] {
                spans.push(option(word, *value == of));
            }
            if !field.required {
                spans.push(option("unset", value.is_none()));
            }
        }
        Entry::Choice(chosen) => {
            let options = options(&field.kind);
            let shown = match chosen.and_then(|at| options.get(at)) {
                Some(option) => text::line(&option.title),
                None => "(none)".to_owned(),
            };
            let number = chosen.map_or_else(|| "-".to_owned(), |at| (at + 1).to_string());
            let shown = text::fit(&shown, room.saturating_sub(12)).into_owned();
            spans.push(Span::raw("‹ "));
            spans.push(Span::styled(shown, style(Tone::Bold)));
            spans.push(Span::raw(" ›"));
            let count = format!("  {number}/{}", options.len());
            spans.push(Span::styled(count, style(Tone::Dim)));
        }
        Entry::Choices { chosen, at: inner } => {
            let titles = options(&field.kind).iter().zip(chosen);
            let titles = titles.map(|(option, chosen)| {
                let sign = if *chosen { "[x]" } else { "[ ]" };
                let title = text::line(&option.title);
                format!("{sign}{}", text::fit(&title, MAX_OPTION))
            });
            let room = total.saturating_sub(left);
            let current = is_current.then_some(*inner);
            spans.extend(in_a_row(&titles.collect::<Vec<_>>(), current, room));
        }
    }
    let used: usize = spans.iter().map(Span::width).sum();
    if used + 2 < total {
        let rest = total.saturating_sub(used + 2);
        spans.push(Span::raw("  "));
        spans.push(Span::styled(
            text::fit(&hint, rest).into_owned(),
            style(hint_tone),
        ));
    }
    put(frame, area, y, &spans);
}

/// Puts options beside each other, from the first or as far on as the current one needs. A mark
/// says that there are more.
fn in_a_row(options: &[String], current: Option<usize>, room: usize) -> Vec<Span<'static>> {
    const MARK: usize = 2;
    let width = |options: &[String]| -> usize {
        let widths = options.iter().map(|option| text::width(option) + 1);
        widths.sum()
    };
    let mut start = 0;
    while let Some(current) = current
        && start < current
        && width(&options[start..=current]) + 2 * MARK > room + 1
    {
        start += 1;
    }
    let mut spans = Vec::new();
    let mut used: usize = 0;
    if start > 0 {
        spans.push(Span::styled("‹ ", style(Tone::Dim)));
        used += MARK;
    }
    for (at, option) in options.iter().enumerate().skip(start) {
        let is_last = at + 1 == options.len();
        let needed: usize = used + text::width(option) + if is_last { 0 } else { 1 + MARK };
        let all: usize = used + width(&options[at..]);
        if needed > room && all > room + 1 && at > start {
            spans.push(Span::styled("›", style(Tone::Dim)));
            break;
        }
        let style = if current == Some(at) {
            super::paint::selected()
        } else {
            style(Tone::Plain)
        };
        spans.push(Span::styled(option.clone(), style));
        spans.push(Span::raw(" "));
        used += text::width(option) + 1;
    }
    spans
}

/// Returns a secret as it may be shown, with the cursor at its place.
fn masked(input: &Input) -> Input {
    let length = input.value().chars().count();
    Input::new("•".repeat(length)).with_cursor(input.cursor())
}

/// Returns the visible part of a text that is scrolled by some cells. Controls are shown as `?`.
fn visible(value: &str, scroll: usize, room: usize) -> String {
    let mut skipped = 0;
    let mut shown = String::new();
    for c in value.chars() {
        let c = if trunkline::text::is_harmful(c) {
            '?'
        } else {
            c
        };
        let width = unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
        if skipped < scroll {
            skipped += width;
            continue;
        }
        shown.push(c);
        if text::width(&shown) > room {
            shown.pop();
            break;
        }
    }
    shown
}

fn option(word: &str, is_chosen: bool) -> Span<'static> {
    if is_chosen {
        Span::styled(format!("(•){word}  "), style(Tone::Bold))
    } else {
        Span::raw(format!("( ){word}  "))
    }
}

/// Describes the values that a field takes, unless its entry shows them.
fn hint(field: &Field) -> String {
    match &field.kind {
        FieldKind::Text {
            format: None,
            min_length: None,
            max_length: None,
            ..
        }
        | FieldKind::Boolean
        | FieldKind::Choice { .. } => String::new(),
        FieldKind::Choices { .. } => "space toggles".to_owned(),
        _ => field.expects(),
    }
}

fn draw_raw(
    form: &FormState,
    raw: &crate::ui::model::textarea::TextArea,
    has_cursor: bool,
    frame: &mut Frame,
    area: Rect,
) {
    put(
        frame,
        area,
        0,
        &[Span::styled(
            if form.secrets().is_empty() {
                "arguments as JSON (ctrl-j: back to the fields)"
            } else {
                "arguments as JSON without secrets (ctrl-j: back to the fields)"
            },
            style(Tone::Dim),
        )],
    );
    let body = Rect {
        y: area.y + 1,
        height: area.height.saturating_sub(2),
        ..area
    };
    let height = usize::from(body.height);
    let top = raw.top(height);
    let (row, column) = raw.cursor();
    let room = usize::from(body.width).saturating_sub(3);
    for (y, (at, line)) in (0..).zip(raw.lines().iter().enumerate().skip(top).take(height)) {
        let before: String = line.chars().take(column).collect();
        let scroll = if at == row {
            text::width(&before).saturating_sub(room.saturating_sub(1))
        } else {
            0
        };
        put(
            frame,
            body,
            y,
            &[
                Span::styled("│ ", style(Tone::Dim)),
                Span::raw(visible(line, scroll, room)),
            ],
        );
        if at == row && has_cursor {
            let x = text::width(&before).saturating_sub(scroll) + 2;
            let x = body.x + u16::try_from(x).unwrap_or(0);
            frame.set_cursor_position(Position::new(x.min(body.right() - 1), body.y + y));
        }
    }
    if let Some(problem) = form.problem("") {
        let shown = text::fit(problem, usize::from(area.width)).into_owned();
        put(
            frame,
            area,
            area.height - 1,
            &[Span::styled(shown, style(Tone::Bad))],
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_do_not_fit_are_marked_and_reached() {
        let options: Vec<String> = ["[x]one", "[ ]two", "[ ]three", "[ ]four"]
            .map(str::to_owned)
            .to_vec();
        for (current, room, expected) in [
            (None, 29, "[x]one [ ]two [ ]three ›"),
            (None, 30, "[x]one [ ]two [ ]three [ ]four"),
            (None, 28, "[x]one [ ]two [ ]three ›"),
            (Some(0), 20, "[x]one [ ]two ›"),
            (Some(2), 20, "‹ [ ]two [ ]three ›"),
            (Some(3), 20, "‹ [ ]three [ ]four"),
            (Some(3), 5, "‹ [ ]four"),
        ] {
            let spans = in_a_row(&options, current, room);
            let shown: String = spans.iter().map(|span| span.content.as_ref()).collect();
            assert_eq!(shown.trim_end(), expected, "{current:?} {room}");
        }
    }
}
