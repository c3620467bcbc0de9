//! Converts an entry that was built in code to its form in a file.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{
    GrantType, HttpEntry, HttpFlavour, IdeEntry, OAuthEntry, ServerEntry, StdioEntry, TlsEntry,
    ToolFilter, TransportEntry, WsEntry,
};
use crate::glob::Glob;
use crate::secret::Secret;

/// The entry as a file would hold it, including secrets and without defaults.
pub(super) fn to_json(entry: &ServerEntry) -> Value {
    let ServerEntry {
        transport,
        timeout,
        connect_timeout,
        disabled,
        always_load,
        lazy,
        share,
        tools,
        sandbox,
        // Not fields of an entry.
        confinement: _,
        name: _,
        scope: _,
        source: _,
        keyring: _,
        variables: _,
        written: _,
        base: _,
        files: _,
        too_many_files: _,
    } = entry;
    let mut fields = of_transport(transport);
    put(&mut fields, "timeout", milliseconds(*timeout));
    put(
        &mut fields,
        "connectTimeout",
        milliseconds(*connect_timeout),
    );
    put(&mut fields, "disabled", disabled.then_some(true));
    put(&mut fields, "alwaysLoad", always_load.then_some(true));
    put(&mut fields, "lazy", *lazy);
    put(&mut fields, "share", *share);
    put(&mut fields, "tools", of_tools(tools));
    put(&mut fields, "sandbox", sandbox.clone());
    fields.into()
}

fn of_transport(transport: &TransportEntry) -> Map<String, Value> {
    let mut fields = Map::new();
    // In a file, no `type` means either protocol.
    let is_said = !matches!(
        transport,
        TransportEntry::Http(HttpEntry {
            flavour: HttpFlavour::Either,
            ..
        })
    );
    put(&mut fields, "type", is_said.then(|| transport.kind()));
    match transport {
        TransportEntry::Stdio(StdioEntry {
            command,
            args,
            env,
            cwd,
        }) => {
            put(&mut fields, "command", Some(command));
            put(&mut fields, "args", (!args.is_empty()).then_some(args));
            put(&mut fields, "env", of_secrets(env));
            put(&mut fields, "cwd", cwd.as_ref());
        }
        TransportEntry::Http(HttpEntry {
            flavour: _,
            url,
            headers,
            headers_helper,
            oauth,
            account,
            tls,
        }) => {
            put(&mut fields, "url", Some(url.expose()));
            put(&mut fields, "headers", of_secrets(headers));
            put(&mut fields, "headersHelper", headers_helper.as_ref());
            put(&mut fields, "oauth", of_oauth(oauth));
            put(&mut fields, "account", account.as_ref());
            put(&mut fields, "tls", of_tls(tls));
        }
        TransportEntry::Ws(WsEntry {
            url,
            headers,
            headers_helper,
            tls,
        }) => {
            put(&mut fields, "url", Some(url.expose()));
            put(&mut fields, "headers", of_secrets(headers));
            put(&mut fields, "headersHelper", headers_helper.as_ref());
            put(&mut fields, "tls", of_tls(tls));
        }
        TransportEntry::Ide(IdeEntry {
            websocket: _,
            url,
            auth_token,
            ide_name,
        }) => {
            put(&mut fields, "url", Some(url.expose()));
            put(
                &mut fields,
                "authToken",
                auth_token.as_ref().map(Secret::expose),
            );
            put(&mut fields, "ideName", ide_name.as_ref());
        }
        TransportEntry::Sdk => {}
        TransportEntry::ClaudeAiProxy { url, id, proxy: _ } => {
            put(&mut fields, "url", Some(url.expose()));
            put(&mut fields, "id", id.as_ref());
        }
    }
    fields
}

fn milliseconds(limit: Option<Duration>) -> Option<u64> {
    limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX))
}

fn put(fields: &mut Map<String, Value>, name: &str, value: Option<impl serde::Serialize>) {
    if let Some(value) = value.map(|value| json!(value)) {
        fields.insert(name.to_owned(), value);
    }
}

/// The object, unless it is empty.
fn non_empty(fields: Map<String, Value>) -> Option<Value> {
    (!fields.is_empty()).then_some(fields.into())
}

fn of_secrets(secrets: &BTreeMap<String, Secret>) -> Option<Value> {
    let fields = secrets.iter();
    non_empty(
        fields
            .map(|(name, value)| (name.clone(), value.expose().into()))
            .collect(),
    )
}

fn of_oauth(oauth: &OAuthEntry) -> Option<Value> {
    let OAuthEntry {
        client_id,
        callback_port,
        auth_server_metadata_url,
        scopes,
        xaa,
        grant_type,
        private_key_file,
        key_id,
    } = oauth;
    let mut fields = Map::new();
    put(&mut fields, "clientId", client_id.as_ref());
    put(&mut fields, "callbackPort", *callback_port);
    let metadata = auth_server_metadata_url.as_ref();
    put(&mut fields, "authServerMetadataUrl", metadata);
    put(&mut fields, "scopes", scopes.as_ref());
    put(&mut fields, "xaa", xaa.then_some(true));
    let is_machine = *grant_type == GrantType::ClientCredentials;
    put(
        &mut fields,
        "grantType",
        is_machine.then_some("client_credentials"),
    );
    put(&mut fields, "privateKeyFile", private_key_file.as_ref());
    put(&mut fields, "keyId", key_id.as_ref());
    non_empty(fields)
}

fn of_tls(tls: &TlsEntry) -> Option<Value> {
    let TlsEntry { ca, cert, key } = tls;
    let mut fields = Map::new();
    put(&mut fields, "ca", ca.as_ref());
    put(&mut fields, "cert", cert.as_ref());
    put(&mut fields, "key", key.as_ref());
    non_empty(fields)
}

fn of_tools(tools: &ToolFilter) -> Option<Value> {
    let ToolFilter { allow, deny } = tools;
    let texts = |globs: &[Glob]| globs.iter().map(|glob| json!(glob.as_str())).collect();
    let mut fields = Map::new();
    let allow: Option<Value> = allow.as_deref().map(texts);
    let deny: Option<Value> = (!deny.is_empty()).then(|| texts(deny));
    put(&mut fields, "allow", allow);
    put(&mut fields, "deny", deny);
    non_empty(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_built_in_code_is_written_as_a_file_would_have_it() {
        let stdio = ServerEntry::stdio("s", "npx", ["-y", "x"]);
        let http = |flavour| {
            let http = HttpEntry::new(flavour, "https://example.com/mcp");
            ServerEntry::new("h", TransportEntry::Http(http))
        };
        let mut full = http(HttpFlavour::Sse);
        full.timeout = Some(Duration::from_secs(5));
        full.tools.deny.push(Glob::new("drop*"));
        if let TransportEntry::Http(http) = &mut full.transport {
            let secret = Secret::new("Bearer x");
            http.headers.insert("Authorization".to_owned(), secret);
            http.oauth.client_id = Some("me".to_owned());
        }
        for (entry, expected) in [
            (
                stdio,
                json!({"type": "stdio", "command": "npx", "args": ["-y", "x"]}),
            ),
            (
                http(HttpFlavour::Streamable),
                json!({"type": "http", "url": "https://example.com/mcp"}),
            ),
            (
                http(HttpFlavour::Either),
                json!({"url": "https://example.com/mcp"}),
            ),
            (
                full,
                json!({"type": "sse", "url": "https://example.com/mcp",
                    "headers": {"Authorization": "Bearer x"}, "oauth": {"clientId": "me"},
                    "timeout": 5000, "tools": {"deny": ["drop*"]}}),
            ),
        ] {
            assert_eq!(entry.as_written(), expected);
        }
    }
}
