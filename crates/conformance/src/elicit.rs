//! A user who agrees to everything.

use std::future::{Future, ready};
use std::pin::Pin;

use serde_json::{Value, json};
use trunkline::Json;
use trunkline::elicit::Elicit;

use crate::example;

/// Accepts whatever a server asks, with the defaults of the form.
pub(crate) struct Agreeable;

impl Elicit for Agreeable {
    fn elicit(&self, _: &str, params: Json) -> Pin<Box<dyn Future<Output = Json> + Send>> {
        let params = params.to_value().unwrap_or_default();
        Box::pin(ready(Json::from(answer(&params))))
    }
}

fn answer(params: &Value) -> Value {
    match params.get("requestedSchema") {
        Some(schema) => json!({"action": "accept", "content": example::filled_in(schema)}),
        None => json!({"action": "accept"}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_filled_in_and_a_page_only_agreed_to() {
        let form = json!({"requestedSchema": {"properties": {"n": {"default": "J"}}}});
        let expected = json!({"action": "accept", "content": {"n": "J"}});
        assert_eq!(answer(&form), expected);
        let page = json!({"mode": "url", "url": "https://example.org"});
        assert_eq!(answer(&page), json!({"action": "accept"}));
    }
}
