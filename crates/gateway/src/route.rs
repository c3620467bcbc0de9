//! Finds the server of a resource, a template or a prompt by the name that the client uses.

use std::collections::HashMap;
use std::sync::Arc;

use trunkline::context::{PromptCommand, ServerTemplate};
use trunkline::{CallError, Host};
use trunkline_wire::RpcError;

use crate::client::View;
use crate::errors::{RESOURCE_NOT_FOUND, invalid_params, rpc_error};

/// The scheme of URIs that name their server: `trunkline:///<server>/<uri>`, percent-encoded. Only
/// resources whose URI several servers list are shown so, but all can be read so.
const QUALIFIED: &str = "trunkline:///";

/// A resource at its server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ResourceAddress {
    pub(crate) server: Arc<str>,
    pub(crate) uri: String,
}

/// Returns a URI that names its server.
pub(crate) fn qualified(server: &str, uri: &str) -> String {
    format!("{QUALIFIED}{}/{}", encoded(server), encoded(uri))
}

fn encoded(text: &str) -> String {
    use std::fmt::Write as _;

    let mut out = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => _ = write!(out, "%{byte:02X}"),
        }
    }
    out
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

fn at(server: &str, uri: &str) -> ResourceAddress {
    ResourceAddress {
        server: server.into(),
        uri: uri.to_owned(),
    }
}

/// Splits a URI that names its server.
fn split_qualified(uri: &str) -> Option<(String, String)> {
    let (server, uri) = uri.strip_prefix(QUALIFIED)?.split_once('/')?;
    Some((decoded(server)?, decoded(uri)?))
}

/// Returns the server of the resource that a client calls `uri`.
pub(crate) fn resource(host: &Host, view: &View, uri: &str) -> Result<ResourceAddress, RpcError> {
    if let View::Server(server) = view {
        return Ok(at(server, uri));
    }
    if let Some((server, uri)) = split_qualified(uri) {
        return match host.server(&server) {
            Some(_) => Ok(at(&server, &uri)),
            None => Err(not_found(&uri, &format!("there is no server \"{server}\""))),
        };
    }
    let servers = host.servers();
    let lists = |status: &&Arc<trunkline::server::ServerStatus>| {
        let mut resources = status.catalog.resources.iter();
        resources.any(|resource| &*resource.uri == uri)
    };
    // Of several, the first is shown under the plain URI.
    if let Some(status) = servers.iter().find(lists) {
        return Ok(at(&status.name, uri));
    }
    let templates = host.resource_templates();
    let matching = templates
        .iter()
        .filter(|known| matches_template(&known.template.uri_template, uri));
    let mut matching: Vec<_> = matching.collect();
    // The longest literal start is the best match.
    matching.sort_by_key(|known| std::cmp::Reverse(literal_start(&known.template.uri_template)));
    if let Some(ServerTemplate { server, .. }) = matching.first() {
        return Ok(at(server, uri));
    }
    unlisted(host, uri)
}

/// Returns the server of a URI that no server lists: the only one with resources, or the only one
/// with resources of the same scheme and authority.
fn unlisted(host: &Host, uri: &str) -> Result<ResourceAddress, RpcError> {
    let servers = host.servers();
    let has_resources = |status: &Arc<trunkline::server::ServerStatus>| {
        let identity = status.catalog.identity.as_ref();
        identity.is_some_and(|identity| identity.capabilities.resources)
    };
    let mut able: Vec<_> = servers
        .into_iter()
        .filter(|status| has_resources(status))
        .collect();
    if able.len() > 1 {
        able.retain(|status| {
            let uris = status
                .catalog
                .resources
                .iter()
                .map(|resource| &*resource.uri);
            let templates = status.catalog.templates.iter();
            let templates = templates.map(|template| &*template.uri_template);
            uris.chain(templates)
                .any(|known| authority(known) == authority(uri))
        });
    }
    match &able[..] {
        [only] => Ok(ResourceAddress {
            server: Arc::clone(&only.name),
            uri: uri.to_owned(),
        }),
        [] => Err(not_found(uri, "no server lists it")),
        several => {
            let names: Vec<_> = several.iter().map(|status| &*status.name).collect();
            let example = qualified(names[0], uri);
            let reason = format!(
                "it may be of {}; name the server, as in {example}",
                names.join(" or ")
            );
            Err(not_found(uri, &reason))
        }
    }
}

fn not_found(uri: &str, reason: &str) -> RpcError {
    RpcError {
        data: Some(serde_json::json!({ "uri": uri }).into()),
        ..RpcError::new(RESOURCE_NOT_FOUND, format!("resource not found: {reason}"))
    }
}

/// The scheme and authority of a URI.
fn authority(uri: &str) -> &str {
    let Some((scheme, rest)) = uri.split_once(':') else {
        return "";
    };
    let Some(path) = rest.strip_prefix("//") else {
        return scheme;
    };
    let end = path.find(['/', '?', '#', '{']).unwrap_or(path.len());
    &uri[..scheme.len() + 3 + end]
}

fn literal_start(template: &str) -> usize {
    template.find('{').unwrap_or(template.len())
}

/// Whether a URI may be an expansion of a template: its literal parts occur in order.
fn matches_template(template: &str, uri: &str) -> bool {
    let (start, mut rest) = template.split_at(literal_start(template));
    let Some(mut left) = uri.strip_prefix(start) else {
        return false;
    };
    loop {
        let Some((_, after)) = rest.split_once('}') else {
            return rest.is_empty() && left.is_empty();
        };
        let (literal, next) = after.split_at(literal_start(after));
        if next.is_empty() {
            return left.ends_with(literal);
        }
        let Some(at) = left.find(literal) else {
            return false;
        };
        left = &left[at + literal.len()..];
        rest = next;
    }
}

/// Counts how often each URI is listed.
pub(crate) fn count<'u>(uris: impl Iterator<Item = &'u str>) -> HashMap<&'u str, usize> {
    let mut counts = HashMap::new();
    for uri in uris {
        *counts.entry(uri).or_default() += 1;
    }
    counts
}

/// Returns the server of a resource template, which clients name as it is listed.
pub(crate) fn template(host: &Host, view: &View, uri: &str) -> Result<ResourceAddress, RpcError> {
    if let View::Server(server) = view {
        return Ok(at(server, uri));
    }
    if let Some((server, uri)) = split_qualified(uri) {
        return Ok(at(&server, &uri));
    }
    let templates = host.resource_templates();
    let known = templates
        .iter()
        .find(|known| &*known.template.uri_template == uri);
    match known {
        Some(known) => Ok(at(&known.server, uri)),
        None => resource(host, view, uri),
    }
}

/// Returns the prompt that a client calls `name`.
pub(crate) fn prompt(host: &Host, view: &View, name: &str) -> Result<PromptCommand, RpcError> {
    let found: Result<PromptCommand, CallError> = match view {
        View::All => host.find_prompt(name),
        View::Server(server) => host.prompt_of(server, name),
    };
    found.map_err(|error| match error.kind() {
        trunkline::call::CallErrorKind::UnknownPrompt => invalid_params(error.to_string()),
        _ => rpc_error(&error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qualified_uri_names_its_server() {
        for (server, uri) in [
            ("files", "file:///a b/é"),
            ("my server", "ui://x/y?z#%2f"),
            ("a/b", "c:d"),
        ] {
            let whole = qualified(server, uri);
            let (found, original) = split_qualified(&whole).unwrap();
            assert_eq!((&*found, &*original), (server, uri), "{whole}");
        }
        for uri in [
            "file:///x",
            "trunkline:///x",
            "trunkline:///a%/b",
            "trunkline:///%ff/b",
        ] {
            assert_eq!(split_qualified(uri), None, "{uri}");
        }
    }

    #[test]
    fn a_template_matches_its_expansions() {
        for (template, uri, expected) in [
            ("a://{x}", "a://1", true),
            ("a://{x}/b", "a://1/b", true),
            ("a://{x}/b", "a://1/c", false),
            ("a://{x}/{y}.md", "a://1/2.md", true),
            ("a://{x}/{y}.md", "a://1.md", false),
            ("a://{x}", "b://1", false),
            ("a://x", "a://x", true),
            ("a://x", "a://xy", false),
            ("a://{x", "a://1", false),
        ] {
            assert_eq!(
                matches_template(template, uri),
                expected,
                "{template} {uri}"
            );
        }
    }

    #[test]
    fn an_authority_is_the_start_of_a_uri() {
        for (uri, expected) in [
            ("file:///a/b", "file://"),
            ("repo://host/x", "repo://host"),
            ("repo://host?x", "repo://host"),
            ("note:1", "note"),
            ("plain", ""),
        ] {
            assert_eq!(authority(uri), expected, "{uri}");
        }
    }
}
