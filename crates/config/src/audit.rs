//! `audit` of the user's and the managed settings (SEC-6). The host writes the log.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use url::Url;

use crate::diagnostic::Diagnostic;
use crate::document::{Document, Members};
use crate::files;
use crate::layout::Layout;

/// The key in settings.
pub(crate) const KEY: &str = "audit";

const KEYS: [&str; 7] = [
    "directory",
    "arguments",
    "sync",
    "maxFileMB",
    "maxFiles",
    "syslog",
    "otlp",
];

/// Settings of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AuditSettings {
    /// The file that contains them.
    pub source: String,
    /// Whether calls are refused while the log cannot be written: the managed settings ask for it.
    pub required: bool,
    /// The directory of the log.
    pub directory: PathBuf,
    /// What is recorded of arguments; of several rules that match a tool, the last counts.
    pub arguments: Vec<(String, AuditArguments)>,
    /// When records must be on disk.
    pub sync: AuditSync,
    /// The size of a file after which another is begun, in MB.
    #[serde(rename = "maxFileMB")]
    pub max_file_mb: u32,
    /// How many files are kept.
    pub max_files: u32,
    /// Whether records also go to the system log.
    pub syslog: bool,
    /// The URL of an OTLP collector that also gets records.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    pub otlp: Option<Url>,
}

/// What is recorded of a call's arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum AuditArguments {
    /// Nothing.
    None,
    /// Their size and SHA-256.
    #[default]
    Digest,
    /// The arguments with their secrets masked.
    Redacted,
}

/// When records must be on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum AuditSync {
    /// Before a call is sent, and before its result is returned.
    Always,
    /// Within a second.
    #[default]
    Second,
    /// When the system writes them.
    Never,
}

impl AuditSettings {
    /// Reads the settings of the audit log, as [`Loader`](crate::Loader) does: those of the
    /// organisation, otherwise those of the user.
    pub fn load(layout: &Layout) -> Option<Self> {
        let read = |path: PathBuf, required: bool| {
            let source = files::shown(&path);
            let text = files::read(&path).ok()??;
            let document = Document::new(&source, &text);
            let root = document.root().ok()?;
            Self::read(&document, &root, layout, required, &mut Vec::new())
        };
        read(layout.managed_settings(), true).or_else(|| read(layout.settings_file(), false))
    }

    /// Reads the key. A part that cannot be understood has its default, so that no mistake switches
    /// the log off.
    pub(crate) fn read<'a>(
        document: &Document<'a>,
        members: &Members<'a>,
        layout: &Layout,
        required: bool,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<Self> {
        let raw = match members.get_all(KEY)[..] {
            [] => return None,
            // A repeated key still counts; of the objects, the last.
            [.., (_, raw)] => raw,
        };
        let is_off = |(_, raw): &(&str, &serde_json::value::RawValue)| raw.get() == "false";
        if members.get_all(KEY).iter().all(is_off) {
            return None;
        }
        let mut settings = Self::new(document.source(), layout, required);
        let mut problems = Vec::new();
        match document.decode::<Value>(raw) {
            Ok(Value::Object(members)) => {
                for (key, value) in &members {
                    problems.extend(settings.set(key, value).err());
                }
            }
            Ok(Value::Bool(_)) => {}
            _ => problems.push("expected true, false or an object".to_owned()),
        }
        diagnostics.extend(problems.into_iter().map(|message| {
            let message = format!("\"{KEY}\": {message}; the default applies");
            document.problem(document.offset(raw), message)
        }));
        Some(settings)
    }

    fn new(source: &str, layout: &Layout, required: bool) -> Self {
        Self {
            source: source.to_owned(),
            required,
            directory: layout.state_dir().join("audit"),
            arguments: Vec::new(),
            sync: AuditSync::default(),
            max_file_mb: 16,
            max_files: 64,
            syslog: false,
            otlp: None,
        }
    }

    fn set(&mut self, key: &str, value: &Value) -> Result<(), String> {
        let number = || {
            let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
            number
                .filter(|number| (1..=1_000_000).contains(number))
                .ok_or_else(|| format!("\"{key}\" must be a number from 1 to 1000000"))
        };
        match key {
            "directory" => self.directory = directory(value)?,
            "arguments" => self.arguments = arguments(value)?,
            "sync" => {
                self.sync = match value.as_str() {
                    Some("always") => AuditSync::Always,
                    Some("second") => AuditSync::Second,
                    Some("never") => AuditSync::Never,
                    _ => return Err("\"sync\" must be always, second or never".to_owned()),
                }
            }
            "maxFileMB" => self.max_file_mb = number()?,
            "maxFiles" => self.max_files = number()?.max(2),
            "syslog" => {
                let on = value.as_bool();
                self.syslog = on.ok_or_else(|| "\"syslog\" must be true or false".to_owned())?;
            }
            "otlp" if value.is_null() => self.otlp = None,
            "otlp" => self.otlp = Some(collector(value)?),
            _ => return Err(format!("unknown key \"{key}\"; write {}", KEYS.join(", "))),
        }
        Ok(())
    }

    /// A warning about the key in a file where it does not count.
    pub(crate) fn ignored(document: &Document, members: &Members) -> Vec<Diagnostic> {
        let message = format!("\"{KEY}\" counts only in the user's and the managed settings");
        let all = members.get_all(KEY);
        all.into_iter()
            .map(|(_, raw)| document.warning(document.offset(raw), message.clone()))
            .collect()
    }
}

#[expect(clippy::ref_option, reason = "serde passes the field")]
fn as_text<S: serde::Serializer>(url: &Option<Url>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(url.as_ref().map_or("", Url::as_str))
}

/// The URL of a collector. It has no credentials: settings are shown and logged.
fn collector(value: &Value) -> Result<Url, String> {
    let url = value.as_str().and_then(|text| Url::parse(text).ok());
    let is_plain = |url: &Url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
    };
    url.filter(is_plain).ok_or_else(|| {
        "\"otlp\" must be the URL of a collector, such as \"http://127.0.0.1:4318/v1/logs\", without \
         credentials and query"
            .to_owned()
    })
}

fn directory(value: &Value) -> Result<PathBuf, String> {
    let text = value.as_str().unwrap_or_default();
    let path = match text.strip_prefix("~/") {
        Some(rest) => std::env::home_dir().map(|home| home.join(rest)),
        None => Some(Path::new(text).to_owned()),
    };
    let path = path.filter(|path| path.is_absolute());
    path.ok_or_else(|| "\"directory\" must be an absolute path, or begin with ~/".to_owned())
}

fn arguments(value: &Value) -> Result<Vec<(String, AuditArguments)>, String> {
    let mode = |value: &Value| match value.as_str() {
        Some("none") => Ok(AuditArguments::None),
        Some("digest") => Ok(AuditArguments::Digest),
        Some("redacted") => Ok(AuditArguments::Redacted),
        _ => Err(
            "\"arguments\" must be none, digest or redacted, or an object with one of them \
                  for each rule"
                .to_owned(),
        ),
    };
    let Value::Object(rules) = value else {
        return Ok(vec![("*".to_owned(), mode(value)?)]);
    };
    let rules = rules.iter();
    rules
        .map(|(rule, value)| Ok((rule.trim().to_owned(), mode(value)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<AuditSettings>, usize) {
        let document = Document::new("f", text);
        let members = document.root().ok().unwrap();
        let mut diagnostics = Vec::new();
        let layout = Layout::under("/h");
        let read = AuditSettings::read(&document, &members, &layout, true, &mut diagnostics);
        (read, diagnostics.len())
    }

    #[test]
    fn the_log_is_on_unless_it_is_clearly_off() {
        for (text, on, problems) in [
            ("{}", false, 0),
            (r#"{"audit": false}"#, false, 0),
            (r#"{"audit": true}"#, true, 0),
            (r#"{"audit": {}}"#, true, 0),
            (r#"{"audit": "yes"}"#, true, 1),
            (r#"{"Audit": true}"#, true, 0),
            (r#"{"audit": true, "audit": false}"#, true, 0),
            (r#"{"audit": {"directory": "relative"}}"#, true, 1),
            (
                r#"{"audit": {"otlp": "http://127.0.0.1:4318/v1/logs"}}"#,
                true,
                0,
            ),
            (
                r#"{"audit": {"otlp": "http://me:secret@h/v1/logs"}}"#,
                true,
                1,
            ),
            (r#"{"audit": {"otlp": "file:///v1/logs"}}"#, true, 1),
            (
                r#"{"audit": {"sync": "sometimes", "maxFiles": 0, "x": 1}}"#,
                true,
                3,
            ),
        ] {
            let (read, found) = read(text);
            assert_eq!((read.is_some(), found), (on, problems), "{text}");
        }
        let (settings, _) = read(
            r#"{"audit": {"directory": "/var/log/t", "sync": "always", "maxFileMB": 1,
                "arguments": {"*": "digest", "mcp__git": "redacted"}, "syslog": true}}"#,
        );
        let settings = settings.unwrap();
        assert_eq!(settings.directory, Path::new("/var/log/t"));
        assert_eq!(settings.sync, AuditSync::Always);
        assert_eq!(settings.arguments[1].1, AuditArguments::Redacted);
        let (settings, _) = read(r#"{"audit": true}"#);
        let directory = settings.unwrap().directory;
        assert_eq!(directory, Path::new("/h/.claude/trunkline/audit"));
    }
}
