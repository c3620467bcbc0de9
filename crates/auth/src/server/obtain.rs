//! Getting tokens: the steps that the sign-ins share, and the grants that need no user.

use std::sync::Arc;
use std::time::Duration;

use super::config::{Grant, Kind};
use super::{Inner, blocking};
use crate::Secret;
use crate::discovery::{self, Discovery, Pkce, is_same_issuer};
use crate::error::{AuthError, AuthErrorKind};
use crate::flow::{DpopKey, SigningKey, TokenEndpoint};
use crate::guard;
use crate::http::{Form, Requester};
use crate::needs_auth::seconds;
use crate::registration::{self, AuthMethod, Client, ClientSource, RegistrationPlan};
use crate::scopes::{ScopeSources, choose_scopes};
use crate::tokens::{Endpoints, Record, Tokens};

/// Time limit for the discovery. A server can name several issuers, each with several URLs.
const DISCOVERY_LIMIT: Duration = Duration::from_mins(1);

/// The grant type of assertions (RFC 7523).
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

impl Inner {
    /// Whether the user signs in here. The program may do it for an identity provider.
    pub(super) fn needs_user(&self) -> bool {
        let by_program = matches!(
            self.kind,
            Kind::Idp {
                id_tokens: Some(_),
                ..
            }
        );
        self.config.grant.needs_user() && !by_program
    }

    /// Finds the authorization server.
    pub(super) async fn discover(&self, http: &Requester) -> Result<Discovery, AuthError> {
        let found = tokio::time::timeout(DISCOVERY_LIMIT, self.find_issuer(http)).await;
        found.unwrap_or_else(|_| {
            let limit = DISCOVERY_LIMIT.as_secs();
            let text = format!("no authorization server responded within {limit} s");
            Err(AuthError::new(AuthErrorKind::Unavailable, text))
        })
    }

    async fn find_issuer(&self, http: &Requester) -> Result<Discovery, AuthError> {
        if let Kind::Idp { issuer, .. } = &self.kind {
            let mut issuer = discovery::issuer_metadata(http, issuer).await?;
            // OpenID Connect has no field that says so, and PKCE does no harm.
            if issuer.pkce == Pkce::Unsupported {
                issuer.pkce = Pkce::Assumed;
            }
            return Ok(Discovery {
                resource: None,
                resource_scopes: Vec::new(),
                wants_dpop: false,
                issuer,
            });
        }
        guard::check_confidential(&self.config.url, http.reach())?;
        let challenge = self.known_challenge().await;
        let metadata_url = self.config.oauth.auth_server_metadata_url.as_deref();
        let metadata_url = metadata_url
            .map(|url| guard::parse_url(url, "oauth.authServerMetadataUrl", http.reach()))
            .transpose()?;
        discovery::discover(
            http,
            &self.config.url,
            challenge.as_ref(),
            metadata_url.as_ref(),
        )
        .await
    }

    /// The challenge that this process or another one received.
    async fn known_challenge(&self) -> Option<crate::Challenge> {
        if let Some(challenge) = self.state().challenge.clone() {
            return Some(challenge);
        }
        let shared = Arc::clone(&self.shared);
        let key = self.identity.key().to_owned();
        let recalled = blocking(move || shared.needs_auth.recall(&key, shared.now()));
        recalled.await.ok().flatten()
    }

    /// The record for a sign-in at the issuer found: the stored one if it is of the same issuer.
    pub(super) fn record_for(
        &self,
        found: &Discovery,
        stored: Option<Record>,
    ) -> Result<Record, AuthError> {
        let issuer = &found.issuer;
        let fresh = || {
            Record::new(
                &self.config.name,
                self.config.url.as_str(),
                self.identity.account(),
                issuer,
                found.resource.clone(),
            )
        };
        let Some(mut stored) = stored else {
            return Ok(fresh());
        };
        if is_same_issuer(&stored.issuer, &issuer.issuer) {
            stored.issuer.clone_from(&issuer.issuer);
            stored.resource.clone_from(&found.resource);
            stored.endpoints = Endpoints::from(issuer);
            return Ok(stored);
        }
        let source = stored.client.as_ref().map(|client| client.source);
        if source == Some(ClientSource::Preregistered) {
            let text = format!(
                "the authorization server has changed from {} to {}, but `oauth.clientId` was \
                 used with the former; sign out first if the client is known to the latter",
                crate::error::foreign(&stored.issuer),
                crate::error::foreign(&issuer.issuer)
            );
            return Err(AuthError::new(AuthErrorKind::Settings, text));
        }
        Ok(fresh())
    }

    pub(super) fn scopes_for(&self, found: &Discovery, record: &Record) -> Vec<String> {
        let challenge = self.state().challenge.clone().unwrap_or_default();
        choose_scopes(ScopeSources {
            configured: self.config.oauth.scopes.as_deref(),
            challenged: &challenge.scopes,
            resource: &found.resource_scopes,
            issuer: &found.issuer.scopes,
            previous: &record.requested_scopes,
        })
    }

    /// The client for an issuer, registered if necessary.
    pub(super) async fn client_for(
        &self,
        http: &Requester,
        found: &Discovery,
        known: Option<&Client>,
        redirect_uri: Option<&str>,
        scopes: &[String],
    ) -> Result<Client, AuthError> {
        let issuer = &found.issuer;
        let document = self.shared.client_metadata_url.as_ref();
        match registration::plan(self.config.oauth.client_id.as_deref(), document, issuer)? {
            RegistrationPlan::Preregistered(id) => {
                let secret = self.client_secret().await?;
                Ok(Client::preregistered(id, secret, issuer))
            }
            RegistrationPlan::MetadataDocument(url) => Ok(Client {
                id: url.into(),
                secret: None,
                secret_expires_at: None,
                auth_method: AuthMethod::None,
                source: ClientSource::MetadataDocument,
                redirect_uri: redirect_uri.map(str::to_owned),
            }),
            RegistrationPlan::Dynamic(endpoint) => {
                let now = self.now();
                let usable = |client: &&Client| {
                    client.source == ClientSource::Dynamic
                        && client.is_valid_at(now)
                        && (redirect_uri.is_none()
                            || client.redirect_uri.as_deref() == redirect_uri)
                };
                if let Some(client) = known.filter(usable) {
                    return Ok(client.clone());
                }
                registration::register(http, &endpoint, issuer, redirect_uri, scopes).await
            }
        }
    }

    pub(super) async fn client_secret(&self) -> Result<Option<Secret>, AuthError> {
        if let Some(secret) = &self.config.client_secret {
            return Ok(Some(secret.clone()));
        }
        let store = self.store().clone();
        if let Kind::Idp { issuer, .. } = &self.kind {
            let issuer = issuer.clone();
            return Ok(blocking(move || store.vault().idp_secret(&issuer)).await??);
        }
        let (name, url) = (self.config.name.clone(), self.config.url.clone());
        let metadata_url = self.config.oauth.auth_server_metadata_url.clone();
        let read = move || {
            let metadata_url = metadata_url.as_deref();
            store
                .vault()
                .client_secret(&name, url.as_str(), metadata_url)
        };
        Ok(blocking(read).await??)
    }

    /// Gets tokens without the user.
    pub(super) async fn obtain(
        self: &Arc<Self>,
        stored: Option<Record>,
    ) -> Result<Record, AuthError> {
        let http = self.requester().await;
        let found = self.discover(&http).await?;
        let mut record = self.record_for(&found, stored)?;
        let scopes = self.scopes_for(&found, &record);
        let known = record.tokens.as_ref();
        let dpop = match known.and_then(|tokens| self.dpop_key(tokens)) {
            Some(known) => Some(known),
            None => self.new_dpop_key(&found, &record)?,
        };
        let dpop = dpop.as_deref();
        let response = match &self.config.grant {
            Grant::User => {
                let text = "the user has to sign in";
                return Err(AuthError::new(AuthErrorKind::SignInRequired, text));
            }
            Grant::ClientCredentials { .. } => {
                let key = self.signing_key().await?;
                let client = match key {
                    Some(_) => Client::with_key(self.machine_id()?),
                    None => self.machine_client(&found).await?,
                };
                let form = Form::new("client_credentials")
                    .with_some("scope", joined(&scopes))
                    .with_some("resource", record.resource.as_deref());
                let response = self
                    .request(&http, &found, &client, (key.as_deref(), dpop), form)
                    .await?;
                record.client = Some(client);
                response
            }
            Grant::Workload(source) => {
                let client = self.machine_client(&found).await?;
                let source = Arc::clone(source);
                let issuer = found.issuer.issuer.clone();
                let assertion = blocking(move || source.assertion(&issuer)).await?;
                let assertion =
                    assertion.map_err(|error| AuthError::new(AuthErrorKind::Settings, error))?;
                let form = assertion_form(&assertion, &scopes, record.resource.as_deref());
                let response = self
                    .request(&http, &found, &client, (None, dpop), form)
                    .await?;
                record.client = Some(client);
                response
            }
            Grant::Enterprise(idp) => {
                let client = self.machine_client(&found).await?;
                let assertion = idp
                    .inner
                    .exchange_for_assertion(&found, &client.id, &scopes)
                    .await?;
                let form = assertion_form(&assertion, &scopes, record.resource.as_deref());
                let response = self
                    .request(&http, &found, &client, (None, dpop), form)
                    .await?;
                record.client = Some(client);
                response
            }
        };
        // There is no use for a refresh token: the grant itself is repeated.
        let mut tokens = Tokens::from_response(response, &scopes, None, dpop, self.now());
        tokens.refresh = None;
        record.tokens = Some(tokens);
        record.requested_scopes = scopes;
        record.missing_scopes.clear();
        if record.signed_in_at == 0 {
            record.signed_in_at = self.now();
        }
        Ok(record)
    }

    async fn request(
        &self,
        http: &Requester,
        found: &Discovery,
        client: &Client,
        (key, dpop): (Option<&SigningKey>, Option<&DpopKey>),
        form: Form,
    ) -> Result<crate::flow::TokenResponse, AuthError> {
        let endpoint = TokenEndpoint {
            http,
            url: &found.issuer.token_endpoint,
            issuer: &found.issuer.issuer,
            client,
            key,
            dpop,
            now: self.shared.now(),
        };
        endpoint.request(form).await
    }

    /// The pre-registered client of a grant without the user.
    async fn machine_client(&self, found: &Discovery) -> Result<Client, AuthError> {
        let id = self.machine_id()?;
        let secret = self.client_secret().await?;
        Ok(Client::preregistered(id, secret, &found.issuer))
    }

    fn machine_id(&self) -> Result<String, AuthError> {
        self.config.oauth.client_id.clone().ok_or_else(|| {
            let text = "this kind of sign-in needs `oauth.clientId` of the server";
            AuthError::new(AuthErrorKind::Settings, text)
        })
    }

    /// Checks the ID token of an identity provider. Other tokens pass.
    pub(super) fn checked(
        &self,
        mut tokens: Tokens,
        issuer: &str,
        client_id: &str,
    ) -> Result<Tokens, AuthError> {
        if matches!(self.kind, Kind::Idp { .. }) {
            let expires = super::enterprise::check_id_token(
                tokens.id.as_ref(),
                issuer,
                client_id,
                seconds(self.shared.now()),
            )?;
            // The ID token is the one that is used.
            tokens.expires_at = Some(expires);
        }
        Ok(tokens)
    }
}

/// Scopes as a parameter; `None` if there are none.
pub(super) fn joined(scopes: &[String]) -> Option<String> {
    (!scopes.is_empty()).then(|| scopes.join(" "))
}

/// A request for tokens with an assertion (RFC 7523).
fn assertion_form(assertion: &Secret, scopes: &[String], resource: Option<&str>) -> Form {
    Form::new(JWT_BEARER)
        .with("assertion", assertion.expose())
        .with_some("scope", joined(scopes))
        .with_some("resource", resource)
}
