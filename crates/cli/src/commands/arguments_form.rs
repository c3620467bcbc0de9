//! Asks for the arguments of a call with a form of the tool's schema (UI-3).

use serde_json::{Map, Value};
use trunkline::Json;
use trunkline::elicit::Form;

use super::tool_ref::ToolRef;
use crate::arguments::to_word;
use crate::elicit::form::{Asked, FormDialog};
use crate::exit::Exit;
use crate::output::{self, Dialog, Lines, StopOnDrop, StopSignal, Stopped};
use crate::standing::quoted;

/// Asks for the arguments, and shows the command that would give them. An `Err` has been reported.
pub(super) async fn ask(form: Form, wanted: &ToolRef<'_>) -> Result<Json, Exit> {
    let (subject, command) = match wanted {
        ToolRef::Of { server, tool, .. } => (
            format!("{}/{}", output::name(server), output::name(tool)),
            format!("trunkline call {} {}", quoted(server), quoted(tool)),
        ),
        ToolRef::Named { name, .. } | ToolRef::BuiltIn { name, .. } => (
            output::name(name),
            format!("trunkline call {}", quoted(name)),
        ),
    };
    let stop = StopOnDrop::default();
    let signal = stop.signal();
    let asking = tokio::task::spawn_blocking(move || {
        let filled = fill(&form, &subject, signal)?;
        Ok(filled.map(|values| (form, values)))
    });
    match asking.await.unwrap_or(Err(Stopped::Lost)) {
        Ok(Some((form, values))) => {
            let words = values.iter().map(|(key, value)| word(&form, key, value));
            let words: Vec<String> = words.collect();
            output::note(Lines::one(format!("= {command} {}", words.join(" "))));
            Ok(Json::from(Value::from(values)))
        }
        Ok(None) => {
            output::note("not called");
            Err(Exit::Interrupted)
        }
        Err(Stopped::Lost) => {
            output::error("the terminal cannot be used for a form", None);
            Err(Exit::Usage)
        }
        Err(Stopped::Interrupted | Stopped::Withdrawn) => Err(Exit::Interrupted),
    }
}

/// Returns the word of a command line for an argument, without its value if that is secret.
fn word(form: &Form, key: &str, value: &Value) -> String {
    match form.field(key) {
        Some(field) if field.is_secret() => quoted(&format!("{key}=…")),
        _ => to_word(key, value),
    }
}

/// Fills the form in; `None` if the user does not want to call the tool.
fn fill(
    form: &Form,
    subject: &str,
    stop: StopSignal,
) -> Result<Option<Map<String, Value>>, Stopped> {
    let mut dialog = Dialog::open(stop)?;
    let optional = form.fields.iter().filter(|field| !field.required).count();
    let more = match optional {
        0 => String::new(),
        _ => format!("; {optional} optional ones under Edit"),
    };
    let intro = format!("{subject} needs arguments (* required{more}):");
    dialog.say(&Lines::one(intro))?;
    let mut filled = FormDialog {
        dialog: &mut dialog,
        subject,
        form,
        values: Map::new(),
    };
    filled.fill(Asked::Required)?;
    loop {
        let review = filled.review();
        filled.dialog.say(&review)?;
        let is_valid = form.check(&filled.values).is_ok();
        let first = if is_valid { "Call" } else { "Continue" };
        let choices = [first, "Edit", "Cancel"];
        let label = format!("{subject} call with these arguments");
        let chosen = filled
            .dialog
            .select(&label, &choices.map(str::to_owned), 0)?;
        match chosen.map(|at| choices[at]) {
            Some("Call") => return Ok(Some(filled.values)),
            Some("Continue") => _ = filled.fill(Asked::Required)?,
            Some("Edit") => filled.edit()?,
            _ => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_argument_is_quoted_and_hidden() {
        let secret = json!({"type": "string", "format": "password"});
        let schema = json!({"properties": {"$(rm x)": secret, "plain": {"type": "string"}}});
        let form = Form::from_schema(&schema.into());
        assert_eq!(word(&form, "$(rm x)", &json!("hidden")), "'$(rm x)=…'");
        assert_eq!(word(&form, "plain", &json!("a")), "plain=a");
    }
}
