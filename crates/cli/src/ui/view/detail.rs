//! The screen of one server: its tabs.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Span;
use trunkline::log::LogKind;

use super::paint::{doc, fill, put, put_selected, rule, style};
use super::servers::summary;
use crate::output::name;
use crate::ui::data::Server;
use crate::ui::doc::{Doc, DocLine, Tone};
use crate::ui::model::cursor::Cursor;
use crate::ui::model::stream::Message;
use crate::ui::model::{DetailScreen, Model, Screen, Tab};
use crate::ui::text;

/// From this height on, the selected item is described below the list.
const PREVIEW_FROM: u16 = 14;

/// The rows of that description.
const PREVIEW: u16 = 6;

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
    tabs(server, detail, frame, area);
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
            Tab::Tools => tools(server, detail, frame, body),
            Tab::Resources => resources(server, detail, frame, body),
            Tab::Prompts => prompts(server, detail, frame, body),
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
    if status == crate::ui::data::Status::Connected
        || matches!(status, crate::ui::data::Status::Connecting { .. })
    {
        let rest = room.saturating_sub(text::width(&label) + 2);
        let state = text::fit(&state, rest).into_owned();
        spans.push(Span::styled(format!("  {state}"), style(Tone::Dim)));
    }
    fill(&mut spans, total.saturating_sub(text::width(&shown) + 1));
    spans.push(Span::styled(shown, style(status.tone())));
    put(frame, area, 0, &spans);
}

fn tabs(server: &Server, detail: Option<&DetailScreen>, frame: &mut Frame, area: Rect) {
    let mut spans = vec![Span::raw(" ")];
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
    frame: &mut Frame,
    area: Rect,
    cursor: &Cursor,
    len: usize,
    row: impl Fn(usize, usize) -> Vec<Span<'static>>,
    about: impl Fn(usize) -> Vec<DocLine>,
) {
    let has_preview = area.height >= PREVIEW_FROM;
    let rows = area
        .height
        .saturating_sub(if has_preview { PREVIEW + 1 } else { 0 });
    let width = usize::from(area.width).saturating_sub(1);
    for (y, at) in (0..).zip(cursor.window(len, usize::from(rows))) {
        let is_selected = at == cursor.at;
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
            height: PREVIEW,
            ..area
        };
        doc(frame, below, &Doc::new(about(cursor.at)));
    }
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

fn tools(server: &Server, detail: &DetailScreen, frame: &mut Frame, area: Rect) {
    let tools = &server.offers.tools;
    if tools.is_empty() {
        return nothing(frame, area, server, "tools");
    }
    let shown = |at: usize, width: usize| {
        let Some(tool) = tools.get(at) else {
            return Vec::new();
        };
        let names = (width * 2 / 5).clamp(16, 44);
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
        DocLine::foreign(&tool.description).collect()
    };
    list(frame, area, &detail.tools, tools.len(), shown, about);
}

fn resources(server: &Server, detail: &DetailScreen, frame: &mut Frame, area: Rect) {
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
    list(
        frame,
        area,
        &detail.resources,
        resources.len(),
        shown,
        about,
    );
}

fn prompts(server: &Server, detail: &DetailScreen, frame: &mut Frame, area: Rect) {
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
    list(frame, area, &detail.prompts, prompts.len(), shown, about);
}

fn log(model: &Model, detail: &DetailScreen, frame: &mut Frame, area: Rect) {
    let rows = model.log_of(detail);
    let height = usize::from(area.height);
    let view = &detail.log;
    view.page.set(height);
    view.back
        .set(view.back.get().min(rows.len().saturating_sub(height)));
    if rows.is_empty() {
        let none = "nothing has been logged";
        return put(frame, area, 0, &[Span::styled(none, style(Tone::Dim))]);
    }
    let end = rows.len().saturating_sub(view.back.get());
    let start = end.saturating_sub(height);
    let room = usize::from(area.width).saturating_sub(22);
    for (y, line) in (0..).zip(rows[start..end].iter()) {
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
                Span::styled(format!("{:<12} ", line.time), style(Tone::Dim)),
                Span::styled(format!("{:<6} ", line.kind.name()), style(Tone::Dim)),
                Span::styled(mark, style(Tone::Dim)),
                Span::styled(text::fit(&line.text, room).into_owned(), style(tone)),
            ],
        );
    }
}

/// A row of the protocol view.
enum Line<'m> {
    Message(&'m Message),
    Text(String),
}

fn protocol(model: &Model, detail: &DetailScreen, frame: &mut Frame, area: Rect) {
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
