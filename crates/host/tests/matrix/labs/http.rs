//! Streamable HTTP, in both eras.

use trunkline::ServerEntry;
use trunkline::config::TransportEntry;
use trunkline::server::Era;
use trunkline_config::{HttpEntry, HttpFlavour};
use trunkline_testkit::Script;
use trunkline_testkit::net::{Answers, HttpServer};

use super::net::Kind;
use crate::lab::Garbage;

fn entry(url: String) -> ServerEntry {
    let http = HttpEntry::new(HttpFlavour::Streamable, url);
    ServerEntry::new("s", TransportEntry::Http(http))
}

/// Sessions, with responses as JSON bodies.
pub(crate) struct LegacyJson;

impl Kind for LegacyJson {
    type Server = HttpServer;
    const ERA: Era = Era::Legacy;
    const GARBAGE: Garbage = Garbage::EndsTheCall;

    fn serve(script: Script) -> HttpServer {
        let script = script.era(trunkline_testkit::Era::Legacy);
        HttpServer::builder(script).answers(Answers::Json).start()
    }

    fn entry(url: String) -> ServerEntry {
        entry(url)
    }
}

/// Sessions, with responses as event streams.
pub(crate) struct LegacySse;

impl Kind for LegacySse {
    type Server = HttpServer;
    const ERA: Era = Era::Legacy;

    fn serve(script: Script) -> HttpServer {
        let script = script.era(trunkline_testkit::Era::Legacy);
        HttpServer::builder(script).answers(Answers::Sse).start()
    }

    fn entry(url: String) -> ServerEntry {
        entry(url)
    }
}

/// No sessions.
pub(crate) struct Modern;

impl Kind for Modern {
    type Server = HttpServer;
    const ERA: Era = Era::Modern;

    fn serve(script: Script) -> HttpServer {
        HttpServer::builder(script).answers(Answers::Sse).start()
    }

    fn entry(url: String) -> ServerEntry {
        entry(url)
    }
}
