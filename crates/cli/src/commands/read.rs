//! `trunkline read`: reads one resource.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use trunkline::{Body, Host, Json, ReadOptions, ResourceContent, ResourceContents};

use super::context::{self, Target};
use crate::args::{ConfigArgs, ReadArgs};
use crate::exit::Exit;
use crate::output;

pub(crate) async fn run(config: &ConfigArgs, read: &ReadArgs, as_json: bool) -> Exit {
    let (server, uri) = match (&*read.server, read.uri.as_deref()) {
        (server, Some(uri)) => (server.to_owned(), uri.to_owned()),
        (mention, None) => match context::mentioned(config, mention) {
            Ok(Some(found)) => found,
            Ok(None) => {
                let hint = "write `read <server> <uri>` or `read @server:uri`; `trunkline resources` shows them";
                output::error("which resource?", Some(hint));
                return Exit::Usage;
            }
            Err(exit) => return exit,
        },
    };
    let timeout = read.timeout.map(Duration::from_millis);
    let output = read.output.as_deref();
    context::with_target(
        config,
        Target::Server(&server),
        timeout,
        async |host, left| read_and_show(host, &server, &uri, left, output, as_json).await,
    )
    .await
}

async fn read_and_show(
    host: &Host,
    server: &str,
    uri: &str,
    timeout: Option<Duration>,
    file: Option<&Path>,
    as_json: bool,
) -> Exit {
    let options = ReadOptions {
        timeout,
        on_progress: Some(context::progress_line()),
    };
    let read = match host.read_resource(server, uri, options).await {
        Ok(read) => read,
        Err(error) => return context::fail(&error, timeout.is_some()),
    };
    for warning in &read.warnings {
        output::warning(warning);
    }
    match file {
        Some(file) if file.as_os_str() == "-" => show(&read, as_json, true),
        Some(file) => save(&read, file, as_json),
        None => show(&read, as_json, false),
    }
}

/// Shows what a resource holds: text as it is; bytes too, where they are wanted or nobody reads along.
fn show(read: &ResourceContents, as_json: bool, bytes_too: bool) -> Exit {
    if as_json {
        output::json(&ReadJson::of(read));
        return Exit::Done;
    }
    for content in &read.contents {
        match &content.body {
            Body::Text(text) => output::tool_text(text),
            Body::Blob(_) => match bytes(content) {
                Ok(bytes) if bytes_too => output::result_bytes(&bytes),
                Ok(bytes) => {
                    let kind = content.mime_type.as_deref().unwrap_or("bytes");
                    let what = format!(
                        "{} is {kind}, {} bytes; -o FILE writes it to a file, -o - here\n",
                        content.uri,
                        bytes.len()
                    );
                    output::note(&output::harmless_lines(&what));
                }
                Err(exit) => return exit,
            },
        }
    }
    Exit::Done
}

/// Writes what a resource holds to a file, which only its owner can read.
fn save(read: &ResourceContents, file: &Path, as_json: bool) -> Exit {
    let mut all = Vec::new();
    for content in &read.contents {
        match bytes(content) {
            Ok(bytes) => all.extend(bytes),
            Err(exit) => return exit,
        }
    }
    if let Err(error) = write(file, &all) {
        let what = format!("{} cannot be written: {error}", file.display());
        output::error(&what, Some("name a file in a directory that exists"));
        return Exit::Usage;
    }
    if as_json {
        output::json(&ReadJson {
            files: vec![file.to_owned()],
            ..ReadJson::of(read)
        });
    } else {
        output::note(&format!(
            "{} bytes written to {}\n",
            all.len(),
            file.display()
        ));
    }
    Exit::Done
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
        Body::Text(text) => Ok(text.as_bytes().to_vec()),
        Body::Blob(blob) => STANDARD.decode(&**blob).map_err(|error| {
            let what = format!(
                "the server sent {} as what is not Base64: {error}",
                content.uri
            );
            output::error(&what, None);
            Exit::Failed
        }),
    }
}

/// A resource for `--json`; its contents are what the server wrote, byte for byte.
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
