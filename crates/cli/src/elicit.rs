//! What servers ask for meanwhile. Nobody is asked yet, so the answer is no answer, and the user is told of it.

use std::future::{Future, ready};
use std::pin::Pin;

use serde_json::json;
use trunkline::Json;
use trunkline::elicit::Elicit;

use crate::output;

/// Cancels every question, and says so.
pub(crate) struct Unanswered;

impl Elicit for Unanswered {
    fn elicit(&self, server: &str, params: Json) -> Pin<Box<dyn Future<Output = Json> + Send>> {
        let question: String = params.field("message").unwrap_or_default();
        let page: Option<String> = params.field("url");
        let page = page.map(|url| format!(" ({url})")).unwrap_or_default();
        output::warning(&format!(
            "\"{server}\" asks: {question}{page}; trunkline cannot put this to you yet and answered \"cancel\""
        ));
        Box::pin(ready(json!({"action": "cancel"}).into()))
    }
}
