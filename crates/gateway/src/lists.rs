//! `initialize`, `server/discover` and the lists.

use std::fmt::Write as _;

use serde_json::json;
use trunkline_wire::version::{Era, LEGACY, MODERN};
use trunkline_wire::{Json, ObjectWriter};

use crate::client::View;
use crate::route::{count, qualified};
use crate::session::ClientSession;

/// The maximum length of instructions, in characters.
const MAX_INSTRUCTIONS: usize = 16_384;

/// The `_meta` member with the name of an item's server.
const ORIGIN: &str = "trunkline/server";

/// A list that clients ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Tools,
    Resources,
    Templates,
    Prompts,
}

impl List {
    fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }
}

impl ClientSession {
    /// The result of `initialize`.
    pub(crate) fn initialize_result(&self, requested: Option<&str>) -> (Json, &'static str) {
        let known = LEGACY.iter().find(|version| Some(**version) == requested);
        let version = known.copied().unwrap_or(LEGACY[0]);
        let mut result = ObjectWriter::new();
        result.string("protocolVersion", version);
        result.raw("capabilities", &capabilities());
        result.raw("serverInfo", &self.server_info());
        self.add_instructions(&mut result);
        (result.finish(), version)
    }

    /// The result of `server/discover`.
    pub(crate) fn discover_result(&self) -> Json {
        let versions: Vec<_> = MODERN.iter().chain(LEGACY).collect();
        let mut result = ObjectWriter::new();
        result.value("supportedVersions", &json!(versions));
        result.raw("capabilities", &capabilities());
        self.add_instructions(&mut result);
        result.object("_meta", |meta| self.add_server_info(meta));
        result.finish()
    }

    fn add_instructions(&self, result: &mut ObjectWriter) {
        let instructions = match self.view() {
            View::All => self.host().instructions(MAX_INSTRUCTIONS),
            View::Server(server) => {
                let status = self.host().server(server);
                let identity = status.and_then(|status| status.catalog.identity.clone());
                let text = identity.and_then(|identity| identity.instructions.clone());
                text.unwrap_or_default()
            }
        };
        if !instructions.is_empty() {
            result.string("instructions", &instructions);
        }
    }

    fn server_info(&self) -> Json {
        let options = self.options();
        let mut info = ObjectWriter::new();
        info.string("name", &options.name)
            .string("version", &options.version);
        info.finish()
    }

    fn add_server_info(&self, meta: &mut ObjectWriter) {
        meta.raw("io.modelcontextprotocol/serverInfo", &self.server_info());
    }

    /// The result of a list request.
    pub(crate) fn list_result(&self, list: List, era: Era) -> Json {
        let items = self.items(list);
        let mut result = ObjectWriter::with_capacity(items.as_str().len() + 128);
        result.raw(list.member(), &items);
        if era == Era::Modern {
            result.object("_meta", |meta| self.add_server_info(meta));
        }
        result.finish()
    }

    /// The items of a list, as one JSON array.
    pub(crate) fn items(&self, list: List) -> Json {
        match list {
            List::Tools => self.tools(),
            List::Resources => self.resources(),
            List::Templates => self.templates(),
            List::Prompts => self.prompts(),
        }
    }

    fn tools(&self) -> Json {
        let host = self.host();
        let pool = host.pool();
        let mut items = Array::default();
        if self.searches() {
            self.search_tools(|definition| items.push(definition));
        }
        for tool in pool.offered() {
            if !self.shows_server(&tool.server) || host.denial(&tool.name).is_some() {
                continue;
            }
            if self.searches() && !tool.always_load {
                continue;
            }
            let name = match self.view() {
                View::All => tool.name.as_str(),
                View::Server(_) => &tool.tool.name,
            };
            items.push(&tool.definition(name));
        }
        items.finish()
    }

    fn resources(&self) -> Json {
        let resources = self.host().resources();
        let shown = || {
            let mut shown = resources.iter();
            std::iter::from_fn(move || shown.find(|item| self.shows_server(&item.server)))
        };
        let counts = count(shown().map(|item| &*item.resource.uri));
        let mut seen = std::collections::HashSet::new();
        let mut items = Array::default();
        for item in shown() {
            let uri = &*item.resource.uri;
            let several = *self.view() == View::All && counts.get(uri).is_some_and(|n| *n > 1);
            let uri = if several && !seen.insert(uri) {
                qualified(&item.server, uri)
            } else {
                uri.to_owned()
            };
            items.push(&self.with_origin(&item.resource.raw, "uri", &uri, &item.server));
        }
        items.finish()
    }

    fn templates(&self) -> Json {
        let mut items = Array::default();
        for item in self.host().resource_templates() {
            if self.shows_server(&item.server) {
                let template = &item.template;
                let uri = &template.uri_template;
                items.push(&self.with_origin(&template.raw, "uriTemplate", uri, &item.server));
            }
        }
        items.finish()
    }

    fn prompts(&self) -> Json {
        let mut items = Array::default();
        for command in self.host().prompts() {
            if self.shows_server(&command.server) {
                let name = match self.view() {
                    View::All => &*command.name,
                    View::Server(_) => &*command.prompt.name,
                };
                items.push(&self.with_origin(&command.prompt.raw, "name", name, &command.server));
            }
        }
        items.finish()
    }

    /// An item with another name, and its server in `_meta`.
    fn with_origin(&self, raw: &Json, member: &str, name: &str, server: &str) -> Json {
        let mut item = ObjectWriter::with_capacity(raw.as_str().len() + 96);
        item.string(member, name);
        let mut meta = None;
        raw.members(|key, value| match key {
            _ if key == member => {}
            "_meta" => meta = Some(value),
            _ => _ = item.raw(key, &value),
        });
        item.object("_meta", |members| {
            if let Some(meta) = &meta {
                meta.members(|key, value| {
                    if key != ORIGIN {
                        members.raw(key, &value);
                    }
                });
            }
            members.string(ORIGIN, server);
        });
        item.finish()
    }
}

/// The capabilities of a gateway: all of them, since servers come and go.
fn capabilities() -> Json {
    Json::from(json!({
        "tools": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true},
        "prompts": {"listChanged": true},
        "completions": {},
        "logging": {},
    }))
}

/// Writes a JSON array without an intermediate tree.
#[derive(Default)]
struct Array(String);

impl Array {
    fn push(&mut self, item: &Json) {
        let comma = if self.0.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{comma}{}", item.as_str());
    }

    fn finish(self) -> Json {
        // Items are JSON, so the array is too.
        Json::parse(format!("[{}]", self.0)).unwrap_or_else(|_| Json::null())
    }
}
