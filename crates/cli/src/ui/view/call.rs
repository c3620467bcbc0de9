//! A call with its progress and result, and the history of calls.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Span;
use serde_json::Value;

use super::paint::{doc, fill, put, put_selected, style};
use crate::output::name;
use crate::ui::doc::Tone;
use crate::ui::model::Model;
use crate::ui::model::calls::{Call, CallState};
use crate::ui::model::cursor::Cursor;
use crate::ui::msg::Progress;
use crate::ui::text;

const SPINNER: [&str; 8] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧"];

/// The width of the progress bar.
const BAR: usize = 30;

pub(super) fn draw(model: &Model, id: u64, frame: &mut Frame, area: Rect) {
    let Some(call) = model.calls.get(id) else {
        put(
            frame,
            area,
            0,
            &[Span::styled(" this call was forgotten", style(Tone::Dim))],
        );
        return;
    };
    let (state, tone) = state(call);
    let took = text::duration(call.elapsed(model.now));
    let mut right = format!("{state}  {took}");
    if let Some(position) = call.result.position() {
        right = format!("{position}  {right}");
    }
    let total = usize::from(area.width);
    let label = label(call);
    let mut spans = vec![Span::styled(
        format!(
            " {}",
            text::fit(&label, total.saturating_sub(text::width(&right) + 4))
        ),
        style(Tone::Bold),
    )];
    fill(&mut spans, total.saturating_sub(text::width(&right) + 1));
    spans.push(Span::styled(right, style(tone)));
    put(frame, area, 0, &spans);
    let body = Rect {
        x: area.x + 1,
        y: area.y + 2,
        width: area.width.saturating_sub(2),
        height: area.height.saturating_sub(2),
    };
    match &call.state {
        CallState::Running(progress) => running(model, call, progress.as_ref(), frame, body),
        _ => doc(frame, body, &call.result),
    }
}

fn running(model: &Model, call: &Call, progress: Option<&Progress>, frame: &mut Frame, area: Rect) {
    let beat = call.elapsed(model.now).as_millis() / 125;
    let spinner = SPINNER[usize::try_from(beat % 8).unwrap_or(0)];
    let mut spans = vec![Span::styled(format!("{spinner} "), style(Tone::Hint))];
    match progress {
        None => spans.push(Span::raw("waiting for the result")),
        Some(progress) => {
            if let Some(total) = progress.total.filter(|total| *total > 0.0) {
                let share = (progress.done / total).clamp(0.0, 1.0);
                // Never beyond the width of the bar.
                #[allow(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    clippy::cast_precision_loss
                )]
                let full = (share * BAR as f64) as usize;
                spans.push(Span::styled("█".repeat(full), style(Tone::Hint)));
                let rest = "░".repeat(BAR.saturating_sub(full));
                spans.push(Span::styled(rest, style(Tone::Dim)));
                spans.push(Span::raw(format!(
                    " {:.0}%  {}/{total}",
                    share * 100.0,
                    progress.done
                )));
            } else {
                spans.push(Span::raw(format!("{} so far", progress.done)));
            }
        }
    }
    put(frame, area, 0, &spans);
    if let Some(progress) = progress
        && !progress.message.is_empty()
    {
        let room = usize::from(area.width).saturating_sub(2);
        let said = text::fit(&progress.message, room).into_owned();
        put(
            frame,
            area,
            1,
            &[Span::styled("│ ", style(Tone::Dim)), Span::raw(said)],
        );
    }
}

fn label(call: &Call) -> String {
    let request = &call.request;
    format!("{}/{}", name(&request.server), name(request.subject.name()))
}

fn state(call: &Call) -> (&'static str, Tone) {
    match call.state {
        CallState::Running(_) => ("◌ running", Tone::Hint),
        CallState::Done { is_error: true, .. } => ("✗ failed", Tone::Bad),
        CallState::Done { .. } => ("✓ done", Tone::Good),
        CallState::Cancelled { .. } => ("○ cancelled", Tone::Warn),
    }
}

pub(super) fn draw_history(model: &Model, cursor: &Cursor, frame: &mut Frame, area: Rect) {
    put(frame, area, 0, &[Span::styled(" calls", style(Tone::Bold))]);
    let body = Rect {
        y: area.y + 1,
        height: area.height.saturating_sub(1),
        ..area
    };
    let len = model.calls.0.len();
    if len == 0 {
        let none = "  no calls yet: open a tool and press F5";
        return put(frame, body, 0, &[Span::styled(none, style(Tone::Dim))]);
    }
    let width = usize::from(body.width);
    for (y, at) in (0..).zip(cursor.window(len, usize::from(body.height))) {
        let Some(call) = model.calls.newest(at) else {
            continue;
        };
        let (state, tone) = state(call);
        let took = text::duration(call.elapsed(model.now));
        let labels = (width / 3).clamp(16, 40);
        let room = width.saturating_sub(labels + 42);
        let arguments = Value::Object(call.request.shown_arguments()).to_string();
        let is_selected = at == cursor.at;
        let spans = [
            Span::raw(if is_selected { "▸" } else { " " }),
            Span::styled(format!("{} ", call.clock), style(Tone::Dim)),
            Span::styled(text::cell(state, 12), style(tone)),
            Span::styled(format!("{took:>8}  "), style(Tone::Dim)),
            Span::styled(text::cell(&label(call), labels), style(Tone::Bold)),
            Span::raw("  "),
            Span::styled(
                text::fit(&text::line(&arguments), room).into_owned(),
                style(Tone::Dim),
            ),
        ];
        if is_selected {
            put_selected(frame, body, y, &spans);
        } else {
            put(frame, body, y, &spans);
        }
    }
}
