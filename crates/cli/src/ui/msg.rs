//! Messages to the model, and the effects that it asks for.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crossterm::event::{KeyEvent, MouseEvent};
use serde_json::{Map, Value};
use trunkline::config::ServerEntry;
use trunkline::elicit::{ElicitAnswer, Form};
use trunkline::log::LogLine;
use trunkline::permission::PermissionAnswer;
use trunkline_config::Server;

use super::data::{Detail, Snapshot};
use super::doc::DocLine;
use crate::scripts::ScriptChange;

/// Everything that changes the model. Results of effects carry the number of what asked for them;
/// the model drops those that nothing waits for any more.
#[derive(Debug)]
pub(super) enum Msg {
    Key(KeyEvent),
    Paste(String),
    Mouse(MouseEvent),
    Resize(u16, u16),
    Snapshot(Box<Snapshot>),
    Detail(Box<Detail>),
    /// Protocol messages, and how many were dropped before them.
    Messages(Vec<RawMessage>, u64),
    Logs(Vec<LogLine>),
    /// The log of a server before the start.
    LogHistory(String, Vec<LogLine>),
    Question(Box<Question>),
    /// Nobody waits for the answer any more (ELI-5).
    Withdrawn(u64),
    Progress(u64, Progress),
    CallDone(u64, CallOutcome),
    LoginUrl(u64, String),
    /// The code to enter on a page, on any device.
    LoginCode(u64, String, String),
    LoginDone(u64, Result<String, String>),
    /// An action of the user is done, or has failed.
    ActionDone(u64, Result<String, String>),
    /// The changed files of a server, by its name, for its approval.
    Scripts(String, Vec<ScriptChange>),
    /// A moment that [`Model::next_tick`](super::model::Model::next_tick) asked for.
    Tick,
}

/// A protocol message, secrets masked.
#[derive(Clone, Debug)]
pub(super) struct RawMessage {
    pub(super) at: Instant,
    pub(super) time: SystemTime,
    pub(super) server: Arc<str>,
    pub(super) sent: bool,
    /// The size of the whole message.
    pub(super) bytes: usize,
    /// The message, cut if it is long.
    pub(super) text: String,
}

/// The progress of a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Progress {
    pub(super) done: f64,
    pub(super) total: Option<f64>,
    pub(super) message: String,
}

/// The end of a call.
#[derive(Debug)]
pub(super) struct CallOutcome {
    pub(super) is_error: bool,
    /// Whether the user cancelled it.
    pub(super) cancelled: bool,
    pub(super) lines: Vec<DocLine>,
}

/// A question to the user, from a server or from the permission rules.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) id: u64,
    pub(super) server: String,
    /// The call during which it is asked.
    pub(super) call: Option<String>,
    /// The client on whose behalf the call is made.
    pub(super) client: Option<String>,
    pub(super) ask: Ask,
}

#[derive(Debug)]
pub(super) enum Ask {
    Form {
        message: String,
        form: Form,
    },
    Url {
        message: String,
        url: String,
        /// Whether to answer when the user has finished there, or when the page is open.
        repeats_call: bool,
    },
    Permission {
        reason: Vec<DocLine>,
        always: Option<String>,
    },
}

/// The answer to a [`Question`].
#[derive(Debug)]
pub(super) enum Answer {
    Elicit(ElicitAnswer),
    Permission(PermissionAnswer),
}

/// What a call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Tool(String),
    Resource(String),
    /// A template; its variables are the arguments.
    Template(String),
    Prompt(String),
}

impl Subject {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Tool(name) | Self::Resource(name) | Self::Template(name) | Self::Prompt(name) => {
                name
            }
        }
    }
}

/// A call, a read or a prompt.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) server: String,
    pub(super) subject: Subject,
    pub(super) arguments: Map<String, Value>,
    /// The names of the arguments that are not shown.
    pub(super) secrets: Vec<String>,
}

/// Work outside the model.
#[derive(Debug)]
pub(super) enum Effect {
    Reconnect(u64, Vec<String>),
    SetEnabled(u64, Box<ServerEntry>, bool),
    Approve(u64, Box<ServerEntry>),
    Reject(u64, Box<ServerEntry>),
    /// Compares the files of a server with what was approved.
    ReadScripts(Box<Server>),
    Login(u64, String),
    /// Completes a sign-in with the URL of the page that the browser could not load.
    FinishLogin(u64, String),
    CancelLogin(u64),
    Logout(u64, String),
    OpenUrl(u64, String),
    Call(u64, Request),
    CancelCall(u64),
    Answer(u64, Answer),
    ReadLog(String),
    Save(u64, String),
    Demo(u64),
    /// Copies a text; the notice says what was copied.
    Copy {
        task: u64,
        text: String,
        notice: String,
    },
    Mouse(bool),
    Redraw,
    Suspend,
    Quit,
}
