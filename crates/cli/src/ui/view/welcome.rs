//! The first screen of a new user: nothing is configured yet.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Span;

use super::paint::{put, style};
use crate::ui::doc::Tone;
use crate::ui::model::Model;

pub(super) fn draw(model: &Model, frame: &mut Frame, area: Rect) {
    let program = &model.program;
    let lines: [(&str, Tone); 17] = [
        ("", Tone::Plain),
        ("No MCP servers are configured here yet.", Tone::Bold),
        ("", Tone::Plain),
        (
            "d  try the demo: servers inside this program, nothing to install",
            Tone::Plain,
        ),
        ("", Tone::Plain),
        (
            "Bring the servers of Claude Desktop, Cursor, VS Code and others:",
            Tone::Plain,
        ),
        ("   $ import", Tone::Hint),
        ("", Tone::Plain),
        ("Add one:", Tone::Plain),
        (
            "   $ add files -- npx -y @modelcontextprotocol/server-filesystem .",
            Tone::Hint,
        ),
        ("   $ add docs https://example.com/mcp", Tone::Hint),
        ("", Tone::Plain),
        (
            "Servers in a project's .mcp.json appear here and wait for your approval.",
            Tone::Dim,
        ),
        (
            "This screen notices when you add one, here or in another terminal.",
            Tone::Dim,
        ),
        ("", Tone::Plain),
        ("?  help    q  quit", Tone::Dim),
        ("", Tone::Plain),
    ];
    let mut y = 0;
    for problem in &model.snapshot.problems {
        put(
            frame,
            area,
            y,
            &[Span::styled(format!(" ! {problem}"), style(Tone::Warn))],
        );
        y += 1;
    }
    for (text, tone) in lines {
        let text = text.replace('$', program);
        put(
            frame,
            area,
            y,
            &[Span::raw("  "), Span::styled(text, style(tone))],
        );
        y += 1;
    }
}
