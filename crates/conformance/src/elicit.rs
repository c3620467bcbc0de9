//! Accepts every elicitation request.

use std::future::{Future, ready};
use std::pin::Pin;

use serde_json::{Value, json};
use trunkline::elicit::{Elicit, ElicitAnswer, Elicitation};

use crate::example;

/// Accepts every request with the defaults of its form.
pub(crate) struct AcceptAll;

impl Elicit for AcceptAll {
    fn elicit(
        &self,
        elicitation: Elicitation,
    ) -> Pin<Box<dyn Future<Output = ElicitAnswer> + Send>> {
        let params = elicitation.raw.to_value().unwrap_or_default();
        Box::pin(ready(ElicitAnswer::Forward(answer(&params).into())))
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
    fn a_form_is_filled_in_and_a_url_accepted() {
        let form = json!({"requestedSchema": {"properties": {"n": {"default": "J"}}}});
        let expected = json!({"action": "accept", "content": {"n": "J"}});
        assert_eq!(answer(&form), expected);
        let page = json!({"mode": "url", "url": "https://example.org"});
        assert_eq!(answer(&page), json!({"action": "accept"}));
    }
}
