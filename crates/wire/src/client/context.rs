//! Requests for single resources, prompts, completions and skills.

use std::time::Duration;

use tokio::time::Instant;

use super::input_required::{MultiRoundRequest, MultiRoundResult};
use super::{CatalogBudget, Client, Listing};
use crate::json::{Json, ObjectWriter};
use crate::mcp::{Completion, Item, Reference, ResultKind, Skill};
use crate::peer::{Progress, RequestError, RequestOptions};

/// The time for a server to take the level of its log messages.
const LOG_LEVEL_TIMEOUT: Duration = Duration::from_secs(30);

/// Options for a request that may need several rounds.
#[derive(Default)]
pub struct FetchOptions<'a> {
    /// The deadline.
    pub deadline: Option<Instant>,
    /// The idle timeout.
    pub idle: Option<Duration>,
    /// Called with each progress update, in order.
    pub on_progress: Option<&'a mut (dyn FnMut(Progress) + Send)>,
    /// Additional members of `_meta`.
    pub meta: Option<&'a Json>,
    /// Whether the caller handles error -32042 itself, instead of this client.
    pub forward_url_elicitation: bool,
}

impl Client {
    /// Reads a resource, and provides the input that the server asks for. Returns the raw result;
    /// see [`ReadResourceResult`](crate::mcp::ReadResourceResult).
    pub async fn read_resource(
        &self,
        uri: &str,
        limits: FetchOptions<'_>,
    ) -> Result<Json, RequestError> {
        let write = |params: &mut ObjectWriter| {
            params.string("uri", uri);
        };
        self.get("resources/read", uri, &write, limits).await
    }

    /// Gets a prompt, and provides the input that the server asks for. Returns the raw result; see
    /// [`GetPromptResult`](crate::mcp::GetPromptResult).
    pub async fn get_prompt(
        &self,
        name: &str,
        arguments: &[(String, String)],
        limits: FetchOptions<'_>,
    ) -> Result<Json, RequestError> {
        let write = |params: &mut ObjectWriter| {
            params.string("name", name);
            // Sent even if empty, because some servers reject a request without arguments.
            params.object("arguments", |object| {
                for (name, value) in arguments {
                    object.string(name, value);
                }
            });
        };
        self.get("prompts/get", name, &write, limits).await
    }

    /// Completes the argument `name`, which starts with `value`. `known` are the other arguments.
    pub async fn complete(
        &self,
        reference: &Reference,
        (name, value): (&str, &str),
        known: &[(String, String)],
        deadline: Option<Instant>,
    ) -> Result<Completion, RequestError> {
        let mut params = ObjectWriter::new();
        params.raw("ref", &reference.to_json());
        params.object("argument", |argument| {
            argument.string("name", name).string("value", value);
        });
        if !known.is_empty() {
            params.object("context", |context| {
                context.object("arguments", |arguments| {
                    for (name, value) in known {
                        arguments.string(name, value);
                    }
                });
            });
        }
        let result = self
            .request("completion/complete", params, deadline)
            .await?;
        Completion::from_json(&result).map_err(RequestError::Malformed)
    }

    /// Subscribes to a resource of a legacy server. For a modern one, use [`Client::listen`].
    pub async fn subscribe(
        &self,
        uri: &str,
        deadline: Option<Instant>,
    ) -> Result<(), RequestError> {
        self.resource_request(uri, "resources/subscribe", deadline)
            .await
    }

    /// Unsubscribes from a resource of a legacy server.
    pub async fn unsubscribe(
        &self,
        uri: &str,
        deadline: Option<Instant>,
    ) -> Result<(), RequestError> {
        self.resource_request(uri, "resources/unsubscribe", deadline)
            .await
    }

    /// Asks a legacy server for log messages of at least this level, without waiting for its
    /// answer. A modern one takes it with each request: [`LOG_LEVEL`](super::LOG_LEVEL).
    pub fn request_log_level(&self, level: &str) {
        let mut params = ObjectWriter::new();
        params.string("level", level);
        let options = RequestOptions {
            routing: self.routing_without_name(),
            deadline: Instant::now().checked_add(LOG_LEVEL_TIMEOUT),
            ..RequestOptions::default()
        };
        self.peer()
            .request_detached("logging/setLevel", params.finish(), options);
    }

    /// Sends a request that has a URI and an empty result.
    async fn resource_request(
        &self,
        uri: &str,
        method: &'static str,
        deadline: Option<Instant>,
    ) -> Result<(), RequestError> {
        let mut params = ObjectWriter::new();
        params.string("uri", uri);
        self.request(method, params, deadline).await.map(drop)
    }

    /// Lists the skills of a server with the skills capability.
    pub async fn list_skills(
        &self,
        deadline: Option<Instant>,
    ) -> Result<Listing<Skill>, RequestError> {
        let budget = CatalogBudget::default();
        self.list_by("skills/list", "skills", deadline, &budget)
            .await
    }

    /// Gets the skill whose `SKILL.md` is at `uri`, listed or not.
    pub async fn get_skill(
        &self,
        uri: &str,
        deadline: Option<Instant>,
    ) -> Result<Skill, RequestError> {
        let mut params = ObjectWriter::new();
        params.string("uri", uri);
        let result = self.request("skills/get", params, deadline).await?;
        let skill = result
            .get("skill")
            .ok_or_else(|| "it has no `skill`".to_owned());
        skill
            .and_then(Skill::from_json)
            .map_err(RequestError::Malformed)
    }

    async fn get(
        &self,
        method: &'static str,
        name: &str,
        write: &(dyn Fn(&mut ObjectWriter) + Sync),
        mut limits: FetchOptions<'_>,
    ) -> Result<Json, RequestError> {
        let request = MultiRoundRequest {
            method,
            name,
            write,
            parameters: &|| None,
            meta: limits.meta,
            token: self.peer.progress_token(),
            deadline: limits.deadline,
            idle: limits.idle,
            forward_url_elicitation: limits.forward_url_elicitation,
            on_progress: match &mut limits.on_progress {
                Some(on_progress) => Some(&mut **on_progress),
                None => None,
            },
        };
        let read = |result: &Json| Ok((ResultKind::from_json(result), result.clone()));
        match self.send_multi_round(request, read).await? {
            MultiRoundResult::Complete(result) => Ok(result),
            MultiRoundResult::Task(_) => Err(RequestError::Malformed(
                "unknown result type `task`".to_owned(),
            )),
        }
    }
}
