//! Network servers as processes, so that they can be killed.

use std::{fs, path::PathBuf, thread};

use super::{Answers, HttpServer, SseServer, WsServer};
use crate::{Script, scripted};

/// Options of `testkit-server --listen`.
#[derive(Clone, Debug, Default)]
pub struct Listen {
    /// `http`, `sse` or `ws`.
    pub transport: String,
    /// The file that the URL is written to, atomically, once it listens.
    pub port_file: Option<PathBuf>,
    /// The port; a free one for 0.
    pub port: u16,
    /// The form of responses (`http` only).
    pub answers: Answers,
    /// Whether legacy clients get no session (`http` only).
    pub no_sessions: bool,
}

impl Listen {
    /// Serves a script until the process ends; writes the URL to stdout once it listens.
    #[expect(clippy::print_stdout, reason = "whoever starts it reads the URL")]
    pub fn serve(self, script: Script) -> Result<(), String> {
        let url;
        // Kept until the process exits.
        let _server: Box<dyn std::any::Any>;
        match self.transport.as_str() {
            "http" => {
                let server = HttpServer::builder(script)
                    .answers(self.answers)
                    .sessions(!self.no_sessions)
                    .port(self.port)
                    .process()
                    .start();
                url = server.url();
                _server = Box::new(server);
            }
            "sse" => {
                let server = SseServer::builder(script).port(self.port).process().start();
                url = server.url();
                _server = Box::new(server);
            }
            "ws" => {
                let server = WsServer::builder(script).port(self.port).process().start();
                url = server.url();
                _server = Box::new(server);
            }
            other => return Err(format!("no transport {other}: http, sse or ws")),
        }
        if let Some(path) = &self.port_file {
            let part = path.with_extension("part");
            fs::write(&part, &url)
                .and_then(|()| fs::rename(&part, path))
                .map_err(|e| format!("{}: {e}", path.display()))?;
        }
        println!("{url}");
        loop {
            thread::sleep(scripted::LINGER);
        }
    }
}
