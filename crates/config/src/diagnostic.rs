//! Problems with a configuration.

use std::fmt;

use serde::Serialize;

/// The severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Severity {
    /// A file, an entry or a setting is not used.
    Error,
    /// It is used, but probably not as intended.
    Warning,
}

/// One problem: the file and position, the server, and what to write instead (CFG-3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// The file, or the flag that held the text.
    pub source: String,
    /// The line, from 1, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The column, from 1, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// The server concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl Diagnostic {
    /// Creates an error: something in `source` cannot be used.
    pub fn error(source: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            source: source.into(),
            line: None,
            column: None,
            server: None,
            message: message.into(),
        }
    }

    /// Creates a warning: something in `source` is probably not what was intended.
    pub fn warning(source: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(source, message)
        }
    }

    /// Sets the line and column.
    #[must_use]
    pub fn at(mut self, (line, column): (usize, usize)) -> Self {
        self.line = Some(line);
        self.column = Some(column);
        self
    }

    /// Sets the server.
    #[must_use]
    pub fn about(mut self, server: impl Into<String>) -> Self {
        self.server = Some(server.into());
        self
    }

    /// The file, with line and column if known: `.mcp.json:3:5`.
    pub fn location(&self) -> String {
        match (self.line, self.column) {
            (Some(line), Some(column)) => format!("{}:{line}:{column}", self.source),
            _ => self.source.clone(),
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.location())?;
        if let Some(server) = &self.server {
            write!(f, ": server \"{server}\"")?;
        }
        write!(f, ": {}", self.message)
    }
}
