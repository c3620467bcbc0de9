//! A client, as its endpoint knows it.

/// A client that connects: its name for people, and what it may see.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ClientInfo {
    /// A name for logs and warnings: `stdio`, `socket (pid 4711)`, the name of a token.
    pub label: String,
    /// The profile that restricts it; `None` for the gateway's default.
    pub profile: Option<String>,
    /// The servers that it sees.
    pub view: View,
}

/// The servers that an endpoint shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum View {
    /// All servers, with names as in the pool.
    #[default]
    All,
    /// One server, with its own names.
    Server(String),
}

impl ClientInfo {
    /// A client that sees all servers, under the gateway's default profile.
    pub fn new(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            ..Self::default()
        }
    }

    /// Restricts the client to a profile.
    #[must_use]
    pub fn profile(mut self, profile: impl Into<Option<String>>) -> Self {
        self.profile = profile.into();
        self
    }

    /// Chooses the servers that it sees.
    #[must_use]
    pub fn view(mut self, view: View) -> Self {
        self.view = view;
        self
    }
}

/// The reason that a client cannot connect.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    /// The profile does not exist.
    #[error("there is no profile \"{0}\"")]
    UnknownProfile(String),
    /// The server of the view does not exist, or the profile hides it.
    #[error("there is no server \"{0}\"")]
    UnknownServer(String),
}
