//! Dialogs: a question or a confirmation in a box.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Span;
use ratatui::widgets::{Block, Clear};

use super::form;
use super::paint::{doc, put, selected, style};
use crate::ui::doc::Tone;
use crate::ui::model::Model;
use crate::ui::model::dialog::Dialog;
use crate::ui::text;

/// The widest dialog.
const WIDTH: u16 = 96;

pub(super) fn draw(model: &Model, dialog: &Dialog, frame: &mut Frame, area: Rect) {
    let width = WIDTH.min(area.width);
    let inner_width = usize::from(width.saturating_sub(4));
    let text_rows = dialog.doc.rows(inner_width).len();
    let form_rows = dialog.form.as_ref().map_or(0, form::height);
    let most = usize::from(area.height).saturating_sub(4);
    // Fields come before text: the text scrolls.
    let form_rows = form_rows.min(most.saturating_sub(3));
    let gap = usize::from(form_rows > 0);
    let text_rows = text_rows.min(most.saturating_sub(form_rows + gap));
    let height = u16::try_from(text_rows + gap + form_rows + 4).unwrap_or(area.height);
    let height = height.min(area.height);
    let outer = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, outer);
    let title = text::fit(&title(model, dialog), inner_width).into_owned();
    let border = Block::bordered()
        .title(Span::styled(format!(" {title} "), style(Tone::Bold)))
        .border_style(style(Tone::Hint));
    frame.render_widget(border, outer);
    let inner = Rect {
        x: outer.x + 2,
        y: outer.y + 1,
        width: outer.width.saturating_sub(4),
        height: outer.height.saturating_sub(2),
    };
    let rows = |y: usize, height: usize| Rect {
        y: inner.y + u16::try_from(y).unwrap_or(0),
        height: u16::try_from(height).unwrap_or(0),
        ..inner
    };
    doc(frame, rows(0, text_rows), &dialog.doc);
    if let Some(fields) = &dialog.form {
        let focus = match dialog.button {
            Some(_) => form::Focus::None,
            None if dialog.is_armed(model.now) => form::Focus::Cursor,
            None => form::Focus::Marked,
        };
        let area = rows(text_rows + gap, form_rows);
        form::draw(fields, focus, frame, area);
    }
    buttons(
        model,
        dialog,
        frame,
        rows(text_rows + gap + form_rows + 1, 1),
    );
}

fn title(model: &Model, dialog: &Dialog) -> String {
    if dialog.question_id().is_none() {
        return dialog.title.clone();
    }
    let many = model.questions.len();
    if many > 1 {
        format!("Question 1/{many}, {}", dialog.title)
    } else {
        format!("Question, {}", dialog.title)
    }
}

fn buttons(model: &Model, dialog: &Dialog, frame: &mut Frame, area: Rect) {
    let is_armed = dialog.is_armed(model.now);
    let mut spans = Vec::new();
    for (at, choice) in dialog.buttons.iter().enumerate() {
        let is_chosen = dialog.button == Some(at);
        let mark = if is_chosen { "▸" } else { " " };
        let label = format!("{mark}{} ", choice.label());
        let look = if !is_armed || dialog.obstacle(*choice).is_some() {
            style(Tone::Dim)
        } else if is_chosen {
            selected()
        } else {
            style(Tone::Plain)
        };
        spans.push(Span::styled(label, look));
        spans.push(Span::raw("  "));
    }
    if let Some(position) = dialog.doc.position() {
        spans.push(Span::styled(position, style(Tone::Dim)));
    }
    put(frame, area, 0, &spans);
}

/// The keys of a dialog.
pub(super) fn footer(model: &Model, dialog: &Dialog, frame: &mut Frame, area: Rect) {
    if !dialog.is_armed(model.now) {
        let wait = " keys wait until you have stopped typing for 1s";
        put(frame, area, 0, &[Span::styled(wait, style(Tone::Warn))]);
        return;
    }
    let chosen = dialog.button.and_then(|at| dialog.buttons.get(at));
    let obstacle = chosen.and_then(|choice| dialog.obstacle(*choice));
    let mut keys: Vec<(&str, String)> = Vec::new();
    if dialog.button.is_none() {
        keys.push(("tab", "next field".to_owned()));
        keys.push(("F5", "send".to_owned()));
    } else {
        keys.push(("tab", "choose".to_owned()));
        match (obstacle, chosen) {
            (Some(obstacle), _) => keys.push(("enter", obstacle.to_owned())),
            (None, Some(choice)) => keys.push(("enter", choice.label().to_lowercase())),
            (None, None) => {}
        }
    }
    if dialog.doc.position().is_some() {
        keys.push(("pgdn", "scroll".to_owned()));
    }
    if dialog.question_id().is_some() {
        keys.push(("F2", "later".to_owned()));
    }
    keys.push(("esc", dialog.harmless().label().to_lowercase()));
    let mut spans = vec![Span::raw(" ")];
    for (key, label) in keys {
        spans.push(Span::styled(key.to_owned(), style(Tone::Hint)));
        spans.push(Span::raw(format!(" {label}  ")));
    }
    put(frame, area, 0, &spans);
}
