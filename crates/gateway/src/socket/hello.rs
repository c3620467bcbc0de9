//! The first line of a connection, and the answer to it.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// The version of the first line. A peer of another version is refused.
const PROTOCOL: u32 = 1;

/// The maximum length of the first line (SEC-4). An environment is 128 KB at most on Linux.
pub const MAX_HELLO_BYTES: usize = 1 << 20;

/// How long a client may take to send its first line.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a client waits for the answer. The daemon starts the server meanwhile, which has a time
/// limit of its own (LIF-4).
const REPLY_TIMEOUT: Duration = Duration::from_mins(2);

/// The first line of a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// The version of this line.
    trunkline: u32,
    /// The version of the client's program.
    pub version: String,
    /// What the client wants.
    #[serde(flatten)]
    pub purpose: Purpose,
}

/// What a client wants.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "purpose", rename_all = "camelCase")]
#[non_exhaustive]
pub enum Purpose {
    /// One server, shared with other clients. The client decides about permissions itself.
    Server {
        /// The server.
        server: Box<SharedServer>,
        /// The environment of the client, which the server inherits if it is started for it.
        #[serde(default)]
        environment: ClientEnvironment,
    },
    /// All servers of a running gateway, as one.
    #[serde(rename_all = "camelCase")]
    Gateway {
        /// The profile that restricts the client.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
    },
    /// A command for the daemon itself.
    Control {
        /// The command.
        command: ControlCommand,
    },
}

/// A command for the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ControlCommand {
    /// Describe yourself.
    Status,
    /// Finish the calls in flight and exit.
    Stop,
    /// Give the lock to a new daemon. A second line says that it has the socket.
    HandOver,
}

/// The variables of a client, whose values are never printed.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientEnvironment(pub BTreeMap<String, String>);

impl fmt::Debug for ClientEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A server as a client wants it started: expanded, with all that decides which process it is.
/// Clients whose servers are equal share one process.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedServer {
    /// The server's name.
    pub name: String,
    /// The project: the server's root, and its working directory unless `cwd` is set.
    pub project: PathBuf,
    /// The program.
    pub command: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// The variables of its entry.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Its working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Where the client finds programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether only the legacy protocol may be spoken.
    #[serde(default)]
    pub legacy_only: bool,
}

/// Omits the values of variables and the arguments, which may be secrets (SEC-1).
impl fmt::Debug for SharedServer {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("SharedServer")
            .field("name", &self.name)
            .field("project", &self.project)
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}

impl Hello {
    /// Creates the first line of this program.
    pub fn new(purpose: Purpose) -> Self {
        Self {
            trunkline: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            purpose,
        }
    }
}

/// The answer to a first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "answer")]
#[non_exhaustive]
pub enum HelloReply {
    /// The connection is open.
    Welcome {
        /// The version of the daemon's program.
        version: String,
        /// The process of the daemon.
        pid: u32,
    },
    /// The client is refused, and the connection closes.
    Refused {
        /// The kind of the refusal, for programs.
        code: RefusalCode,
        /// The reason, for people.
        reason: String,
    },
}

/// The kind of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum RefusalCode {
    /// The first line cannot be understood.
    BadHello,
    /// The client is of another version.
    Version,
    /// The server cannot be started.
    NotConnected,
    /// The daemon is shutting down.
    Stopping,
    /// There are too many clients.
    Busy,
    /// The daemon does not do that.
    Unsupported,
}

impl HelloReply {
    /// Accepts a client.
    pub fn welcome() -> Self {
        Self::Welcome {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
        }
    }

    /// Refuses a client.
    pub fn refused(code: RefusalCode, reason: impl Into<String>) -> Self {
        Self::Refused {
            code,
            reason: reason.into(),
        }
    }
}

/// Why a first line or an answer cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HelloError {
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// The connection ended before the line did.
    #[error("the connection ended within the first line")]
    Closed,
    /// The line is too long.
    #[error("the first line is longer than {MAX_HELLO_BYTES} bytes")]
    TooLong,
    /// The line did not arrive in time.
    #[error("the first line did not arrive in time")]
    Timeout,
    /// The line is not what it must be. The text is not repeated: it may hold secrets.
    #[error("the first line is not valid")]
    Invalid,
    /// The peer is of another version.
    #[error("the first line is of version {0}, expected {PROTOCOL}")]
    Version(u32),
}

/// The part of a first line that every version has.
#[derive(Deserialize)]
struct Version {
    trunkline: u32,
}

/// The part of a message of MCP that tells it from a first line.
#[derive(Deserialize)]
struct Message {
    #[serde(rename = "jsonrpc")]
    _version: String,
}

/// Reads the first line of a client.
pub async fn read_hello(reader: &mut (impl AsyncBufRead + Unpin)) -> Result<Hello, HelloError> {
    let line = timeout(HELLO_TIMEOUT, read_line(reader))
        .await
        .map_err(|_| HelloError::Timeout)??;
    let Version { trunkline } = parse(&line)?;
    if trunkline != PROTOCOL {
        return Err(HelloError::Version(trunkline));
    }
    parse(&line)
}

/// The first line of a client of a gateway.
#[derive(Debug)]
pub enum FirstLine {
    /// What it wants.
    Hello(Hello),
    /// A message of MCP, with its line feed: a client that knows nothing of this protocol.
    Message(Vec<u8>),
}

/// Reads the first line of a client that may speak MCP from the start.
pub async fn read_first_line(
    reader: &mut (impl AsyncBufRead + Unpin),
) -> Result<FirstLine, HelloError> {
    let mut line = timeout(HELLO_TIMEOUT, read_line(reader))
        .await
        .map_err(|_| HelloError::Timeout)??;
    if parse::<Message>(&line).is_ok() {
        line.push(b'\n');
        return Ok(FirstLine::Message(line));
    }
    let Version { trunkline } = parse(&line)?;
    if trunkline != PROTOCOL {
        return Err(HelloError::Version(trunkline));
    }
    parse(&line).map(FirstLine::Hello)
}

/// Reads the answer to a first line.
pub async fn read_reply<T: DeserializeOwned>(
    reader: &mut (impl AsyncBufRead + Unpin),
) -> Result<T, HelloError> {
    let line = timeout(REPLY_TIMEOUT, read_line(reader))
        .await
        .map_err(|_| HelloError::Timeout)??;
    parse(&line)
}

/// Writes one line of JSON.
pub async fn write_line(
    writer: &mut (impl AsyncWrite + Unpin),
    line: &impl Serialize,
) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    let written = async {
        writer.write_all(&text).await?;
        writer.flush().await
    };
    timeout(HELLO_TIMEOUT, written)
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T, HelloError> {
    serde_json::from_slice(line).map_err(|_| HelloError::Invalid)
}

/// Reads up to a line feed, and nothing beyond it from the reader.
async fn read_line(reader: &mut (impl AsyncBufRead + Unpin)) -> Result<Vec<u8>, HelloError> {
    let mut line = Vec::new();
    loop {
        let available = reader.fill_buf().await?;
        if available.is_empty() {
            return Err(HelloError::Closed);
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(available.len());
        if line.len() + taken > MAX_HELLO_BYTES {
            return Err(HelloError::TooLong);
        }
        line.extend_from_slice(&available[..taken]);
        reader.consume(taken + usize::from(end.is_some()));
        if end.is_some() {
            return Ok(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, BufReader};

    use super::*;

    fn server() -> SharedServer {
        SharedServer {
            name: "s".to_owned(),
            project: "/p".into(),
            command: "c".to_owned(),
            args: vec!["--token=hunter2".to_owned()],
            env: BTreeMap::from([("T".to_owned(), "hunter2".to_owned())]),
            cwd: None,
            path: None,
            legacy_only: false,
        }
    }

    fn hello() -> Hello {
        let environment = BTreeMap::from([("S".to_owned(), "hunter2".to_owned())]);
        Hello::new(Purpose::Server {
            server: Box::new(server()),
            environment: ClientEnvironment(environment),
        })
    }

    #[tokio::test]
    async fn a_hello_is_read_and_nothing_beyond_it() {
        let hello = hello();
        let mut text = serde_json::to_vec(&hello).unwrap();
        text.extend(b"\n{\"jsonrpc\"");
        let mut reader = BufReader::with_capacity(7, &text[..]);
        let read = read_hello(&mut reader).await.unwrap();
        assert!(matches!(read.purpose, Purpose::Server { server: read, .. } if *read == server()));
        let mut rest = String::new();
        reader.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "{\"jsonrpc\"");
    }

    #[tokio::test(start_paused = true)]
    async fn a_hostile_hello_is_refused() {
        let long = vec![b'x'; MAX_HELLO_BYTES + 2];
        let cases: [(&[u8], &str); 7] = [
            (b"", "the connection ended within"),
            (b"{\"trunkline\":1", "the connection ended within"),
            (b"GET / HTTP/1.1\r\n", "is not valid"),
            (b"\xff\xfe\x00\n", "is not valid"),
            (b"{\"trunkline\":2,\"purpose\":\"x\"}\n", "is of version 2"),
            (
                b"{\"trunkline\":1,\"version\":\"1\",\"purpose\":\"x\"}\n",
                "is not valid",
            ),
            (&long, "is longer than"),
        ];
        for (text, expected) in cases {
            let error = read_hello(&mut BufReader::new(text)).await.unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
        // It never finishes.
        let (_client, ours) = tokio::io::duplex(64);
        let error = read_hello(&mut BufReader::new(ours)).await.unwrap_err();
        assert!(matches!(error, HelloError::Timeout), "{error}");
    }

    #[test]
    fn no_value_of_a_server_is_printed() {
        let text = format!("{:?}", hello());
        assert!(!text.contains("hunter2"), "{text}");
    }
}
