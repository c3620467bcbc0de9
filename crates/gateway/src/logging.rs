//! Log messages of servers: which client gets which (AGT-2).

use std::sync::Arc;

use trunkline::event::{Audience, ServerNotification};
use trunkline_wire::version::Era;
use trunkline_wire::{Json, ObjectWriter, RpcError};

use crate::clients::Clients;
use crate::session::ClientSession;

/// The levels of log messages, least severe first.
const LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

/// The notification with a log message.
const MESSAGE: &str = "notifications/message";

/// A level of log messages; more severe ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Level(u8);

impl Level {
    /// The level of clients that have not chosen one.
    pub(crate) const DEFAULT: Self = Self(1);
    /// The level of the gateway's own warnings.
    const WARNING: Self = Self(3);

    pub(crate) fn from_json(json: &Json) -> Result<Self, RpcError> {
        let name = json.as_string();
        let found = name.and_then(|name| Self::named(&name));
        found.ok_or_else(|| {
            let message = format!("the log level must be one of {}", LEVELS.join(", "));
            RpcError::new(RpcError::INVALID_PARAMS, message)
        })
    }

    fn named(name: &str) -> Option<Self> {
        let at = LEVELS.iter().position(|level| *level == name)?;
        u8::try_from(at).ok().map(Self)
    }

    pub(crate) fn name(self) -> &'static str {
        LEVELS[usize::from(self.0)]
    }
}

impl Clients {
    /// Forwards a notification of a server to the clients that it may be about.
    pub(crate) fn notification(&self, notification: &ServerNotification) {
        if notification.method != MESSAGE {
            self.page_completed(notification);
            return;
        }
        let Some(params) = &notification.params else {
            return;
        };
        // A message that cannot be classified is shown.
        let level = params.get("level");
        let level = level.and_then(|level| Level::from_json(&level).ok());
        let level = level.unwrap_or(Level::WARNING);
        let sessions = match &notification.audience {
            Audience::Client(client) => self.session(client).into_iter().collect(),
            Audience::Everyone => self.sessions(),
            // It may be about another client's call; the server's log has it.
            _ => Vec::new(),
        };
        let named = with_origin(&notification.server, params);
        for session in sessions {
            session.log(&notification.server, level, &named);
        }
    }
}

impl ClientSession {
    /// Sends a log message of a server, if the client wants it: a legacy client by its level, a
    /// modern one for an open request with a level.
    fn log(&self, server: &str, level: Level, params: &Json) {
        if !self.sees(server) {
            return;
        }
        if self.is_legacy() {
            if level >= self.level().unwrap_or(Level::DEFAULT)
                && let Some(link) = self.link()
            {
                link.notify(MESSAGE, Some(params.clone()));
            }
            return;
        }
        let wants = |call: &Arc<crate::open_call::OpenCall>| {
            call.era() == Era::Modern && call.level().is_some_and(|wanted| level >= wanted)
        };
        if let Some(call) = self.open_calls_to(server).into_iter().find(wants) {
            call.notify(MESSAGE, Some(params.clone()));
        }
    }

    /// Warns the client of something that the gateway could not pass on.
    pub(crate) fn warn(&self, server: &str, text: &str) {
        tracing::warn!(target: "trunkline", server, client = &*self.info().label, "{text}");
        let mut params = ObjectWriter::new();
        params
            .string("level", Level::WARNING.name())
            .string("logger", server)
            .string("data", text);
        self.log(server, Level::WARNING, &params.finish());
    }
}

/// The message with its server's name in `logger`.
fn with_origin(server: &str, params: &Json) -> Json {
    let logger: Option<String> = params.field("logger");
    let logger = match logger {
        Some(logger) if !logger.is_empty() => format!("{server}/{logger}"),
        _ => server.to_owned(),
    };
    let mut named = ObjectWriter::with_capacity(params.as_str().len() + 32);
    params.members(|key, value| {
        if key != "logger" {
            named.raw(key, &value);
        }
    });
    named.string("logger", &logger);
    named.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_an_order_and_unknown_ones_are_refused() {
        let level = |text: &str| Level::from_json(&Json::parse(format!("\"{text}\"")).unwrap());
        assert!(level("debug").unwrap() < level("info").unwrap());
        assert!(level("emergency").unwrap() > level("alert").unwrap());
        assert_eq!(level("warning").unwrap(), Level::WARNING);
        assert_eq!(level("info").unwrap(), Level::DEFAULT);
        assert_eq!(level("loud").unwrap_err().code, -32602);
    }

    #[test]
    fn a_message_names_its_server() {
        let named = |text: &str| with_origin("s", &Json::parse(text.to_owned()).unwrap());
        let message = named(r#"{"level":"info","logger":"db","data":{"x":1.50}}"#);
        assert_eq!(
            message.as_str(),
            r#"{"level":"info","data":{"x":1.50},"logger":"s/db"}"#
        );
        assert_eq!(
            named(r#"{"data":1}"#).as_str(),
            r#"{"data":1,"logger":"s"}"#
        );
    }
}
