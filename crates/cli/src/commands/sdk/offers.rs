//! Tools, prompts, resources and instructions for the embedding program's model (TOOL-3, TOOL-7,
//! TOOL-9, CTX-1, CTX-2, LIF-7).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use trunkline::context::ReadOptions;
use trunkline::tool::ModelTools;
use trunkline::transport::sdk::{Refusal, codes};
use trunkline::{CallError, Host, Json};

use super::super::tool_json::{ToolJson, marked_document, offered_document, own_document};
use super::super::{prompt, prompts, resources};
use super::requests::{known, written};

/// The default maximum length of instructions, in characters.
const MAX_INSTRUCTIONS: usize = 16_384;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListTools {
    /// List only this server's tools.
    server: Option<String>,
    /// Whether to wait until every server is connected or has failed.
    wait: Option<bool>,
    /// List all tools, with denied and deferred ones marked.
    all: Option<bool>,
    /// The context size of the model, in tokens.
    #[serde(alias = "context_tokens")]
    context_tokens: Option<usize>,
    /// Tools that `ToolSearch` found, to include.
    #[serde(default)]
    found: Vec<String>,
}

#[derive(Serialize)]
struct ListedTools<'a> {
    tools: Vec<ToolJson<'a>>,
    /// The names of tools left to `ToolSearch`.
    deferred: Vec<&'a str>,
    /// The names of denied tools.
    denied: Vec<&'a str>,
}

pub(super) async fn tools(host: &Host, request: ListTools) -> Result<Json, Refusal> {
    ready(host, request.wait, request.server.as_deref()).await?;
    let mut offered = host.tools_for_model(request.context_tokens);
    for name in &request.found {
        offered.load(name);
    }
    if let Some(server) = &request.server {
        only(host, &mut offered, server);
    }
    let pool = host.pool();
    let tools = if request.all.unwrap_or(false) {
        let server = request.server.as_deref();
        let of_server = pool.offered().map(|tool| &**tool);
        let of_server =
            of_server.filter(|tool| server.is_none_or(|server| &*tool.server == server));
        let own = pool.own().iter().filter(|_| server.is_none());
        let mut all = own_document(host, own);
        all.extend(marked_document(host, of_server));
        all
    } else {
        offered_document(&offered)
    };
    let deferred = offered.deferred.iter().map(|tool| tool.name.as_str());
    written(&ListedTools {
        tools,
        deferred: deferred.collect(),
        denied: offered.denied.iter().map(String::as_str).collect(),
    })
}

/// Keeps only the tools of one server.
fn only(host: &Host, offered: &mut ModelTools, server: &str) {
    let pool = host.pool();
    offered.own.clear();
    offered.loaded.retain(|tool| &*tool.server == server);
    offered.deferred.retain(|tool| &*tool.server == server);
    let of_it = |name: &String| pool.get(name).is_some_and(|tool| &*tool.server == server);
    offered.denied.retain(of_it);
}

#[derive(Deserialize)]
pub(super) struct List {
    server: Option<String>,
    wait: Option<bool>,
}

pub(super) async fn prompts(host: &Host, request: List) -> Result<Json, Refusal> {
    #[derive(Serialize)]
    struct Prompts<T> {
        prompts: T,
        problems: Vec<String>,
    }

    ready(host, request.wait, request.server.as_deref()).await?;
    let wanted = |server: &str| request.server.as_deref().is_none_or(|name| name == server);
    let (mut commands, mut skills) = (host.prompts(), host.skills().await);
    commands.retain(|command| wanted(&command.server));
    skills.skills.retain(|skill| wanted(&skill.server));
    written(&Prompts {
        prompts: prompts::document(&commands, &skills.skills),
        problems: skills.problems,
    })
}

#[derive(Deserialize)]
pub(super) struct GetPrompt {
    name: String,
    server: Option<String>,
    #[serde(default)]
    arguments: std::collections::BTreeMap<String, String>,
    timeout_ms: Option<u64>,
}

pub(super) async fn get_prompt(host: &Host, request: GetPrompt) -> Result<Json, Refusal> {
    ready(host, None, request.server.as_deref()).await?;
    let command = prompt::find(host, request.server.as_deref(), &request.name);
    let command = command.map_err(|error| refused(&error))?;
    let arguments: Vec<_> = request.arguments.into_iter().collect();
    let options = ReadOptions::new().timeout(request.timeout_ms.map(Duration::from_millis));
    let said = host.prompt_with(&command, &arguments, options).await;
    let said = said.map_err(|error| refused(&error))?;
    written(&prompt::document(&said))
}

pub(super) async fn resources(host: &Host, request: List) -> Result<Json, Refusal> {
    #[derive(Serialize)]
    struct Resources<T> {
        resources: T,
    }

    ready(host, request.wait, request.server.as_deref()).await?;
    let wanted = |server: &str| request.server.as_deref().is_none_or(|name| name == server);
    let (mut listed, mut templates) = (host.resources(), host.resource_templates());
    listed.retain(|found| wanted(&found.server));
    templates.retain(|found| wanted(&found.server));
    written(&Resources {
        resources: resources::document(&listed, &templates),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Instructions {
    #[serde(alias = "max_chars")]
    max_chars: Option<usize>,
    wait: Option<bool>,
}

pub(super) async fn instructions(host: &Host, request: Instructions) -> Result<Json, Refusal> {
    #[derive(Serialize)]
    struct Composed {
        instructions: String,
    }

    ready(host, request.wait, None).await?;
    let most = request.max_chars.unwrap_or(MAX_INSTRUCTIONS);
    written(&Composed {
        instructions: host.instructions(most),
    })
}

/// Waits until every server is connected or has failed, unless `wait` is false, and checks that the
/// server exists.
async fn ready(host: &Host, wait: Option<bool>, server: Option<&str>) -> Result<(), Refusal> {
    if wait.unwrap_or(true) {
        host.ready().await;
    }
    server.map_or(Ok(()), |server| known(host, server))
}

fn refused(error: &CallError) -> Refusal {
    let code = if error.is_usage() {
        codes::BAD_REQUEST
    } else if error.is_refused() {
        codes::REFUSED
    } else if error.is_auth_required() {
        codes::NEEDS_AUTH
    } else if error.is_timeout() {
        codes::TIMED_OUT
    } else if error.is_connection() {
        codes::NOT_CONNECTED
    } else {
        codes::FAILED
    };
    let hint = error
        .hint()
        .map(|hint| Json::from(serde_json::json!({"hint": hint})));
    Refusal {
        more: hint,
        ..Refusal::new(code, error.to_string())
    }
}
