//! Signs in to the suite's server whenever it asks for that, in the way that the context allows.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use trunkline::Host;
use trunkline::auth::{
    Auth, AuthErrorKind, Grant, IdpConfig, Secret, ServerConfig, SigningKey, TransportClient, Vault,
};
use trunkline::server::State;
use trunkline::transport::Dialer;

use crate::{SERVER, browser};

/// The URL of our Client ID Metadata Document, as the suite expects it.
const CLIENT_METADATA_URL: &str = "https://conformance-test.local/client-metadata.json";

/// The most sign-ins of one run: a server that refuses what it asked for is left alone.
const MAX_SIGN_INS: usize = 3;

/// The credentials in the scenario's context. Names are the suite's.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Context {
    pub(crate) client_id: Option<String>,
    client_secret: Option<Secret>,
    private_key_pem: Option<Secret>,
    idp_client_id: Option<String>,
    idp_id_token: Option<Secret>,
    idp_issuer: Option<String>,
    /// The assertion of a workload.
    valid_jwt: Option<Secret>,
}

impl Context {
    /// Returns how to get tokens.
    pub(crate) fn grant(&self, auth: &Auth) -> Result<Grant, String> {
        if let Some(pem) = &self.private_key_pem {
            let key = SigningKey::from_pem(pem).map_err(|error| error.to_string())?;
            let key = Some(Arc::new(key));
            return Ok(Grant::ClientCredentials { key });
        }
        if let Some(assertion) = self.valid_jwt.clone() {
            return Ok(Grant::Workload(Arc::new(move |_: &str| {
                Ok(assertion.clone())
            })));
        }
        let (Some(issuer), Some(client), Some(id_token)) =
            (&self.idp_issuer, &self.idp_client_id, &self.idp_id_token)
        else {
            return Ok(Grant::User);
        };
        let id_token = id_token.clone();
        let idp = IdpConfig::new(issuer, client)
            .map_err(|error| format!("{issuer}: {error}"))?
            .id_tokens(move |_: &str| Ok(id_token.clone()));
        Ok(Grant::Enterprise(auth.idp(idp)))
    }

    /// Completes the settings of the server.
    pub(crate) fn configure(&self, grant: &Grant, config: ServerConfig) -> ServerConfig {
        let config = config.grant(grant.clone());
        match &self.client_secret {
            Some(secret) => config.client_secret(secret.clone()),
            None => config,
        }
    }
}

/// Creates the sign-ins of a new user, with all files in `folder`.
pub(crate) fn auth(folder: &Path) -> Result<Auth, String> {
    let vault = Arc::new(Vault::without_keychain(folder.join("secrets.json")));
    let http = Arc::new(TransportClient::new(Dialer::from_env()));
    let document = CLIENT_METADATA_URL.parse();
    let document = document.map_err(|error| format!("{CLIENT_METADATA_URL}: {error}"))?;
    let builder = Auth::builder(vault, folder.join("auth"), http);
    Ok(builder.client_metadata_url(document).build())
}

/// The sign-ins of one run.
pub(crate) struct SignIns<'h> {
    host: &'h Host,
    left: usize,
}

/// Why a run ended early.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The authorization server does not sign in users.
    NoUsers(String),
    /// Anything else.
    Other(String),
}

impl From<String> for Failure {
    fn from(problem: String) -> Self {
        Self::Other(problem)
    }
}

impl<'h> SignIns<'h> {
    pub(crate) fn new(host: &'h Host) -> Self {
        let left = MAX_SIGN_INS;
        Self { host, left }
    }

    /// Connects, with as many sign-ins as the server asks for.
    pub(crate) async fn connect(&mut self) -> Result<(), Failure> {
        self.host.ready().await;
        while self.sign_in().await? {}
        Ok(())
    }

    /// Signs in and reconnects, if the server asks for a sign-in. Returns whether it did.
    pub(crate) async fn sign_in(&mut self) -> Result<bool, Failure> {
        let status = self.host.server(SERVER);
        let status = status.ok_or_else(|| "the server is gone".to_owned())?;
        let server = self.host.server_auth(SERVER);
        let server = server.ok_or_else(|| "the server takes no sign-in".to_owned())?;
        let demand = server.sign_in_demand();
        if demand.is_none() && !matches!(status.state, State::NeedsAuth(_)) {
            return Ok(false);
        }
        if let Some(demand) = &demand {
            println!("{}", demand.message);
        }
        if self.left == 0 {
            return Err(Failure::Other("the server asks too often".to_owned()));
        }
        self.left -= 1;
        let login = server.start_login().await.map_err(|error| {
            let text = format!("could not start a sign-in: {error}");
            match error.kind() {
                AuthErrorKind::UnsupportedGrant => Failure::NoUsers(text),
                _ => Failure::Other(text),
            }
        })?;
        if let Err(problem) = browser::visit(login.url().as_str()).await {
            login.cancel();
            return Err(Failure::Other(problem));
        }
        let account = login.wait().await.map_err(|error| error.to_string())?;
        println!(
            "signed in at {} with [{}]",
            account.issuer,
            account.scopes.join(" ")
        );
        let reconnected = self.host.reconnect(SERVER).await;
        reconnected.map_err(|error| error.to_string())?;
        self.host.ready().await;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(context: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let context: Context = serde_json::from_str(context).unwrap();
        let grant = context.grant(&auth(folder.path()).unwrap());
        grant.map_or_else(|error| error, |grant| format!("{grant:?}"))
    }

    #[test]
    fn the_context_decides_how_to_sign_in() {
        let idp = r#"{"client_id": "c", "idp_issuer": "https://idp.example",
            "idp_client_id": "i", "idp_id_token": "t"}"#;
        for (context, expected) in [
            ("{}", "User"),
            (r#"{"client_id": "c", "client_secret": "s"}"#, "User"),
            (r#"{"client_id": "c", "valid_jwt": "t"}"#, "Workload"),
            (idp, "Enterprise"),
        ] {
            assert_eq!(grant(context), expected, "{context}");
        }
        let no_key = grant(r#"{"client_id": "c", "private_key_pem": "nonsense"}"#);
        assert!(no_key.contains("private key"), "{no_key}");
    }
}
