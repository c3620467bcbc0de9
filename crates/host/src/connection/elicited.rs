//! Holds what the embedding program answers for a person against what the server asked for (ELI-2). Pure functions.

use serde_json::{Map, Value, json};
use trunkline_wire::Json;

use crate::call::Checks;

/// The answer as it may be sent: with defaults filled in, and nothing that was not asked for. The error says what is
/// wrong with it.
pub(super) fn checked(params: &Json, answer: &Json) -> Result<Json, String> {
    let answer = answer
        .to_value()
        .map_err(|error| format!("it cannot be read: {error}"))?;
    let action = answer.get("action").and_then(Value::as_str);
    match action {
        Some("accept") => {}
        Some(action @ ("decline" | "cancel")) => return Ok(json!({ "action": action }).into()),
        _ => return Err(r#"its action is not "accept", "decline" or "cancel""#.to_owned()),
    }
    // A page was visited; there is nothing to tell about it.
    if params.field::<String>("mode").as_deref() == Some("url") {
        return Ok(json!({"action": "accept"}).into());
    }
    let mut content = match answer.get("content") {
        None => Map::new(),
        Some(Value::Object(content)) => content.clone(),
        Some(_) => return Err("its content is not an object".to_owned()),
    };
    let schema = params.get("requestedSchema");
    if let Some(schema) = &schema {
        fill_in(&mut content, schema);
    }
    if let Some((name, _)) = content.iter().find(|(_, value)| !is_plain(value)) {
        return Err(format!(
            "the value of \"{name}\" is neither a text, a number, a truth value nor a list of texts"
        ));
    }
    let content = Json::from(Value::from(content));
    if let Some(schema) = schema
        && !Checks::default().fits(&schema, &content)
    {
        return Err(misfit(&schema, &content));
    }
    let mut accepted = trunkline_wire::ObjectWriter::new();
    accepted.string("action", "accept").raw("content", &content);
    Ok(accepted.finish())
}

/// Says which values do not fit, by their names alone: what a person typed may be a secret.
fn misfit(schema: &Json, content: &Json) -> String {
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

/// Adds the defaults of what was left out.
fn fill_in(content: &mut Map<String, Value>, schema: &Json) {
    let Some(properties) = schema.get("properties") else {
        return;
    };
    properties.members(|name, property| {
        if let (false, Some(default)) = (content.contains_key(name), property.get("default"))
            && let Ok(default) = default.to_value()
        {
            content.insert(name.to_owned(), default);
        }
    });
}

/// Whether it is a value that a form can have.
fn is_plain(value: &Value) -> bool {
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
    fn only_an_answer_that_fits_the_question_is_sent() {
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
            // What does not fit.
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
            let found = checked(&Json::from(params), &Json::from(&answer));
            let found = found.map(|json| json.to_value().unwrap());
            assert_eq!(found.clone().ok(), sent, "{answer}: {found:?}");
        }
    }

    #[test]
    fn what_a_person_typed_is_not_repeated() {
        let params = json!({"requestedSchema": {
            "type": "object",
            "properties": {"pin": {"type": "integer"}, "user": {"type": "string"}},
            "required": ["user"],
        }});
        let answer = json!({"action": "accept", "content": {"pin": "hunter2"}});
        let problem = checked(&Json::from(&params), &Json::from(&answer)).unwrap_err();
        let expected = r#"these values do not fit the requested schema: "pin", "user""#;
        assert_eq!(problem, expected);
    }
}
