//! Answers elicitation requests with `cancel` until the terminal has dialogs (ELI-1).

use std::future::{Future, ready};
use std::pin::Pin;

use serde_json::json;
use trunkline::Json;
use trunkline::elicit::Elicit;

use crate::output;

/// Cancels every request, with a warning.
pub(crate) struct CancelAll;

impl Elicit for CancelAll {
    fn elicit(&self, server: &str, params: Json) -> Pin<Box<dyn Future<Output = Json> + Send>> {
        let question: String = params.field("message").unwrap_or_default();
        let page: Option<String> = params.field("url");
        let page = page.map(|url| format!(" ({url})")).unwrap_or_default();
        output::warning(&format!(
            "\"{server}\" asks: {question}{page}; trunkline cannot prompt for this yet and cancelled it"
        ));
        Box::pin(ready(json!({"action": "cancel"}).into()))
    }
}
