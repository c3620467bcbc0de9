//! Handling of HTTP requests.

use std::sync::{Arc, atomic::Ordering};

use serde_json::{Value, json};

use super::{
    Answers, State, headers,
    server_run::{ServerRun, Session},
};
use crate::{
    Era, MODERN_VERSION,
    net::{
        body::{self, BodyStyle},
        channel::{Channel, ChannelKind, Next, Reader},
        http::Request,
        reply::Reply,
    },
    scripted::Out,
};

const SESSION: &str = "mcp-session-id";

/// A refusal: status, JSON-RPC code (`None` for plain text) and message.
struct Refusal(u16, Option<i64>, String);

fn refusal(status: u16, code: i64, message: &str) -> Refusal {
    Refusal(status, Some(code), message.into())
}

impl State {
    pub(super) fn handle(&self, request: &Request, reply: &mut Reply) {
        let path = request.path.split('?').next().unwrap_or_default();
        if path != self.base.path {
            reply.respond(404, &[("content-type", "text/plain")], "Not Found");
            return;
        }
        if !self.base.token.admit(request, reply) {
            return;
        }
        let run = self.current_run();
        let done = match request.method.as_str() {
            "POST" => self.post(&run, request, reply),
            "GET" => self.get(&run, request, reply),
            "DELETE" => self.delete(&run, request, reply),
            _ => Err(not_allowed()),
        };
        if let Err(Refusal(status, code, message)) = done {
            let id = request.rpc_id();
            match code {
                Some(code) => {
                    let error = json!({"code": code, "message": message});
                    reply.json(status, &json!({"jsonrpc": "2.0", "id": id, "error": error}));
                }
                None => {
                    reply.respond(status, &[("content-type", "text/plain")], message);
                }
            }
        }
    }

    fn post(&self, run: &ServerRun, request: &Request, reply: &mut Reply) -> Result<(), Refusal> {
        if !request.lists("accept", "application/json")
            || !request.lists("accept", "text/event-stream")
        {
            let message =
                "Not Acceptable: Client must accept both application/json and text/event-stream";
            return Err(refusal(406, -32000, message));
        }
        if !request.lists("content-type", "application/json") {
            return Err(refusal(415, -32000, "Unsupported Media Type"));
        }
        let message: Value = serde_json::from_slice(&request.body)
            .map_err(|e| refusal(400, -32700, &format!("parse error: {e}")))?;
        if !message.is_object() {
            return Err(refusal(400, -32600, "one message a request"));
        }
        let modern = self.modern(request, &message);
        let asks = message.get("method").is_some() && message.get("id").is_some();
        let mut fresh = None;
        let session = if modern {
            if asks {
                let tool = message["params"]["name"].as_str();
                let schema = tool
                    .and_then(|name| run.common.tool(name))
                    .map(|tool| tool["inputSchema"].clone());
                headers::check(request, &message, schema.as_ref())
                    .map_err(|problem| refusal(400, -32020, &problem))?;
            }
            Arc::clone(&run.modern)
        } else {
            self.legacy(run, request, message["method"] == "initialize", &mut fresh)?
        };
        if !asks {
            session.server.deliver(None, &request.body);
            reply.status(202);
            return Ok(());
        }
        self.answer(&session, request, &message, modern, fresh.as_deref(), reply);
        Ok(())
    }

    /// Whether a message follows the modern rules.
    fn modern(&self, request: &Request, message: &Value) -> bool {
        match self.base.script.era {
            Era::Modern => true,
            Era::Legacy => false,
            Era::Dual => {
                let key = "io.modelcontextprotocol/protocolVersion";
                message["params"]["_meta"].get(key).is_some()
                    || message["method"] == "server/discover"
                    || request
                        .header("mcp-protocol-version")
                        .is_some_and(|version| version >= MODERN_VERSION)
            }
        }
    }

    /// The session of a legacy message; a handshake creates one and stores its id in `fresh`.
    fn legacy(
        &self,
        run: &ServerRun,
        request: &Request,
        handshake: bool,
        fresh: &mut Option<String>,
    ) -> Result<Arc<Session>, Refusal> {
        let session = if self.options.sessions && handshake && request.header(SESSION).is_none() {
            let (id, session) = run.create(self.crash.environment());
            *fresh = Some(id);
            session
        } else {
            self.known(run, request)?
        };
        let known = self.base.script.supported();
        match request.header("mcp-protocol-version") {
            Some(version) if !handshake && !known.iter().any(|known| known == version) => {
                let message = format!("Bad Request: Unsupported protocol version: {version}");
                Err(refusal(400, -32000, &message))
            }
            _ => Ok(session),
        }
    }

    fn known(&self, run: &ServerRun, request: &Request) -> Result<Arc<Session>, Refusal> {
        if !self.options.sessions {
            return Ok(Arc::clone(&run.open));
        }
        let Some(id) = request.header(SESSION) else {
            let message = "Bad Request: Mcp-Session-Id header is required";
            return Err(refusal(400, -32000, message));
        };
        run.session(id).ok_or_else(|| self.lost())
    }

    fn lost(&self) -> Refusal {
        let code = self.options.session_error.then_some(-32001);
        Refusal(404, code, "Session not found".into())
    }

    fn style(&self, request: &Request, modern: bool) -> BodyStyle {
        BodyStyle {
            gzip: self.options.gzip && request.lists("accept-encoding", "gzip"),
            event_ids: self.options.event_ids && !modern,
        }
    }

    /// An event without a message: the position to resume from, and the retry time.
    fn preamble(&self, reader: &Reader) -> String {
        let mut preamble = String::new();
        if self.options.event_ids {
            preamble.extend(["id: ", &reader.position(), "\n"]);
        }
        if let Some(retry) = self.options.retry {
            preamble.extend(["retry: ", &retry.to_string(), "\n"]);
        }
        if preamble.is_empty() {
            return preamble;
        }
        preamble + "data: \n\n"
    }

    fn answer(
        &self,
        session: &Session,
        request: &Request,
        message: &Value,
        modern: bool,
        fresh: Option<&str>,
        reply: &mut Reply,
    ) {
        let listens = modern && message["method"] == "subscriptions/listen";
        let kind = match self.options.answers {
            Answers::Json if !listens => ChannelKind::Body,
            _ => ChannelKind::Events,
        };
        let channel = session.router.open(kind);
        let at_once = session.server.deliver(Some(channel.number), &request.body);
        let style = self.style(request, modern);
        let extra: Vec<_> = fresh.map(|id| (SESSION, id)).into_iter().collect();
        let refused = if modern && at_once {
            channel.first().and_then(|first| refused(&first))
        } else {
            None
        };
        if let Some((status, bytes)) = refused {
            let headers = vec![("content-type", "application/json")];
            body::whole(reply, status, style.gzip, headers, &bytes);
            return session.router.close(&channel);
        }
        let reader = channel.read(0, reply.client());
        let end = if kind == ChannelKind::Body {
            body::single(reply, reader, style, &extra)
        } else {
            let counted = listens.then(|| self.streams.guard());
            let preamble = if modern {
                String::new()
            } else {
                self.preamble(&reader)
            };
            body::stream(reply, reader, style, &extra, &preamble, || {
                if let Some(counted) = &counted {
                    counted.open();
                }
            })
        };
        if modern && matches!(end, Next::Gone | Next::Cut) && !channel.replied() {
            if matches!(end, Next::Gone) && !reply.dropped() {
                session.server.log_cancel(&message["id"]);
            }
            session.server.cancel_exchange(channel.number);
        }
        if !style.event_ids {
            session.router.close(&channel);
        }
    }

    fn get(&self, run: &ServerRun, request: &Request, reply: &mut Reply) -> Result<(), Refusal> {
        if self.base.script.era == Era::Modern {
            return Err(not_allowed());
        }
        let resumed = request
            .header("last-event-id")
            .filter(|_| self.options.event_ids);
        if !self.options.get_stream && resumed.is_none() {
            return Err(not_allowed());
        }
        if !request.lists("accept", "text/event-stream") {
            let message = "Not Acceptable: Client must accept text/event-stream";
            return Err(refusal(406, -32000, message));
        }
        let session = self.known(run, request)?;
        let main = &session.router.main;
        let (channel, index): (Arc<Channel>, usize) = resumed
            .and_then(|event| session.router.find(event))
            .unwrap_or_else(|| (Arc::clone(main), main.len()));
        drop(session);
        let counted = self.streams.guard();
        let reader = channel.read(index, reply.client());
        let (style, preamble) = (self.style(request, false), self.preamble(&reader));
        body::stream(reply, reader, style, &[], &preamble, || counted.open());
        Ok(())
    }

    fn delete(&self, run: &ServerRun, request: &Request, reply: &mut Reply) -> Result<(), Refusal> {
        if !self.options.sessions || self.base.script.era == Era::Modern {
            return Err(not_allowed());
        }
        let id = request.header(SESSION).unwrap_or_default();
        if !run.delete(id) {
            return Err(self.lost());
        }
        self.deleted.fetch_add(1, Ordering::AcqRel);
        reply.status(200);
        Ok(())
    }
}

fn not_allowed() -> Refusal {
    refusal(405, -32000, "Method not allowed.")
}

/// The HTTP status of a protocol error; errors of a script have none.
fn refused(first: &Out) -> Option<(u16, Vec<u8>)> {
    let Out::Reply(line) = first else { return None };
    let reply: Value = serde_json::from_slice(line).ok()?;
    let error = reply.get("error")?;
    let status = match error["code"].as_i64()? {
        -32601 => 404,
        -32700 | -32600 | -32022..=-32020 => 400,
        -32602 if error["message"].as_str()?.starts_with("missing _meta") => 400,
        _ => return None,
    };
    Some((status, line.clone()))
}
