//! The words for actions, and the help overlay.

use super::doc::{DocLine, Tone};
use super::input::{self, Action, Context};

/// Describes an action in the help and the palette.
pub(super) fn describe(action: Action) -> &'static str {
    match action {
        Action::Up | Action::Down => "move up or down (j and k do too)",
        Action::PageUp | Action::PageDown => "move by a page",
        Action::Start | Action::End => "go to the start or the end",
        Action::Open => "open the selected row",
        Action::Back => "go back one level",
        Action::Quit => "quit",
        Action::Reconnect => "reconnect this server",
        Action::ReconnectFailed => "reconnect all servers that failed",
        Action::Toggle => "switch this server on or off in this project",
        Action::Login => "sign in to this server",
        Action::Logout => "sign out of this server",
        Action::Review => "review this server: approve or reject it",
        Action::Copy => "copy the equivalent command (or the message)",
        Action::Find => "find servers, tools, resources and prompts",
        Action::Palette => "all commands of this screen",
        Action::Help => "this help",
        Action::History => "the history of calls",
        Action::NextTab | Action::PreviousTab => "next tab (shift-tab: previous)",
        Action::Tab(_) => "go to a tab",
        Action::Freeze => "freeze or resume the live view",
        Action::Filter => "filter the messages",
        Action::Save => "save the messages to a file",
        Action::Call => "make the call",
        Action::CancelCall => "cancel the running call",
        Action::Repeat => "repeat the call",
        Action::EditAgain => "edit the arguments and call again",
        Action::Raw => "edit all arguments as JSON",
        Action::NextField | Action::PreviousField => "next field (shift-tab: previous)",
        Action::Mouse => "switch the mouse on or off",
        Action::Redraw => "draw the screen anew",
        Action::Suspend => "suspend; `fg` returns",
        Action::Questions => "show the questions that wait",
        Action::Demo => "try the demo servers",
    }
}

/// Returns the help for a context.
pub(super) fn lines(context: Context) -> Vec<DocLine> {
    let mut lines = vec![DocLine::heading("Keys of this screen")];
    for binding in input::shown(context) {
        lines.push(DocLine::field(binding.shown, describe(binding.action)));
    }
    lines.push(DocLine::own(""));
    lines.push(DocLine::heading("Signs"));
    for (glyph, meaning) in [
        ("✓", "connected"),
        ("!", "needs you: a sign-in or an approval"),
        ("✗", "failed; enter shows why"),
        ("◌", "connecting, or waiting to reconnect"),
        ("○", "off, or not needed yet"),
        ("w, !", "a tool that writes, one that may destroy data"),
        ("=", "the command that does the same; y copies it"),
        ("│", "text from a server or a repository"),
    ] {
        lines.push(DocLine::field(glyph, meaning));
    }
    lines.push(DocLine::own(""));
    let more = "Questions from servers take no key until you have stopped typing for a second.";
    lines.push(DocLine::own(more).tone(Tone::Dim));
    lines
}
