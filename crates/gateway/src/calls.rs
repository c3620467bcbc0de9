//! `tools/call`, `resources/read`, `prompts/get` and `completion/complete`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use trunkline::CallOptions;
use trunkline::context::ReadOptions;
use trunkline::server::State;
use trunkline::tool::may_belong_to;
use trunkline_wire::mcp::Reference;
use trunkline_wire::version::Era;
use trunkline_wire::{Json, ObjectWriter, RpcError};

use crate::caller::Caller;
use crate::client::View;
use crate::errors::{invalid_params, rpc_error};
use crate::link::ClientLink;
use crate::open_call::{CURRENT, OpenCall};
use crate::parked::{Retry, same_request};
use crate::route;
use crate::search::CALL_TOOL;
use crate::session::ClientSession;
use crate::translate::{self, Caching};

/// The work on a request at its server.
pub(crate) type Work = Pin<Box<dyn Future<Output = Result<Json, RpcError>> + Send>>;

/// A tool call as the client means it.
struct ToolCall {
    name: String,
    arguments: Json,
}

impl ClientSession {
    pub(crate) async fn call_tool(
        self: Arc<Self>,
        caller: Caller,
        params: &Json,
        reply: Arc<dyn ClientLink>,
    ) -> Result<Json, RpcError> {
        if let Some(retry) = Retry::of(params) {
            return self
                .resume("tools/call", &caller, params, &retry, reply)
                .await;
        }
        let name: Option<String> = params.field("name");
        let name = name.ok_or_else(|| invalid_params("tools/call needs the name of a tool"))?;
        let arguments = params.get("arguments").filter(|it| !it.is_null());
        let arguments = arguments.unwrap_or_else(Json::empty_object);
        if !arguments.is_object() {
            return Err(invalid_params("the arguments of a tool must be an object"));
        }
        let mut call = ToolCall { name, arguments };
        if self.searches() && call.name == CALL_TOOL {
            call = called_tool(&call.arguments)?;
        } else if self.searches() && call.name == trunkline::tool::TOOL_SEARCH {
            return self.search(caller.era, call.arguments).await;
        }
        let (server, pool_name) = self.find_tool(&call.name).await?;
        self.profile().admit()?;
        let open = OpenCall::new(&server, &caller, reply);
        let work = self.tool_work(&open, &caller, server, pool_name, call.arguments);
        self.drive("tools/call", params, open, work).await
    }

    /// Returns the server of a tool and its name in the pool.
    async fn find_tool(&self, name: &str) -> Result<(String, String), RpcError> {
        let find = || {
            let pool = self.host().pool();
            let tool = match self.view() {
                View::All => pool.get(name).cloned(),
                View::Server(server) => pool.find(server, name).cloned(),
            };
            tool.filter(|tool| self.shows_server(&tool.server))
        };
        let mut found = find();
        if found.is_none() {
            // Its server may be starting.
            self.settle().await;
            found = find();
        }
        if let Some(tool) = found {
            return Ok((tool.server.to_string(), tool.name.clone()));
        }
        // A server that is still starting may have it; the call waits for it.
        let servers = self.host().servers();
        let starting = servers.iter().find(|status| {
            matches!(status.state, State::Pending { .. }) && may_belong_to(name, &status.name)
        });
        if let (Some(status), View::All) = (starting, self.view()) {
            return Ok((status.name.to_string(), name.to_owned()));
        }
        let error = self.host().find_tool(name).err();
        Err(error.map_or_else(
            || invalid_params(format!("there is no tool \"{name}\"")),
            |error| rpc_error(&error),
        ))
    }

    fn tool_work(
        self: &Arc<Self>,
        open: &Arc<OpenCall>,
        caller: &Caller,
        server: String,
        name: String,
        arguments: Json,
    ) -> Work {
        let (session, call) = (Arc::clone(self), Arc::clone(open));
        let registered = self.register(open);
        let (era, meta) = (caller.era, caller.upstream_meta());
        let work = async move {
            let _registered = registered;
            let mut options = CallOptions::new()
                .raw(true)
                .unchecked(true)
                .client(Arc::clone(session.key()))
                .forward_url_elicitation(era == Era::Legacy)
                .meta(meta);
            if call.wants_progress() || era == Era::Modern {
                let call = Arc::clone(&call);
                options = options.on_progress(move |progress| call.progress(&progress));
            }
            match session.host().call(&name, arguments, options).await {
                Ok(output) => {
                    for warning in &output.warnings {
                        session.warn(&server, warning);
                    }
                    Ok(translate::result(era, output.to_json(), Caching::None))
                }
                Err(error) => Err(session.failed(&server, &error)),
            }
        };
        Box::pin(CURRENT.scope(Arc::clone(open), work))
    }

    /// The error of a request, and a note of the pages that it sends the client to.
    fn failed(&self, server: &str, error: &trunkline::CallError) -> RpcError {
        let error = rpc_error(error);
        if error.code == RpcError::URL_ELICITATION_REQUIRED {
            let clients = &self.gateway().clients;
            clients.remember_pages(server, self.key(), &error);
        }
        error
    }

    pub(crate) async fn read_resource(
        self: Arc<Self>,
        caller: Caller,
        params: &Json,
        reply: Arc<dyn ClientLink>,
    ) -> Result<Json, RpcError> {
        if let Some(retry) = Retry::of(params) {
            let resumed = self.resume("resources/read", &caller, params, &retry, reply);
            return resumed.await;
        }
        let uri: Option<String> = params.field("uri");
        let uri = uri.ok_or_else(|| invalid_params("resources/read needs a uri"))?;
        self.settle().await;
        let address = route::resource(self.host(), self.view(), &uri)?;
        self.profile().admit()?;
        let open = OpenCall::new(&address.server, &caller, reply);
        let (session, registered) = (Arc::clone(&self), self.register(&open));
        let (era, options) = (caller.era, self.read_options(&open, &caller));
        let work = async move {
            let _registered = registered;
            let read = session
                .host()
                .read_resource(&address.server, &address.uri, options);
            match read.await {
                Ok(contents) => Ok(translate::result(era, contents.raw, Caching::Hinted)),
                Err(error) => Err(session.failed(&address.server, &error)),
            }
        };
        let work = Box::pin(CURRENT.scope(Arc::clone(&open), work));
        self.drive("resources/read", params, open, work).await
    }

    pub(crate) async fn get_prompt(
        self: Arc<Self>,
        caller: Caller,
        params: &Json,
        reply: Arc<dyn ClientLink>,
    ) -> Result<Json, RpcError> {
        if let Some(retry) = Retry::of(params) {
            return self
                .resume("prompts/get", &caller, params, &retry, reply)
                .await;
        }
        let name: Option<String> = params.field("name");
        let name = name.ok_or_else(|| invalid_params("prompts/get needs the name of a prompt"))?;
        self.settle().await;
        let command = route::prompt(self.host(), self.view(), &name)?;
        let arguments = string_members(params.get("arguments").as_ref())?;
        self.profile().admit()?;
        let open = OpenCall::new(&command.server, &caller, reply);
        let (session, registered) = (Arc::clone(&self), self.register(&open));
        let (era, options) = (caller.era, self.read_options(&open, &caller));
        let work = async move {
            let _registered = registered;
            let prompt = session.host().prompt_with(&command, &arguments, options);
            match prompt.await {
                Ok(output) => Ok(translate::result(era, output.raw, Caching::None)),
                Err(error) => Err(session.failed(&command.server, &error)),
            }
        };
        let work = Box::pin(CURRENT.scope(Arc::clone(&open), work));
        self.drive("prompts/get", params, open, work).await
    }

    fn read_options(&self, open: &Arc<OpenCall>, caller: &Caller) -> ReadOptions<'static> {
        let mut options = ReadOptions::new()
            .client(Arc::clone(self.key()))
            .forward_url_elicitation(caller.era == Era::Legacy)
            .meta(caller.upstream_meta());
        if open.wants_progress() || caller.era == Era::Modern {
            let call = Arc::clone(open);
            options = options.on_progress(move |progress| call.progress(&progress));
        }
        options
    }

    pub(crate) async fn complete(&self, era: Era, params: &Json) -> Result<Json, RpcError> {
        let reference = params.get("ref");
        let reference =
            reference.ok_or_else(|| invalid_params("completion/complete needs a ref"))?;
        let text = |json: &Json, member: &str| {
            let text: Option<String> = json.field(member);
            text.ok_or_else(|| invalid_params(format!("completion/complete needs {member}")))
        };
        let argument = params.get("argument").unwrap_or_else(Json::null);
        let (name, value) = (text(&argument, "name")?, text(&argument, "value")?);
        let context = params.get("context").and_then(|it| it.get("arguments"));
        let known = string_members(context.as_ref())?;
        self.settle().await;
        let kind: Option<String> = reference.field("type");
        let (server, reference) = match kind.as_deref() {
            Some("ref/prompt") => {
                let prompt = text(&reference, "name")?;
                let command = route::prompt(self.host(), self.view(), &prompt)?;
                let prompt = Reference::Prompt(command.prompt.name.to_string());
                (command.server, prompt)
            }
            Some("ref/resource") => {
                let uri = text(&reference, "uri")?;
                let address = route::template(self.host(), self.view(), &uri)?;
                (address.server, Reference::Template(address.uri))
            }
            _ => {
                return Err(invalid_params(
                    "a ref is of type ref/prompt or ref/resource",
                ));
            }
        };
        self.profile().admit()?;
        let argument = (name.as_str(), value.as_str());
        let completed = self.host().complete(&server, &reference, argument, &known);
        let completion = match completed.await {
            Ok(completion) => completion,
            // A client asks for completions without knowing which server can complete.
            Err(error) if error.kind() == trunkline::call::CallErrorKind::Unsupported => {
                trunkline_wire::mcp::Completion::default()
            }
            Err(error) => return Err(rpc_error(&error)),
        };
        let mut result = ObjectWriter::new();
        result.object("completion", |members| {
            members.value("values", &completion.values.into());
            if let Some(total) = completion.total {
                members.integer("total", total);
            }
            members.value("hasMore", &completion.has_more.into());
        });
        Ok(translate::result(era, result.finish(), Caching::None))
    }

    /// Runs the work on a request. Questions to a modern client end the request, and park the work
    /// until the client repeats it with the answers.
    pub(crate) async fn drive(
        self: Arc<Self>,
        method: &'static str,
        params: &Json,
        open: Arc<OpenCall>,
        mut work: Work,
    ) -> Result<Json, RpcError> {
        if open.era() == Era::Legacy {
            return work.await;
        }
        loop {
            tokio::select! {
                biased;
                outcome = &mut work => return outcome,
                () = open.asked() => {}
            }
            if let Some(requests) = open.input_requests() {
                let request = same_request(method, params);
                return self.park(request, open, work, &requests);
            }
        }
    }
}

/// The tool that `CallTool` is to call.
fn called_tool(arguments: &Json) -> Result<ToolCall, RpcError> {
    let name: Option<String> = arguments.field("name");
    let name = name.ok_or_else(|| invalid_params("CallTool needs the name of a tool"))?;
    let given = arguments.get("arguments").filter(|it| !it.is_null());
    let arguments = given.unwrap_or_else(Json::empty_object);
    if !arguments.is_object() {
        return Err(invalid_params("the arguments of a tool must be an object"));
    }
    Ok(ToolCall { name, arguments })
}

/// The members of an object of strings.
fn string_members(object: Option<&Json>) -> Result<Vec<(String, String)>, RpcError> {
    let mut members = Vec::new();
    let Some(object) = object.filter(|object| !object.is_null()) else {
        return Ok(members);
    };
    let mut valid = true;
    let is_object = object.members(|key, value| match value.as_string() {
        Some(value) => members.push((key.to_owned(), value.to_string())),
        None => valid = false,
    });
    if is_object && valid {
        Ok(members)
    } else {
        Err(invalid_params("arguments must be an object of strings"))
    }
}
