//! HTTP+SSE, alone and as an IDE.

use trunkline::ServerEntry;
use trunkline::config::TransportEntry;
use trunkline::server::Era;
use trunkline_config::{HttpEntry, HttpFlavour, IdeEntry, ServerUrl};
use trunkline_testkit::Script;
use trunkline_testkit::net::SseServer;

use super::net::Kind;

pub(crate) struct Sse;

impl Kind for Sse {
    type Server = SseServer;
    const ERA: Era = Era::Legacy;

    fn serve(script: Script) -> SseServer {
        SseServer::start(script.era(trunkline_testkit::Era::Legacy))
    }

    fn entry(url: String) -> ServerEntry {
        let http = HttpEntry::new(HttpFlavour::Sse, url);
        ServerEntry::new("s", TransportEntry::Http(http))
    }
}

pub(crate) struct SseIde;

impl Kind for SseIde {
    type Server = SseServer;
    const ERA: Era = Era::Legacy;

    fn serve(script: Script) -> SseServer {
        Sse::serve(script)
    }

    fn entry(url: String) -> ServerEntry {
        let ide = IdeEntry {
            websocket: false,
            url: ServerUrl::new(url),
            auth_token: None,
            ide_name: Some("matrix".to_owned()),
        };
        ServerEntry::new("s", TransportEntry::Ide(ide))
    }
}
