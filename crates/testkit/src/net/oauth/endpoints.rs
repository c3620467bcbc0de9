//! The endpoints of an OAuth server and its protected resource.

use std::{
    collections::{HashMap, HashSet},
    sync::Mutex,
    time::Instant,
};

use base64::{Engine, engine::general_purpose::STANDARD, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::super::{Reply, Request};
use super::dpop;
use super::encoding::{Form, claims, decode, encode, jwt, parse_form, pkce, unix_time};
use super::options::OAuthOptions;

const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// Everything that the server knows.
#[derive(Default)]
pub(super) struct State {
    pub(super) options: OAuthOptions,
    pub(super) base: String,
    pub(super) serial: usize,
    pub(super) clients: HashMap<String, Client>,
    pub(super) codes: HashMap<String, Grant>,
    pub(super) devices: HashMap<String, (Grant, usize)>,
    /// By refresh token.
    pub(super) refresh: HashMap<String, Refresh>,
    pub(super) access: HashMap<String, Access>,
    pub(super) refreshes: usize,
    pub(super) grants: Vec<String>,
    /// The thumbprint of the key in the token request.
    proof_key: Option<String>,
    /// The keys that token families are bound to.
    keys: HashMap<usize, String>,
    /// The proofs that were used.
    proofs: HashSet<String>,
    /// All tokens, codes and client secrets.
    pub(super) secrets: Vec<String>,
}

#[derive(Clone, Default)]
pub(super) struct Client {
    pub(super) secret: Option<String>,
    /// Verifies assertions.
    pub(super) public_key: Option<Vec<u8>>,
    pub(super) redirect_uris: Vec<String>,
    pub(super) is_machine: bool,
}

#[derive(Clone, Default)]
pub(super) struct Grant {
    client: String,
    redirect_uri: String,
    challenge: String,
    scope: String,
    resource: String,
    /// The thumbprint of the key that the code is bound to.
    key: Option<String>,
}

pub(super) struct Refresh {
    client: String,
    scope: String,
    resource: String,
    family: usize,
    pub(super) used: Option<Instant>,
}

#[derive(Clone)]
pub(super) struct Access {
    scope: String,
    resource: String,
    family: usize,
}

/// Answers a request.
pub(super) fn answer(shared: &Mutex<State>, request: &Request, reply: &mut Reply) {
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    let mut state = shared.lock().unwrap();
    match path {
        "/mcp" => resource(&mut state, request, reply),
        "/authorize" => state.authorize(&parse_form(query.as_bytes()), reply),
        "/register" => state.register(&request.json(), reply),
        "/token" => {
            let response = state.token(request);
            let nonce = state.options.dpop_nonce.clone();
            let held = state.options.hold_token_responses;
            let dropped = state.options.drop_token_response;
            drop(state);
            if held {
                reply.wait_until(|| !shared.lock().unwrap().options.hold_token_responses);
            }
            if dropped {
                reply.close();
            } else {
                respond_with(reply, response, nonce.as_deref());
            }
        }
        "/device" => {
            let response = state.device(request);
            respond(reply, response);
        }
        "/revoke" => {
            let response = state.revoke(request);
            respond(reply, response);
        }
        path if path.contains("/.well-known/") || path.starts_with("/.well-known") => {
            state.metadata(path, reply);
        }
        _ => _ = reply.status(404),
    }
}

fn respond(reply: &mut Reply, response: (u16, Value)) {
    respond_with(reply, response, None);
}

/// Responds, with a nonce for the next proof.
fn respond_with(reply: &mut Reply, (status, body): (u16, Value), nonce: Option<&str>) {
    let text = match &body {
        Value::String(text) => text.clone(),
        body => body.to_string(),
    };
    let date = httpdate::fmt_http_date(std::time::SystemTime::now());
    let mut headers = vec![("content-type", "application/json"), ("date", &*date)];
    headers.extend(nonce.map(|nonce| ("dpop-nonce", nonce)));
    reply.respond(status, &headers, text);
}

fn error(status: u16, code: &str) -> (u16, Value) {
    (status, json!({"error": code}))
}

/// An error that quotes the request.
fn echo(form: &Form) -> (u16, Value) {
    let fields: Vec<_> = form
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let description = format!("cannot handle {}", fields.join(" "));
    let body = json!({"error": "invalid_request", "error_description": description});
    (400, body)
}

/// The protected resource: 401 without a valid token, 403 without the scopes.
fn resource(state: &mut State, request: &Request, reply: &mut Reply) {
    let scheme = if state.options.dpop { "DPoP" } else { "Bearer" };
    let authorization = request.header("authorization").unwrap_or_default();
    let token = match authorization.split_once(' ') {
        Some((sent, token)) if sent == scheme => Some(token),
        _ => None,
    };
    let access = token.and_then(|token| state.access.get(token).cloned());
    let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", state.base);
    if let (true, Some(token), Some(access)) = (state.options.dpop, token, &access)
        && let Err(code) = state.check_bound(request, token, access.family)
    {
        let challenge = format!("DPoP error=\"{code}\", resource_metadata=\"{metadata}\"");
        let mut headers = vec![("www-authenticate", &*challenge)];
        let nonce = state.options.dpop_nonce.as_deref();
        headers.extend(nonce.map(|nonce| ("dpop-nonce", nonce)));
        reply.respond(401, &headers, "");
        return;
    }
    let Some(access) = access.filter(|access| {
        access.resource.is_empty() || access.resource == format!("{}/mcp", state.base)
    }) else {
        let challenge = format!("{scheme} resource_metadata=\"{metadata}\"");
        let headers: &[(&str, &str)] = if state.options.challenge {
            &[("www-authenticate", &challenge)]
        } else {
            &[]
        };
        let quoted = token.filter(|_| state.options.echo_refused_tokens);
        let body = quoted.map_or(String::new(), |token| {
            json!({"message": format!("the token {token} is unknown")}).to_string()
        });
        reply.respond(401, headers, body);
        return;
    };
    let has = |scope: &String| access.scope.split(' ').any(|granted| granted == scope);
    if state.options.required_scopes.iter().all(has) {
        serve(request, reply);
        return;
    }
    // Always of this scheme, because code that checks scopes often knows no other.
    let challenge = format!(
        "Bearer error=\"insufficient_scope\", scope=\"{}\", resource_metadata=\"{metadata}\"",
        state.options.required_scopes.join(" ")
    );
    reply.respond(403, &[("www-authenticate", &challenge)], "");
}

/// Answers as an MCP server with one tool, and anything but MCP with `{"ok": true}`.
fn serve(request: &Request, reply: &mut Reply) {
    let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let result = match message["method"].as_str() {
        None if request.method == "GET" && request.header("accept").is_some() => {
            reply.status(405);
            return;
        }
        None => {
            reply.json(200, &json!({"ok": true}));
            return;
        }
        Some("initialize") => json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "protected", "version": "1"},
        }),
        Some("tools/list") => json!({
            "tools": [{"name": "greet", "inputSchema": {"type": "object"}}],
        }),
        Some("tools/call") => json!({"content": [{"type": "text", "text": "hello"}]}),
        Some(_) if message.get("id").is_none() => {
            reply.status(202);
            return;
        }
        Some(_) => {
            let error = json!({"code": -32601, "message": "unknown method"});
            reply.json(
                200,
                &json!({"jsonrpc": "2.0", "id": message["id"], "error": error}),
            );
            return;
        }
    };
    reply.json(
        200,
        &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}),
    );
}

impl State {
    fn unique(&mut self, prefix: &str) -> String {
        self.serial += 1;
        // Unique among all servers, so that a test notices when one gets what another issued.
        let port = self.base.rsplit(':').next().unwrap_or_default();
        let name = format!("{prefix}-{port}-{}", self.serial);
        if prefix != "client" {
            self.secrets.push(name.clone());
        }
        name
    }

    fn metadata(&self, path: &str, reply: &mut Reply) {
        let options = &self.options;
        let base = &self.base;
        if let Some(to) = &options.redirect_metadata {
            reply.respond(302, &[("location", to)], "");
            return;
        }
        if let Some(status) = options.metadata_status {
            reply.respond(
                status,
                &[("content-type", "text/html")],
                "<html>sorry</html>",
            );
            return;
        }
        let document = match path {
            "/.well-known/oauth-protected-resource/mcp" if !options.legacy => json!({
                "resource": options.resource_claim.clone().unwrap_or(format!("{base}/mcp")),
                "authorization_servers":
                    options.authorization_servers.clone().unwrap_or(vec![base.clone()]),
                "scopes_supported": options.scopes,
            }),
            "/.well-known/oauth-authorization-server" => self.issuer_metadata(),
            _ => {
                reply.status(404);
                return;
            }
        };
        let body = options
            .metadata_body
            .clone()
            .unwrap_or(document.to_string());
        reply.respond(200, &[("content-type", &options.content_type)], body);
    }

    fn issuer_metadata(&self) -> Value {
        let (options, base) = (&self.options, &self.base);
        let mut document = json!({
            "issuer": options.issuer_claim.clone().unwrap_or(base.clone()),
            "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"),
            "registration_endpoint": format!("{base}/register"),
            "revocation_endpoint": format!("{base}/revoke"),
            "device_authorization_endpoint": format!("{base}/device"),
            "scopes_supported": options.issuer_scopes,
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": options.sends_issuer,
            "client_id_metadata_document_supported": options.client_metadata,
        });
        if options.dpop {
            document["dpop_signing_alg_values_supported"] = json!(["PS256", "ES256"]);
        }
        if options.issuer_claim.as_deref() == Some("") {
            document.as_object_mut().unwrap().remove("issuer");
        }
        for (name, value) in &options.metadata {
            if value.is_null() {
                document.as_object_mut().unwrap().remove(name);
            } else {
                document[name] = value.clone();
            }
        }
        document
    }

    fn register(&mut self, request: &Value, reply: &mut Reply) {
        let uris = request["redirect_uris"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let is_local = |uri: &Value| {
            let uri = uri.as_str().unwrap_or_default();
            uri.starts_with("http://127.0.0.1:") || uri.starts_with("http://localhost:")
        };
        // As OpenID Connect has it: only a native application may redirect to this machine, and
        // codes need a redirect.
        let grants = request["grant_types"].as_array();
        let uses_codes = grants.is_none_or(|grants| grants.contains(&json!("authorization_code")));
        let is_native = request["application_type"] == "native";
        if !is_native || !uris.iter().all(is_local) || (uses_codes && uris.is_empty()) {
            reply.json(400, &json!({"error": "invalid_redirect_uri"}));
            return;
        }
        let id = self.unique("client");
        let expires = self.options.client_secret_expires_at;
        let secret = expires.map(|_| self.unique("secret"));
        let mut response = json!({"client_id": id, "redirect_uris": uris});
        if let Some(secret) = &secret {
            response["client_secret"] = json!(secret);
            response["client_secret_expires_at"] = json!(expires);
            response["token_endpoint_auth_method"] = json!("client_secret_post");
        }
        let client = Client {
            secret,
            redirect_uris: uris
                .iter()
                .filter_map(|uri| uri.as_str().map(str::to_owned))
                .collect(),
            ..Client::default()
        };
        self.clients.insert(id, client);
        reply.json(201, &response);
    }

    fn authorize(&mut self, query: &Form, reply: &mut Reply) {
        let field = |name: &str| query.get(name).cloned().unwrap_or_default();
        let client = field("client_id");
        let redirect_uri = field("redirect_uri");
        let is_document = self.options.client_metadata && client.starts_with("https://");
        let is_known = self.clients.get(&client).is_some_and(|known| {
            known.redirect_uris.is_empty() || known.redirect_uris.contains(&redirect_uri)
        });
        let is_valid = field("response_type") == "code"
            && field("code_challenge_method") == "S256"
            && field("code_challenge").len() == 43;
        if !(is_known || is_document) || !is_valid {
            reply.respond(400, &[], "unknown client, redirect URI or PKCE");
            return;
        }
        let mut location = format!("{redirect_uri}?state={}", encode(&field("state")));
        if self.options.sends_issuer || self.options.redirect_issuer.is_some() {
            let issuer = self.options.redirect_issuer.as_ref().unwrap_or(&self.base);
            location.extend(["&iss=", &encode(issuer)]);
        }
        if let Some(error) = &self.options.deny {
            location.extend(["&error=", error, "&error_description=no+way"]);
        } else {
            let code = self.unique("code");
            location.extend(["&code=", &code]);
            let grant = Grant {
                client,
                redirect_uri,
                challenge: field("code_challenge"),
                scope: field("scope"),
                resource: field("resource"),
                key: query.get("dpop_jkt").cloned(),
            };
            self.codes.insert(code, grant);
        }
        reply.respond(302, &[("location", &location)], "");
    }

    /// The client of a request, if it authenticates.
    fn client(&self, request: &Request, form: &Form) -> Option<String> {
        let basic = request
            .header("authorization")
            .and_then(|value| value.strip_prefix("Basic "));
        let (id, secret) = match basic {
            Some(basic) => {
                let pair = String::from_utf8(STANDARD.decode(basic).ok()?).ok()?;
                let (id, secret) = pair.split_once(':')?;
                (decode(id), Some(decode(secret)))
            }
            None => (
                form.get("client_id")?.clone(),
                form.get("client_secret").cloned(),
            ),
        };
        if self.options.client_metadata && id.starts_with("https://") {
            return Some(id);
        }
        let known = self.clients.get(&id)?;
        if let Some(key) = &known.public_key {
            return self.is_valid_assertion(form, &id, key).then_some(id);
        }
        (known.secret == secret).then_some(id)
    }

    /// Checks the signature and the claims of a client assertion.
    fn is_valid_assertion(&self, form: &Form, id: &str, key: &[u8]) -> bool {
        use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
        let assertion = form.get("client_assertion").cloned().unwrap_or_default();
        let (signed, signature) = assertion.rsplit_once('.').unwrap_or_default();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap_or_default();
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key);
        let claims = claims(&assertion);
        let now = unix_time();
        key.verify(signed.as_bytes(), &signature).is_ok()
            && claims["iss"] == id
            && claims["sub"] == id
            && claims["aud"] == self.base
            && claims["iat"].as_u64().is_some_and(|iat| iat <= now + 60)
            && claims["exp"].as_u64().is_some_and(|exp| exp + 60 > now)
    }

    fn token(&mut self, request: &Request) -> (u16, Value) {
        let form = parse_form(&request.body);
        let field = |name: &str| form.get(name).cloned().unwrap_or_default();
        let grant_type = field("grant_type");
        self.grants.push(grant_type.clone());
        if let Some((status, body)) = self.options.token_response.clone() {
            return (status, Value::String(body));
        }
        if self.options.echo_errors {
            return echo(&form);
        }
        let Some(client) = self.client(request, &form) else {
            return error(401, "invalid_client");
        };
        self.proof_key = None;
        if self.options.dpop {
            match self.check_token_proof(request) {
                Ok(key) => self.proof_key = Some(key),
                Err(code) => return error(400, code),
            }
        }
        match grant_type.as_str() {
            "authorization_code" => {
                let Some(grant) = self.codes.remove(&field("code")) else {
                    return error(400, "invalid_grant");
                };
                let is_valid = grant.client == client
                    && grant.redirect_uri == field("redirect_uri")
                    && grant.challenge == pkce(&field("code_verifier"))
                    && grant.resource == field("resource")
                    && (grant.key.is_none() || grant.key == self.proof_key);
                if !is_valid {
                    return error(400, "invalid_grant");
                }
                self.issue_family(&grant)
            }
            "refresh_token" => self.refresh(&client, &field("refresh_token"), &field("resource")),
            "client_credentials" => {
                if !self
                    .clients
                    .get(&client)
                    .is_some_and(|client| client.is_machine)
                {
                    return error(400, "unauthorized_client");
                }
                self.issue_machine(&field("scope"), &field("resource"))
            }
            DEVICE_GRANT => {
                let Some((grant, polls)) = self.devices.get_mut(&field("device_code")) else {
                    return error(400, "expired_token");
                };
                if *polls > 0 {
                    *polls -= 1;
                    return error(400, "authorization_pending");
                }
                let grant = grant.clone();
                self.devices.remove(&field("device_code"));
                if let Some(denied) = &self.options.deny {
                    return error(400, denied);
                }
                self.issue_family(&grant)
            }
            TOKEN_EXCHANGE => {
                let is_valid = field("requested_token_type") == ID_JAG
                    && claims(&field("subject_token"))["iss"] == self.base;
                if !is_valid {
                    return error(400, "invalid_grant");
                }
                let assertion = jwt(
                    &json!({"alg": "none", "typ": "oauth-id-jag+jwt"}),
                    &json!({
                        "iss": self.base, "aud": field("audience"), "resource": field("resource"),
                        "sub": "user", "scope": field("scope"),
                    }),
                );
                let body = json!({
                    "access_token": assertion, "issued_token_type": ID_JAG, "token_type": "N_A",
                    "expires_in": 300,
                });
                (200, body)
            }
            JWT_BEARER => {
                let claims = claims(&field("assertion"));
                if claims["aud"] != self.base {
                    return error(400, "invalid_grant");
                }
                self.issue_machine(&field("scope"), &field("resource"))
            }
            _ => error(400, "unsupported_grant_type"),
        }
    }

    fn refresh(&mut self, client: &str, token: &str, resource: &str) -> (u16, Value) {
        let grace = self.options.grace;
        let rotate = self.options.rotate;
        let Some(found) = self.refresh.get_mut(token) else {
            return error(400, "invalid_grant");
        };
        let is_bound_elsewhere = self.keys.get(&found.family) != self.proof_key.as_ref();
        if found.client != client || found.resource != resource || is_bound_elsewhere {
            return error(400, "invalid_grant");
        }
        let family = found.family;
        let is_reused = found
            .used
            .is_some_and(|used| grace.is_none_or(|grace| used.elapsed() > grace));
        if is_reused {
            // Somebody has stolen it: nobody keeps anything.
            self.refresh.retain(|_, refresh| refresh.family != family);
            self.access.retain(|_, access| access.family != family);
            return error(400, "invalid_grant");
        }
        if rotate {
            found.used.get_or_insert_with(Instant::now);
        }
        let scope = found.scope.clone();
        let resource = found.resource.clone();
        let client = found.client.clone();
        self.refreshes += 1;
        let rotated = rotate.then(|| {
            let new = self.unique("refresh");
            let refresh = Refresh {
                client,
                scope: scope.clone(),
                resource: resource.clone(),
                family,
                used: None,
            };
            self.refresh.insert(new.clone(), refresh);
            new
        });
        let mut body = self.issue_access(&scope, &resource, family);
        if let Some(rotated) = rotated {
            body["refresh_token"] = json!(rotated);
        }
        (200, body)
    }

    fn issue_family(&mut self, grant: &Grant) -> (u16, Value) {
        self.serial += 1;
        let family = self.serial;
        let mut body = self.issue_access(&grant.scope, &grant.resource, family);
        if self.options.refresh_tokens {
            let token = self.unique("refresh");
            let refresh = Refresh {
                client: grant.client.clone(),
                scope: grant.scope.clone(),
                resource: grant.resource.clone(),
                family,
                used: None,
            };
            self.refresh.insert(token.clone(), refresh);
            body["refresh_token"] = json!(token);
        }
        if grant.scope.split(' ').any(|scope| scope == "openid") {
            body["id_token"] = json!(self.id_token(&grant.client));
        }
        (200, body)
    }

    fn id_token(&self, client: &str) -> String {
        let expires = unix_time() + self.options.expires_in;
        jwt(
            &json!({"alg": "none", "typ": "JWT"}),
            &json!({"iss": self.base, "aud": client, "sub": "user", "exp": expires}),
        )
    }

    fn issue_machine(&mut self, scope: &str, resource: &str) -> (u16, Value) {
        self.serial += 1;
        let family = self.serial;
        (200, self.issue_access(scope, resource, family))
    }

    fn issue_access(&mut self, scope: &str, resource: &str, family: usize) -> Value {
        let token = self.unique("access");
        let access = Access {
            scope: scope.to_owned(),
            resource: resource.to_owned(),
            family,
        };
        self.access.insert(token.clone(), access);
        let token_type = match self.proof_key.clone() {
            Some(key) => {
                self.keys.insert(family, key);
                "DPoP"
            }
            None => "Bearer",
        };
        json!({
            "access_token": token, "token_type": token_type,
            "expires_in": self.options.expires_in, "scope": scope,
        })
    }

    /// Checks the proof of a token request. Returns the thumbprint of its key.
    fn check_token_proof(&mut self, request: &Request) -> Result<String, &'static str> {
        let nonce = self.options.dpop_nonce.as_deref();
        let proof = dpop::check(request, &format!("{}/token", self.base), None, nonce)?;
        let is_new = self.proofs.insert(proof.id);
        is_new
            .then_some(proof.thumbprint)
            .ok_or("invalid_dpop_proof")
    }

    /// Checks the proof of a request with a token that is bound to the key of its family.
    fn check_bound(
        &mut self,
        request: &Request,
        token: &str,
        family: usize,
    ) -> Result<(), &'static str> {
        let nonce = self.options.dpop_nonce.as_deref();
        let proof = dpop::check(request, &format!("{}/mcp", self.base), Some(token), nonce)?;
        let is_new = self.proofs.insert(proof.id);
        let is_bound = self.keys.get(&family) == Some(&proof.thumbprint);
        (is_new && is_bound)
            .then_some(())
            .ok_or("invalid_dpop_proof")
    }

    fn device(&mut self, request: &Request) -> (u16, Value) {
        let form = parse_form(&request.body);
        let field = |name: &str| form.get(name).cloned().unwrap_or_default();
        let Some(client) = self.client(request, &form) else {
            return error(401, "invalid_client");
        };
        let code = self.unique("device");
        let grant = Grant {
            client,
            scope: field("scope"),
            resource: field("resource"),
            ..Grant::default()
        };
        self.devices
            .insert(code.clone(), (grant, self.options.polls));
        let body = json!({
            "device_code": code, "user_code": "ABCD-EFGH", "interval": 1, "expires_in": 600,
            "verification_uri": format!("{}/activate", self.base),
            "verification_uri_complete": format!("{}/activate?user_code=ABCD-EFGH", self.base),
        });
        (200, body)
    }

    fn revoke(&mut self, request: &Request) -> (u16, Value) {
        let form = parse_form(&request.body);
        if self.options.echo_errors {
            return echo(&form);
        }
        if self.client(request, &form).is_none() {
            return error(401, "invalid_client");
        }
        let token = form.get("token").cloned().unwrap_or_default();
        self.access.remove(&token);
        if let Some(refresh) = self.refresh.remove(&token) {
            self.access
                .retain(|_, access| access.family != refresh.family);
        }
        (200, json!({}))
    }
}
