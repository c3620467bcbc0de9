//! Checks an answer against the elicitation before it is sent (ELI-2). Pure functions.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use trunkline_wire::Json;

use super::{ElicitAnswer, FieldKind, Form};
use crate::call::Checks;

/// Returns the MCP `ElicitResult` to send, with defaults added.
///
/// The error says why the answer cannot be sent, and never repeats a value: it may be secret.
pub(crate) fn to_result(params: &Json, answer: ElicitAnswer) -> Result<Json, String> {
    let content = match answer {
        ElicitAnswer::Accept(content) => content,
        ElicitAnswer::Decline => return Ok(json!({"action": "decline"}).into()),
        ElicitAnswer::Cancel | ElicitAnswer::Pass => {
            return Ok(json!({"action": "cancel"}).into());
        }
        ElicitAnswer::Forward(result) => return to_result(params, parse(&result)?),
    };
    // The user visited a page; there is no content.
    if params.field::<String>("mode").as_deref() == Some("url") {
        return Ok(json!({"action": "accept"}).into());
    }
    accepted(params.get("requestedSchema"), content)
}

fn parse(result: &Json) -> Result<ElicitAnswer, String> {
    let result = result
        .to_value()
        .map_err(|error| format!("it cannot be read: {error}"))?;
    match result.get("action").and_then(Value::as_str) {
        Some("accept") => match result.get("content") {
            None => Ok(ElicitAnswer::Accept(Map::new())),
            Some(Value::Object(content)) => Ok(ElicitAnswer::Accept(content.clone())),
            Some(_) => Err("its content is not an object".to_owned()),
        },
        Some("decline") => Ok(ElicitAnswer::Decline),
        Some("cancel") => Ok(ElicitAnswer::Cancel),
        _ => Err(r#"its action is not "accept", "decline" or "cancel""#.to_owned()),
    }
}

fn accepted(schema: Option<Json>, mut content: Map<String, Value>) -> Result<Json, String> {
    let form = schema.as_ref().map(Form::from_schema).unwrap_or_default();
    form.add_defaults(&mut content);
    let json_fields = form.fields.iter();
    let json_fields: HashSet<&str> = json_fields
        .filter(|field| field.kind == FieldKind::Json)
        .map(|field| field.name.as_str())
        .collect();
    let is_json = |name: &str| json_fields.contains(name);
    let mut values = content.iter();
    if let Some((name, _)) = values.find(|(name, value)| !is_primitive(value) && !is_json(name)) {
        return Err(format!(
            "the value of \"{name}\" is not a string, a number, a boolean or a list of strings"
        ));
    }
    let content = Json::from(Value::from(content));
    if let Some(schema) = schema
        && !Checks::default().fits(&schema, &content)
    {
        return Err(mismatch(&schema, &content));
    }
    let mut result = trunkline_wire::ObjectWriter::new();
    result.string("action", "accept").raw("content", &content);
    Ok(result.finish())
}

/// Names the values that do not fit the schema.
fn mismatch(schema: &Json, content: &Json) -> String {
    let properties = schema.get("properties").unwrap_or_else(Json::null);
    let mut names = Vec::new();
    content.members(|name, value| {
        let property = properties.get(name);
        if property.is_some_and(|property| !Checks::default().fits(&property, &value)) {
            names.push(format!("\"{name}\""));
        }
    });
    let required: Vec<String> = schema.field("required").unwrap_or_default();
    let missing = required.iter().filter(|name| content.get(name).is_none());
    names.extend(missing.map(|name| format!("\"{name}\"")));
    if names.is_empty() {
        return "it does not fit the requested schema".to_owned();
    }
    format!(
        "these values do not fit the requested schema: {}",
        names.join(", ")
    )
}

/// True for the values that MCP allows in a form's content.
fn is_primitive(value: &Value) -> bool {
    match value {
        Value::String(_) | Value::Number(_) | Value::Bool(_) => true,
        Value::Array(items) => items.iter().all(Value::is_string),
        Value::Null | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_fits_the_schema_is_sent() {
        let form = json!({"message": "who?", "requestedSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 5},
                "age": {"type": "integer", "default": 7},
                "kind": {"type": "string", "enum": ["a", "b"]},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["name"],
        }});
        let page = json!({"mode": "url", "message": "go", "url": "https://example.com"});
        let accept = |content: Value| json!({"action": "accept", "content": content});
        for (params, answer, sent) in [
            (
                &form,
                accept(json!({"name": "Ada"})),
                Some(accept(json!({"name": "Ada", "age": 7}))),
            ),
            (
                &form,
                accept(json!({"name": "Ada", "age": 36, "kind": "b", "tags": ["x"]})),
                Some(accept(
                    json!({"name": "Ada", "age": 36, "kind": "b", "tags": ["x"]}),
                )),
            ),
            (
                &form,
                json!({"action": "decline", "content": {"name": 1}}),
                Some(json!({"action": "decline"})),
            ),
            (
                &form,
                json!({"action": "cancel"}),
                Some(json!({"action": "cancel"})),
            ),
            (
                &page,
                json!({"action": "accept", "content": {"x": 1}}),
                Some(json!({"action": "accept"})),
            ),
            // Answers that do not fit.
            (&form, json!("rubbish"), None),
            (&form, json!({}), None),
            (&form, json!({"action": "yes"}), None),
            (&form, json!({"action": "accept"}), None),
            (&form, json!({"action": "accept", "content": "Ada"}), None),
            (&form, accept(json!({"name": 1})), None),
            (&form, accept(json!({"name": "Ada", "age": "old"})), None),
            (&form, accept(json!({"name": "Ada", "kind": "c"})), None),
            (&form, accept(json!({"name": "Ada", "tags": [1]})), None),
            (
                &form,
                accept(json!({"name": "Ada", "more": {"deep": 1}})),
                None,
            ),
            (&form, accept(json!({"name": "Adalbert"})), None),
            (&page, json!("rubbish"), None),
        ] {
            let answered = ElicitAnswer::Forward(Json::from(&answer));
            let found = to_result(&Json::from(params), answered);
            let found = found.map(|json| json.to_value().unwrap());
            assert_eq!(found.clone().ok(), sent, "{answer}: {found:?}");
        }
    }

    #[test]
    fn a_problem_does_not_repeat_the_users_input() {
        let params = json!({"requestedSchema": {
            "type": "object",
            "properties": {"pin": {"type": "integer"}, "user": {"type": "string"}},
            "required": ["user"],
        }});
        let answer = json!({"action": "accept", "content": {"pin": "hunter2"}});
        let answer = ElicitAnswer::Forward(Json::from(&answer));
        let problem = to_result(&Json::from(&params), answer).unwrap_err();
        let expected = r#"these values do not fit the requested schema: "pin", "user""#;
        assert_eq!(problem, expected);
    }
}
