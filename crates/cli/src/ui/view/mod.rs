//! Draws the model. Reads the model only; scroll positions are its own to adjust.

mod call;
mod detail;
mod dialog;
mod form;
mod live;
mod overlay;
mod paint;
mod servers;
#[cfg(test)]
mod tests;
mod theme;
mod welcome;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::data::Status;
use super::doc::Tone;
use super::input::{self, Action, Context};
use super::model::actions::availability;
use super::model::sharing::equivalent;
use super::model::{Hit, MIN_SIZE, Model, Screen};
use super::text;
use paint::{fill, put, row, style};
pub(super) use theme::Theme;

/// The narrowest and the widest list beside the detail.
const LIST_WIDTH: (u16, u16) = (48, 84);

/// Draws a frame.
pub(super) fn draw(model: &Model, theme: Theme, frame: &mut Frame) {
    model.hits.borrow_mut().clear();
    let area = frame.area();
    if model.is_too_small() {
        let (width, height) = MIN_SIZE;
        let text = format!("trunkline needs {width}x{height} characters; esc or q quits");
        put(frame, area, 0, &[Span::raw(text)]);
        theme.apply(frame.buffer_mut());
        return;
    }
    let rows = |y: u16, height: u16| Rect {
        x: 0,
        y,
        width: area.width,
        height,
    };
    header(model, frame, rows(0, 1));
    let body = rows(1, area.height.saturating_sub(3));
    screen(model, frame, body);
    status(model, frame, rows(area.height - 2, 1));
    footer(model, frame, rows(area.height - 1, 1));
    if let Some(layer) = &model.overlay {
        overlay::draw(model, layer, frame, body);
    }
    if let Some(front) = model.front() {
        dialog::draw(model, front, frame, body);
    }
    theme.apply(frame.buffer_mut());
}

/// Remembers what a row shows, for the mouse.
fn hit(model: &Model, area: Rect, y: u16, hit: Hit) {
    model.hits.borrow_mut().push((row(area, y), hit));
}

fn screen(model: &Model, frame: &mut Frame, area: Rect) {
    let beside = model.is_wide() && matches!(model.screens.last(), None | Some(Screen::Detail(_)));
    match model.screens.last() {
        None if model.is_empty() => welcome::draw(model, frame, area),
        None | Some(Screen::Detail(_)) if beside => {
            let list = (area.width * 2 / 5).clamp(LIST_WIDTH.0, LIST_WIDTH.1);
            let left = Rect {
                width: list,
                ..area
            };
            servers::draw(model, frame, left);
            let line = Rect {
                x: area.x + list,
                width: 1,
                ..area
            };
            for y in 0..line.height {
                put(frame, line, y, &[Span::styled("│", style(Tone::Dim))]);
            }
            let right = Rect {
                x: area.x + list + 1,
                width: area.width - list - 1,
                ..area
            };
            detail::draw(model, frame, right);
        }
        None => servers::draw(model, frame, area),
        Some(Screen::Detail(_)) => detail::draw(model, frame, area),
        Some(Screen::Form(screen)) => form::draw_screen(model, screen, frame, area),
        Some(Screen::Call(id)) => call::draw(model, *id, frame, area),
        Some(Screen::History(cursor)) => call::draw_history(model, cursor, frame, area),
    }
}

/// The first line: where we are, how many servers are in which state, and what waits.
fn header(model: &Model, frame: &mut Frame, area: Rect) {
    let mut left = vec![
        Span::styled(" trunkline", style(Tone::Bold)),
        Span::styled(format!("  {}", model.place), style(Tone::Dim)),
    ];
    let count = |of: &dyn Fn(Status) -> bool| {
        let servers = model.snapshot.servers.iter();
        servers.filter(|server| of(server.status)).count()
    };
    let mut counts = Vec::new();
    for (glyph, tone) in [
        ("✓", Tone::Good),
        ("!", Tone::Warn),
        ("✗", Tone::Bad),
        ("◌", Tone::Warn),
        ("○", Tone::Dim),
    ] {
        let number = count(&|status| status.glyph() == glyph);
        if number > 0 {
            counts.push(Span::styled(format!("{glyph}{number} "), style(tone)));
        }
    }
    let mut right = Vec::new();
    if !model.questions.is_empty() {
        let many = text::count(model.questions.len(), "question");
        right.push(Span::styled(format!("{many} "), style(Tone::Warn)));
    }
    let running = model
        .calls
        .0
        .iter()
        .filter(|call| call.is_running())
        .count();
    if running > 0 {
        let many = text::count(running, "call");
        right.push(Span::styled(format!("{many} running "), style(Tone::Hint)));
    }
    let width = |spans: &[Span]| spans.iter().map(Span::width).sum::<usize>();
    let total = usize::from(area.width);
    let tail = width(&counts) + width(&right) + 4;
    let room = total.saturating_sub(tail);
    let place = text::fit(&model.place, room.saturating_sub(12)).into_owned();
    left[1] = Span::styled(format!("  {place}"), style(Tone::Dim));
    let gap = total.saturating_sub(width(&left) + width(&counts) + width(&right));
    let (before, after) = if right.is_empty() {
        (gap, 0)
    } else {
        (gap / 2, gap - gap / 2)
    };
    left.push(Span::raw(" ".repeat(before)));
    left.extend(counts);
    left.push(Span::raw(" ".repeat(after)));
    left.extend(right);
    frame.render_widget(Line::from(left), area);
}

/// The line above the keys: a notice, or the command that does the same.
fn status(model: &Model, frame: &mut Frame, area: Rect) {
    let room = usize::from(area.width).saturating_sub(2);
    if let Some(notice) = &model.notice {
        let shown = text::fit(&notice.text, room).into_owned();
        put(
            frame,
            area,
            0,
            &[Span::raw(" "), Span::styled(shown, style(notice.tone))],
        );
        return;
    }
    let dialog = model.front();
    let command = match dialog {
        Some(dialog) => dialog.command.clone(),
        None if model.overlay.is_some() => None,
        None => equivalent(model),
    };
    if let Some(command) = command {
        let shown = text::line(&command);
        let shown = text::fit(&shown, room.saturating_sub(2)).into_owned();
        put(
            frame,
            area,
            0,
            &[
                Span::styled(" = ", style(Tone::Dim)),
                Span::styled(shown, style(Tone::Dim)),
            ],
        );
    }
}

/// The last line: the keys that count now. Those that are not possible stay, dimmed.
fn footer(model: &Model, frame: &mut Frame, area: Rect) {
    if let Some(dialog) = model.front() {
        dialog::footer(model, dialog, frame, area);
        return;
    }
    let context = model.context();
    let mut spans = vec![Span::raw(" ")];
    let mut used = 1;
    let tail = match context {
        Context::Form => " ctrl-c quit",
        Context::Find | Context::Filter | Context::Help => " esc back",
        Context::Servers | Context::Welcome => " ? help  q quit",
        _ => " ? help  esc back",
    };
    let room = usize::from(area.width).saturating_sub(tail.len() + 1);
    // What is possible comes first, in case that there is no room for all.
    let mut bindings = input::shown(context);
    bindings.sort_by_key(|binding| availability(model, binding.action).is_err());
    for binding in bindings {
        let apart = [
            Action::Help,
            Action::Quit,
            Action::Back,
            Action::Suspend,
            Action::Redraw,
            Action::Mouse,
        ];
        let is_back_in_form = binding.action == Action::Back && context == Context::Form;
        if apart.contains(&binding.action) && !is_back_in_form {
            continue;
        }
        if binding.action == Action::Questions && model.questions.is_empty() {
            continue;
        }
        let possible = availability(model, binding.action).is_ok();
        // They concern few servers; others need not hear of them.
        let is_special = matches!(
            binding.action,
            Action::Login | Action::Logout | Action::Review
        );
        if is_special && !possible {
            continue;
        }
        let width = text::width(binding.shown) + text::width(binding.label) + 3;
        if used + width > room {
            break;
        }
        used += width;
        let (key, label) = if possible {
            (style(Tone::Hint), style(Tone::Plain))
        } else {
            (style(Tone::Dim), style(Tone::Dim))
        };
        spans.push(Span::styled(binding.shown, key));
        spans.push(Span::styled(format!(" {}  ", binding.label), label));
    }
    fill(
        &mut spans,
        usize::from(area.width).saturating_sub(tail.len() + 1),
    );
    spans.push(Span::styled(tail, style(Tone::Dim)));
    put(frame, area, 0, &spans);
}
