//! Fills a form in on the terminal, one field after the other.

use serde_json::{Map, Value};
use trunkline::elicit::{Field, FieldKind, Form};

use crate::output::{Dialog, Lines, Prompted, Stopped, TextPrompt, inline, name};

/// The most values that a review lists.
const MAX_REVIEWED: usize = 50;

/// The option of a choice for no value.
const NONE: &str = "(leave out)";

/// The fields to ask for before the review.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    All,
    /// Those without which the form cannot be sent.
    Required,
}

/// A form being filled in.
pub(crate) struct FormDialog<'f> {
    pub(crate) dialog: &'f mut Dialog,
    /// The server and the tool, named in every prompt.
    pub(crate) subject: &'f str,
    pub(crate) form: &'f Form,
    pub(crate) values: Map<String, Value>,
}

impl FormDialog<'_> {
    /// Asks for the fields; false if the user wants to stop.
    pub(crate) fn fill(&mut self, asked: Asked) -> Result<bool, Stopped> {
        for field in &self.form.fields {
            let is_given = self.values.get(&field.name);
            let is_given = is_given.is_some_and(|value| field.check(value).is_ok());
            let is_asked = asked == Asked::All || field.required;
            if is_asked && !is_given && !self.ask(field)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Asks for one field; false for Esc.
    fn ask(&mut self, field: &Field) -> Result<bool, Stopped> {
        if let Some(description) = &field.description {
            let mut lines = Lines::new();
            lines.push_block("  ", description);
            self.dialog.say(&lines)?;
        }
        let mark = if field.required { " *" } else { "" };
        let label = format!("{} {}{mark}", self.subject, name(field.label()));
        let start = self.values.get(&field.name).or(field.default.as_ref());
        let Some(value) = ask_value(self.dialog, &label, field, start)? else {
            return Ok(false);
        };
        match value {
            Some(value) => self.values.insert(field.name.clone(), value),
            None => self.values.remove(&field.name),
        };
        Ok(true)
    }

    /// Lets the user choose a field and asks for it.
    pub(crate) fn edit(&mut self) -> Result<(), Stopped> {
        let fields = self.form.fields.iter();
        let labels: Vec<String> = fields.map(|field| name(field.label())).collect();
        let label = format!("{} field to edit", self.subject);
        let Some(at) = self.dialog.select(&label, &labels, 0)? else {
            return Ok(());
        };
        let field = &self.form.fields[at];
        self.ask(field).map(drop)
    }

    /// Returns the values, one a line, for the user to review.
    pub(crate) fn review(&self) -> Lines {
        let mut lines = Lines::new();
        let mut shown = 0;
        for field in &self.form.fields {
            let given = self.values.get(&field.name);
            let (value, note) = match (given, &field.default) {
                (Some(value), _) => (value, ""),
                (None, Some(default)) => (default, " (default)"),
                (None, None) => continue,
            };
            shown += 1;
            if shown > MAX_REVIEWED {
                continue;
            }
            let text = if field.is_secret() {
                "***".to_owned()
            } else {
                inline(&as_chosen(field, value))
            };
            lines.push(format!("  {} = {text}{note}", name(field.label())));
        }
        match shown {
            0 => lines.push("  no values"),
            _ if shown > MAX_REVIEWED => {
                lines.push(format!("  … ({} more)", shown - MAX_REVIEWED));
            }
            _ => {}
        }
        lines
    }
}

/// Returns a value as the user chose it: options by title.
fn as_chosen(field: &Field, value: &Value) -> String {
    let (FieldKind::Choice { options } | FieldKind::Choices { options, .. }) = &field.kind else {
        return field.to_text(value);
    };
    let title = |value: &Value| {
        let value = value.as_str()?;
        let option = options.iter().find(|option| option.value == value)?;
        Some(option.title.as_str())
    };
    let titles: Option<Vec<&str>> = match value {
        Value::Array(values) => values.iter().map(title).collect(),
        value => title(value).map(|title| vec![title]),
    };
    titles.map_or_else(|| field.to_text(value), |titles| titles.join(", "))
}

/// Asks for the value of a field. The outer `None` is Esc, the inner one no value.
fn ask_value(
    dialog: &mut Dialog,
    label: &str,
    field: &Field,
    start: Option<&Value>,
) -> Prompted<Option<Value>> {
    match &field.kind {
        FieldKind::Boolean => {
            let options = ["Yes", "No"].map(str::to_owned).to_vec();
            let at = start.and_then(Value::as_bool).map(|yes| usize::from(!yes));
            let chosen = select(dialog, label, field, options, at)?;
            Ok(chosen.map(|at| at.map(|at| Value::from(at == 0))))
        }
        FieldKind::Choice { options } => {
            let titles = options.iter().map(|option| option.title.clone()).collect();
            let start = start.and_then(Value::as_str);
            let at = start.and_then(|value| options.iter().position(|one| one.value == value));
            let chosen = select(dialog, label, field, titles, at)?;
            Ok(chosen.map(|at| at.map(|at| Value::from(options[at].value.as_str()))))
        }
        FieldKind::Choices { options, .. } => {
            let titles: Vec<String> = options.iter().map(|option| option.title.clone()).collect();
            let start = start.and_then(Value::as_array);
            let is_chosen = |value: &str| {
                start.is_some_and(|chosen| chosen.iter().any(|one| one.as_str() == Some(value)))
            };
            let chosen = options
                .iter()
                .map(|option| is_chosen(&option.value))
                .collect();
            let value = |chosen: &[bool]| -> Value {
                let marked = options.iter().zip(chosen).filter(|(_, chosen)| **chosen);
                marked.map(|(option, _)| option.value.as_str()).collect()
            };
            let check = |chosen: &[bool]| {
                let is_none = !field.required && chosen.iter().all(|chosen| !chosen);
                let problem = field.check(&value(chosen)).err();
                problem.filter(|_| !is_none).map(|error| error.to_string())
            };
            let marked = dialog.select_several(label, &titles, chosen, &check)?;
            Ok(marked.map(|marked| {
                let is_none = !field.required && marked.iter().all(|chosen| !chosen);
                (!is_none).then(|| value(&marked))
            }))
        }
        _ => {
            let initial = start.map(|value| field.to_text(value)).unwrap_or_default();
            let optional = if field.required { "" } else { ", optional" };
            let prompt = TextPrompt {
                label,
                hint: &format!("{}{optional}", field.expects()),
                initial: &initial,
                is_secret: field.is_secret(),
                check: &|text| match field.parse(text) {
                    Ok(None) if field.required => Some("a value is required".to_owned()),
                    Ok(_) => None,
                    Err(problem) => Some(problem.to_string()),
                },
            };
            let typed = dialog.text(&prompt)?;
            Ok(typed.map(|text| field.parse(&text).ok().flatten()))
        }
    }
}

/// Asks for one of the options of a field, or for none if it is optional.
fn select(
    dialog: &mut Dialog,
    label: &str,
    field: &Field,
    mut options: Vec<String>,
    start: Option<usize>,
) -> Prompted<Option<usize>> {
    let count = options.len();
    if !field.required {
        options.push(NONE.to_owned());
    }
    let start = start.unwrap_or(if field.required { 0 } else { count });
    let chosen = dialog.select(label, &options, start)?;
    Ok(chosen.map(|at| (at < count).then_some(at)))
}
