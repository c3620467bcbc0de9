//! `trunkline resources`: lists resources and templates.

use serde::Serialize;
use trunkline::context::{ServerResource, ServerTemplate};
use trunkline::{Host, Json};

use super::tools;
use crate::args::ConfigArgs;
use crate::exit::Exit;
use crate::output::{self, Lines};

/// The maximum length of a description in a list.
const MAX_DESCRIPTION: usize = 100;

pub(crate) async fn run(config: &ConfigArgs, server: Option<&str>, as_json: bool) -> Exit {
    tools::with_servers(config, server, async |host| show(host, as_json)).await
}

fn show(host: &Host, as_json: bool) {
    let (resources, templates) = (host.resources(), host.resource_templates());
    if as_json {
        output::json(&document(&resources, &templates));
        return;
    }
    let mut lines = Lines::new();
    for ServerResource {
        server, resource, ..
    } in &resources
    {
        line(
            &mut lines,
            "",
            server,
            &resource.uri,
            &resource.name,
            &resource.raw,
        );
    }
    for ServerTemplate {
        server, template, ..
    } in &templates
    {
        line(
            &mut lines,
            "template ",
            server,
            &template.uri_template,
            &template.name,
            &template.raw,
        );
    }
    if lines.is_empty() {
        tools::note_empty(host, "resources");
    }
    output::result(lines);
}

/// Returns resources and templates for `--json`.
pub(crate) fn document<'a>(
    resources: &'a [ServerResource],
    templates: &'a [ServerTemplate],
) -> impl Serialize + use<'a> {
    let resources = resources.iter().map(ResourceJson::of);
    let templates = templates.iter().map(ResourceJson::of_template);
    resources.chain(templates).collect::<Vec<_>>()
}

/// Adds a line for a resource or template, in the form that `read` accepts.
fn line(lines: &mut Lines, mark: &str, server: &str, uri: &str, name: &str, raw: &Json) {
    let title: Option<String> = raw.field("title");
    let about: Option<String> = raw.field("description");
    let about = about.or(title).unwrap_or_else(|| name.to_owned());
    let about = first_line(&about);
    lines.push(format!("{mark}@{server}:{uri}  {about}"));
}

/// Returns the first line of a description, shortened.
pub(crate) fn first_line(text: &str) -> String {
    let line = text.trim_start().lines().next().unwrap_or_default();
    let mut shown: String = line.chars().take(MAX_DESCRIPTION).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    shown
}

/// A resource or template for `--json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceJson<'a> {
    server: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri_template: Option<&'a str>,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
}

impl<'a> ResourceJson<'a> {
    fn new(server: &'a str, name: &'a str, raw: &Json) -> Self {
        Self {
            server,
            uri: None,
            uri_template: None,
            name,
            title: raw.field("title"),
            description: raw.field("description"),
            mime_type: raw.field("mimeType"),
            size: raw.field("size"),
        }
    }

    fn of(found: &'a ServerResource) -> Self {
        let resource = &found.resource;
        Self {
            uri: Some(&resource.uri),
            ..Self::new(&found.server, &resource.name, &resource.raw)
        }
    }

    fn of_template(found: &'a ServerTemplate) -> Self {
        let template = &found.template;
        Self {
            uri_template: Some(&template.uri_template),
            ..Self::new(&found.server, &template.name, &template.raw)
        }
    }
}
