//! Keys and the actions that they mean, by context. The footer, the help, the palette and the
//! lookup all read the same tables.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Something that the user can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Up,
    Down,
    PageUp,
    PageDown,
    Start,
    End,
    Open,
    Back,
    Quit,
    Reconnect,
    ReconnectFailed,
    Toggle,
    Login,
    Logout,
    Review,
    Copy,
    Find,
    Palette,
    Help,
    History,
    NextTab,
    PreviousTab,
    Tab(usize),
    Freeze,
    Filter,
    Save,
    Call,
    CancelCall,
    Repeat,
    EditAgain,
    Raw,
    NextField,
    PreviousField,
    Mouse,
    Redraw,
    Suspend,
    Questions,
    Demo,
}

/// Where keys go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Context {
    /// Nothing is configured.
    Welcome,
    Servers,
    Overview,
    /// A list of tools, resources or prompts.
    Items,
    Log,
    Protocol,
    Form,
    Result,
    Running,
    History,
    Help,
    /// Typing text that narrows a list.
    Find,
    Filter,
    Dialog,
}

/// A key and what it does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binding {
    code: KeyCode,
    modifiers: KeyModifiers,
    /// The key as it is shown; empty for a second key of the same action.
    pub(super) shown: &'static str,
    pub(super) label: &'static str,
    pub(super) action: Action,
}

const fn key(code: KeyCode, shown: &'static str, label: &'static str, action: Action) -> Binding {
    Binding {
        code,
        modifiers: KeyModifiers::NONE,
        shown,
        label,
        action,
    }
}

const fn letter(c: char, shown: &'static str, label: &'static str, action: Action) -> Binding {
    key(KeyCode::Char(c), shown, label, action)
}

const fn control(c: char, shown: &'static str, label: &'static str, action: Action) -> Binding {
    Binding {
        code: KeyCode::Char(c),
        modifiers: KeyModifiers::CONTROL,
        shown,
        label,
        action,
    }
}

/// Keys of every context without text.
const GLOBAL: &[Binding] = &[
    letter('/', "/", "find", Action::Find),
    letter(':', ":", "commands", Action::Palette),
    letter('?', "?", "help", Action::Help),
    letter('H', "H", "history", Action::History),
    letter('!', "!", "questions", Action::Questions),
    letter('M', "M", "mouse", Action::Mouse),
];

/// Keys of every context.
const ALWAYS: &[Binding] = &[
    key(KeyCode::Esc, "esc", "back", Action::Back),
    control('c', "ctrl-c", "quit", Action::Quit),
    control('z', "ctrl-z", "suspend", Action::Suspend),
    control('l', "ctrl-l", "redraw", Action::Redraw),
];

const MOVES: &[Binding] = &[
    key(KeyCode::Up, "↑↓", "move", Action::Up),
    key(KeyCode::Down, "", "", Action::Down),
    letter('k', "", "", Action::Up),
    letter('j', "", "", Action::Down),
    key(KeyCode::PageUp, "pgup", "page", Action::PageUp),
    key(KeyCode::PageDown, "", "", Action::PageDown),
    letter('g', "g G", "start, end", Action::Start),
    letter('G', "", "", Action::End),
    key(KeyCode::Home, "", "", Action::Start),
    key(KeyCode::End, "", "", Action::End),
];

const SERVER: &[Binding] = &[
    letter('r', "r", "reconnect", Action::Reconnect),
    letter('R', "R", "all failed", Action::ReconnectFailed),
    letter(' ', "space", "on/off", Action::Toggle),
    letter('l', "l", "login", Action::Login),
    letter('o', "o", "logout", Action::Logout),
    letter('a', "a", "approve", Action::Review),
    letter('y', "y", "copy command", Action::Copy),
];

const TABS: &[Binding] = &[
    key(KeyCode::Tab, "tab", "next tab", Action::NextTab),
    key(KeyCode::Right, "", "", Action::NextTab),
    key(KeyCode::BackTab, "", "", Action::PreviousTab),
    key(KeyCode::Left, "", "", Action::PreviousTab),
    letter('1', "1-6", "tab", Action::Tab(0)),
    letter('2', "", "", Action::Tab(1)),
    letter('3', "", "", Action::Tab(2)),
    letter('4', "", "", Action::Tab(3)),
    letter('5', "", "", Action::Tab(4)),
    letter('6', "", "", Action::Tab(5)),
];

const OPEN: &[Binding] = &[key(KeyCode::Enter, "enter", "open", Action::Open)];

const WELCOME: &[Binding] = &[
    letter('d', "d", "demo", Action::Demo),
    letter('y', "y", "copy command", Action::Copy),
    letter('q', "q", "quit", Action::Quit),
];

const QUIT: &[Binding] = &[letter('q', "q", "quit", Action::Quit)];

const CLOSE: &[Binding] = &[letter('q', "", "", Action::Back)];

const PROTOCOL: &[Binding] = &[
    key(KeyCode::Enter, "enter", "unfold", Action::Open),
    letter('f', "f", "freeze", Action::Freeze),
    letter('/', "/", "filter", Action::Filter),
    letter('w', "w", "save", Action::Save),
    letter('y', "y", "copy", Action::Copy),
];

const FORM: &[Binding] = &[
    key(KeyCode::Tab, "tab", "next", Action::NextField),
    key(KeyCode::BackTab, "", "", Action::PreviousField),
    key(KeyCode::F(5), "F5", "call", Action::Call),
    control('s', "ctrl-s", "call", Action::Call),
    control('j', "ctrl-j", "raw JSON", Action::Raw),
    control('y', "ctrl-y", "copy command", Action::Copy),
];

const RESULT: &[Binding] = &[
    letter('r', "r", "repeat", Action::Repeat),
    letter('e', "e", "edit", Action::EditAgain),
    letter('y', "y", "copy command", Action::Copy),
];

const RUNNING: &[Binding] = &[
    letter('c', "c", "cancel", Action::CancelCall),
    letter('y', "y", "copy command", Action::Copy),
];

const FIND: &[Binding] = &[
    key(KeyCode::Up, "↑↓", "move", Action::Up),
    key(KeyCode::Down, "", "", Action::Down),
    key(KeyCode::PageUp, "", "", Action::PageUp),
    key(KeyCode::PageDown, "", "", Action::PageDown),
    key(KeyCode::Enter, "enter", "open", Action::Open),
];

const FILTER: &[Binding] = &[key(KeyCode::Enter, "enter", "apply", Action::Open)];

/// Returns the tables of a context, most specific first.
pub(super) fn tables(context: Context) -> Vec<&'static [Binding]> {
    match context {
        Context::Welcome => vec![WELCOME, GLOBAL, ALWAYS],
        Context::Servers => vec![OPEN, SERVER, GLOBAL, MOVES, QUIT, ALWAYS],
        Context::Overview => vec![SERVER, TABS, GLOBAL, MOVES, CLOSE, ALWAYS],
        Context::Items => vec![OPEN, TABS, SERVER, GLOBAL, MOVES, CLOSE, ALWAYS],
        Context::Log => vec![&PROTOCOL[1..2], TABS, SERVER, GLOBAL, MOVES, CLOSE, ALWAYS],
        Context::Protocol => vec![PROTOCOL, TABS, GLOBAL, MOVES, CLOSE, ALWAYS],
        Context::Form => vec![FORM, ALWAYS],
        Context::Result => vec![RESULT, GLOBAL, MOVES, CLOSE, ALWAYS],
        Context::Running => vec![RUNNING, GLOBAL, CLOSE, ALWAYS],
        Context::History => vec![OPEN, RESULT, GLOBAL, MOVES, CLOSE, ALWAYS],
        Context::Help => vec![MOVES, CLOSE, ALWAYS],
        Context::Find => vec![FIND, ALWAYS],
        Context::Filter => vec![FILTER, ALWAYS],
        Context::Dialog => vec![&ALWAYS[1..]],
    }
}

/// Returns the action of a key.
pub(super) fn action(context: Context, event: &KeyEvent) -> Option<Action> {
    // Capitals arrive with or without Shift.
    let modifiers = match event.code {
        KeyCode::Char(_) | KeyCode::BackTab => event.modifiers - KeyModifiers::SHIFT,
        _ => event.modifiers,
    };
    let mut bindings = tables(context).into_iter().flatten();
    let found = bindings
        .find(|binding| binding.code == event.code && binding.modifiers == modifiers)
        .map(|binding| binding.action);
    found
}

/// Returns the keys to show for a context: each action once, without those that everybody knows.
pub(super) fn shown(context: Context) -> Vec<Binding> {
    let mut shown: Vec<Binding> = Vec::new();
    for binding in tables(context).into_iter().flatten() {
        let is_known = shown
            .iter()
            .any(|known| known.action == binding.action || known.shown == binding.shown);
        if !binding.shown.is_empty() && !is_known {
            shown.push(*binding);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_the_context_says() {
        let shift = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::SHIFT);
        let plain = |code| KeyEvent::from(code);
        for (context, event, expected) in [
            (
                Context::Servers,
                plain(KeyCode::Char('r')),
                Some(Action::Reconnect),
            ),
            (Context::Servers, shift('R'), Some(Action::ReconnectFailed)),
            (
                Context::Servers,
                plain(KeyCode::Char('q')),
                Some(Action::Quit),
            ),
            (
                Context::Overview,
                plain(KeyCode::Char('q')),
                Some(Action::Back),
            ),
            (
                Context::Protocol,
                plain(KeyCode::Char('/')),
                Some(Action::Filter),
            ),
            (
                Context::Items,
                plain(KeyCode::Char('/')),
                Some(Action::Find),
            ),
            (Context::Form, plain(KeyCode::Char('q')), None),
            (Context::Find, plain(KeyCode::Char('?')), None),
            (Context::Dialog, plain(KeyCode::Esc), None),
            (
                Context::Form,
                KeyEvent::new(KeyCode::BackTab, KeyModifiers::SHIFT),
                Some(Action::PreviousField),
            ),
        ] {
            assert_eq!(action(context, &event), expected, "{context:?} {event:?}");
        }
    }

    #[test]
    fn no_context_shows_one_key_for_two_actions() {
        for context in [
            Context::Welcome,
            Context::Servers,
            Context::Overview,
            Context::Items,
            Context::Log,
            Context::Protocol,
            Context::Form,
            Context::Result,
            Context::History,
        ] {
            for binding in shown(context) {
                let event = KeyEvent::new(binding.code, binding.modifiers);
                assert_eq!(action(context, &event), Some(binding.action), "{context:?}");
            }
        }
    }
}
