//! The state of the interface, and its pure update: messages in, effects out, no IO, and the time
//! comes with the message.

pub(super) mod actions;
mod calling;
pub(super) mod calls;
mod choices;
pub(super) mod cursor;
pub(super) mod dialog;
pub(super) mod find;
pub(super) mod form;
mod navigate;
pub(super) mod sharing;
pub(super) mod stream;
#[cfg(test)]
mod tests;
pub(super) mod textarea;
mod update;

use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ratatui::layout::Rect;
use tui_input::Input;

use super::data::{Key, Offers, Server, Snapshot, Status};
use super::doc::{Doc, Tone};
use super::input::{Action, Context};
use super::msg::{Request, Subject};
use calls::{Call, Calls};
use cursor::Cursor;
use dialog::Dialog;
use find::{Find, Item};
use form::FormState;
use stream::{LogRow, Logs, Matches, Message, Messages};
pub(super) use update::update;

/// From this width on, the list is beside the detail.
pub(super) const WIDE: u16 = 110;

/// The smallest usable screen.
pub(super) const MIN_SIZE: (u16, u16) = (60, 14);

/// How long a notice stays.
const NOTICE: Duration = Duration::from_secs(6);

/// The time between two frames of an animation.
const ANIMATION: Duration = Duration::from_millis(125);

/// The tabs of a server's screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tab {
    #[default]
    Overview,
    Tools,
    Resources,
    Prompts,
    Log,
    Protocol,
}

impl Tab {
    pub(super) const ALL: [Self; 6] = [
        Self::Overview,
        Self::Tools,
        Self::Resources,
        Self::Prompts,
        Self::Log,
        Self::Protocol,
    ];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Tools => "Tools",
            Self::Resources => "Resources",
            Self::Prompts => "Prompts",
            Self::Log => "Log",
            Self::Protocol => "Protocol",
        }
    }
}

/// The protocol view of one server.
#[derive(Debug, Default)]
pub(super) struct ProtocolView {
    pub(super) filter: Input,
    pub(super) filtering: bool,
    pub(super) matches: RefCell<Matches>,
    /// The number of the selected message; the newest one without.
    pub(super) selected: Option<u64>,
    /// The unfolded messages.
    pub(super) open: HashSet<u64>,
    pub(super) cursor: Cursor,
}

/// The screen of one server.
#[derive(Debug)]
pub(super) struct DetailScreen {
    pub(super) key: Key,
    pub(super) tab: Tab,
    pub(super) tools: Cursor,
    pub(super) resources: Cursor,
    pub(super) prompts: Cursor,
    pub(super) log: LogView,
    pub(super) protocol: ProtocolView,
    pub(super) preview: RefCell<Option<Preview>>,
}

/// The description of the selected item: reading its schema and wrapping its text is too much work
/// for every frame.
#[derive(Debug)]
pub(super) struct Preview {
    pub(super) offers: Arc<Offers>,
    pub(super) tab: Tab,
    pub(super) at: usize,
    pub(super) doc: Doc,
}

/// The log of one server.
#[derive(Debug, Default)]
pub(super) struct LogView {
    /// The lines from before the start, once they have been read.
    pub(super) history: Option<Vec<LogRow>>,
    /// Rows between the end and the last visible row; 0 follows the log.
    pub(super) back: std::cell::Cell<usize>,
    pub(super) page: std::cell::Cell<usize>,
}

/// A form for a tool, a prompt or a template.
#[derive(Debug)]
pub(super) struct FormScreen {
    pub(super) server: String,
    pub(super) subject: Subject,
    pub(super) about: Doc,
    /// What the tool does to the world: `writes, open-world`.
    pub(super) effects: String,
    pub(super) form: FormState,
}

impl FormScreen {
    pub(super) fn request(&self) -> Request {
        Request {
            server: self.server.clone(),
            subject: self.subject.clone(),
            arguments: self.form.draft(),
            secrets: self.form.secrets(),
        }
    }
}

/// A screen above the list of servers.
#[derive(Debug)]
pub(super) enum Screen {
    Detail(Box<DetailScreen>),
    Form(Box<FormScreen>),
    /// A call and its result.
    Call(u64),
    History(Cursor),
}

/// A layer above the screens.
#[derive(Debug)]
pub(super) enum Overlay {
    Find(Box<Find<Item>>),
    Palette(Box<Find<Action>>),
    Help(Doc),
}

/// Something on the screen that the mouse can choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hit {
    Server(usize),
    Tab(Tab),
    /// A tool, a resource or a prompt of the open tab.
    Item(usize),
}

/// A short notice in the footer.
#[derive(Debug)]
pub(super) struct Notice {
    pub(super) text: String,
    pub(super) tone: Tone,
    until: Instant,
}

/// The whole state.
#[derive(Debug)]
pub(super) struct Model {
    /// The time of the last message.
    pub(super) now: Instant,
    /// The time of day that belongs to a moment.
    started: (Instant, SystemTime),
    pub(super) size: (u16, u16),
    /// The directory, for the header.
    pub(super) place: String,
    /// The program with its options, for commands.
    pub(super) program: String,
    pub(super) snapshot: Snapshot,
    /// Whether a snapshot has arrived.
    pub(super) loaded: bool,
    pub(super) selected: Option<Key>,
    pub(super) list: Cursor,
    pub(super) detail: Option<(Key, Doc)>,
    pub(super) screens: Vec<Screen>,
    pub(super) overlay: Option<Overlay>,
    /// A dialog that the user opened.
    pub(super) dialog: Option<Dialog>,
    /// Questions from others, the oldest first.
    pub(super) questions: VecDeque<Dialog>,
    /// Whether the user has put the questions off.
    pub(super) later: bool,
    pub(super) calls: Calls,
    pub(super) messages: Messages,
    pub(super) logs: Logs,
    pub(super) notice: Option<Notice>,
    pub(super) mouse: bool,
    /// What each part of the last frame shows.
    pub(super) hits: RefCell<Vec<(Rect, Hit)>>,
    next_task: u64,
    /// The newest action whose outcome was shown.
    reported: u64,
}

impl Model {
    pub(super) fn new(
        now: (Instant, SystemTime),
        size: (u16, u16),
        place: String,
        program: String,
    ) -> Self {
        Self {
            now: now.0,
            started: now,
            size,
            place,
            program,
            snapshot: Snapshot::default(),
            loaded: false,
            selected: None,
            list: Cursor::default(),
            detail: None,
            screens: Vec::new(),
            overlay: None,
            dialog: None,
            questions: VecDeque::new(),
            later: false,
            calls: Calls::default(),
            messages: Messages::default(),
            logs: Logs::default(),
            notice: None,
            mouse: false,
            hits: RefCell::default(),
            next_task: 1,
            reported: 0,
        }
    }

    /// Returns the time of day of the last message.
    pub(super) fn time_of_day(&self) -> SystemTime {
        let (start, time) = self.started;
        time + self.now.saturating_duration_since(start)
    }

    /// Returns a new number for an effect.
    pub(super) fn task(&mut self) -> u64 {
        self.next_task += 1;
        self.next_task
    }

    pub(super) fn is_wide(&self) -> bool {
        self.size.0 >= WIDE
    }

    pub(super) fn is_too_small(&self) -> bool {
        self.size.0 < MIN_SIZE.0 || self.size.1 < MIN_SIZE.1
    }

    /// Returns whether nothing is configured.
    pub(super) fn is_empty(&self) -> bool {
        self.loaded && self.snapshot.servers.is_empty()
    }

    pub(super) fn notify(&mut self, text: impl Into<String>, tone: Tone) {
        self.notice = Some(Notice {
            text: text.into(),
            tone,
            until: self.now + NOTICE,
        });
    }

    /// Returns the dialog in front: our own, otherwise the oldest question.
    pub(super) fn front(&self) -> Option<&Dialog> {
        let questions = if self.later {
            None
        } else {
            self.questions.front()
        };
        self.dialog.as_ref().or(questions)
    }

    /// Returns where keys go.
    pub(super) fn context(&self) -> Context {
        if self.front().is_some() {
            return Context::Dialog;
        }
        match &self.overlay {
            Some(Overlay::Find(_) | Overlay::Palette(_)) => return Context::Find,
            Some(Overlay::Help(_)) => return Context::Help,
            None => {}
        }
        match self.screens.last() {
            None if self.is_empty() => Context::Welcome,
            None => Context::Servers,
            Some(Screen::Detail(detail)) => match detail.tab {
                Tab::Overview => Context::Overview,
                Tab::Tools | Tab::Resources | Tab::Prompts => Context::Items,
                Tab::Log => Context::Log,
                Tab::Protocol if detail.protocol.filtering => Context::Filter,
                Tab::Protocol => Context::Protocol,
            },
            Some(Screen::Form(_)) => Context::Form,
            Some(Screen::Call(id)) => match self.calls.get(*id) {
                Some(call) if call.is_running() => Context::Running,
                _ => Context::Result,
            },
            Some(Screen::History(_)) => Context::History,
        }
    }

    /// Returns the server that the screen is about.
    pub(super) fn server(&self) -> Option<&Server> {
        let key = match self.screens.last() {
            Some(Screen::Detail(detail)) => &detail.key,
            _ => self.selected.as_ref()?,
        };
        self.snapshot.get(key)
    }

    /// Returns the server whose overview is on the screen.
    pub(super) fn wanted_detail(&self) -> Option<Key> {
        match self.screens.last() {
            Some(Screen::Detail(detail)) => Some(detail.key.clone()),
            None if self.is_wide() => self.selected.clone(),
            _ => None,
        }
    }

    /// Returns the call on the screen.
    pub(super) fn call(&self) -> Option<&Call> {
        match self.screens.last()? {
            Screen::Call(id) => self.calls.get(*id),
            Screen::History(cursor) => self.calls.newest(cursor.at),
            _ => None,
        }
    }

    /// Returns the messages of a server that match its filter, oldest first.
    pub(super) fn messages_of(&self, detail: &DetailScreen) -> Vec<&Message> {
        let filter = detail.protocol.filter.value();
        let wanted = |message: &&Message| *message.server == *detail.key.0;
        let messages = self.messages.kept.iter().filter(wanted);
        detail
            .protocol
            .matches
            .borrow_mut()
            .select(filter, messages)
    }

    /// Returns the log of a server, oldest first.
    pub(super) fn log_of<'m>(&'m self, detail: &'m DetailScreen) -> Vec<&'m LogRow> {
        let history = detail.log.history.iter().flatten();
        let name = &*detail.key.0;
        history
            .chain(self.logs.kept.iter().filter(|row| row.server == name))
            .collect()
    }

    /// Returns when the screen changes by itself: a countdown, an animation, a notice that ends, a
    /// question that begins to take keys. `None` means that nothing needs to wake up.
    pub(super) fn next_tick(&self, now: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        let mut at = |time: Instant| next = Some(next.map_or(time, |next| next.min(time)));
        if let Some(notice) = &self.notice {
            at(notice.until);
        }
        if let Some(armed) = self.front().and_then(|dialog| dialog.armed_at)
            && armed > now
        {
            at(armed);
        }
        let shows_list = self.screens.is_empty() || self.is_wide();
        if shows_list || matches!(self.screens.last(), Some(Screen::Detail(_))) {
            for server in &self.snapshot.servers {
                if let Status::Connecting {
                    retry_at: Some(retry),
                    ..
                } = server.status
                    && retry > now
                {
                    // The next full second of the countdown.
                    let left = retry - now;
                    let part = Duration::from_nanos(left.subsec_nanos().into());
                    at(now + part.max(Duration::from_millis(1)));
                }
            }
        }
        let shows_call = |screen: &Screen| matches!(screen, Screen::Call(_) | Screen::History(_));
        if self.screens.last().is_some_and(shows_call) && self.call().is_some_and(Call::is_running)
        {
            at(now + ANIMATION);
        }
        next
    }
}
