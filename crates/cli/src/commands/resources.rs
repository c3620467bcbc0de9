//! `trunkline resources`: lists resources and templates.

use std::collections::BTreeMap;

use serde::Serialize;
use trunkline::context::{ServerResource, ServerTemplate};
use trunkline::{Host, Json};

use super::list::count;
use super::tools;
use crate::args::ConfigArgs;
use crate::exit::Exit;
use crate::output::{self, Group, Line, Lines, Stream, Style, inline, name};
use crate::stored::Catalogs;

/// The maximum length of a description in a list.
const MAX_DESCRIPTION: usize = 100;

pub(crate) async fn run(
    config: &ConfigArgs,
    server: Option<&str>,
    catalogs: Catalogs,
    as_json: bool,
) -> Exit {
    tools::with_servers(config, server, catalogs, async |host| show(host, as_json)).await
}

fn show(host: &Host, as_json: bool) {
    let (resources, templates) = (host.resources(), host.resource_templates());
    if as_json {
        output::json(&document(&resources, &templates));
        return;
    }
    let listed: Vec<Listed> = resources
        .iter()
        .map(Listed::of)
        .chain(templates.iter().map(Listed::of_template))
        .collect();
    if listed.is_empty() {
        tools::note_empty(host, "resources");
    }
    output::paged(match output::width(Stream::Out) {
        Some(width) => grouped(&listed, width),
        None => plain(&listed),
    });
}

/// A resource or template in a list.
struct Listed<'a> {
    server: &'a str,
    uri: &'a str,
    is_template: bool,
    about: String,
}

impl<'a> Listed<'a> {
    fn of(found: &'a ServerResource) -> Self {
        let resource = &found.resource;
        Self {
            server: &found.server,
            uri: &resource.uri,
            is_template: false,
            about: about(&resource.name, &resource.raw),
        }
    }

    fn of_template(found: &'a ServerTemplate) -> Self {
        let template = &found.template;
        Self {
            server: &found.server,
            uri: &template.uri_template,
            is_template: true,
            about: about(&template.name, &template.raw),
        }
    }
}

/// Returns the description, title or name of a resource.
fn about(name: &str, raw: &Json) -> String {
    let described: Option<String> = raw.field("description");
    let about = described.or_else(|| raw.field("title"));
    about.unwrap_or_else(|| name.to_owned())
}

/// Formats resources for a terminal, grouped by server.
fn grouped(listed: &[Listed], width: usize) -> Lines {
    let mut groups: BTreeMap<&str, Vec<&Listed>> = BTreeMap::new();
    for one in listed {
        groups.entry(one.server).or_default().push(one);
    }
    let mut lines = Lines::new();
    for (server, listed) in groups {
        let mut group = Group::new(&name(server), &count(listed.len(), "resource"));
        for one in listed {
            let mut shown = Line::of(Style::Literal, inline(one.uri));
            if one.is_template {
                shown.push(Style::Dim, " (template)");
            }
            group.entry(shown, &one.about);
        }
        if !lines.is_empty() {
            lines.push_gap();
        }
        lines.append(group.lines(width));
    }
    lines
}

/// Formats one resource per line, in the form that `read` accepts.
fn plain(listed: &[Listed]) -> Lines {
    let mut lines = Lines::new();
    for Listed {
        server,
        uri,
        is_template,
        about,
    } in listed
    {
        let mark = if *is_template { "template " } else { "" };
        let about = first_line(about);
        lines.push(format!("{mark}@{server}:{uri}  {about}"));
    }
    lines
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

/// Returns the first line of a description, shortened.
pub(crate) fn first_line(text: &str) -> String {
    let line = text.trim_start().lines().next().unwrap_or_default();
    let mut shown: String = line.chars().take(MAX_DESCRIPTION).collect();
    if shown.len() < line.len() {
        shown.push_str(output::ellipsis());
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
