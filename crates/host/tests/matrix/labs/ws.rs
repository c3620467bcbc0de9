//! WebSocket, alone and as an IDE.

use std::collections::BTreeMap;

use trunkline::ServerEntry;
use trunkline::config::TransportEntry;
use trunkline::server::Era;
use trunkline_config::{IdeEntry, Secret, ServerUrl, TlsEntry, WsEntry};
use trunkline_testkit::Script;
use trunkline_testkit::net::WsServer;

use super::net::Kind;

pub(crate) struct Ws;

impl Kind for Ws {
    type Server = WsServer;
    const ERA: Era = Era::Modern;

    fn serve(script: Script) -> WsServer {
        WsServer::start(script)
    }

    fn entry(url: String) -> ServerEntry {
        let ws = WsEntry {
            url: ServerUrl::new(url),
            headers: BTreeMap::new(),
            headers_helper: None,
            tls: TlsEntry::default(),
        };
        ServerEntry::new("s", TransportEntry::Ws(ws))
    }
}

pub(crate) struct WsIde;

impl Kind for WsIde {
    type Server = WsServer;
    const ERA: Era = Era::Modern;

    fn serve(script: Script) -> WsServer {
        WsServer::start(script)
    }

    fn entry(url: String) -> ServerEntry {
        let ide = IdeEntry {
            websocket: true,
            url: ServerUrl::new(url),
            auth_token: Some(Secret::new("sesame")),
            ide_name: Some("matrix".to_owned()),
        };
        ServerEntry::new("s", TransportEntry::Ide(ide))
    }
}
