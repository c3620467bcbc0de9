//! A claude.ai connector behind its proxy, which refuses the first token.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use trunkline::auth::{AfterRefusal, BoxFuture, Credentials, CredentialsError, Refusal, Token};
use trunkline::config::{Layout, Loader};
use trunkline::connectors::{Connector, ConnectorList, Connectors, ConnectorsError};
use trunkline::server::Era;
use trunkline::{HostBuilder, ServerEntry};
use trunkline_testkit::net::{Answers, HttpServer};
use trunkline_testkit::{Scratch, Script};

use super::net::Kind;
use crate::lab;

pub(crate) struct ClaudeAi;

impl Kind for ClaudeAi {
    type Server = HttpServer;
    const NAME: &'static str = "claude.ai Matrix";
    const ERA: Era = Era::Modern;

    fn serve(script: Script) -> HttpServer {
        let server = HttpServer::builder(script).token("renewed");
        server.answers(Answers::Sse).start()
    }

    fn entry(_: String) -> ServerEntry {
        unreachable!("connectors come from the account's list")
    }

    fn host(scratch: &Scratch, url: String) -> HostBuilder {
        let mut layout = Layout::under(scratch.home());
        layout.managed_dir = scratch.join("etc");
        let cwd = scratch.join("project");
        std::fs::create_dir_all(&cwd).unwrap();
        let account = Account {
            proxy_url: url,
            token: Arc::default(),
        };
        lab::builder()
            .loader(Loader::new(layout, &cwd))
            .connectors(account)
    }
}

/// An account with one connector.
struct Account {
    proxy_url: String,
    token: Arc<Renewable>,
}

impl Connectors for Account {
    fn list(&self) -> BoxFuture<'_, Result<ConnectorList, ConnectorsError>> {
        let proxy_url = &*self.proxy_url;
        let connector = Connector::new("mcpsrv_1", "Matrix", "https://mcp.example/", proxy_url);
        let list = ConnectorList::from(vec![connector]);
        Box::pin(async move { Ok(list) })
    }

    fn credentials(&self) -> Option<Arc<dyn Credentials>> {
        Some(self.token.clone())
    }
}

/// A token that is stale until refused once.
#[derive(Default)]
struct Renewable {
    renewed: AtomicBool,
}

impl Renewable {
    fn now(&self) -> Option<Token> {
        let renewed = self.renewed.load(Ordering::SeqCst);
        Token::bearer(if renewed { "renewed" } else { "stale" })
    }
}

impl Credentials for Renewable {
    fn token(&self) -> BoxFuture<'_, Result<Option<Token>, CredentialsError>> {
        Box::pin(async { Ok(self.now()) })
    }

    fn refused(&self, refusal: Refusal) -> BoxFuture<'_, AfterRefusal> {
        assert!(refusal.sent.is_some(), "{refusal:?}");
        let stale = refusal.sent == Token::bearer("stale");
        self.renewed.store(true, Ordering::SeqCst);
        let what_next = if stale {
            AfterRefusal::Retry
        } else {
            AfterRefusal::GiveUp
        };
        Box::pin(async move { what_next })
    }
}
