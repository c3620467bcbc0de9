//! Elicitation: servers ask the user for input. Sampling: servers ask the embedder's model for a
//! message. Roots: servers ask for the directories that matter.
//!
//! ```
//! use trunkline::Host;
//! use trunkline::elicit::{Ask, ElicitAnswer, Elicitation};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let host = Host::builder()
//!     .elicit(async |elicitation: Elicitation| {
//!         println!("{} asks: {}", elicitation.server, elicitation.message);
//!         match elicitation.ask {
//!             // A real program shows the fields and reads values with `Field::parse`.
//!             Ask::Form(form) => match form.check(&Default::default()) {
//!                 Ok(defaults) => ElicitAnswer::Accept(defaults),
//!                 Err(_) => ElicitAnswer::Decline,
//!             },
//!             _ => ElicitAnswer::Cancel,
//!         }
//!     })
//!     .start();
//! # host.shutdown().await;
//! # }
//! ```

mod answer;
mod broker;
mod form;
mod in_flight;
mod queue;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value};
use trunkline_wire::Json;

pub(crate) use answer::to_result;
pub(crate) use broker::{Broker, cancel};
pub use form::{Field, FieldError, FieldKind, FieldOption, Form, TextFormat};
pub(crate) use in_flight::{Asking, Callers, InFlight, NoAsker, Origin};
pub use queue::{ElicitQueue, PendingElicitation, PendingElicitations};

use crate::closure::impl_for_closures;
pub use crate::connection::{Roots, RootsRequest, Sampling, SamplingRequest};
use crate::sanitize::shown;

/// Asks the user for the input that a server requests.
///
/// Async closures that take an [`Elicitation`] implement it; see
/// [`HostBuilder::elicit`](crate::HostBuilder::elicit).
pub trait Elicit: Send + Sync + 'static {
    /// Answers a server's `elicitation/create` request.
    ///
    /// Missing defaults are added. An answer that does not fit the requested schema is not sent:
    /// the server gets "cancel", and its log has the reason. A call's time limit is suspended
    /// meanwhile, for up to half an hour. The future is dropped if the answer is no longer wanted:
    /// the call ends, or the server withdraws the request or confirms that the user has visited the
    /// page. Hooks in settings files are asked first (ELI-4).
    fn elicit(
        &self,
        elicitation: Elicitation,
    ) -> Pin<Box<dyn Future<Output = ElicitAnswer> + Send>>;
}

impl_for_closures!(Elicit, elicit(Elicitation) -> ElicitAnswer);

/// A server's request for input from the user.
#[derive(Clone)]
#[non_exhaustive]
pub struct Elicitation {
    /// The server, by its name as configured.
    pub server: Arc<str>,
    /// The tool whose call needs the input, by its name in the pool. `None` if the request belongs
    /// to no call, or to one of several that the server does not name.
    pub call: Option<String>,
    /// The client of the calls that it may belong to:
    /// [`CallOptions::client`](crate::CallOptions::client).
    pub client: Option<Arc<str>>,
    /// The message for the user; untrusted text, sanitized and truncated to 2,048 characters.
    pub message: String,
    /// The requested input.
    pub ask: Ask,
    /// True if the call is repeated with the answer (MRTR, error -32042): for a URL, answer when
    /// the user has finished at the page. Otherwise the server waits for that itself, and the
    /// answer says only whether the user agrees to open the page.
    pub repeats_call: bool,
    /// The key under which the server asked, if the call is repeated with the answer (MRTR).
    pub input_key: Option<String>,
    /// The params of `elicitation/create` as the server sent them.
    pub raw: Json,
}

/// The input that an [`Elicitation`] requests.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Ask {
    /// The values of a form.
    Form(Form),
    /// A visit to this URL; untrusted. See [`Elicitation::repeats_call`] for when to answer.
    Url(String),
}

/// The answer to an [`Elicitation`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ElicitAnswer {
    /// The user's values by field name; empty for a URL that was visited.
    Accept(Map<String, Value>),
    /// The user refuses.
    Decline,
    /// The user gives no answer.
    Cancel,
    /// An MCP `ElicitResult` from elsewhere, for programs that forward requests.
    Forward(Json),
    /// Not answered here: the next callback is asked, and after the last the request is cancelled.
    Pass,
}

impl Elicitation {
    pub(crate) fn new(
        server: &Arc<str>,
        asking: &Asking,
        input_key: Option<String>,
        params: Json,
    ) -> Self {
        let origin = asking.origin();
        let message: String = params.field("message").unwrap_or_default();
        let ask = if params.field::<String>("mode").as_deref() == Some("url") {
            Ask::Url(params.field("url").unwrap_or_default())
        } else {
            let schema = params.get("requestedSchema");
            Ask::Form(schema.as_ref().map(Form::from_schema).unwrap_or_default())
        };
        Self {
            server: Arc::clone(server),
            call: origin.and_then(|origin| origin.tool.clone()),
            client: asking.client(),
            message: shown(&message).0.into_owned(),
            ask,
            repeats_call: asking.in_call,
            input_key,
            raw: params,
        }
    }
}

impl fmt::Debug for Elicitation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Elicitation")
            .field("server", &self.server)
            .field("call", &self.call)
            .field("client", &self.client)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}
