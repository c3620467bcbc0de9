//! The list of servers, by scope.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Span;

use super::hit;
use super::paint::{put, put_selected, style};
use crate::output::name;
use crate::ui::data::{BUILT_IN, Server, Status};
use crate::ui::doc::Tone;
use crate::ui::model::{Hit, Model};
use crate::ui::text;

/// How often a lost connection is made anew, as the host does it.
const ATTEMPTS: u32 = 5;

/// The widest column of names.
const MAX_NAME: usize = 32;

/// The columns of the transport and of the cure.
const TRANSPORT: usize = 8;
const CURE: usize = 10;

/// From this width on, a row has a transport and a cure.
const ROOMY: u16 = 70;

/// A row of the list.
enum Row {
    Heading(&'static str),
    Server(usize),
}

pub(super) fn draw(model: &Model, frame: &mut Frame, area: Rect) {
    let mut rows = Vec::new();
    let mut scope = "";
    for (at, server) in model.snapshot.servers.iter().enumerate() {
        if server.key.1 != scope {
            scope = server.key.1;
            rows.push(Row::Heading(scope));
        }
        rows.push(Row::Server(at));
    }
    if !model.loaded {
        put(
            frame,
            area,
            0,
            &[Span::styled(
                " reading the configuration…",
                style(Tone::Dim),
            )],
        );
        return;
    }
    let problems = model.snapshot.problems.iter().take(3);
    let mut area = area;
    for problem in problems {
        let shown = text::fit(problem, usize::from(area.width).saturating_sub(3)).into_owned();
        put(
            frame,
            area,
            0,
            &[Span::styled(format!(" ! {shown}"), style(Tone::Warn))],
        );
        area.y += 1;
        area.height = area.height.saturating_sub(1);
    }
    let is_selected = |row: &Row| matches!(row, Row::Server(at) if *at == model.list.at);
    let at = rows.iter().position(is_selected).unwrap_or(0);
    // The heading of the first server stays in sight.
    let at = if at == 1 { 0 } else { at };
    let window = model
        .list
        .window_at(at, rows.len(), usize::from(area.height));
    let names = model.snapshot.servers.iter();
    let widest = names.map(|server| text::width(&name(server.name()))).max();
    // One long name does not take the room of every cause.
    let most = (usize::from(area.width) / 4).clamp(14, MAX_NAME);
    let names = widest.unwrap_or(0).clamp(8, most);
    for (y, row) in (0..).zip(&rows[window]) {
        match row {
            Row::Heading(scope) => {
                let heading = format!(" {}", scope.to_uppercase());
                put(frame, area, y, &[Span::styled(heading, style(Tone::Dim))]);
            }
            Row::Server(at) => {
                let Some(server) = model.snapshot.servers.get(*at) else {
                    continue;
                };
                let is_selected = *at == model.list.at;
                hit(model, area, y, Hit::Server(*at));
                let spans = server_row(model, server, is_selected, names, area.width);
                if is_selected && model.screens.is_empty() {
                    put_selected(frame, area, y, &spans);
                } else {
                    put(frame, area, y, &spans);
                }
            }
        }
    }
}

fn server_row(
    model: &Model,
    server: &Server,
    is_selected: bool,
    names: usize,
    width: u16,
) -> Vec<Span<'static>> {
    let mark = if is_selected { "▸" } else { " " };
    let mut spans = vec![
        Span::raw(mark),
        Span::styled(server.status.glyph(), style(server.status.tone())),
        Span::raw(" "),
        Span::styled(text::cell(&name(server.name()), names), style(Tone::Bold)),
        Span::raw("  "),
    ];
    let room = usize::from(width).saturating_sub(names + 6);
    let (summary, tone) = summary(model, server);
    if width < ROOMY {
        spans.push(Span::styled(text::cell(&summary, room), style(tone)));
        return spans;
    }
    let cure = server.cure();
    let room = room.saturating_sub(TRANSPORT + CURE + 2);
    spans.push(Span::styled(text::cell(&summary, room), style(tone)));
    // The heading says so.
    let transport = if server.transport == BUILT_IN {
        ""
    } else {
        server.transport
    };
    let transport = text::cell(transport, TRANSPORT);
    spans.push(Span::styled(format!("  {transport}"), style(Tone::Dim)));
    if let Some((key, label)) = cure {
        spans.push(Span::styled(key, style(Tone::Hint)));
        spans.push(Span::raw(format!(" {label}")));
    }
    spans
}

/// Returns the state in words: what it offers, or why it does not.
pub(super) fn summary(model: &Model, server: &Server) -> (String, Tone) {
    let offers = &server.offers;
    match server.status {
        Status::Connected => {
            let tools = offers.tools.len();
            let mut parts = vec![text::count(tools, "tool")];
            if !offers.resources.is_empty() {
                parts.push(text::count(offers.resources.len(), "resource"));
            }
            if !offers.prompts.is_empty() {
                parts.push(text::count(offers.prompts.len(), "prompt"));
            }
            let has_nothing = parts.len() == 1 && tools == 0;
            let tone = if has_nothing { Tone::Warn } else { Tone::Plain };
            (parts.join("  "), tone)
        }
        Status::Connecting { attempt, retry_at } => {
            let text = match retry_at {
                Some(at) => {
                    let left = at.saturating_duration_since(model.now);
                    let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
                    let why = match (&*server.said, &*server.cause) {
                        ("", "") => String::new(),
                        ("", cause) => format!(": {cause}"),
                        (said, _) => format!(": \"{said}\""),
                    };
                    format!("retry {attempt}/{ATTEMPTS} in {seconds}s{why}")
                }
                None if attempt > 1 => format!("connecting, attempt {attempt}"),
                None => "connecting".to_owned(),
            };
            (text, Tone::Warn)
        }
        status if server.cause.is_empty() => (status.word().to_owned(), tone_of(status)),
        status @ Status::Failed if server.said.is_empty() => {
            (server.cause.clone(), tone_of(status))
        }
        // In quotes, because the words are the server's.
        status @ Status::Failed => (format!("exited: \"{}\"", server.said), tone_of(status)),
        status => (
            format!("{}: {}", status.word(), server.cause),
            tone_of(status),
        ),
    }
}

/// The tone of a summary: only failures stand out in full.
fn tone_of(status: Status) -> Tone {
    match status.tone() {
        Tone::Good => Tone::Plain,
        tone => tone,
    }
}
