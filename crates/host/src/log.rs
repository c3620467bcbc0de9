//! Logs of what servers write, and traces of their messages.

pub use crate::logs::{Follow, LogKind, LogLine, LogStore, ServerLog, Since, Tracer};
