//! The register of clients, and the way of servers' questions to them (AGT-2).
//!
//! The host says which client a question is for; nothing here guesses.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use trunkline::elicit::{Ask as Asked, ElicitAnswer, Elicitation, RootsRequest, SamplingRequest};
use trunkline::event::ServerNotification;
use trunkline_wire::{Json, RpcError};

use crate::client::View;
use crate::open_call::{Ask, AskError, CURRENT, OpenCall};
use crate::session::ClientSession;

/// The most pages to visit that are remembered.
const MAX_PAGES: usize = 1024;

/// All clients of a gateway.
#[derive(Default)]
pub(crate) struct Clients {
    sessions: Mutex<HashMap<Arc<str>, Weak<ClientSession>>>,
    /// Which client was sent to which page: the server's notice of completion goes to it alone.
    pages: Mutex<VecDeque<Page>>,
}

struct Page {
    server: Arc<str>,
    id: String,
    client: Arc<str>,
}

impl Clients {
    pub(crate) fn add(&self, key: Arc<str>, session: Weak<ClientSession>) {
        self.lock().insert(key, session);
    }

    pub(crate) fn remove(&self, key: &str) {
        self.lock().remove(key);
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|page| &*page.client != key);
    }

    pub(crate) fn session(&self, key: &str) -> Option<Arc<ClientSession>> {
        self.lock().get(key).and_then(Weak::upgrade)
    }

    pub(crate) fn sessions(&self) -> Vec<Arc<ClientSession>> {
        self.lock().values().filter_map(Weak::upgrade).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Weak<ClientSession>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds whom to ask.
    fn target(&self, server: &str, client: Option<&Arc<str>>) -> Option<Target> {
        let session = client.and_then(|client| self.session(client));
        let call = CURRENT.try_with(Arc::clone).ok();
        // A call that waits for an answer has waited longest, as a rule.
        let call = call.or_else(|| session.as_ref()?.open_calls_to(server).into_iter().next());
        match (call, session) {
            (Some(call), session) => Some(Target::Call(call, session)),
            (None, Some(session)) => Some(Target::Session(session)),
            (None, None) => None,
        }
    }

    /// Forwards an elicitation.
    pub(crate) async fn elicit(&self, elicitation: Elicitation) -> ElicitAnswer {
        let Elicitation { server, client, .. } = &elicitation;
        let Some(target) = self.target(server, client.as_ref()) else {
            return ElicitAnswer::Pass;
        };
        let is_url = matches!(elicitation.ask, Asked::Url(_));
        let capabilities = target.capabilities();
        let can = if is_url {
            capabilities.url
        } else {
            capabilities.form
        };
        if !can {
            let what = if is_url {
                "to visit a page"
            } else {
                "for input"
            };
            target.warn(
                server,
                &format!("\"{server}\" asked {what}, which this client does not support: it was told \"cancel\""),
            );
            return ElicitAnswer::Cancel;
        }
        if let (true, Some(client)) = (is_url, client) {
            self.remember_page(server, client, &elicitation.raw);
        }
        let params = if target.shows_one_server() {
            elicitation.raw.clone()
        } else {
            with_server(&elicitation)
        };
        let question = Ask {
            method: "elicitation/create",
            params: Some(params),
            key: elicitation.input_key.clone(),
        };
        let asked = self.ask(&target, server, client.as_ref(), question);
        match asked.await {
            Ok(answer) => ElicitAnswer::Forward(answer),
            Err(problem) => {
                let text = format!("the question of \"{server}\" was not answered: {problem}");
                target.warn(server, &text);
                ElicitAnswer::Cancel
            }
        }
    }

    /// Forwards a sampling request.
    pub(crate) async fn sample(&self, request: SamplingRequest) -> Result<Json, String> {
        let SamplingRequest {
            server,
            client,
            input_key: key,
            params,
            ..
        } = request;
        let target = self.target(&server, client.as_ref());
        let target = target.ok_or("no client has a call of this server open")?;
        if !target.capabilities().sampling {
            return Err("the client does not support sampling".to_owned());
        }
        let question = Ask {
            method: "sampling/createMessage",
            params: Some(params),
            key,
        };
        self.ask(&target, &server, client.as_ref(), question).await
    }

    /// Asks a client for its roots; `None` if it has none.
    pub(crate) async fn roots(&self, request: RootsRequest) -> Option<Json> {
        let target = self.target(&request.server, Some(&request.client))?;
        if !target.capabilities().roots {
            return None;
        }
        let question = Ask {
            method: "roots/list",
            params: None,
            key: request.input_key,
        };
        let asked = self.ask(&target, &request.server, Some(&request.client), question);
        asked.await.ok()
    }

    /// Asks a client. A question that outlives the call it was put to moves on to another call of
    /// the client.
    async fn ask(
        &self,
        target: &Target,
        server: &str,
        client: Option<&Arc<str>>,
        question: Ask,
    ) -> Result<Json, String> {
        let mut asked = target.ask(question.clone()).await;
        loop {
            match asked {
                Ok(answer) => return Ok(answer),
                Err(AskError::Failed(problem)) => return Err(problem),
                Err(AskError::CallEnded) => {}
            }
            let session = client.and_then(|client| self.session(client));
            let call = session.and_then(|session| session.open_calls_to(server).into_iter().next());
            let Some(call) = call.filter(|_| CURRENT.try_with(|_| ()).is_err()) else {
                return Err("the call has ended".to_owned());
            };
            asked = call.ask(question.clone()).await;
        }
    }

    /// Remembers the page that a client is sent to.
    pub(crate) fn remember_page(&self, server: &Arc<str>, client: &Arc<str>, params: &Json) {
        let Some(id) = params.field::<String>("elicitationId") else {
            return;
        };
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if pages.len() == MAX_PAGES {
            pages.pop_front();
        }
        pages.push_back(Page {
            server: Arc::clone(server),
            id,
            client: Arc::clone(client),
        });
    }

    /// Remembers the pages of error -32042.
    pub(crate) fn remember_pages(&self, server: &str, client: &Arc<str>, error: &RpcError) {
        let pages = error
            .data
            .as_ref()
            .and_then(|data| data.get("elicitations"));
        if let Some(pages) = pages {
            pages.elements(|page| self.remember_page(&server.into(), client, &page));
        }
    }

    /// Tells the client that was sent to a page that the server is satisfied.
    pub(crate) fn page_completed(&self, notification: &ServerNotification) {
        let params = notification.params.as_ref();
        let id: Option<String> = params.and_then(|params| params.field("elicitationId"));
        let Some(id) = id else {
            return;
        };
        let client = {
            let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
            let is_it = |page: &Page| page.server == notification.server && page.id == id;
            let at = pages.iter().position(is_it);
            at.and_then(|at| pages.remove(at)).map(|page| page.client)
        };
        let session = client.and_then(|client| self.session(&client));
        if let Some(session) = session.filter(|session| session.is_legacy())
            && let Some(link) = session.link()
        {
            link.notify(
                "notifications/elicitation/complete",
                notification.params.clone(),
            );
        }
    }
}

/// The client that a question goes to.
enum Target {
    /// The call that it is about, or one of the same client.
    Call(Arc<OpenCall>, Option<Arc<ClientSession>>),
    /// The client itself, outside of calls.
    Session(Arc<ClientSession>),
}

impl Target {
    /// Whether the client sees nothing but the server that asks.
    fn shows_one_server(&self) -> bool {
        match self {
            Self::Call(_, Some(session)) | Self::Session(session) => *session.view() != View::All,
            Self::Call(_, None) => false,
        }
    }

    fn capabilities(&self) -> crate::caller::Capabilities {
        match self {
            Self::Call(call, _) => call.capabilities(),
            Self::Session(session) => session.capabilities(),
        }
    }

    async fn ask(&self, question: Ask) -> Result<Json, AskError> {
        match self {
            Self::Call(call, _) => call.ask(question).await,
            Self::Session(session) => {
                let link = session.link().filter(|_| session.is_legacy());
                let link = link.ok_or_else(|| {
                    AskError::Failed("the client can be asked only during a call".to_owned())
                })?;
                let params = question.params.unwrap_or_else(Json::empty_object);
                let asked = link.request(question.method, params).await;
                asked.map_err(|error| AskError::Failed(error.to_string()))
            }
        }
    }

    fn warn(&self, server: &str, text: &str) {
        if let Self::Call(_, Some(session)) | Self::Session(session) = self {
            session.warn(server, text);
        }
    }
}

/// The params of an elicitation, with the name of the server that asks: the client knows only us.
fn with_server(elicitation: &Elicitation) -> Json {
    let mut params =
        trunkline_wire::ObjectWriter::with_capacity(elicitation.raw.as_str().len() + 64);
    let message = format!("[{}] {}", elicitation.server, elicitation.message);
    let mut has_message = false;
    elicitation.raw.members(|key, value| {
        if key == "message" {
            if !has_message {
                params.string(key, &message);
            }
            has_message = true;
        } else {
            params.raw(key, &value);
        }
    });
    if !has_message {
        params.string("message", &message);
    }
    params.finish()
}
