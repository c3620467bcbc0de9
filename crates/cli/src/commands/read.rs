//! `trunkline read`: reads a resource.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use trunkline::context::{
    ReadOptions, ResourceBody, ResourceContent, ResourceContents, expand_template,
    template_variables,
};
use trunkline::{Host, Json};

use super::context::{self, Request, Target};
use super::result::Presentation;
use crate::args::{ConfigArgs, ReadArgs};
use crate::exit::Exit;
use crate::output::{self, Lines, Stream, TextKind};
use crate::standing::quoted;

/// The resource to read.
struct ResourceRef {
    server: String,
    /// A URI or a template.
    uri: String,
    /// The values of the template's variables.
    values: Vec<(String, String)>,
}

pub(crate) async fn run(config: &ConfigArgs, read: &ReadArgs, as_json: bool) -> Exit {
    let wanted = match parse(config, &read.words) {
        Ok(wanted) => wanted,
        Err(exit) => return exit,
    };
    let timeout = read.timeout;
    let output = read.output.as_deref();
    let target = Target::Server(&wanted.server);
    context::with_target(config, target, timeout, async |host, left| {
        let uri = match resolve(host, &wanted) {
            Ok(uri) => uri,
            Err(exit) => return exit,
        };
        let options = ReadOptions::new()
            .timeout(left)
            .on_progress(context::progress_line());
        match host.read_resource(&wanted.server, &uri, options).await {
            Ok(content) => {
                let style = Presentation::new(as_json, read.raw);
                output_content(&content, output, style)
            }
            Err(error) => context::fail(
                &error,
                Request {
                    listing: "resources",
                    timeout,
                },
            ),
        }
    })
    .await
}

/// Parses the words. An `Err` has been reported.
fn parse(config: &ConfigArgs, words: &[String]) -> Result<ResourceRef, Exit> {
    let [first, rest @ ..] = words else {
        return Err(Exit::Usage);
    };
    let (server, uri, values) = match (context::mentioned(config, first)?, rest) {
        (Some((server, uri)), values) => (server, uri, values),
        (None, [uri, values @ ..]) => (first.clone(), uri.clone(), values),
        (None, []) => {
            let hint = "list servers and resources with `trunkline resources`";
            let what = if first.contains("://") {
                format!("no server given: `trunkline read SERVER {}`", quoted(first))
            } else {
                format!("no resource given: `trunkline read {} URI`", quoted(first))
            };
            output::error(&what, Some(hint));
            return Err(Exit::Usage);
        }
    };
    let value = |word: &String| {
        if let Some((name, value)) = word.split_once('=') {
            return Ok((name.to_owned(), value.to_owned()));
        }
        let hint = "only template variables, as key=value, may follow the URI";
        output::error(&format!("unexpected argument \"{word}\""), Some(hint));
        Err(Exit::Usage)
    };
    Ok(ResourceRef {
        server,
        uri,
        values: values.iter().map(value).collect::<Result<_, _>>()?,
    })
}

/// Returns the URI to read, with a template expanded. An `Err` has been reported.
fn resolve<'w>(host: &Host, wanted: &'w ResourceRef) -> Result<Cow<'w, str>, Exit> {
    let ResourceRef {
        server,
        uri,
        values,
    } = wanted;
    let variables = template_variables(uri);
    let filled_in = || {
        let words: Vec<_> = variables
            .iter()
            .map(|name| format!("{name}=VALUE"))
            .collect();
        let (server, uri) = (quoted(server), quoted(uri));
        format!(
            "set its variables: `trunkline read {server} {uri} {}`",
            words.join(" ")
        )
    };
    if values.is_empty() {
        let templates = host.resource_templates();
        let is_template = templates
            .iter()
            .any(|found| *found.server == **server && *found.template.uri_template == **uri);
        let resources = host.resources();
        let is_resource = resources
            .iter()
            .any(|found| *found.server == **server && *found.resource.uri == **uri);
        if is_template && !is_resource && !variables.is_empty() {
            output::error(&format!("{uri} is a template"), Some(&filled_in()));
            return Err(Exit::Usage);
        }
        return Ok(uri.into());
    }
    if variables.is_empty() {
        let what = format!("{uri} is not a template and takes no variables");
        output::error(&what, None);
        return Err(Exit::Usage);
    }
    expand_template(uri, values)
        .map(Cow::Owned)
        .map_err(|problem| {
            let what = format!("cannot expand the template {uri}: {problem}");
            output::error(&what, Some(&filled_in()));
            Exit::Usage
        })
}

/// Prints or saves the content.
fn output_content(read: &ResourceContents, file: Option<&Path>, style: Presentation) -> Exit {
    for warning in &read.warnings {
        output::warning(warning);
    }
    match file {
        Some(file) if file.as_os_str() == "-" => show(read, style, true),
        Some(file) => save(read, file, style == Presentation::Json),
        None => show(read, style, !output::on_terminal()),
    }
}

/// Prints the content: text as it is, binary data only if `bytes_too`.
fn show(read: &ResourceContents, style: Presentation, bytes_too: bool) -> Exit {
    if style == Presentation::Json {
        output::json(&ReadJson::of(read));
        return Exit::Done;
    }
    let show_text = |text: &str, mime: Option<&str>| match output::width(Stream::Out) {
        Some(width) if style == Presentation::Rendered && !bytes_too => {
            output::paged(output::foreign([text], TextKind::of_mime(mime), width));
        }
        _ => output::tool_text(text),
    };
    for content in &read.contents {
        let mime = content.mime_type.as_deref();
        if let ResourceBody::Text(text) = &content.body {
            show_text(text, mime);
            continue;
        }
        let bytes = match bytes(content) {
            Ok(bytes) => bytes,
            Err(exit) => return exit,
        };
        if bytes_too {
            output::result_bytes(&bytes);
        } else if let Some(text) = text_in(content, &bytes) {
            show_text(text, mime);
        } else {
            let kind = content.mime_type.as_deref().unwrap_or("bytes");
            let what = format!(
                "{} is {kind}, {} bytes; save it with -o FILE, or print it with -o -",
                content.uri,
                bytes.len()
            );
            output::note(Lines::one(what));
        }
    }
    Exit::Done
}

/// Returns the bytes as text if their type and encoding say so.
fn text_in<'b>(content: &ResourceContent, bytes: &'b [u8]) -> Option<&'b str> {
    let mime = content.mime_type.as_deref().unwrap_or_default();
    let mime = mime.split(';').next().unwrap_or_default().trim();
    let mime = mime.to_ascii_lowercase();
    let is_text = mime.starts_with("text/")
        || ["json", "xml", "yaml"]
            .iter()
            .any(|kind| mime.ends_with(&format!("/{kind}")) || mime.ends_with(&format!("+{kind}")));
    std::str::from_utf8(bytes).ok().filter(|_| is_text)
}

/// Writes each content to a file that only its owner can read.
fn save(read: &ResourceContents, file: &Path, as_json: bool) -> Exit {
    let mut contents = Vec::new();
    for content in &read.contents {
        match bytes(content) {
            Ok(bytes) => contents.push(bytes),
            Err(exit) => return exit,
        }
    }
    if contents.is_empty() {
        output::error(&format!("{} is empty; no file was written", read.uri), None);
        return Exit::Failed;
    }
    let files: Vec<PathBuf> = match contents.len() {
        1 => vec![file.to_owned()],
        count => (1..=count).map(|number| numbered(file, number)).collect(),
    };
    for (file, bytes) in files.iter().zip(&contents) {
        if let Err(error) = write(file, bytes) {
            let what = format!("cannot write {}: {error}", file.display());
            output::error(&what, Some("choose a file in an existing directory"));
            return Exit::Usage;
        }
    }
    if as_json {
        output::json(&ReadJson {
            files,
            ..ReadJson::of(read)
        });
        return Exit::Done;
    }
    for (file, bytes) in files.iter().zip(&contents) {
        let what = format!("wrote {} bytes to {}", bytes.len(), file.display());
        output::note(Lines::one(what));
    }
    Exit::Done
}

/// `name-2.png` for `name.png`.
fn numbered(file: &Path, number: usize) -> PathBuf {
    let mut name = file.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number}"));
    if let Some(extension) = file.extension() {
        name.push(".");
        name.push(extension);
    }
    file.with_file_name(name)
}

fn write(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)?.write_all(bytes)
}

fn bytes(content: &ResourceContent) -> Result<Vec<u8>, Exit> {
    match &content.body {
        ResourceBody::Text(text) => Ok(text.as_bytes().to_vec()),
        ResourceBody::Blob(blob) => STANDARD.decode(&**blob).map_err(|error| {
            let what = format!(
                "the server sent {} with invalid Base64: {error}",
                content.uri
            );
            output::error(&what, None);
            Exit::Failed
        }),
    }
}

/// A resource for `--json`, with contents byte for byte as the server sent them.
#[derive(Serialize)]
struct ReadJson<'a> {
    server: &'a str,
    uri: &'a str,
    contents: Vec<&'a Json>,
    files: Vec<PathBuf>,
}

impl<'a> ReadJson<'a> {
    fn of(read: &'a ResourceContents) -> Self {
        Self {
            server: &read.server,
            uri: &read.uri,
            contents: read.contents.iter().map(|content| &content.raw).collect(),
            files: Vec::new(),
        }
    }
}
