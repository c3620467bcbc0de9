//! Names that lead into the private network, at once or later (AUTH-11).

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failure here is a failed test"
)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::World;
use serde_json::json;
use trunkline_auth::{
    Auth, AuthError, AuthErrorKind, Challenge, HttpClient, HttpRequest, HttpResponse, Reach,
    ServerAuth, ServerConfig, TransportClient,
};
use trunkline_testkit::net::{OAuthOptions, RawHttp};
use trunkline_transport::http::BoxFuture;
use trunkline_transport::net::Dialer;
use url::Url;

/// A public server, by its name.
const PUBLIC: &str = "https://mcp.example";

/// The internet as a public server sees it: `mcp.example` is the test issuer, `private.example`
/// resolves to this machine, and `rebound.example` does so after its first `public_dials` dials.
struct Internet {
    client: TransportClient,
    issuer: Url,
    private_port: u16,
    public_dials: AtomicUsize,
}

impl Internet {
    fn route(&self, mut request: HttpRequest) -> HttpRequest {
        let is_public = match request.url.host_str() {
            Some("mcp.example") => true,
            Some("rebound.example") => {
                let left = |dials: usize| dials.checked_sub(1);
                let update =
                    self.public_dials
                        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
                update.is_ok()
            }
            _ => false,
        };
        let (path, query) = (request.url.path(), request.url.query());
        let (mut url, port) = if is_public {
            request.reach = Reach::Loopback;
            (self.issuer.clone(), self.issuer.port())
        } else {
            // The dialer resolves this name, and asks the guard about its address.
            let url = Url::parse("http://localhost").unwrap();
            (url, Some(self.private_port))
        };
        url.set_port(port).unwrap();
        url.set_path(path);
        url.set_query(query);
        request.url = url;
        request
    }
}

impl HttpClient for Internet {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, AuthError>> {
        let request = self.route(request);
        self.client.send(request)
    }

    fn reach<'a>(&'a self, _: &'a Url) -> BoxFuture<'a, Reach> {
        Box::pin(std::future::ready(Reach::Public))
    }
}

/// A public server with its issuer, and a private one.
struct Net {
    world: World,
    private: RawHttp,
}

impl Net {
    fn new() -> Self {
        let world = World::new();
        world.issuer.configure(|options| {
            options.resource_claim = Some(format!("{PUBLIC}/mcp"));
            name_issuer(options, PUBLIC);
        });
        let private = RawHttp::start(|_, reply| _ = reply.status(200));
        Self { world, private }
    }

    fn server(&self, public_dials: usize) -> Arc<ServerAuth> {
        let internet = Internet {
            client: TransportClient::new(Dialer::with_vars(|_| None)),
            issuer: self.world.issuer.issuer().parse().unwrap(),
            private_port: self.private.port(),
            public_dials: AtomicUsize::new(public_dials),
        };
        let folder = self.world.folder.path();
        let auth = Auth::builder(self.world.vault(), folder.join("auth"), Arc::new(internet));
        let url = format!("{PUBLIC}/mcp").parse().unwrap();
        auth.build().server(ServerConfig::new("test", url))
    }

    /// Signs in as far as it goes.
    async fn sign_in(&self, server: &ServerAuth) -> Result<(), AuthError> {
        let login = server.start_login().await?;
        let (_, request) = login.url().as_str().split_once("/authorize").unwrap();
        let url = format!("{}/authorize{request}", self.world.issuer.issuer());
        let redirect = self.world.issuer.authorize(&url);
        login.finish(&redirect).await.map(drop)
    }

    #[track_caller]
    fn assert_refused(&self, name: &str, outcome: Result<(), AuthError>) {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), AuthErrorKind::Refused, "{name}: {error}");
        assert_eq!(self.private.connections(), 0, "{name}");
    }
}

/// Gives the issuer and its endpoints this base URL.
fn name_issuer(options: &mut OAuthOptions, base: &str) {
    options.authorization_servers = Some(vec![base.to_owned()]);
    options.issuer_claim = Some(base.to_owned());
    options.redirect_issuer = Some(base.to_owned());
    for (member, path) in [
        ("authorization_endpoint", "/authorize"),
        ("token_endpoint", "/token"),
        ("registration_endpoint", "/register"),
        ("revocation_endpoint", "/revoke"),
        ("device_authorization_endpoint", "/device"),
    ] {
        options.set_metadata(member, json!(format!("{base}{path}")));
    }
}

#[tokio::test]
async fn a_public_server_and_its_issuer_are_used() {
    let net = Net::new();
    net.sign_in(&net.server(0)).await.unwrap();
}

#[tokio::test]
async fn a_name_that_resolves_to_a_private_address_is_not_dialled() {
    type Change = fn(&mut OAuthOptions);
    let cases: [(&str, Change); 4] = [
        ("issuer", |o| {
            o.authorization_servers = Some(vec!["https://private.example".into()]);
        }),
        ("registration", |o| {
            o.set_metadata(
                "registration_endpoint",
                json!("https://private.example/register"),
            );
        }),
        ("token", |o| {
            o.set_metadata("token_endpoint", json!("https://private.example/token"));
        }),
        ("all", |o| name_issuer(o, "https://private.example")),
    ];
    for (name, change) in cases {
        let net = Net::new();
        net.world.issuer.configure(change);
        let outcome = net.sign_in(&net.server(0)).await;
        net.assert_refused(name, outcome);
    }
}

#[tokio::test]
async fn a_challenge_that_names_a_private_host_is_not_followed() {
    let net = Net::new();
    let server = net.server(0);
    let header = "Bearer resource_metadata=\"https://private.example/metadata\"";
    server.set_challenge(Challenge::parse(header).unwrap());
    let outcome = net.sign_in(&server).await;
    net.assert_refused("challenge", outcome);
}

#[tokio::test]
async fn a_device_sign_in_is_not_sent_to_a_private_host() {
    let net = Net::new();
    net.world.issuer.configure(|options| {
        let endpoint = json!("https://private.example/device");
        options.set_metadata("device_authorization_endpoint", endpoint);
    });
    let outcome = net.server(0).start_device_login().await.map(drop);
    net.assert_refused("device", outcome);
}

/// The metadata comes from a public address, and what follows would go to a private one.
#[tokio::test]
async fn a_name_that_changes_its_address_is_checked_each_time() {
    let net = Net::new();
    let base = "https://rebound.example";
    net.world
        .issuer
        .configure(|options| name_issuer(options, base));
    // The metadata, the registration and the tokens are a dial each.
    for dials in 0..3 {
        let server = net.server(dials);
        let outcome = net.sign_in(&server).await;
        net.assert_refused(&format!("after {dials}"), outcome);
        server.logout().await.unwrap();
    }
    let server = net.server(3);
    net.sign_in(&server).await.unwrap();
    // A later request, here to revoke the tokens, is checked as well.
    let logout = server.logout().await.unwrap();
    let trunkline_auth::Revocation::Failed(error) = logout.revocation else {
        panic!("{logout:?}");
    };
    net.assert_refused("revocation", Err(error));
}

/// Tokens are opaque to a client, so its keys are not needed.
#[tokio::test]
async fn the_keys_of_an_issuer_are_not_fetched() {
    let net = Net::new();
    let uri = net.private.url_of("/jwks");
    net.world
        .issuer
        .configure(|options| options.set_metadata("jwks_uri", json!(uri)));
    net.sign_in(&net.server(0)).await.unwrap();
    assert_eq!(net.private.connections(), 0);
}
