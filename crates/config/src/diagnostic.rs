//! What is wrong with a configuration, and where.

use std::fmt;

use serde::Serialize;

/// How much a problem costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A file, an entry or a setting could not be used.
    Error,
    /// It was used, though probably not as it was meant.
    Warning,
}

/// One problem: in which file, at which place, about which server, and what to write instead (CFG-3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// How much it costs.
    pub severity: Severity,
    /// The file, or the flag that held the text.
    pub source: String,
    /// The line, from 1, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The column, from 1, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// The server it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl Diagnostic {
    /// Something in `source` could not be used.
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

    /// Something in `source` is probably not what was meant.
    pub fn warning(source: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(source, message)
        }
    }

    /// The same, at a line and column.
    #[must_use]
    pub fn at(mut self, (line, column): (usize, usize)) -> Self {
        self.line = Some(line);
        self.column = Some(column);
        self
    }

    /// The same, about a server.
    #[must_use]
    pub fn about(mut self, server: impl Into<String>) -> Self {
        self.server = Some(server.into());
        self
    }
}

impl Diagnostic {
    /// The file, with the line and column where known: `.mcp.json:3:5`.
    pub fn place(&self) -> String {
        match (self.line, self.column) {
            (Some(line), Some(column)) => format!("{}:{line}:{column}", self.source),
            _ => self.source.clone(),
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.place())?;
        if let Some(server) = &self.server {
            write!(f, ": server \"{server}\"")?;
        }
        write!(f, ": {}", self.message)
    }
}
