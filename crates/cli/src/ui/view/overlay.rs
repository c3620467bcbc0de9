//! Layers above the screen: search, commands and help.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::Span;
use ratatui::widgets::Clear;
use tui_input::Input;

use super::paint::{doc, put, put_selected, rule, style};
use crate::ui::doc::Tone;
use crate::ui::model::actions::availability;
use crate::ui::model::find::Find;
use crate::ui::model::{Model, Overlay};
use crate::ui::text;

pub(super) fn draw(model: &Model, layer: &Overlay, frame: &mut Frame, area: Rect) {
    match layer {
        Overlay::Find(find) => {
            let area = boxed(frame, area, 100, "Find servers, tools, resources, prompts");
            let row = |at: usize, width: usize| {
                let Some((label, item)) = find.hit(at) else {
                    return Vec::new();
                };
                vec![
                    Span::styled(format!("{:<9} ", item.kind()), style(Tone::Dim)),
                    Span::raw(text::fit(label, width.saturating_sub(11)).into_owned()),
                ]
            };
            narrowing(model, find, row, frame, area);
        }
        Overlay::Palette(find) => {
            let area = boxed(frame, area, 72, "Commands");
            let row = |at: usize, width: usize| {
                let Some((label, action)) = find.hit(at) else {
                    return Vec::new();
                };
                match availability(model, *action) {
                    Ok(()) => vec![Span::raw(text::fit(label, width).into_owned())],
                    Err(reason) => {
                        let shown = format!("{label}: {reason}");
                        let shown = text::fit(&shown, width).into_owned();
                        vec![Span::styled(shown, style(Tone::Dim))]
                    }
                }
            };
            narrowing(model, find, row, frame, area);
        }
        Overlay::Help(lines) => {
            let area = boxed(frame, area, 80, "Help");
            doc(frame, area, lines);
        }
    }
}

/// Clears a box, draws its rules and returns its inside.
fn boxed(frame: &mut Frame, area: Rect, width: u16, title: &str) -> Rect {
    let width = width.min(area.width);
    let outer = Rect {
        x: area.x + (area.width - width) / 2,
        width,
        ..area
    };
    frame.render_widget(Clear, outer);
    rule(frame, outer, 0, title);
    rule(frame, outer, outer.height - 1, "");
    Rect {
        x: outer.x + 1,
        y: outer.y + 1,
        width: outer.width - 2,
        height: outer.height - 2,
    }
}

fn narrowing<T>(
    model: &Model,
    find: &Find<T>,
    row: impl Fn(usize, usize) -> Vec<Span<'static>>,
    frame: &mut Frame,
    area: Rect,
) {
    prompt(
        model,
        &find.input,
        &format!("{} of {}", find.len(), find.total()),
        frame,
        area,
    );
    let body = Rect {
        y: area.y + 2,
        height: area.height.saturating_sub(2),
        ..area
    };
    if find.len() == 0 {
        put(
            frame,
            body,
            0,
            &[Span::styled(" nothing matches", style(Tone::Dim))],
        );
    }
    let width = usize::from(body.width).saturating_sub(2);
    for (y, at) in (0..).zip(find.cursor.window(find.len(), usize::from(body.height))) {
        let is_selected = at == find.cursor.at;
        let mut spans = vec![Span::raw(if is_selected { "▸ " } else { "  " })];
        spans.extend(row(at, width));
        if is_selected {
            put_selected(frame, body, y, &spans);
        } else {
            put(frame, body, y, &spans);
        }
    }
}

fn prompt(model: &Model, input: &Input, count: &str, frame: &mut Frame, area: Rect) {
    let room = usize::from(area.width).saturating_sub(count.len() + 4);
    let shown = text::line(input.value());
    put(
        frame,
        area,
        0,
        &[
            Span::styled("> ", style(Tone::Hint)),
            Span::raw(text::cell(&shown, room)),
            Span::styled(format!(" {count}"), style(Tone::Dim)),
        ],
    );
    if model.front().is_none() {
        let x = u16::try_from(input.visual_cursor() + 2).unwrap_or(2);
        let x = (area.x + x).min(area.right() - 1);
        frame.set_cursor_position(Position::new(x, area.y));
    }
}
