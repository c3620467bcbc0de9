//! The records of the audit log.

use std::sync::LazyLock;
use std::time::SystemTime;

use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};
use trunkline_config::PermissionRule;
use trunkline_wire::Json;

use crate::disk::hex;
use crate::logs::stamp;

/// The longest text of a record, in bytes: names come from servers.
const MAX_TEXT: usize = 1024;

/// The longest redacted arguments, in bytes. Longer ones are recorded by their digest.
const MAX_ARGUMENTS: usize = 16 * 1024;

/// Something that happened, and when.
///
/// It serializes to an object with `time`, `pid` and the members of its event.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuditRecord {
    /// When it happened.
    pub time: SystemTime,
    /// What happened.
    pub event: AuditEvent,
}

/// An event of the audit log.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AuditEvent {
    /// A call ended.
    Call(Box<CallRecord>),
    /// A call is about to be sent: only where records must be on disk before.
    CallStarted(Box<CallRecord>),
    /// The state of a connection changed.
    Connection {
        /// The server.
        server: String,
        /// The new state, as in `list --json`.
        state: &'static str,
        /// The transport and its command or host, without arguments.
        target: Option<String>,
        /// Why it failed.
        reason: Option<String>,
    },
    /// Somebody decided about a server of a project.
    Approval {
        /// The servers.
        servers: Vec<String>,
        /// `approved`, `rejected` or `reset`.
        decision: &'static str,
    },
    /// Policy blocks a server.
    ServerBlocked {
        /// The server.
        server: String,
        /// The rule.
        rule: String,
        /// The file that contains it.
        source: String,
    },
    /// Somebody signed in or out.
    SignIn {
        /// The server.
        server: String,
        /// `login`, `logout` or `sign-in-tool`.
        action: &'static str,
        /// `started`, `done` or `failed`.
        outcome: &'static str,
    },
    /// The configuration changed.
    Configuration {
        /// What changed, by kind: `added`, `removed`, `changed`, or the words of a command.
        changes: Vec<(String, Vec<String>)>,
        /// The file that was written, if this program wrote it.
        file: Option<String>,
    },
    /// Records were lost, because they could not be written.
    Lost {
        /// How many.
        count: u64,
    },
    /// The file `head` was missing, so records before this one may be missing, too.
    HeadMissing,
}

/// A call in the audit log.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CallRecord {
    /// The tool's name in the call.
    pub tool: String,
    /// The server and the tool's name there; `None` for a tool of the host.
    pub origin: Option<(String, String)>,
    /// The client of a gateway that made the call.
    pub client: Option<String>,
    /// Whether a sub-agent made the call.
    pub is_agent: bool,
    /// The arguments.
    pub arguments: RecordedArguments,
    /// What permitted or refused it.
    pub decision: CallDecision,
    /// How it ended: `ok`, `tool-error`, `refused` or another kind of error.
    pub outcome: &'static str,
    /// The error.
    pub reason: Option<String>,
    /// How long it took, in microseconds.
    pub micros: u64,
    /// The size of the result in bytes.
    pub result_bytes: u64,
}

/// A call's arguments in the audit log.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum RecordedArguments {
    /// Nothing is recorded.
    #[default]
    None,
    /// Their size and SHA-256, which serialization computes.
    Digest(Json),
    /// With secrets masked.
    Redacted(Json),
}

/// The decision about a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallDecision {
    /// `allowed` by a rule or because it needs none, `approved` by somebody who was asked,
    /// `refused`, or empty if it was not decided.
    pub decision: &'static str,
    /// The rule, or the reason for the question.
    pub rule: Option<String>,
    /// The file that contains the rule.
    pub source: Option<String>,
}

impl CallDecision {
    pub(crate) fn new(decision: &'static str, rule: Option<&PermissionRule>) -> Self {
        Self {
            decision,
            rule: rule.map(|rule| rule.text.clone()),
            source: rule.map(|rule| rule.source.clone()),
        }
    }

    /// A decision for a reason that is no rule.
    pub(crate) fn because(decision: &'static str, reason: &str) -> Self {
        Self {
            decision,
            rule: Some(reason.to_owned()),
            source: None,
        }
    }
}

impl AuditRecord {
    /// A record of something that happens now.
    pub fn now(event: AuditEvent) -> Self {
        Self {
            time: SystemTime::now(),
            event,
        }
    }

    /// The approximate memory that the record takes.
    pub(super) fn weight(&self) -> usize {
        let arguments = match &self.event {
            AuditEvent::Call(call) | AuditEvent::CallStarted(call) => match &call.arguments {
                RecordedArguments::None => 0,
                RecordedArguments::Digest(json) | RecordedArguments::Redacted(json) => {
                    json.as_str().len()
                }
            },
            _ => 0,
        };
        512 + arguments
    }
}

impl Serialize for AuditRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("time", &stamp(self.time))?;
        map.serialize_entry("pid", &*PID)?;
        map.serialize_entry("event", self.event.name())?;
        self.event.members(&mut map)?;
        map.end()
    }
}

/// This process, which is asked for once.
static PID: LazyLock<u32> = LazyLock::new(std::process::id);

/// The name of [`AuditEvent::HeadMissing`], which `verify` looks for.
pub(super) const HEAD_MISSING: &str = "head-missing";

impl AuditRecord {
    /// The time, in nanoseconds since 1970.
    #[cfg(feature = "http")]
    pub(super) fn unix_nanos(&self) -> u128 {
        let since = self.time.duration_since(std::time::SystemTime::UNIX_EPOCH);
        since.unwrap_or_default().as_nanos()
    }
}

impl AuditEvent {
    /// Returns the name of the event in the log.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Call(_) => "call",
            Self::CallStarted(_) => "call-started",
            Self::Connection { .. } => "connection",
            Self::Approval { .. } => "approval",
            Self::ServerBlocked { .. } => "server-blocked",
            Self::SignIn { .. } => "sign-in",
            Self::Configuration { .. } => "configuration",
            Self::Lost { .. } => "lost",
            Self::HeadMissing => HEAD_MISSING,
        }
    }

    fn members<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        match self {
            Self::Call(call) => {
                call.members(map)?;
                map.serialize_entry("outcome", call.outcome)?;
                optional(map, "reason", call.reason.as_deref())?;
                map.serialize_entry("micros", &call.micros)?;
                map.serialize_entry("resultBytes", &call.result_bytes)
            }
            Self::CallStarted(call) => call.members(map),
            Self::Connection {
                server,
                state,
                target,
                reason,
            } => {
                text(map, "server", server)?;
                map.serialize_entry("state", state)?;
                optional(map, "target", target.as_deref())?;
                optional(map, "reason", reason.as_deref())
            }
            Self::Approval { servers, decision } => {
                let servers: Vec<_> = servers.iter().map(|server| cut(server)).collect();
                map.serialize_entry("servers", &servers)?;
                map.serialize_entry("decision", decision)
            }
            Self::ServerBlocked {
                server,
                rule,
                source,
            } => {
                text(map, "server", server)?;
                text(map, "rule", rule)?;
                text(map, "source", source)
            }
            Self::SignIn {
                server,
                action,
                outcome,
            } => {
                text(map, "server", server)?;
                map.serialize_entry("action", action)?;
                map.serialize_entry("outcome", outcome)
            }
            Self::Configuration { changes, file } => {
                let changes: serde_json::Map<_, _> = changes
                    .iter()
                    .map(|(kind, names)| {
                        let names: Vec<_> = names.iter().map(|name| cut(name)).collect();
                        (kind.clone(), names.into())
                    })
                    .collect();
                map.serialize_entry("changes", &changes)?;
                optional(map, "file", file.as_deref())
            }
            Self::Lost { count } => map.serialize_entry("count", count),
            Self::HeadMissing => Ok(()),
        }
    }
}

impl CallRecord {
    fn members<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        text(map, "tool", &self.tool)?;
        if let Some((server, name)) = &self.origin {
            text(map, "server", server)?;
            text(map, "name", name)?;
        }
        optional(map, "client", self.client.as_deref())?;
        if self.is_agent {
            map.serialize_entry("agent", &true)?;
        }
        if !matches!(self.arguments, RecordedArguments::None) {
            map.serialize_entry("arguments", &self.arguments)?;
        }
        let CallDecision {
            decision,
            rule,
            source,
        } = &self.decision;
        if !decision.is_empty() {
            map.serialize_entry("decision", decision)?;
        }
        optional(map, "rule", rule.as_deref())?;
        optional(map, "source", source.as_deref())
    }
}

impl Serialize for RecordedArguments {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (digested, redacted) = match self {
            Self::None => return serializer.serialize_unit(),
            Self::Redacted(json) if json.as_str().len() <= MAX_ARGUMENTS => (None, Some(json)),
            Self::Redacted(json) | Self::Digest(json) => (Some(json), None),
        };
        let mut object = serializer.serialize_struct("Arguments", 2)?;
        if let Some(json) = digested {
            let text = json.as_str();
            object.serialize_field("bytes", &text.len())?;
            object.serialize_field("sha256", &hex(&Sha256::digest(text.as_bytes())))?;
        }
        if let Some(json) = redacted {
            object.serialize_field("redacted", json)?;
        }
        object.end()
    }
}

fn text<M: SerializeMap>(map: &mut M, key: &'static str, value: &str) -> Result<(), M::Error> {
    map.serialize_entry(key, cut(value))
}

fn optional<M: SerializeMap>(
    map: &mut M,
    key: &'static str,
    value: Option<&str>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| text(map, key, value))
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}
