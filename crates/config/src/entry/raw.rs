//! Checks and expands an entry as written in a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use trunkline_sandbox::Request;

use super::fields::expected;
use super::transport::{
    GrantType, HttpEntry, HttpFlavour, IdeEntry, OAuthEntry, StdioEntry, TlsEntry, TransportEntry,
    WsEntry,
};
use super::url::ServerUrl;
use super::{Confinement, ServerEntry, ToolFilter};
use crate::document::{Document, Object, ParseError, object};
use crate::expand::{Environment, ExpansionReport, expand};
use crate::glob::Glob;
use crate::names::is_deceptive;
use crate::scopes::Scope;
use crate::secret::Secret;

/// The longest name of an account.
const MAX_ACCOUNT_NAME: usize = 64;

/// An entry as written in a file, before it is checked.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawEntry {
    #[serde(rename = "type")]
    kind: Option<String>,
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<BTreeMap<String, Secret>>,
    cwd: Option<PathBuf>,
    url: Option<String>,
    headers: Option<BTreeMap<String, Secret>>,
    headers_helper: Option<String>,
    #[serde(default, deserialize_with = "object")]
    oauth: Option<OAuthEntry>,
    account: Option<String>,
    #[serde(default, deserialize_with = "object")]
    tls: Option<TlsEntry>,
    auth_token: Option<Secret>,
    ide_name: Option<String>,
    id: Option<String>,
    timeout: Option<u64>,
    connect_timeout: Option<u64>,
    always_load: Option<bool>,
    lazy: Option<bool>,
    share: Option<bool>,
    disabled: Option<bool>,
    #[serde(default, deserialize_with = "object")]
    tools: Option<RawTools>,
    sandbox: Option<Value>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with lists \"allow\" and \"deny\"")]
struct RawTools {
    allow: Option<Vec<String>>,
    deny: Option<Vec<String>>,
}

impl RawTools {
    fn filter(self) -> ToolFilter {
        let globs = |list: Vec<String>| list.into_iter().map(Glob::new).collect();
        ToolFilter {
            allow: self.allow.map(globs),
            deny: self.deny.map(globs).unwrap_or_default(),
        }
    }

    /// Whether a glob could pass for other text when displayed.
    fn is_deceptive(&self) -> bool {
        let globs = self.allow.iter().chain(&self.deny).flatten();
        globs.flat_map(|glob| glob.chars()).any(is_deceptive)
    }
}

const KNOWN_TYPES: &str =
    "stdio, http, streamable-http, sse, ws, sse-ide, ws-ide, sdk, claudeai-proxy";

impl RawEntry {
    /// Decodes an entry, which must be an object.
    pub(crate) fn decode<'a>(
        document: &Document<'a>,
        raw: &'a RawValue,
    ) -> Result<Self, ParseError> {
        let decoded = document.decode::<Object<Self>>(raw);
        decoded.map(|Object(entry)| entry).map_err(|problem| {
            let Ok(members) = document.members(raw) else {
                let message = "expected an object with a \"command\" or a \"url\"";
                return ParseError {
                    message: message.to_owned(),
                    ..problem
                };
            };
            // The error does not name the field: find the one that fails by itself.
            let wrong = |(name, value): &(&str, &RawValue)| {
                let alone = format!("{{{}:{}}}", serde_json::json!(name), value.get());
                serde_json::from_str::<Self>(&alone).is_err()
            };
            match members.iter().find(wrong) {
                Some((name, _)) => ParseError {
                    message: match expected(name) {
                        Some(expected) => format!("\"{name}\": expected {expected}"),
                        None => format!("\"{name}\": {}", problem.message),
                    },
                    ..problem
                },
                None => problem,
            }
        })
    }

    /// Checks the entry and expands its variables. The error says what to write instead.
    #[expect(clippy::too_many_lines, reason = "one or two lines per field")]
    pub(crate) fn check(
        self,
        name: &str,
        scope: Scope,
        source: &str,
        environment: &Environment,
        report: &mut ExpansionReport,
    ) -> Result<ServerEntry, String> {
        let Self {
            kind,
            command,
            args,
            env,
            cwd,
            url,
            headers,
            headers_helper,
            oauth,
            account,
            tls,
            auth_token,
            ide_name,
            id,
            timeout,
            connect_timeout,
            always_load,
            lazy,
            share,
            disabled,
            tools,
            sandbox,
        } = self;
        let kind = kind_of(kind.as_deref(), command.is_some(), url.is_some())?;
        refuse_deceptive(tools.as_ref(), ide_name.as_deref())?;
        check_sandbox(sandbox.as_ref())?;
        note_both(kind, command.is_some() && url.is_some(), report);
        let url = url_of(kind, url)?;
        let quoted_name = !url.contains('$');
        let url = ServerUrl::new(url);
        let (headers, tls) = (headers.unwrap_or_default(), tls.unwrap_or_default());
        let mut transport = match kind {
            "stdio" => TransportEntry::Stdio(StdioEntry {
                command: command_of(command)?,
                args: args.unwrap_or_default(),
                env: env.unwrap_or_default(),
                cwd,
            }),
            "" | "http" | "streamable-http" | "sse" => TransportEntry::Http(HttpEntry {
                flavour: match kind {
                    "" => HttpFlavour::Either,
                    "sse" => HttpFlavour::Sse,
                    _ => HttpFlavour::Streamable,
                },
                url,
                headers,
                headers_helper,
                oauth: oauth.unwrap_or_default(),
                account,
                tls,
            }),
            "ws" => TransportEntry::Ws(WsEntry {
                url,
                headers,
                headers_helper,
                tls,
            }),
            "sse-ide" | "ws-ide" => TransportEntry::Ide(IdeEntry {
                websocket: kind == "ws-ide",
                url,
                auth_token,
                ide_name,
            }),
            "sdk" => TransportEntry::Sdk,
            "claudeai-proxy" => TransportEntry::ClaudeAiProxy {
                url,
                id,
                proxy: None,
            },
            other => {
                return Err(format!(
                    "unknown \"type\": \"{other}\"; write one of {KNOWN_TYPES}"
                ));
            }
        };
        let whole = (scope == Scope::Enterprise).then(|| environment.with_secrets());
        let environment = whole.as_ref().unwrap_or(environment);
        transport.each_text(|text| expand(text, environment, report));
        check_expanded(&transport, quoted_name, report)?;
        if let (TransportEntry::Stdio(stdio), Scope::Plugin) = (&mut transport, scope) {
            // Plugins are documented to use variables there.
            let plain = |dir: PathBuf| expand(&dir.to_string_lossy(), environment, report).into();
            stdio.cwd = stdio.cwd.take().map(plain);
        }
        Ok(ServerEntry {
            name: name.to_owned(),
            scope,
            source: source.to_owned(),
            transport,
            timeout: limit(timeout),
            connect_timeout: limit(connect_timeout),
            disabled: disabled.unwrap_or(false),
            always_load: always_load.unwrap_or(false),
            lazy,
            share,
            tools: tools.map(RawTools::filter).unwrap_or_default(),
            sandbox,
            confinement: Confinement::default(),
            keyring: report.take_keyring(),
            variables: report.take_variables(),
            written: None,
            base: None,
            files: Vec::new(),
            too_many_files: false,
        })
    }
}

/// The `type` of an entry, or its default; empty for either protocol over HTTP.
fn kind_of(kind: Option<&str>, has_command: bool, has_url: bool) -> Result<&str, String> {
    match (kind, has_command, has_url) {
        (Some(kind), ..) => Ok(kind),
        (None, true, _) => Ok("stdio"),
        (None, false, true) => Ok(""),
        (None, false, false) => Err("it has neither a \"command\" nor a \"url\"".to_owned()),
    }
}

/// Rejects text that could pass for other text when displayed.
fn refuse_deceptive(tools: Option<&RawTools>, ide_name: Option<&str>) -> Result<(), String> {
    if tools.is_some_and(RawTools::is_deceptive)
        || ide_name.is_some_and(|name| name.chars().any(is_deceptive))
    {
        let message = "\"tools\" and \"ideName\" may not contain line breaks or control characters";
        return Err(message.to_owned());
    }
    Ok(())
}

/// Checks the sandbox as far as it does not depend on settings (SEC-5).
fn check_sandbox(sandbox: Option<&Value>) -> Result<(), String> {
    // Where relative paths start from does not matter here.
    let check = |sandbox| Request::check(sandbox, Some(Path::new("/")));
    let checked = sandbox.map_or(Ok(()), check);
    checked.map_err(|reason| format!("\"sandbox\": {reason}"))
}

/// Warns about the ignored field of an entry with both a `command` and a `url`.
fn note_both(kind: &str, has_both: bool, report: &mut ExpansionReport) {
    match (has_both, kind) {
        (false, _) => {}
        (true, "stdio") => {
            report.note("\"url\" has no effect beside \"command\"; remove one of them");
        }
        (true, _) => {
            report.note("\"command\" has no effect on a server with a \"url\"; remove one of them");
        }
    }
}

/// The `url` of an entry, if its type needs one.
fn url_of(kind: &str, url: Option<String>) -> Result<String, String> {
    match (kind, url) {
        ("stdio" | "sdk", _) => Ok(String::new()),
        (_, Some(url)) if url.trim().is_empty() => {
            let message =
                "it is not configured yet: its \"url\" is empty; write the URL of the server";
            Err(message.to_owned())
        }
        (_, Some(url)) => Ok(url),
        (kind, None) if KNOWN_TYPES.split(", ").any(|known| known == kind) => {
            Err(format!("a \"{kind}\" server needs a \"url\""))
        }
        // An unknown type is reported elsewhere.
        (_, None) => Ok(String::new()),
    }
}

fn command_of(command: Option<String>) -> Result<String, String> {
    match command {
        None => Err("a \"stdio\" server needs a \"command\"".to_owned()),
        Some(command) if command.trim().is_empty() => {
            Err("its \"command\" is empty; write the program to start".to_owned())
        }
        Some(command) => Ok(command),
    }
}

/// Checks that need expanded variables.
fn check_expanded(
    transport: &TransportEntry,
    quoted_name: bool,
    report: &ExpansionReport,
) -> Result<(), String> {
    if report.is_too_long() {
        return Err("it is larger than 1 MB with its variables expanded".to_owned());
    }
    check_env(transport)?;
    check_url(transport, quoted_name)?;
    check_oauth(transport)
}

/// A name with `=` in it would set another variable than it seems to.
fn check_env(transport: &TransportEntry) -> Result<(), String> {
    let wrong = |name: &&String| name.is_empty() || name.contains(['=', '\0']);
    match transport.env().and_then(|env| env.keys().find(wrong)) {
        Some(name) => Err(format!(
            "\"env\": \"{}\" cannot be the name of a variable",
            crate::names::quoted_name(name)
        )),
        None => Ok(()),
    }
}

/// Checks that the transport can open the URL. A URL with an unset variable or a pending secret is
/// left to the connection (CFG-5).
///
/// The message does not repeat an expanded value, which may be a secret.
fn check_url(transport: &TransportEntry, quoted_name: bool) -> Result<(), String> {
    let Some(url) = transport.url() else {
        return Ok(());
    };
    let schemes = match transport.http_flavour() {
        Some(_) => ["https", "http"],
        None => ["wss", "ws"],
    };
    let parsed = match url.parse() {
        Ok(parsed) => parsed,
        Err(_) if url.expose().contains('$') => return Ok(()),
        Err(error) => return Err(format!("its \"url\" is not a URL: {error}")),
    };
    if schemes.contains(&parsed.scheme()) {
        return Ok(());
    }
    let kind = transport.kind();
    let [secure, plain] = schemes;
    let found = if quoted_name {
        format!(", not with {}:", parsed.scheme())
    } else {
        String::new()
    };
    Err(format!(
        "the \"url\" of a \"{kind}\" server begins with {secure}:// or {plain}://{found}"
    ))
}

/// Checks the name of an account.
pub fn check_account_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.@+".contains(c);
    if name.is_empty() || name.len() > MAX_ACCOUNT_NAME || !name.chars().all(is_plain) {
        return Err(format!(
            "\"account\" must be 1 to {MAX_ACCOUNT_NAME} letters, digits or any of -_.@+"
        ));
    }
    Ok(())
}

fn check_oauth(transport: &TransportEntry) -> Result<(), String> {
    if let TransportEntry::Http(http) = transport
        && let Some(account) = &http.account
    {
        check_account_name(account)?;
    }
    let is_machine = |oauth: &&OAuthEntry| oauth.grant_type == GrantType::ClientCredentials;
    if let Some(oauth) = transport.oauth().filter(is_machine) {
        if oauth.client_id.is_none() {
            return Err("\"grantType\": \"client_credentials\" needs a \"clientId\"".to_owned());
        }
        if oauth.xaa {
            return Err("\"xaa\" and \"grantType\" exclude each other".to_owned());
        }
    }
    let user = transport.oauth().filter(|oauth| !is_machine(oauth));
    if user.is_some_and(|oauth| oauth.private_key_file.is_some() || oauth.key_id.is_some()) {
        let fields = "\"privateKeyFile\" and \"keyId\"";
        return Err(format!(
            "{fields} need \"grantType\": \"client_credentials\""
        ));
    }
    let metadata = transport
        .oauth()
        .and_then(|oauth| oauth.auth_server_metadata_url.as_deref());
    match metadata {
        Some(url) if !url.to_ascii_lowercase().starts_with("https://") => {
            Err("\"authServerMetadataUrl\" must begin with https://".to_owned())
        }
        _ => Ok(()),
    }
}

/// A limit in milliseconds; 0 means the default, as for the environment variables.
fn limit(milliseconds: Option<u64>) -> Option<Duration> {
    let given = milliseconds.filter(|milliseconds| *milliseconds > 0);
    given.map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::FIELDS;
    use serde::de::{self, Visitor};

    fn check(json: &str) -> Result<ServerEntry, String> {
        let raw: RawEntry = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let environment = Environment::of([("X", "exp"), ("HOST", "example.com")]);
        let mut report = ExpansionReport::default();
        raw.check("s", Scope::User, "f", &environment, &mut report)
    }

    #[test]
    fn the_type_follows_from_the_fields() {
        for (json, kind) in [
            (r#"{"command":"c"}"#, "stdio"),
            (r#"{"type":"stdio","command":"c","url":"ignored"}"#, "stdio"),
            (r#"{"url":"https://h/"}"#, "http"),
            (r#"{"type":"http","url":"https://h/"}"#, "http"),
            (r#"{"type":"streamable-http","url":"http://h/"}"#, "http"),
            (r#"{"type":"sse","url":"https://h/"}"#, "sse"),
            (r#"{"type":"ws","url":"wss://h/"}"#, "ws"),
            (
                r#"{"type":"sse-ide","url":"http://127.0.0.1:1/"}"#,
                "sse-ide",
            ),
            (
                r#"{"type":"ws-ide","url":"ws://127.0.0.1:1/","authToken":"t"}"#,
                "ws-ide",
            ),
            (r#"{"type":"sdk"}"#, "sdk"),
            (
                r#"{"type":"claudeai-proxy","url":"https://h/","id":"i"}"#,
                "claudeai-proxy",
            ),
        ] {
            assert_eq!(check(json).unwrap().transport.kind(), kind, "{json}");
        }
        let either = check(r#"{"url":"https://h/"}"#).unwrap().transport;
        assert!(
            matches!(either, TransportEntry::Http(http) if http.flavour == HttpFlavour::Either)
        );
    }

    #[test]
    fn mistakes_are_named_with_what_to_write() {
        for (json, told) in [
            ("{}", "neither a \"command\" nor a \"url\""),
            (
                r#"{"type":"pigeon"}"#,
                "unknown \"type\": \"pigeon\"; write one of stdio",
            ),
            (r#"{"type":"stdio"}"#, "needs a \"command\""),
            (r#"{"command":" "}"#, "\"command\" is empty"),
            (r#"{"type":"http"}"#, "a \"http\" server needs a \"url\""),
            (
                r#"{"type":"http","url":""}"#,
                "not configured yet: its \"url\" is empty",
            ),
            (r#"{"url":" "}"#, "its \"url\" is empty"),
            (r#"{"type":"http","url":"nonsense"}"#, "not a URL"),
            (
                r#"{"type":"http","url":"file:///etc/passwd"}"#,
                "begins with https:// or http://, not with file:",
            ),
            (
                r#"{"type":"ws","url":"https://h"}"#,
                "begins with wss:// or ws://",
            ),
            (r#"{"command":"c","env":{"A":1}}"#, "expected a string"),
            (r#"{"command":"c","args":"x"}"#, "expected a sequence"),
            (r#"{"command":"c","timeout":-1}"#, "expected u64"),
            (r#"{"command":"c","tools":[]}"#, "expected"),
            (
                r#"{"command":"c","tools":{"deny":["a\nb"]}}"#,
                "may not contain line breaks",
            ),
            (
                r#"{"command":"c","env":{"LD_PRELOAD=/x":""}}"#,
                "cannot be the name of a variable",
            ),
            (
                r#"{"url":"https://h","oauth":{"authServerMetadataUrl":"http://h"}}"#,
                "must begin with https://",
            ),
            (
                r#"{"url":"https://h","oauth":{"clientId":"c","privateKeyFile":"k.pem"}}"#,
                "need \"grantType\": \"client_credentials\"",
            ),
            (
                r#"{"url":"https://h","oauth":{"grantType":"client_credentials"}}"#,
                "needs a \"clientId\"",
            ),
        ] {
            let error = check(json).unwrap_err();
            assert!(error.contains(told), "{json}: {error}");
        }
    }

    #[test]
    fn variables_are_expanded_where_they_count_and_nowhere_else() {
        let entry = check(
            r#"{"command":"$X","args":["${X}"],"env":{"$X":"${X}"},"cwd":"/$X","sandbox":{"read":["/$X"]}}"#,
        )
        .unwrap();
        let TransportEntry::Stdio(stdio) = &entry.transport else {
            unreachable!()
        };
        assert_eq!((&*stdio.command, &*stdio.args[0]), ("exp", "exp"));
        assert_eq!(stdio.env["$X"].expose(), "exp");
        assert_eq!(stdio.cwd, Some("/$X".into()));
        assert_eq!(entry.sandbox.unwrap()["read"][0], "/$X");

        let entry = check(
            r#"{"url":"https://${HOST}/","headers":{"A":"b ${X}"},"headersHelper":"echo $X","oauth":{"clientId":"$X","scopes":"a b"}}"#,
        )
        .unwrap();
        let TransportEntry::Http(http) = &entry.transport else {
            unreachable!()
        };
        assert_eq!(http.url.expose(), "https://example.com/");
        assert_eq!(http.headers["A"].expose(), "b exp");
        assert_eq!(http.headers_helper.as_deref(), Some("echo $X"));
        assert_eq!(http.oauth.client_id.as_deref(), Some("$X"));
        assert_eq!(http.oauth.scopes.as_deref().unwrap(), ["a", "b"]);
    }

    #[test]
    fn a_url_that_is_not_complete_yet_is_left_to_the_connection() {
        for url in ["${NOT_SET}", "https://${NOT_SET}/", "${keyring:a/b}"] {
            assert!(check(&format!(r#"{{"url":"{url}"}}"#)).is_ok(), "{url}");
        }
    }

    #[test]
    fn the_described_fields_are_the_fields() {
        struct FieldNames<'a>(&'a mut Vec<&'static str>);

        impl<'de> de::Deserializer<'de> for FieldNames<'_> {
            type Error = de::value::Error;

            fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
                Err(de::Error::custom("only a struct is caught"))
            }

            fn deserialize_struct<V: Visitor<'de>>(
                self,
                _: &'static str,
                fields: &'static [&'static str],
                visitor: V,
            ) -> Result<V::Value, Self::Error> {
                self.0.extend(fields);
                self.deserialize_any(visitor)
            }

            serde::forward_to_deserialize_any! {
                bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
                unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
            }
        }

        let mut known = Vec::new();
        assert!(RawEntry::deserialize(FieldNames(&mut known)).is_err());
        let mut described: Vec<_> = FIELDS.iter().map(|field| field.name).collect();
        known.sort_unstable();
        described.sort_unstable();
        assert_eq!(known, described);
    }
}
