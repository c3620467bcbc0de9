//! Live tabs of a server: its log and its protocol.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Span;
use trunkline::log::LogKind;

use super::paint::{fill, put, put_selected, style};
use crate::ui::doc::Tone;
use crate::ui::model::stream::Message;
use crate::ui::model::{DetailScreen, Model};
use crate::ui::text;

pub(super) fn log(model: &Model, detail: &DetailScreen, frame: &mut Frame, area: Rect) {
    let rows = model.log_of(detail);
    let height = usize::from(area.height);
    let view = &detail.log;
    view.page.set(height);
    let room = usize::from(area.width).saturating_sub(22);
    // The oldest lines fill the screen when it is scrolled to the start.
    let mut filled = 0;
    let first_page = rows.iter().take(height).take_while(|line| {
        let has_room = filled < height;
        filled += text::wrap(&line.text, room).len();
        has_room
    });
    let most = rows.len().saturating_sub(first_page.count());
    view.back.set(view.back.get().min(most));
    if rows.is_empty() {
        let none = "nothing has been logged";
        return put(frame, area, 0, &[Span::styled(none, style(Tone::Dim))]);
    }
    let end = rows.len().saturating_sub(view.back.get());
    let wrapped = rows[..end].iter().rev().flat_map(|line| {
        let parts = text::wrap(&line.text, room);
        parts
            .into_iter()
            .enumerate()
            .rev()
            .map(move |part| (line, part))
    });
    let mut shown: Vec<_> = wrapped.take(height).collect();
    shown.reverse();
    for (y, (line, (at, part))) in (0..).zip(shown) {
        let is_first = at == 0;
        let tone = match line.kind {
            LogKind::Stderr => Tone::Plain,
            LogKind::State => Tone::Hint,
            _ => Tone::Warn,
        };
        let mark = if line.kind == LogKind::Stderr {
            "│ "
        } else {
            "  "
        };
        put(
            frame,
            area,
            y,
            &[
                Span::styled(
                    format!("{:<12} ", if is_first { &*line.time } else { "" }),
                    style(Tone::Dim),
                ),
                Span::styled(
                    format!("{:<6} ", if is_first { line.kind.name() } else { "" }),
                    style(Tone::Dim),
                ),
                Span::styled(mark, style(Tone::Dim)),
                Span::styled(part, style(tone)),
            ],
        );
    }
}

/// A row of the protocol view.
enum Line<'m> {
    Message(&'m Message),
    Text(String),
}

pub(super) fn protocol(model: &Model, detail: &DetailScreen, frame: &mut Frame, area: Rect) {
    let view = &detail.protocol;
    let shown = model.messages_of(detail);
    protocol_head(model, detail, shown.len(), frame, area);
    let body = Rect {
        y: area.y + 1,
        height: area.height.saturating_sub(1),
        ..area
    };
    let newest = shown.last().map(|message| message.number);
    let selected = view.selected.or(newest);
    let at = shown
        .iter()
        .position(|message| Some(message.number) == selected)
        .unwrap_or(shown.len().saturating_sub(1));
    // Only what can be on the screen is unfolded: around the selected message.
    let height = usize::from(body.height);
    let (from, to) = (at.saturating_sub(height), (at + height).min(shown.len()));
    let mut lines = Vec::new();
    let mut position = 0;
    for (index, message) in shown.iter().enumerate().take(to).skip(from) {
        if index == at {
            position = lines.len();
        }
        lines.push(Line::Message(message));
        if view.open.contains(&message.number) {
            lines.extend(message.unfolded().into_iter().map(Line::Text));
        }
    }
    // An unfolded message is shown from its head.
    let is_open = selected.is_some_and(|number| view.open.contains(&number));
    let top = if is_open {
        position.saturating_sub(height / 4)
    } else {
        (position + 1).saturating_sub(height)
    };
    let top = top.min(lines.len().saturating_sub(height));
    view.cursor.window(height, height);
    for (y, line) in (0..).zip(lines.iter().skip(top).take(height)) {
        match line {
            Line::Message(message) => {
                let is_selected = Some(message.number) == selected;
                let spans = message_row(message, is_selected, body.width);
                if is_selected {
                    put_selected(frame, body, y, &spans);
                } else {
                    put(frame, body, y, &spans);
                }
            }
            Line::Text(text) => {
                let room = usize::from(body.width).saturating_sub(6);
                put(
                    frame,
                    body,
                    y,
                    &[
                        Span::styled("   │ ", style(Tone::Dim)),
                        Span::raw(text::fit(text, room).into_owned()),
                    ],
                );
            }
        }
    }
}

fn protocol_head(
    model: &Model,
    detail: &DetailScreen,
    shown: usize,
    frame: &mut Frame,
    area: Rect,
) {
    let view = &detail.protocol;
    let mut spans = Vec::new();
    if view.filtering || !view.filter.value().is_empty() {
        let typed = text::line(view.filter.value());
        spans.push(Span::styled("filter: ", style(Tone::Dim)));
        spans.push(Span::styled(typed, style(Tone::Bold)));
        if view.filtering {
            spans.push(Span::raw("▏"));
        }
        spans.push(Span::raw("   "));
    }
    if model.messages.frozen {
        let held = format!("frozen, {} held", model.messages.held());
        spans.push(Span::styled(held, style(Tone::Warn)));
    } else {
        spans.push(Span::styled("live", style(Tone::Good)));
    }
    spans.push(Span::styled("   secrets hidden", style(Tone::Dim)));
    let mut many = text::count(shown, "message");
    if model.messages.lost > 0 {
        many = format!("{many}, {} lost", model.messages.lost);
    }
    fill(
        &mut spans,
        usize::from(area.width).saturating_sub(many.len()),
    );
    spans.push(Span::styled(many, style(Tone::Dim)));
    put(frame, area, 0, &spans);
}

fn message_row(message: &Message, is_selected: bool, width: u16) -> Vec<Span<'static>> {
    let mark = if is_selected { "▸" } else { " " };
    let arrow = if message.sent { "→" } else { "←" };
    let took = message.took.map(text::duration).unwrap_or_default();
    let size = text::size(message.bytes);
    let room = usize::from(width).saturating_sub(33);
    let tone = if message.is_error {
        Tone::Bad
    } else {
        Tone::Plain
    };
    vec![
        Span::raw(mark),
        Span::styled(format!("{} ", message.time), style(Tone::Dim)),
        Span::styled(format!("{arrow} "), style(Tone::Hint)),
        Span::styled(text::cell(&message.summary, room), style(tone)),
        Span::styled(format!("{took:>8} {size:>6}"), style(Tone::Dim)),
    ]
}
