//! Shared by all network labs: a server behind a proxy that can fail.

use std::net::SocketAddr;

use trunkline::server::Era;
use trunkline::{HostBuilder, ServerEntry};
use trunkline_testkit::net::{
    Direction, Fault, FaultProxy, HttpServer, RawHttp, SseServer, WsServer,
};
use trunkline_testkit::{Scratch, Script};

use crate::lab::{self, Garbage, Lab};

/// A server of the testkit.
pub(crate) trait Server {
    fn address(&self) -> SocketAddr;
    fn url(&self) -> String;
    fn stop(&self);
    fn restart(&self);
    fn open_connections(&self) -> usize;
    fn clear_requests(&self);
}

/// A transport on the network.
pub(crate) trait Kind {
    type Server: Server;
    const NAME: &'static str = "s";
    const ERA: Era;
    const GARBAGE: Garbage = Garbage::Skipped;

    fn serve(script: Script) -> Self::Server;
    fn entry(url: String) -> ServerEntry;

    fn host(_: &Scratch, url: String) -> HostBuilder {
        lab::builder().server(Self::entry(url))
    }
}

/// A server on loopback, behind a proxy.
pub(crate) struct Net<K: Kind> {
    pub(crate) server: K::Server,
    pub(crate) proxy: FaultProxy,
    scratch: Scratch,
}

impl<K: Kind> Net<K> {
    /// Uses the test's own script.
    pub(crate) fn with(scratch: Scratch, script: Script) -> Self {
        let server = K::serve(script);
        let proxy = FaultProxy::to(server.address());
        Self {
            server,
            proxy,
            scratch,
        }
    }
}

impl<K: Kind> Lab for Net<K> {
    const SERVER: &'static str = K::NAME;
    const ERA: Era = K::ERA;
    const GARBAGE: Garbage = K::GARBAGE;

    fn start() -> Self {
        let scratch = Scratch::new();
        let script = lab::script(&scratch);
        Self::with(scratch, script)
    }

    fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    fn builder(&self) -> HostBuilder {
        K::host(&self.scratch, self.proxy.through(&self.server.url()))
    }

    fn crash(&self) {
        self.server.stop();
    }

    fn revive(&self) {
        self.server.restart();
    }

    fn cut(&self) {
        self.proxy.once(Fault::Cut);
    }

    fn slow(&self) {
        self.proxy.set(Fault::Slow(10));
    }

    fn stall(&self) {
        self.proxy.set(Fault::Stall(Direction::Both));
    }

    fn resume(&self) {
        self.proxy.set(Fault::Pass);
    }

    fn forget(&self) {
        self.server.clear_requests();
    }

    fn connections(&self) -> usize {
        self.proxy.open().max(self.server.open_connections())
    }
}

/// Implements the trait for testkit servers, which already have these methods.
macro_rules! server {
    ($($server:ty, $counts:ty;)*) => {
        $(impl Server for $server {
            fn address(&self) -> SocketAddr {
                <$counts>::address(self)
            }

            fn url(&self) -> String {
                <$server>::url(self)
            }

            fn stop(&self) {
                <$server>::stop(self);
            }

            fn restart(&self) {
                <$server>::restart(self);
            }

            fn open_connections(&self) -> usize {
                <$counts>::open_connections(self)
            }

            fn clear_requests(&self) {
                <$counts>::clear_requests(self);
            }
        })*
    };
}

server! {
    HttpServer, RawHttp;
    SseServer, RawHttp;
    WsServer, WsServer;
}
