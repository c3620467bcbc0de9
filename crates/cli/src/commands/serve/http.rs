//! `trunkline serve --http`: clients over HTTP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use trunkline_gateway::Gateway;
use trunkline_gateway::http::{HttpOptions, HttpServer, OAuthOptions, TlsIdentity};
use trunkline_gateway::store::{Rate, Sqlite, Stores};
use url::Url;

use crate::exit::Exit;
use crate::interrupt::interrupted;
use crate::output::{self, Line, Style};
use crate::session;

/// Options of the HTTP endpoint.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "HTTP")]
pub(crate) struct HttpArgs {
    /// Listen on this port or address instead of stdin, for any number of clients
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(crate) http: Option<SocketAddr>,

    /// Require a bearer token on loopback too
    #[arg(long, requires = "http")]
    require_token: bool,

    /// Accept this host name in requests, besides addresses and localhost (repeatable)
    #[arg(long, value_name = "NAME", requires = "http")]
    allow_host: Vec<String>,

    /// Accept requests of pages of this origin (repeatable)
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    allow_origin: Vec<String>,

    /// Serve TLS with this certificate, a PEM file with its chain
    #[arg(long, value_name = "FILE", requires_all = ["http", "tls_key"])]
    tls_cert: Option<PathBuf>,

    /// The private key of the certificate, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Accept access tokens of this OAuth issuer
    #[arg(long, value_name = "URL", requires_all = ["http", "resource"], value_parser = web_url)]
    issuer: Option<Url>,

    /// The URL of this endpoint as clients see it, which is the audience of access tokens
    #[arg(long, value_name = "URL", requires = "issuer", value_parser = web_url)]
    resource: Option<Url>,

    /// A scope that every access token must have (repeatable)
    #[arg(long, value_name = "SCOPE", requires = "issuer")]
    scope: Vec<String>,

    /// The keys of the issuer [default: as its metadata says]
    #[arg(long, value_name = "URL", requires = "issuer", value_parser = web_url)]
    jwks: Option<Url>,

    /// The requests per second of one client, after a burst of five times as many [default: 100
    /// off loopback, unlimited on it]
    #[arg(long, value_name = "N", requires = "http", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,

    /// The requests of one client at the same time [default: 1024]
    #[arg(long, value_name = "N", requires = "http", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: Option<u32>,

    /// The longest request in MB [default: 16]
    #[arg(long, value_name = "MB", requires = "http", value_parser = clap::value_parser!(u32).range(1..=64))]
    max_request: Option<u32>,

    /// End sessions that nobody has used for this many minutes [default: 30]
    #[arg(long, value_name = "MIN", requires = "http", value_parser = clap::value_parser!(u32).range(1..))]
    session_idle: Option<u32>,

    /// Keep events and rates on disk too, so that streams resume after a restart
    #[arg(long, requires = "http")]
    durable: bool,
}

/// Reads a port, or an address with a port. A port alone is one of loopback.
fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    if let Some(port) = text.strip_prefix("localhost:")
        && let Ok(port) = port.parse()
    {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let expected = "expected a port such as 8080, or an address such as 127.0.0.1:8080";
    text.parse().map_err(|_| match text.parse::<IpAddr>() {
        Ok(_) => format!("{expected}: the port is missing"),
        Err(_) => expected.to_owned(),
    })
}

fn web_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        _ => Err("expected an http or https URL".to_owned()),
    }
}

impl HttpArgs {
    fn options(&self, address: SocketAddr, profile: Option<&str>) -> HttpOptions {
        let mut options = HttpOptions::new(address);
        options.hosts.clone_from(&self.allow_host);
        options.origins.clone_from(&self.allow_origin);
        options.require_token = self.require_token;
        if let (Some(certificates), Some(key)) = (&self.tls_cert, &self.tls_key) {
            options.tls = Some(TlsIdentity {
                certificates: certificates.clone(),
                key: key.clone(),
            });
        }
        if let (Some(issuer), Some(resource)) = (&self.issuer, &self.resource) {
            options.oauth = Some(OAuthOptions {
                issuer: issuer.clone(),
                resource: resource.clone(),
                scopes: self.scope.clone(),
                jwks: self.jwks.clone(),
                profile: profile.map(str::to_owned),
            });
        }
        let limits = &mut options.limits;
        if let Some(rate) = self.rate {
            limits.rate = Some(Rate {
                per_second: f64::from(rate),
                burst: f64::from(rate) * 5.0,
            });
        }
        if let Some(concurrency) = self.concurrency {
            limits.requests_per_client = concurrency as usize;
        }
        if let Some(megabytes) = self.max_request {
            limits.body_bytes = megabytes as usize * 1024 * 1024;
        }
        if let Some(minutes) = self.session_idle {
            limits.session_idle = Duration::from_mins(u64::from(minutes));
        }
        options
    }
}

/// Serves clients until the program is interrupted, then lets their calls end.
pub(super) async fn serve(
    gateway: &Gateway,
    http: &HttpArgs,
    address: SocketAddr,
    profile: Option<&str>,
    as_json: bool,
) -> Exit {
    let options = http.options(address, profile);
    let stores = match stores(http.durable).await {
        Ok(stores) => stores,
        Err(problem) => {
            output::error(&problem, None);
            return Exit::Usage;
        }
    };
    warn(&options, &stores).await;
    let server = match HttpServer::bind(gateway.clone(), stores, options).await {
        Ok(server) => server,
        Err(error) => {
            let hint = matches!(error, trunkline_gateway::http::HttpError::Bind { .. });
            let hint = hint.then_some("choose another port, or 0 for a free one");
            output::error(&error.to_string(), hint);
            return Exit::Usage;
        }
    };
    if as_json {
        output::json_line(&serde_json::json!({"url": server.url()}));
    } else {
        output::note(Line::of(
            Style::Plain,
            format_args!("listening on {}", server.url()),
        ));
    }
    server.run(interrupted()).await;
    Exit::Interrupted
}

/// Warns of what is probably not meant.
async fn warn(options: &HttpOptions, stores: &Stores) {
    if options.address.ip().is_loopback() {
        return;
    }
    if options.tls.is_none() {
        output::warning(
            "without --tls-cert, tokens and results cross the network unencrypted; a reverse \
             proxy with TLS is fine",
        );
    }
    let tokens = stores.tokens.list().await;
    if options.oauth.is_none() && tokens.is_ok_and(|tokens| tokens.is_empty()) {
        output::warning(
            "no client can connect: there is no token yet; create one with `trunkline serve token \
             create NAME`",
        );
    }
}

/// Opens the gateway's database.
pub(super) async fn database() -> Result<Arc<Sqlite>, String> {
    let Some(directory) = session::state_dir() else {
        return Err("there is no home directory to keep tokens in".to_owned());
    };
    let open = move || Sqlite::open(&database_file(&directory));
    let opened = tokio::task::spawn_blocking(open).await;
    match opened {
        Ok(Ok(database)) => Ok(Arc::new(database)),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the gateway's database cannot be opened".to_owned()),
    }
}

fn database_file(directory: &Path) -> PathBuf {
    directory.join("gateway.db")
}

async fn stores(durable: bool) -> Result<Stores, String> {
    let database = database().await?;
    Ok(if durable {
        Stores::durable(&database)
    } else {
        Stores::on_disk(&database)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_port_of_loopback_or_complete() {
        for (text, expected) in [
            ("8080", Some("127.0.0.1:8080")),
            ("0", Some("127.0.0.1:0")),
            ("localhost:9", Some("127.0.0.1:9")),
            ("0.0.0.0:8080", Some("0.0.0.0:8080")),
            ("[::1]:8080", Some("[::1]:8080")),
            ("127.0.0.1", None),
            ("99999", None),
            ("example.com:80", None),
            ("", None),
        ] {
            let expected = expected.map(|text| text.parse().unwrap());
            assert_eq!(address(text).ok(), expected, "{text}");
        }
    }
}
