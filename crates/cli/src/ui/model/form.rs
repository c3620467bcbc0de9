//! The fields of a form while the user fills them in: a tool's arguments or an elicitation.
//!
//! The form model of the library says which fields exist, parses typed text and checks values; a
//! property that fits no kind of field is typed as JSON.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Map, Value};
use trunkline::Json;
use trunkline::elicit::{Field, FieldKind, FieldOption, Form};
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler;

use super::textarea::TextArea;

/// The value of a field so far.
#[derive(Clone, Debug)]
pub(in crate::ui) enum Entry {
    Text(Input),
    Choice(Option<usize>),
    Choices { chosen: Vec<bool>, at: usize },
    Boolean(Option<bool>),
}

/// A form, its values so far, and the problems found when the user wanted to send it.
#[derive(Debug)]
pub(in crate::ui) struct FormState {
    pub(in crate::ui) form: Form,
    pub(in crate::ui) entries: Vec<Entry>,
    pub(in crate::ui) focus: usize,
    /// Raw mode: all values as one JSON object.
    pub(in crate::ui) raw: Option<TextArea>,
    /// Problems by field name; an empty name is about the whole form.
    pub(in crate::ui) problems: Vec<(String, String)>,
    /// Values that no field has; raw mode may add some.
    extra: Map<String, Value>,
    /// Secrets, which raw mode does not show.
    hidden: Map<String, Value>,
    purpose: Purpose,
}

/// What a form is filled in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// The arguments of a call: exactly the values in the fields.
    Arguments,
    /// The answer to a question: absent values have their defaults.
    Answer,
}

impl FormState {
    pub(in crate::ui) fn new(form: Form) -> Self {
        let entries = form.fields.iter().map(Entry::of).collect();
        Self {
            entries,
            form,
            focus: 0,
            raw: None,
            problems: Vec::new(),
            extra: Map::new(),
            hidden: Map::new(),
            purpose: Purpose::Answer,
        }
    }

    /// The form for the arguments of a call.
    pub(in crate::ui) fn from_schema(schema: &Json) -> Self {
        Self {
            purpose: Purpose::Arguments,
            ..Self::new(Form::from_schema(schema))
        }
    }

    /// Returns the names of the fields whose values are not shown.
    pub(in crate::ui) fn secrets(&self) -> Vec<String> {
        let secret = self.form.fields.iter().filter(|field| field.is_secret());
        secret.map(|field| field.name.clone()).collect()
    }

    pub(in crate::ui) fn len(&self) -> usize {
        self.form.fields.len()
    }

    /// Returns the problem of a field.
    pub(in crate::ui) fn problem(&self, name: &str) -> Option<&str> {
        let found = self.problems.iter().find(|(field, _)| field == name);
        found.map(|(_, problem)| problem.as_str())
    }

    /// Fills in values, for a repeated call or after raw mode.
    pub(in crate::ui) fn fill(&mut self, values: &Map<String, Value>) {
        for (field, entry) in self.form.fields.iter().zip(&mut self.entries) {
            match values.get(&field.name) {
                Some(value) => entry.set(field, value),
                None => *entry = Entry::empty(field),
            }
        }
        let known = |name: &str| self.form.fields.iter().any(|field| field.name == name);
        let extra = values.iter().filter(|(name, _)| !known(name));
        self.extra = extra
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
    }

    /// Returns the values so far, without those that are not valid.
    pub(in crate::ui) fn draft(&self) -> Map<String, Value> {
        if let Some(raw) = &self.raw {
            let values = serde_json::from_str(&raw.text()).unwrap_or_default();
            return self.with_hidden(values);
        }
        let mut values = Map::new();
        for (field, entry) in self.form.fields.iter().zip(&self.entries) {
            if let Ok(Some(value)) = entry.value(field) {
                values.insert(field.name.clone(), value);
            }
        }
        values.extend(self.extra.clone());
        values
    }

    /// Returns the checked values. Problems stay on the form.
    pub(in crate::ui) fn submit(&mut self) -> Option<Map<String, Value>> {
        self.problems.clear();
        if let Some(raw) = &self.raw {
            return match serde_json::from_str::<Map<String, Value>>(&raw.text()) {
                Ok(values) => Some(self.with_hidden(values)),
                Err(error) => {
                    let problem = format!("not a JSON object: {error}");
                    self.problems.push((String::new(), problem));
                    None
                }
            };
        }
        let mut values = Map::new();
        for (field, entry) in self.form.fields.iter().zip(&self.entries) {
            match entry.value(field) {
                Ok(Some(value)) => _ = values.insert(field.name.clone(), value),
                Ok(None) => {}
                Err(problem) => self.problems.push((field.name.clone(), problem)),
            }
        }
        if self.purpose == Purpose::Arguments {
            for field in &self.form.fields {
                let is_known = values.contains_key(&field.name) || self.has_problem(field);
                if field.required && !is_known {
                    let problem = "is required".to_owned();
                    self.problems.push((field.name.clone(), problem));
                }
            }
        }
        match self.form.check(&values) {
            Ok(checked) if self.problems.is_empty() => {
                let mut all = self.extra.clone();
                all.extend(match self.purpose {
                    Purpose::Arguments => values,
                    Purpose::Answer => checked,
                });
                return Some(all);
            }
            Ok(_) => {}
            Err(errors) => {
                for error in errors {
                    if self.problem(&error.field).is_none() {
                        self.problems.push((error.field, error.problem));
                    }
                }
            }
        }
        let mut fields = self.form.fields.iter();
        if let Some(first) = fields.position(|field| self.has_problem(field)) {
            self.focus = first;
        }
        None
    }

    /// Switches between fields and raw JSON. Raw text that is not an object stays.
    pub(in crate::ui) fn toggle_raw(&mut self) {
        self.problems.clear();
        if self.raw.is_none() {
            let mut values = self.draft();
            self.hidden = Map::new();
            for name in self.secrets() {
                if let Some(value) = values.shift_remove(&name) {
                    self.hidden.insert(name, value);
                }
            }
            let values = Value::Object(values);
            let text = serde_json::to_string_pretty(&values).unwrap_or_default();
            let mut area = TextArea::new(&text);
            let focused = self.form.fields.get(self.focus);
            area.place_at_value(focused.map_or("", |field| &field.name));
            self.raw = Some(area);
        } else if let Some(values) = self.submit() {
            self.raw = None;
            self.fill(&values);
        }
    }

    /// Adds the secrets that raw mode does not show, unless the user has typed others.
    fn with_hidden(&self, mut values: Map<String, Value>) -> Map<String, Value> {
        for (name, value) in &self.hidden {
            values.entry(name.clone()).or_insert_with(|| value.clone());
        }
        values
    }

    fn has_problem(&self, field: &Field) -> bool {
        self.problem(&field.name).is_some()
    }

    /// Moves to another field; returns whether there was one in this direction.
    pub(in crate::ui) fn step(&mut self, by: isize) -> bool {
        match self.focus.checked_add_signed(by) {
            Some(next) if next < self.len() => {
                self.focus = next;
                true
            }
            _ => false,
        }
    }

    pub(in crate::ui) fn paste(&mut self, text: &str) {
        if let Some(raw) = &mut self.raw {
            raw.insert(text);
        } else if let Some(Entry::Text(input)) = self.entries.get_mut(self.focus) {
            insert(input, text);
        }
    }

    /// Handles a key in the current field; returns whether it was for the field.
    pub(in crate::ui) fn key(&mut self, key: &KeyEvent) -> bool {
        if let Some(raw) = &mut self.raw {
            return raw.key(key);
        }
        let Some(field) = self.form.fields.get(self.focus) else {
            return false;
        };
        let used = match &mut self.entries[self.focus] {
            Entry::Text(input) => edit(input, key),
            Entry::Choice(chosen) => {
                let options = options(&field.kind).len();
                cycle(chosen, options, !field.required, key)
            }
            Entry::Boolean(value) => {
                let mut chosen = value.map(usize::from);
                let used = match key.code {
                    KeyCode::Char('y') => {
                        chosen = Some(1);
                        true
                    }
                    KeyCode::Char('n') => {
                        chosen = Some(0);
                        true
                    }
                    _ => cycle(&mut chosen, 2, !field.required, key),
                };
                *value = chosen.map(|chosen| chosen == 1);
                used
            }
            Entry::Choices { chosen, at } => match key.code {
                KeyCode::Left => {
                    *at = at.saturating_sub(1);
                    true
                }
                KeyCode::Right => {
                    *at = (*at + 1).min(chosen.len().saturating_sub(1));
                    true
                }
                KeyCode::Char(' ') => {
                    if let Some(chosen) = chosen.get_mut(*at) {
                        *chosen = !*chosen;
                    }
                    true
                }
                _ => false,
            },
        };
        if used {
            self.problems.retain(|(name, _)| *name != field.name);
        }
        used
    }
}

/// Inserts a pasted text as one line.
pub(in crate::ui) fn insert(input: &mut Input, text: &str) {
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let (value, cursor) = (input.value(), input.cursor());
    let at = value.char_indices().nth(cursor);
    let (before, after) = value.split_at(at.map_or(value.len(), |(at, _)| at));
    let moved = cursor + text.chars().count();
    *input = Input::new(format!("{before}{text}{after}")).with_cursor(moved);
}

/// Edits a line of text; returns whether the key was for it.
pub(in crate::ui) fn edit(input: &mut Input, key: &KeyEvent) -> bool {
    let is_text = matches!(key.code, KeyCode::Char(_))
        && !key
            .modifiers
            .intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
    let is_edit = matches!(
        (key.code, key.modifiers),
        (
            KeyCode::Backspace
                | KeyCode::Delete
                | KeyCode::Left
                | KeyCode::Right
                | KeyCode::Home
                | KeyCode::End,
            _
        ) | (
            KeyCode::Char('a' | 'e' | 'u' | 'w' | 'k'),
            KeyModifiers::CONTROL
        )
    );
    if is_text || is_edit {
        input.handle_event(&Event::Key(*key));
    }
    is_text || is_edit
}

/// Chooses the next or the previous option; an optional field may have none.
fn cycle(chosen: &mut Option<usize>, options: usize, optional: bool, key: &KeyEvent) -> bool {
    if options == 0 {
        return false;
    }
    // Position 0 stands for no choice, which a required field skips.
    let first = usize::from(!optional);
    let at = chosen.map_or(0, |at| at + 1);
    let next = match key.code {
        KeyCode::Right | KeyCode::Char(' ') if at < options => at + 1,
        KeyCode::Right | KeyCode::Char(' ') => first,
        KeyCode::Left if at > first => at - 1,
        KeyCode::Left => options,
        _ => return false,
    };
    *chosen = next.checked_sub(1);
    true
}

/// Returns the options of a choice.
pub(in crate::ui) fn options(kind: &FieldKind) -> &[FieldOption] {
    match kind {
        FieldKind::Choice { options } | FieldKind::Choices { options, .. } => options,
        _ => &[],
    }
}

impl Entry {
    fn of(field: &Field) -> Self {
        let mut entry = Self::empty(field);
        if let Some(default) = &field.default {
            entry.set(field, default);
        }
        entry
    }

    fn empty(field: &Field) -> Self {
        match &field.kind {
            FieldKind::Boolean => Self::Boolean(None),
            FieldKind::Choice { .. } => Self::Choice(None),
            FieldKind::Choices { options, .. } => Self::Choices {
                chosen: vec![false; options.len()],
                at: 0,
            },
            _ => Self::Text(Input::default()),
        }
    }

    fn set(&mut self, field: &Field, value: &Value) {
        let options = options(&field.kind);
        match self {
            Self::Text(input) => {
                *input = Input::new(field.to_text(value));
            }
            Self::Boolean(chosen) => *chosen = value.as_bool(),
            Self::Choice(chosen) => {
                *chosen = options
                    .iter()
                    .position(|option| Some(option.value.as_str()) == value.as_str());
            }
            Self::Choices { chosen, .. } => {
                let values = value.as_array().map(Vec::as_slice).unwrap_or_default();
                for (chosen, option) in chosen.iter_mut().zip(options) {
                    *chosen = values.iter().any(|value| *value == option.value.as_str());
                }
            }
        }
    }

    /// Returns the value, if there is one, or why it is not valid.
    fn value(&self, field: &Field) -> Result<Option<Value>, String> {
        let options = options(&field.kind);
        Ok(match self {
            Self::Text(input) => field.parse(input.value()).map_err(|error| error.problem)?,
            Self::Boolean(chosen) => chosen.map(Value::from),
            Self::Choice(chosen) => chosen
                .and_then(|at| options.get(at))
                .map(|option| Value::from(option.value.as_str())),
            Self::Choices { chosen, .. } => {
                let values: Vec<Value> = chosen
                    .iter()
                    .zip(options)
                    .filter(|(chosen, _)| **chosen)
                    .map(|(_, option)| Value::from(option.value.as_str()))
                    .collect();
                (!values.is_empty() || field.required).then(|| Value::from(values))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state() -> FormState {
        FormState::from_schema(
            &json!({
                "type": "object",
                "properties": {
                    "repo": {"type": "string"},
                    "count": {"type": "integer", "minimum": 1, "maximum": 5, "default": 2},
                    "size": {"type": "string", "enum": ["s", "m", "l"]},
                    "labels": {"type": "array", "items": {"type": "string", "enum": ["bug", "docs"]}},
                    "urgent": {"type": "boolean"},
                    "more": {"type": "object", "properties": {"deep": {"type": "array"}}},
                },
                "required": ["repo"],
            })
            .into(),
        )
    }

    fn press(form: &mut FormState, keys: &str) {
        for c in keys.chars() {
            let code = match c {
                '→' => KeyCode::Right,
                '←' => KeyCode::Left,
                '⌫' => KeyCode::Backspace,
                '↓' => {
                    form.step(1);
                    continue;
                }
                c => KeyCode::Char(c),
            };
            assert!(form.key(&KeyEvent::from(code)), "{c}");
        }
    }

    #[test]
    fn every_kind_of_field_gives_a_value_of_its_type() {
        let mut form = state();
        assert!(form.submit().is_none());
        assert_eq!(form.problem("repo"), Some("is required"));
        press(&mut form, "a/b↓⌫4↓→→↓ →↓y↓{\"deep\":[1]}");
        let values = Value::Object(form.submit().unwrap());
        assert_eq!(
            values,
            json!({"repo": "a/b", "count": 4, "size": "m", "labels": ["bug"], "urgent": true, "more": {"deep": [1]}})
        );
    }

    #[test]
    fn problems_are_shown_at_their_field_and_vanish_when_it_is_edited() {
        let mut form = state();
        press(&mut form, "x↓⌫9↓↓↓↓{");
        assert!(form.submit().is_none());
        assert!(form.problem("count").is_some());
        assert_eq!(form.problem("more"), Some("must be JSON"));
        assert_eq!(form.focus, 1, "the first field with a problem");
        press(&mut form, "⌫3");
        assert_eq!(form.problem("count"), None);
    }

    #[test]
    fn a_cleared_default_is_not_sent_with_a_call() {
        let schema = json!({"properties": {"count": {"type": "integer", "default": 2}}});
        let mut call = FormState::from_schema(&schema.clone().into());
        press(&mut call, "⌫");
        assert_eq!(call.draft(), Map::new());
        assert_eq!(call.submit(), Some(Map::new()));
        let mut answer = FormState::new(Form::from_schema(&schema.into()));
        press(&mut answer, "⌫");
        assert_eq!(Value::Object(answer.submit().unwrap()), json!({"count": 2}));
        let schema =
            json!({"properties": {"n": {"type": "integer", "default": 2}}, "required": ["n"]});
        let mut required = FormState::from_schema(&schema.into());
        press(&mut required, "⌫");
        assert!(required.submit().is_none());
        assert_eq!(required.problem("n"), Some("is required"));
    }

    #[test]
    fn raw_mode_does_not_show_secrets() {
        let schema = json!({"properties": {"key": {"type": "string", "format": "password"}}});
        let mut form = FormState::from_schema(&schema.into());
        press(&mut form, "hunter2");
        form.toggle_raw();
        assert_eq!(form.raw.as_ref().unwrap().text(), "{}");
        let expected = json!({"key": "hunter2"});
        assert_eq!(Value::Object(form.submit().unwrap()), expected);
        form.toggle_raw();
        assert_eq!(Value::Object(form.draft()), expected);
    }

    #[test]
    fn a_paste_goes_where_the_cursor_is() {
        let mut input = Input::new("äc".to_owned()).with_cursor(1);
        insert(&mut input, "x\ny");
        assert_eq!((input.value(), input.cursor()), ("äx yc", 4));
        let mut long = Input::default();
        insert(&mut long, &"x".repeat(1_000_000));
        assert_eq!(long.cursor(), 1_000_000);
    }

    #[test]
    fn raw_mode_keeps_values_that_no_field_has() {
        let mut form = state();
        press(&mut form, "x");
        form.toggle_raw();
        let raw = form.raw.as_mut().unwrap();
        assert_eq!(raw.text(), "{\n  \"repo\": \"x\",\n  \"count\": 2\n}");
        *raw = TextArea::new("{\"repo\": \"y\", \"other\": 1");
        form.toggle_raw();
        assert!(form.raw.is_some() && form.problem("").is_some(), "stays");
        *form.raw.as_mut().unwrap() = TextArea::new("{\"repo\": \"y\", \"other\": 1}");
        form.toggle_raw();
        assert!(form.raw.is_none());
        // A default that was removed in raw mode is not resent.
        let values = Value::Object(form.submit().unwrap());
        assert_eq!(values, json!({"other": 1, "repo": "y"}));
    }
}
