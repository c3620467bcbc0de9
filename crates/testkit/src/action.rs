//! The actions of a scripted server.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One step of a script, written `{"name": argument}`. A flag action with `false` does nothing.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Waits this long; a cancelled request wakes up at once and ends.
    SleepMs(u64),
    /// Sends progress notifications if the request carried a progress token.
    Progress(Progress),
    /// Sends a notification exactly as given.
    Notify(Message),
    /// Sends a notification to subscribers: tagged per modern listener, plain once initialized.
    Publish(Message),
    /// Writes this text and a newline.
    Write(String),
    /// Writes these bytes, with nothing added.
    WriteHex(String),
    /// Writes a line slowly, piece by piece; `$ID` is the request's id.
    SlowWrite(SlowWrite),
    /// Writes this many pseudo-random bytes that are not JSON, and a newline.
    Garbage(usize),
    /// Writes a line to stderr.
    Stderr(String),
    /// Writes this many bytes of lines to stderr.
    StderrFlood(usize),
    /// Writes this text endlessly, to stdout or stderr, until the client stops reading. On stdio
    /// only.
    Flood(Flood),
    /// Replies with this result.
    Reply(Value),
    /// Replies with one text block.
    ReplyText(String),
    /// Replies with an error.
    ReplyError(RpcError),
    /// Replies twice with the same id: text `first`, then `second`.
    ReplyTwice(bool),
    /// Replies under another id: `"float"` and `"string"` respell the request's own, anything else
    /// is taken literally.
    ReplyWithId(Value),
    /// Replies with this line; `$ID` is the request's id.
    ReplyRaw(String),
    /// Replies with the request's arguments as JSON text.
    Echo(bool),
    /// Replies with a text of this many bytes.
    HugeText(usize),
    /// Replies with structured content this many arrays deep.
    Deep(usize),
    /// Makes a task of the call and works on it; nothing after it is done.
    Task(TaskScript),
    /// Replies `input_required` unless the request answers it.
    InputRequired(InputRequired),
    /// Replies with the `inputResponses` and `requestState` received, as JSON text.
    ReplyInputs(bool),
    /// Sends a request to the client and waits for its answer.
    Request(Message),
    /// Replies with the answer to the last `request`, as JSON text.
    ReplyAnswer(bool),
    /// Replies as the server would have without an override.
    Default(bool),
    /// Ends without a reply.
    Silence(bool),
    /// Exits with this code.
    Exit(i32),
    /// Sends itself this signal.
    Signal(SignalName),
    /// Closes stdout; the process lives on.
    CloseStdout(bool),
    /// Never reads stdin again; the process lives on.
    StopReading(bool),
    /// Survives these signals.
    IgnoreSignals(Vec<SignalName>),
    /// Starts a process that outlives this one unless it is killed; returns when it is ready.
    SpawnGrandchild(Grandchild),
    /// Adds a tool and publishes `notifications/tools/list_changed`.
    AddTool(crate::Tool),
    /// Removes a tool by name and publishes `notifications/tools/list_changed`.
    RemoveTool(String),
    /// Writes its process id to this file.
    WritePid(PathBuf),
    /// Waits until this file exists.
    WaitForFile(PathBuf),
    /// Creates this file.
    Touch(PathBuf),
    /// Appends text to a file.
    AppendFile(AppendFile),
    /// Adds one to the number in this file; safe between processes.
    CountFile(PathBuf),
}

/// A notification or request to send.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// The method.
    pub method: String,
    /// Its params, left out when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
}

/// A series of progress notifications.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Progress {
    /// How many are sent: 1, 2, … `steps`.
    pub steps: u64,
    /// The pause before each.
    #[serde(default)]
    pub every_ms: u64,
    /// Whether each says the total.
    #[serde(default)]
    pub total: bool,
    /// The message of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A line written a few bytes at a time. No other line can come in between.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SlowWrite {
    /// The line, without its newline.
    pub text: String,
    /// Bytes at a time; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<usize>,
    /// The pause after each.
    #[serde(default)]
    pub every_ms: u64,
}

/// A text that is written without end.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Flood {
    /// The text, with its newlines.
    pub text: String,
    /// Goes to stderr in place of stdout.
    #[serde(default)]
    pub stderr: bool,
    /// Created once some of it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<PathBuf>,
}

/// A JSON-RPC error.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RpcError {
    /// The code.
    pub code: i64,
    /// The message.
    pub message: String,
    /// More, left out when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// An `input_required` result.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InputRequired {
    /// The requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_requests: Option<Value>,
    /// The opaque state, which also tells the rounds of one script apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
}

/// A task that a call becomes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskScript {
    /// The poll interval for the client.
    #[serde(default)]
    pub poll_ms: u64,
    /// Its steps, in order.
    #[serde(default)]
    pub steps: Vec<TaskStep>,
    /// Its end.
    pub end: TaskEnd,
}

/// One step of a task.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TaskStep {
    /// Works this long.
    SleepMs(u64),
    /// Works until this file exists.
    WaitForFile(PathBuf),
    /// Creates this file.
    Touch(PathBuf),
    /// Sends progress under the call's token.
    Progress(Progress),
    /// Sets its status message.
    Status(String),
    /// Asks the client for this, each a request, and waits for the answers.
    Ask(serde_json::Map<String, Value>),
}

/// How a task ends.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TaskEnd {
    /// Not at all.
    Never(bool),
    /// The server no longer knows it.
    Vanish(bool),
    /// With this result.
    Result(Value),
    /// With the answers that it was given, as JSON text.
    Answers(bool),
    /// With this error.
    Error(RpcError),
    /// The server cancels it.
    Cancelled(String),
}

/// A process to leave behind. It ends by itself after two minutes.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Grandchild {
    /// Survives SIGINT, SIGTERM and SIGHUP.
    pub ignore_term: bool,
    /// Keeps the server's stdout open.
    pub hold_stdout: bool,
    /// Leaves the server's process group and session.
    pub new_session: bool,
    /// Where it writes its process id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid_file: Option<PathBuf>,
}

/// Text to append to a file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AppendFile {
    /// The file.
    pub path: PathBuf,
    /// The text, with `$ARGUMENTS` for the JSON of the call's; no newline is added.
    pub text: String,
}

/// A signal, written without `SIG`, in capitals.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "the names are the documentation")]
pub enum SignalName {
    Abrt,
    Bus,
    Hup,
    Ill,
    Int,
    Kill,
    Pipe,
    Quit,
    Segv,
    Stop,
    Term,
    Usr1,
    Usr2,
}

impl SignalName {
    pub(crate) fn signal(self) -> rustix::process::Signal {
        use rustix::process::Signal;
        match self {
            Self::Abrt => Signal::ABORT,
            Self::Bus => Signal::BUS,
            Self::Hup => Signal::HUP,
            Self::Ill => Signal::ILL,
            Self::Int => Signal::INT,
            Self::Kill => Signal::KILL,
            Self::Pipe => Signal::PIPE,
            Self::Quit => Signal::QUIT,
            Self::Segv => Signal::SEGV,
            Self::Stop => Signal::STOP,
            Self::Term => Signal::TERM,
            Self::Usr1 => Signal::USR1,
            Self::Usr2 => Signal::USR2,
        }
    }
}
