//! `trunkline remove`: removes a server from a scope.

use serde_json::{Value, json};
use trunkline::auth::server_config;
use trunkline_config::{Scope, Server, Source};

use crate::args::{ConfigArgs, WriteScope};
use crate::change;
use crate::exit::Exit;
use crate::output::{self, Lines, inline};
use crate::session::{self, Configured};
use crate::standing::last_word;

pub(crate) fn run(
    config: &ConfigArgs,
    name: &str,
    scope: Option<WriteScope>,
    as_json: bool,
) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    let editor = configured.editor();
    if let Some(file) = &configured.set.exclusive {
        return change::refuse_exclusive(file);
    }
    let places = editor.scopes_of(name);
    let scope = match (scope, places.as_slice()) {
        (Some(scope), _) => scope.into(),
        (None, [only]) => only.scope,
        (None, []) => {
            return match configured.foremost(name) {
                Some(server) => {
                    let (scope, source) = (server.entry.scope, &server.entry.source);
                    let what = format!(
                        "\"{name}\" comes from the {scope} scope ({source}), which cannot be edited"
                    );
                    let hint = format!("disable it with `trunkline disable {}`", last_word(name));
                    output::error(&what, Some(&hint));
                    Exit::Usage
                }
                None => configured.unknown(name),
            };
        }
        (None, several) => {
            output::error(
                &format!("\"{name}\" is in several scopes; which one?"),
                None,
            );
            for place in several {
                let line = format!("  trunkline remove -s {} {}", place.scope, last_word(name));
                let line = format!("{line}   # {}", place.source);
                output::note(Lines::one(line));
            }
            return Exit::Usage;
        }
    };
    let with_secret = configured
        .set
        .named(name)
        .find(|server| server.entry.scope == scope)
        .filter(|server| has_client(&server.entry.as_written()));
    // Nothing else of this name stays, so that `logout` finds the sign-in.
    let is_signed_in = places.len() == 1 && is_signed_in(&configured, name);
    match editor.remove(scope, name) {
        Ok(written) => {
            if let Some(server) = with_secret {
                delete_secret(&configured, server);
            }
            let what = format!("removed \"{name}\" from the {scope} scope");
            let document = json!({"removed": name, "scope": scope, "file": change::path(&written)});
            let exit = change::report(&what, &written, document, as_json);
            if is_signed_in && !as_json {
                let command = format!("trunkline logout {}", inline(&last_word(name)));
                output::note(Lines::one(format!(
                    "you are still signed in to it; sign out with `{command}`"
                )));
            }
            exit
        }
        Err(error) => {
            let hint = hint(&configured, name, scope, &places);
            change::fail(&error, hint.as_deref())
        }
    }
}

/// Returns whether the user is signed in to a server.
fn is_signed_in(configured: &Configured, name: &str) -> bool {
    let auth = session::auth(configured.loader.layout());
    let server = configured.foremost(name);
    let settings = server.and_then(|server| server_config(&server.entry));
    auth.zip(settings)
        .is_some_and(|(auth, settings)| auth.server(settings).listed_account().is_some())
}

/// Returns whether an entry names an OAuth client, whose secret may be stored.
fn has_client(entry: &Value) -> bool {
    entry.pointer("/oauth/clientId").is_some()
}

/// Returns the metadata URL of an entry's authorization server, which its client secret belongs to.
pub(super) fn metadata_url(entry: &Value) -> Option<&str> {
    entry.pointer("/oauth/authServerMetadataUrl")?.as_str()
}

/// Deletes the client secret from the keychain. A failure does not undo the removal.
fn delete_secret(configured: &Configured, server: &Server) {
    let entry = server.entry.as_written();
    let url = entry["url"].as_str().unwrap_or_default();
    let vault = session::vault(configured.loader.layout());
    let metadata_url = metadata_url(&entry);
    if let Err(error) = vault.delete_client_secret(&server.entry.name, url, metadata_url) {
        output::warning(&format!("could not delete its client secret: {error}"));
    }
}

/// Returns a hint to the scope that has the server, or to a similar name.
fn hint(configured: &Configured, name: &str, scope: Scope, places: &[Source]) -> Option<String> {
    if let Some(elsewhere) = places.iter().find(|place| place.scope != scope) {
        let scope = elsewhere.scope;
        let command = format!("trunkline remove -s {scope} {}", last_word(name));
        return Some(format!("it is in the {scope} scope: `{command}`"));
    }
    let of_scope = configured
        .set
        .servers
        .iter()
        .filter(|server| server.entry.scope == scope);
    let near = trunkline::text::nearest(name, of_scope.map(|server| server.entry.name.as_str()))?;
    (near != name).then(|| format!("did you mean \"{near}\"?"))
}
