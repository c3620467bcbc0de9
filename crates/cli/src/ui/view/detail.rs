//! The screen of one server: its tabs.

use std::sync::Arc;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Span;
use trunkline::elicit::Form;

use super::hit;
use super::live::{log, protocol};
use super::paint::{doc, fill, put, put_selected, rule, style};
use super::servers::summary;
use crate::output::name;
use crate::ui::data::{Server, Status};
use crate::ui::doc::{Doc, DocLine, Tone};
use crate::ui::model::cursor::Cursor;
use crate::ui::model::{DetailScreen, Hit, Model, Preview, Screen, Tab};
use crate::ui::text;

/// From this height on, the selected item is described below the list.
const PREVIEW_FROM: u16 = 14;

/// The fewest and the most rows of that description.
const PREVIEW: (u16, u16) = (6, 16);

pub(super) fn draw(model: &Model, frame: &mut Frame, area: Rect) {
    let detail = match model.screens.last() {
        Some(Screen::Detail(detail)) => Some(&**detail),
        _ => None,
    };
    let key = detail.map(|detail| &detail.key).or(model.selected.as_ref());
    let server = key.and_then(|key| model.snapshot.get(key));
    let Some(server) = server else {
        put(
            frame,
            area,
            0,
            &[Span::styled(" this server is gone", style(Tone::Dim))],
        );
        return;
    };
    title(model, server, frame, area);
    tabs(model, server, detail, frame, area);
    let body = Rect {
        x: area.x + 1,
        y: area.y + 2,
        width: area.width.saturating_sub(2),
        height: area.height.saturating_sub(2),
    };
    match detail {
        None => overview(model, frame, body, server),
        Some(detail) => match detail.tab {
            Tab::Overview => overview(model, frame, body, server),
            Tab::Tools => tools(model, server, detail, frame, body),
            Tab::Resources => resources(model, server, detail, frame, body),
            Tab::Prompts => prompts(model, server, detail, frame, body),
            Tab::Log => log(model, detail, frame, body),
            Tab::Protocol => protocol(model, detail, frame, body),
        },
    }
}

fn title(model: &Model, server: &Server, frame: &mut Frame, area: Rect) {
    let status = server.status;
    let (state, _) = summary(model, server);
    let shown = format!("{} {}", status.glyph(), status.word());
    let total = usize::from(area.width);
    let room = total.saturating_sub(text::width(&shown) + 4);
    let label = format!(" servers/{}", name(server.name()));
    let mut spans = vec![Span::styled(
        text::fit(&label, room).into_owned(),
        style(Tone::Bold),
    )];
    if matches!(status, Status::Connected | Status::Connecting { .. }) {
        let rest = room.saturating_sub(text::width(&label) + 2);
        let state = text::fit(&state, rest).into_owned();
        spans.push(Span::styled(format!("  {state}"), style(Tone::Dim)));
    }
    fill(&mut spans, total.saturating_sub(text::width(&shown) + 1));
    spans.push(Span::styled(shown, style(status.tone())));
    put(frame, area, 0, &spans);
}

fn tabs(
    model: &Model,
    server: &Server,
    detail: Option<&DetailScreen>,
    frame: &mut Frame,
    area: Rect,
) {
    let mut spans = vec![Span::raw(" ")];
    let mut x = area.x + 1;
    let offers = &server.offers;
    for tab in Tab::ALL {
        let many = match tab {
            Tab::Tools => offers.tools.len(),
            Tab::Resources => offers.resources.len(),
            Tab::Prompts => offers.prompts.len(),
            _ => 0,
        };
        let label = if many > 0 {
            format!("{} {many}", tab.label())
        } else {
            tab.label().to_owned()
        };
        let width = u16::try_from(text::width(&label) + 2).unwrap_or(0);
        hit(model, Rect { x, width, ..area }, 1, Hit::Tab(tab));
        x += width;
        let is_open = detail.map_or(tab == Tab::Overview, |detail| detail.tab == tab);
        if is_open {
            // Brackets show the open tab without colours or attributes.
            let style = if detail.is_some() {
                style(Tone::Bold)
            } else {
                style(Tone::Plain)
            };
            spans.push(Span::styled(format!("[{label}]"), style));
        } else {
            spans.push(Span::styled(format!(" {label} "), style(Tone::Dim)));
        }
    }
    put(frame, area, 1, &spans);
}

fn overview(model: &Model, frame: &mut Frame, area: Rect, server: &Server) {
    match &model.detail {
        Some((key, lines)) if *key == server.key => doc(frame, area, lines),
        _ => put(frame, area, 0, &[Span::styled("…", style(Tone::Dim))]),
    }
}

/// Draws a list with one row per item, and the description of the selected one below.
fn list(
    (model, server, detail): (&Model, &Server, &DetailScreen),
    frame: &mut Frame,
    area: Rect,
    (cursor, len): (&Cursor, usize),
    row: impl Fn(usize, usize) -> Vec<Span<'static>>,
    about: impl Fn(usize) -> Vec<DocLine>,
) {
    let has_preview = area.height >= PREVIEW_FROM;
    let preview = (area.height / 3).clamp(PREVIEW.0, PREVIEW.1);
    let rows = area
        .height
        .saturating_sub(if has_preview { preview + 1 } else { 0 });
    let width = usize::from(area.width).saturating_sub(1);
    for (y, at) in (0..).zip(cursor.window(len, usize::from(rows))) {
        let is_selected = at == cursor.at;
        hit(model, area, y, Hit::Item(at));
        let mut spans = vec![Span::raw(if is_selected { "▸" } else { " " })];
        spans.extend(row(at, width));
        if is_selected {
            put_selected(frame, area, y, &spans);
        } else {
            put(frame, area, y, &spans);
        }
    }
    if has_preview && cursor.at < len {
        let position = format!("{} of {len}", cursor.at + 1);
        rule(frame, area, rows, &position);
        let below = Rect {
            y: area.y + rows + 1,
            height: preview,
            ..area
        };
        describe(server, detail, cursor.at, about, |lines| {
            doc(frame, below, lines);
        });
    }
}

/// Draws the description of an item, which is made once per selection.
fn describe(
    server: &Server,
    detail: &DetailScreen,
    at: usize,
    about: impl Fn(usize) -> Vec<DocLine>,
    draw: impl FnOnce(&Doc),
) {
    let mut kept = detail.preview.borrow_mut();
    let is_it = |kept: &Preview| {
        Arc::ptr_eq(&kept.offers, &server.offers) && (kept.tab, kept.at) == (detail.tab, at)
    };
    let found = kept.take().filter(is_it);
    let shown = found.unwrap_or_else(|| Preview {
        offers: Arc::clone(&server.offers),
        tab: detail.tab,
        at,
        doc: Doc::new(about(at)),
    });
    draw(&kept.insert(shown).doc);
}

fn nothing(frame: &mut Frame, area: Rect, server: &Server, what: &str) {
    let text = if server.offers.cached || server.runs() {
        format!("{} offers no {what}", name(server.name()))
    } else {
        format!("{} is not connected", name(server.name()))
    };
    let text = text::fit(&text, usize::from(area.width)).into_owned();
    put(frame, area, 0, &[Span::styled(text, style(Tone::Dim))]);
}

fn tools(model: &Model, server: &Server, detail: &DetailScreen, frame: &mut Frame, area: Rect) {
    let tools = &server.offers.tools;
    if tools.is_empty() {
        return nothing(frame, area, server, "tools");
    }
    // Names get the room that they need, up to two fifths.
    let longest = tools.iter().map(|tool| text::width(&tool.tool.name)).max();
    let shown = |at: usize, width: usize| {
        let Some(tool) = tools.get(at) else {
            return Vec::new();
        };
        let names = (width * 2 / 5)
            .clamp(16, 44)
            .min(longest.unwrap_or(0).max(16));
        let sign = if tool.is_destructive() {
            "!"
        } else if tool.is_read_only() {
            " "
        } else {
            "w"
        };
        let about = text::first_line(&tool.description);
        let room = width.saturating_sub(names + 4);
        vec![
            Span::styled(format!("{sign} "), style(Tone::Warn)),
            Span::styled(text::cell(&name(&tool.tool.name), names), style(Tone::Bold)),
            Span::raw("  "),
            Span::styled(text::fit(&about, room).into_owned(), style(Tone::Dim)),
        ]
    };
    let about = |at: usize| {
        let Some(tool) = tools.get(at) else {
            return Vec::new();
        };
        let mut lines: Vec<DocLine> = DocLine::foreign(&tool.description).collect();
        let form = Form::from_schema(&tool.tool.input_schema);
        let arguments = form.fields.iter().map(|field| {
            let star = if field.required { " *" } else { "" };
            format!("{}{star}", name(&field.name))
        });
        let arguments: Vec<String> = arguments.collect();
        if !arguments.is_empty() {
            lines.push(DocLine::field("arguments", arguments.join(", ")));
        }
        lines
    };
    let of = (model, server, detail);
    let rows = (&detail.tools, tools.len());
    list(of, frame, area, rows, shown, about);
}

fn resources(model: &Model, server: &Server, detail: &DetailScreen, frame: &mut Frame, area: Rect) {
    let resources = &server.offers.resources;
    if resources.is_empty() {
        return nothing(frame, area, server, "resources");
    }
    let shown = |at: usize, width: usize| {
        let Some(resource) = resources.get(at) else {
            return Vec::new();
        };
        let uris = (width / 2).clamp(16, 60);
        let sign = if resource.is_template { "{} " } else { "   " };
        let room = width.saturating_sub(uris + 5);
        let about = text::line(&resource.name);
        vec![
            Span::styled(sign, style(Tone::Hint)),
            Span::styled(
                text::cell(&text::line(&resource.uri), uris),
                style(Tone::Bold),
            ),
            Span::raw("  "),
            Span::styled(text::fit(&about, room).into_owned(), style(Tone::Dim)),
        ]
    };
    let about = |at: usize| {
        let Some(resource) = resources.get(at) else {
            return Vec::new();
        };
        DocLine::foreign(&resource.about).collect()
    };
    let of = (model, server, detail);
    let rows = (&detail.resources, resources.len());
    list(of, frame, area, rows, shown, about);
}

fn prompts(model: &Model, server: &Server, detail: &DetailScreen, frame: &mut Frame, area: Rect) {
    let prompts = &server.offers.prompts;
    if prompts.is_empty() {
        return nothing(frame, area, server, "prompts");
    }
    let shown = |at: usize, width: usize| {
        let Some(prompt) = prompts.get(at) else {
            return Vec::new();
        };
        let names = (width * 2 / 5).clamp(16, 44);
        let room = width.saturating_sub(names + 2);
        let about = text::first_line(&prompt.about);
        vec![
            Span::styled(text::cell(&name(&prompt.name), names), style(Tone::Bold)),
            Span::raw("  "),
            Span::styled(text::fit(&about, room).into_owned(), style(Tone::Dim)),
        ]
    };
    let about = |at: usize| {
        let Some(prompt) = prompts.get(at) else {
            return Vec::new();
        };
        let mut lines: Vec<DocLine> = DocLine::foreign(&prompt.about).collect();
        for parameter in &prompt.parameters {
            let star = if parameter.required { " *" } else { "" };
            let about = parameter.about.as_deref().map(text::line);
            let line = format!(
                "{}{star}  {}",
                name(&parameter.name),
                about.unwrap_or_default()
            );
            lines.push(DocLine::field("argument", line));
        }
        lines
    };
    let of = (model, server, detail);
    let rows = (&detail.prompts, prompts.len());
    list(of, frame, area, rows, shown, about);
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::ui::tests::{model, press};

    #[test]
    fn a_description_is_made_once_per_selection() {
        let mut model = model(80, 24);
        press(&mut model, "/github⏎2");
        let Some(Screen::Detail(detail)) = model.screens.last() else {
            panic!("no server");
        };
        let server = model.snapshot.get(&detail.key).unwrap();
        let made = Cell::new(0);
        let about = |_| {
            made.set(made.get() + 1);
            Vec::new()
        };
        for (at, expected) in [(0, 1), (0, 1), (1, 2), (1, 2), (0, 3)] {
            describe(server, detail, at, about, |_| {});
            assert_eq!(made.get(), expected);
        }
    }
}
