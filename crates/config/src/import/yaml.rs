//! The entries of a YAML file, with their positions.
//!
//! The parser delivers events and the tree is built here, so that its depth, its size and the
//! expansion of aliases are bounded.

use std::collections::HashMap;
use std::rc::Rc;

use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError};
use serde_json::{Map, Value};

use super::fields::{Document, Field, Fields, Problem, RawServer};

/// The maximum nesting depth, including aliases.
const MAX_DEPTH: usize = 64;

/// The maximum number of nodes.
const MAX_NODES: usize = 500_000;

/// The maximum size of the entries with aliases expanded, in bytes.
const MAX_EXPANDED: usize = 64 << 20;

const TOO_DEEP: &str = "it is nested too deeply";

/// A node, shared by its aliases.
struct Node {
    at: usize,
    depth: usize,
    tree: Tree,
}

enum Tree {
    Scalar(Value),
    List(Vec<Rc<Node>>),
    Map(Vec<(String, Rc<Node>)>),
}

/// A list or a map under construction.
struct Open {
    at: usize,
    anchor: usize,
    depth: usize,
    items: Items,
}

enum Items {
    List(Vec<Rc<Node>>),
    Map(Vec<(String, Rc<Node>)>, Option<String>),
}

/// The entries of the map `section`.
pub(super) fn servers(text: &str, section: &str) -> Result<Document, Problem> {
    let mut document = Document::default();
    let Some(file) = parse(text)? else {
        return Ok(document);
    };
    let Tree::Map(members) = &file.tree else {
        return Err(Problem::new(file.at, "the file is not a YAML mapping"));
    };
    let Some((_, found)) = members.iter().rfind(|(name, _)| name == section) else {
        return Ok(document);
    };
    let entries = match &found.tree {
        Tree::Map(entries) => entries,
        Tree::Scalar(Value::Null) => return Ok(document),
        Tree::Scalar(_) | Tree::List(_) => {
            let message = format!("its \"{section}\" is not a mapping");
            return Err(Problem::new(found.at, message));
        }
    };
    let mut budget = MAX_EXPANDED;
    for (name, entry) in entries {
        let Tree::Map(fields) = &entry.tree else {
            let problem = Problem::new(
                entry.at,
                "it is not a mapping; write \"type: …\" below its name",
            );
            document.problems.push(problem.about(name));
            continue;
        };
        let fields: Option<Vec<Field>> = fields
            .iter()
            .map(|(name, node)| {
                Some(Field {
                    name: name.clone(),
                    at: node.at,
                    value: plain(node, &mut budget)?,
                })
            })
            .collect();
        let Some(fields) = fields else {
            let message = "its aliases expand to more than can be read; write them out";
            let problem = Problem::new(entry.at, message);
            document.problems.push(problem.about(name));
            break;
        };
        document.servers.push(RawServer {
            name: name.clone(),
            fields: Fields::new(entry.at, fields),
        });
    }
    Ok(document)
}

/// Parses the first document of a YAML text. Its depth, its size and the expansion of aliases are
/// bounded. Only canonically spelled numbers are numbers.
///
/// ```
/// let value = trunkline_config::yaml_value("name: x\ntags: [1, two]").unwrap();
/// assert_eq!(value, serde_json::json!({"name": "x", "tags": [1, "two"]}));
/// ```
pub fn yaml_value(text: &str) -> Result<Value, String> {
    let node = parse(text).map_err(|problem| problem.message)?;
    let mut budget = MAX_EXPANDED;
    let value = node.map(|node| plain(&node, &mut budget));
    value
        .unwrap_or(Some(Value::Null))
        .ok_or_else(|| "its aliases expand to more than can be read".to_owned())
}

/// The value of a node with its aliases expanded; `None` if that exceeds `budget`.
fn plain(node: &Node, budget: &mut usize) -> Option<Value> {
    let names = match &node.tree {
        Tree::Scalar(Value::String(text)) => text.len(),
        Tree::Map(members) => members.iter().map(|(name, _)| name.len()).sum(),
        Tree::Scalar(_) | Tree::List(_) => 0,
    };
    *budget = budget.checked_sub(names + 1)?;
    Some(match &node.tree {
        Tree::Scalar(value) => value.clone(),
        Tree::List(list) => {
            let list = list.iter().map(|node| plain(node, budget));
            Value::Array(list.collect::<Option<_>>()?)
        }
        Tree::Map(members) => members
            .iter()
            .map(|(name, node)| Some((name.clone(), plain(node, budget)?)))
            .collect::<Option<Map<_, _>>>()?
            .into(),
    })
}

/// The first document of a file.
fn parse(text: &str) -> Result<Option<Rc<Node>>, Problem> {
    let mut options = Options::default();
    options.flow_nesting_limit = MAX_DEPTH;
    options.block_nesting_limit = MAX_DEPTH;
    let mut builder = Builder::default();
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| syntax(&error))?;
        if matches!(event, Event::DocumentEnd) {
            break;
        }
        let at = span.start.byte_offset().unwrap_or_default();
        builder
            .event(event, at)
            .map_err(|message| Problem::new(at, message))?;
    }
    Ok(builder.root)
}

/// The parser's messages name the kind of mistake, never the content of the file.
fn syntax(error: &ScanError) -> Problem {
    Problem {
        at: error.marker().byte_offset(),
        server: None,
        message: format!("not valid YAML: {}", error.info()),
    }
}

#[derive(Default)]
struct Builder {
    root: Option<Rc<Node>>,
    open: Vec<Open>,
    anchors: HashMap<usize, Rc<Node>>,
    nodes: usize,
}

impl Builder {
    fn event(&mut self, event: Event<'_>, at: usize) -> Result<(), &'static str> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err("it has more than 500,000 values");
        }
        match event {
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned();
                self.add(node.ok_or("an alias within the value that it stands for")?)
            }
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain && tag.is_none();
                let value = if plain { scalar(&text) } else { text.into() };
                self.close(at, anchor, 0, Tree::Scalar(value))
            }
            Event::SequenceStart(_, anchor, _) => self.start(at, anchor, Items::List(Vec::new())),
            Event::MappingStart(_, anchor, _) => {
                self.start(at, anchor, Items::Map(Vec::new(), None))
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else {
                    return Ok(());
                };
                let tree = match open.items {
                    Items::List(list) => Tree::List(list),
                    Items::Map(members, _) => Tree::Map(members),
                };
                self.close(open.at, open.anchor, open.depth, tree)
            }
            _ => Ok(()),
        }
    }

    fn start(&mut self, at: usize, anchor: usize, items: Items) -> Result<(), &'static str> {
        if self.open.len() >= MAX_DEPTH {
            return Err(TOO_DEEP);
        }
        let depth = 0;
        self.open.push(Open {
            at,
            anchor,
            depth,
            items,
        });
        Ok(())
    }

    fn close(
        &mut self,
        at: usize,
        anchor: usize,
        depth: usize,
        tree: Tree,
    ) -> Result<(), &'static str> {
        let node = Rc::new(Node { at, depth, tree });
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        self.add(node)
    }

    /// Adds a complete node to its parent.
    fn add(&mut self, node: Rc<Node>) -> Result<(), &'static str> {
        let Some(open) = self.open.last_mut() else {
            self.root.get_or_insert(node);
            return Ok(());
        };
        open.depth = open.depth.max(node.depth + 1);
        if open.depth > MAX_DEPTH {
            return Err(TOO_DEEP);
        }
        match &mut open.items {
            Items::List(list) => list.push(node),
            Items::Map(members, key) => match key.take() {
                Some(key) => members.push((key, node)),
                None => *key = Some(name(&node).ok_or("a key that is not text")?),
            },
        }
        Ok(())
    }
}

/// A key; numbers and flags are converted to text.
fn name(node: &Node) -> Option<String> {
    match &node.tree {
        Tree::Scalar(Value::String(text)) => Some(text.clone()),
        Tree::Scalar(value) => Some(value.to_string()),
        Tree::List(_) | Tree::Map(_) => None,
    }
}

/// The value of an unquoted scalar. Only a canonically spelled number is a number, so that `1.10`,
/// a version, and `0644`, a mode, stay text.
fn scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => {
            let number = text.parse::<i64>().ok().map(serde_json::Number::from);
            let number = number.or_else(|| serde_json::Number::from_f64(text.parse().ok()?));
            match number {
                Some(number) if number.to_string() == text => Value::Number(number),
                _ => Value::String(text.to_owned()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn value(text: &str) -> Result<Value, String> {
        let node = parse(text).map_err(|problem| problem.message)?;
        let mut budget = 10_000;
        plain(&node.unwrap(), &mut budget).ok_or_else(|| "budget".to_owned())
    }

    #[test]
    fn scalars_mean_what_they_spell() {
        let given = "[1, -2, 1.5, 1.10, 0644, true, ~, yes, '1', !!str 1, null, \"a\\tb\", 1e999]";
        let expected = json!([
            1, -2, 1.5, "1.10", "0644", true, null, "yes", "1", "1", null, "a\tb", "1e999"
        ]);
        assert_eq!(value(given), Ok(expected));
    }

    #[test]
    fn aliases_are_shared_until_the_budget_ends() {
        assert_eq!(
            value("{a: &x {k: v}, b: *x, 1: z}"),
            Ok(json!({"a": {"k": "v"}, "b": {"k": "v"}, "1": "z"}))
        );
        let levels = ('b'..='i').zip('a'..).map(|(name, before)| {
            let list = vec![format!("*{before}"); 9].join(",");
            format!("{name}: &{name} [{list}]\n")
        });
        let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned() + &levels.collect::<String>();
        assert_eq!(value(&bomb), Err("budget".to_owned()));
    }

    #[test]
    fn depth_is_bounded_through_aliases_too() {
        let links = (1..1000).map(|n| format!("a{n}: &a{n} [*a{}]\n", n - 1));
        let chain = "a0: &a0 [x]\n".to_owned() + &links.collect::<String>();
        assert_eq!(value(&chain), Err(TOO_DEEP.to_owned()));
        for text in [
            "[".repeat(100_000),
            "- ".repeat(100_000),
            "{a: ".repeat(100_000),
        ] {
            assert!(value(&text).is_err());
        }
    }

    #[test]
    fn what_is_no_tree_is_an_error() {
        for text in [
            "a: &a [*a]",
            "a: *b",
            "? [x]\n: y",
            "a: 'open",
            "a: b: c",
            "\t- x: [",
            "%",
        ] {
            assert!(value(text).is_err(), "{text}");
        }
    }
}
