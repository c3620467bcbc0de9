//! One rule of an allow or deny list, and the guesses that stand in for a malformed one (CFG-7).
//!
//! A mistake must not widen what runs. A malformed allow rule allows nothing, and still restricts:
//! a list that was meant to name commands does not allow commands by their server's name. A
//! malformed deny rule denies everything that it may have been meant to.

use std::fmt;

use serde_json::Value;
use serde_json::value::RawValue;

use super::url_pattern::UrlPattern;
use crate::document::Document;

/// One element of `allowedMcpServers` or `deniedMcpServers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// `{"serverName": …}`
    Name(String),
    /// `{"serverCommand": […]}`
    Command(Vec<String>),
    /// `{"serverUrl": …}`
    Url(Box<UrlPattern>),
    /// `"env": […]` beside a `serverCommand`: variables that entries with that command may set.
    Variables {
        /// The command.
        argv: Vec<String>,
        /// The names.
        names: Vec<String>,
    },
    /// The start of a denied command, guessed from a malformed rule.
    CommandPrefix(Vec<String>),
    /// A malformed allow rule: it matches nothing and may have been meant to restrict these.
    Malformed {
        /// Commands must match a rule.
        commands: bool,
        /// URLs must match a rule.
        urls: bool,
    },
}

/// What an element of a list says.
#[derive(Debug)]
pub(crate) struct ReadRule {
    /// Whether it is exactly one rule, as documented.
    pub(crate) is_complete: bool,
    /// Everything that it may have been meant to deny.
    pub(crate) guesses: Vec<Rule>,
    /// What it allows: a rule, with the variables of its command, or the restriction that remains
    /// of a malformed one.
    pub(crate) allows: Vec<Rule>,
}

/// What the key of a rule means, ignoring case.
#[derive(Clone, Copy, PartialEq)]
enum Key {
    Name,
    Command,
    Url,
    Env,
    Unknown,
}

/// A member of a rule: its key, the rule that it is if it is well-formed, and its value.
type Member = (Key, Option<Rule>, Value);

impl Key {
    fn of(key: &str) -> Self {
        match &*key.to_ascii_lowercase() {
            "servername" => Self::Name,
            "servercommand" => Self::Command,
            "serverurl" => Self::Url,
            "env" => Self::Env,
            _ => Self::Unknown,
        }
    }
}

impl Rule {
    pub(crate) fn url(pattern: &str) -> Self {
        Self::Url(Box::new(UrlPattern::new(pattern)))
    }

    /// Reads an element of a list.
    pub(crate) fn read<'a>(document: &Document<'a>, raw: &'a RawValue) -> ReadRule {
        let Ok(members) = document.members(raw) else {
            let guesses = guesses(Key::Unknown, &document.decode(raw).unwrap_or_default());
            let is_name = |rule: &Self| matches!(rule, Self::Name(_));
            let restricts = guesses.is_empty() || !guesses.iter().all(is_name);
            return ReadRule {
                is_complete: false,
                allows: Self::malformed(restricts, restricts).into_iter().collect(),
                guesses,
            };
        };
        let read = |(key, value): (&str, _)| {
            let value: Value = document.decode(value).unwrap_or_default();
            (Key::of(key), exact(key, &value), value)
        };
        let mut members: Vec<_> = members.iter().map(read).collect();
        if let Some((rule, variables)) = well_formed(&members) {
            return ReadRule {
                is_complete: true,
                guesses: vec![rule.clone()],
                allows: [rule].into_iter().chain(variables).collect(),
            };
        }
        let has = |wanted| members.iter().any(|(key, ..)| *key == wanted);
        // An empty object, or an unknown key, does not tell what it was meant to restrict.
        let is_unclear = members.is_empty() || has(Key::Unknown);
        let of_command = has(Key::Command) || has(Key::Env);
        let allows = Self::malformed(is_unclear || of_command, is_unclear || has(Key::Url));
        // Beside a known key, an unknown one is a comment.
        if has(Key::Name) || has(Key::Command) || has(Key::Url) {
            members.retain(|(key, ..)| !matches!(key, Key::Unknown | Key::Env));
        }
        let guess = |(key, exact, value): Member| match exact {
            Some(rule) => vec![rule],
            None => guesses(key, &value),
        };
        ReadRule {
            is_complete: false,
            guesses: members.into_iter().flat_map(guess).collect(),
            allows: allows.into_iter().collect(),
        }
    }

    /// What remains of an allow rule that does not count.
    pub(crate) fn restriction(self) -> Option<Self> {
        match self {
            Self::Name(_) | Self::Variables { .. } => None,
            Self::Command(_) | Self::CommandPrefix(_) => Self::malformed(true, false),
            Self::Url(_) => Self::malformed(false, true),
            Self::Malformed { .. } => Some(self),
        }
    }

    fn malformed(commands: bool, urls: bool) -> Option<Self> {
        (commands || urls).then_some(Self::Malformed { commands, urls })
    }
}

/// The rule in the members of an element, with its variables, if they are as documented.
fn well_formed(members: &[Member]) -> Option<(Rule, Option<Rule>)> {
    match members {
        [(_, Some(rule), _)] => Some((rule.clone(), None)),
        [(_, Some(Rule::Command(argv)), _), (Key::Env, _, names)]
        | [(Key::Env, _, names), (_, Some(Rule::Command(argv)), _)] => {
            let names = names.as_array()?.iter();
            let names = names.map(|name| name.as_str().map(str::to_owned));
            let variables = Rule::Variables {
                argv: argv.clone(),
                names: names.collect::<Option<_>>()?,
            };
            Some((Rule::Command(argv.clone()), Some(variables)))
        }
        _ => None,
    }
}

/// The rule that a member is, if it is written as documented.
fn exact(key: &str, value: &Value) -> Option<Rule> {
    match (key, value) {
        ("serverName", Value::String(name)) => Some(Rule::Name(name.clone())),
        ("serverUrl", Value::String(pattern)) => Some(Rule::url(pattern)),
        ("serverCommand", Value::Array(words)) if !words.is_empty() => {
            let words = words.iter().map(|word| word.as_str().map(str::to_owned));
            words.collect::<Option<_>>().map(Rule::Command)
        }
        _ => None,
    }
}

/// Everything that a malformed value may have been meant to deny.
fn guesses(key: Key, value: &Value) -> Vec<Rule> {
    let mut rules = Vec::new();
    let texts: Vec<String> = match value {
        Value::String(text) => vec![text.clone()],
        // The words up to one that is none: `["npx", 5]`.
        Value::Array(words) => words
            .iter()
            .map_while(|word| word.as_str().map(str::to_owned))
            .collect(),
        _ => Vec::new(),
    };
    let is_list = value.is_array();
    for text in texts.iter().filter(|text| !text.trim().is_empty()) {
        let words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
        let is_line = words.len() > 1;
        if matches!(key, Key::Name | Key::Unknown) {
            rules.push(Rule::Name(text.clone()));
        }
        if matches!(key, Key::Url) || key == Key::Unknown && text.contains(['/', '*', ':']) {
            rules.push(Rule::url(text));
        }
        if !is_list && (key == Key::Command || key == Key::Unknown && is_line) {
            rules.extend([
                Rule::Command(vec![text.clone()]),
                Rule::CommandPrefix(words),
            ]);
        }
    }
    if is_list && matches!(key, Key::Command | Key::Unknown) && !texts.is_empty() {
        rules.push(Rule::CommandPrefix(texts));
    }
    rules
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let value = match self {
            Self::Name(name) => serde_json::json!({"serverName": name}),
            Self::Command(argv) => serde_json::json!({"serverCommand": argv}),
            Self::CommandPrefix(argv) => {
                let argv: Vec<_> = argv.iter().map(String::as_str).chain(["…"]).collect();
                serde_json::json!({"serverCommand": argv})
            }
            Self::Url(pattern) => serde_json::json!({"serverUrl": pattern.written()}),
            Self::Variables { argv, names } => {
                serde_json::json!({"serverCommand": argv, "env": names})
            }
            Self::Malformed { .. } => return f.write_str("a malformed rule"),
        };
        write!(f, "{value}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ReadRule {
        let document = Document::new("f", text);
        let raw = serde_json::from_str(text).unwrap();
        Rule::read(&document, raw)
    }

    #[test]
    fn a_malformed_allow_rule_still_restricts() {
        for (text, commands, urls) in [
            (r#"{"serverCommand": "npx -y files"}"#, true, false),
            (r#"{"serverCommand": ["npx", 5]}"#, true, false),
            (r#"{"serverCommand": []}"#, true, false),
            (r#"{"serverCommand": null}"#, true, false),
            (r#"{"servercommand": ["npx"]}"#, true, false),
            (
                r#"{"serverCommand": ["a"], "serverCommand": ["b"]}"#,
                true,
                false,
            ),
            (
                r#"{"serverName": "a", "serverCommand": ["b"]}"#,
                true,
                false,
            ),
            (r#"{"serverURL": "https://h/*"}"#, false, true),
            (r#"{"serverUrl": 7}"#, false, true),
            // Nothing tells what these were meant to restrict.
            (r#"{"command": ["npx"]}"#, true, true),
            (r#"{"serverName": "a", "url": "https://h/*"}"#, true, true),
            (r#""npx -y files""#, true, true),
            (r#""https://h/*""#, true, true),
            (r#"["npx", "files"]"#, true, true),
            ("{}", true, true),
            ("5", true, true),
            // These were meant as names.
            (r#""files""#, false, false),
            (r#"{"servername": "files"}"#, false, false),
            (r#"{"serverName": 5}"#, false, false),
        ] {
            let read = read(text);
            assert!(!read.is_complete, "{text}");
            let restriction = Rule::malformed(commands, urls);
            assert_eq!(read.allows.first(), restriction.as_ref(), "{text}");
        }
        let good = read(r#"{"serverCommand": ["npx", "files"]}"#);
        assert!(good.is_complete);
        assert_eq!(good.allows, good.guesses);
    }

    #[test]
    fn a_command_may_have_variables() {
        let argv = vec!["npx".to_owned()];
        let names = vec!["A".to_owned()];
        let read_all = |text| read(text).allows;
        for text in [
            r#"{"serverCommand": ["npx"], "env": ["A"]}"#,
            r#"{"env": ["A"], "serverCommand": ["npx"]}"#,
        ] {
            let command = Rule::Command(argv.clone());
            let (argv, names) = (argv.clone(), names.clone());
            assert_eq!(read_all(text), [command, Rule::Variables { argv, names }]);
        }
        for text in [
            r#"{"serverCommand": ["npx"], "env": "A"}"#,
            r#"{"serverCommand": ["npx"], "env": [5]}"#,
            r#"{"serverName": "a", "env": ["A"]}"#,
            r#"{"env": ["A"]}"#,
        ] {
            let restricts = Rule::Malformed {
                commands: true,
                urls: false,
            };
            assert_eq!(read_all(text), [restricts], "{text}");
        }
    }

    #[test]
    fn a_malformed_deny_rule_denies_what_can_be_guessed() {
        for (text, expected) in [
            (
                r#"{"serverCommand": "sh -c"}"#,
                r#"{"serverCommand":["sh -c"]} {"serverCommand":["sh","-c","…"]}"#,
            ),
            (
                r#"{"serverCommand": ["npx", 5]}"#,
                r#"{"serverCommand":["npx","…"]}"#,
            ),
            (
                r#"{"SERVERCOMMAND": ["npx"]}"#,
                r#"{"serverCommand":["npx","…"]}"#,
            ),
            (r#"{"servername": "files"}"#, r#"{"serverName":"files"}"#),
            (
                r#"{"serverName": ["a", "b"]}"#,
                r#"{"serverName":"a"} {"serverName":"b"}"#,
            ),
            (
                r#"{"serverURL": "https://h/*"}"#,
                r#"{"serverUrl":"https://h/*"}"#,
            ),
            (
                r#"{"serverUrl": ["https://h/*"]}"#,
                r#"{"serverUrl":"https://h/*"}"#,
            ),
            (r#"{"name": "files"}"#, r#"{"serverName":"files"}"#),
            (
                r#"{"url": "https://h/*"}"#,
                r#"{"serverName":"https://h/*"} {"serverUrl":"https://h/*"}"#,
            ),
            (
                r#"{"serverName": "a", "comment": "*"}"#,
                r#"{"serverName":"a"}"#,
            ),
            (r#""files""#, r#"{"serverName":"files"}"#),
            (
                r#""sh -c""#,
                r#"{"serverName":"sh -c"} {"serverCommand":["sh -c"]} {"serverCommand":["sh","-c","…"]}"#,
            ),
            ("5", ""),
            (r#"{"serverCommand": []}"#, ""),
        ] {
            let read = read(text);
            let guesses: Vec<_> = read.guesses.iter().map(ToString::to_string).collect();
            assert_eq!(guesses.join(" "), expected, "{text}");
        }
    }
}
