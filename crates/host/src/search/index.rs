//! The search index of one server's tools, independent of other servers.

use std::collections::HashMap;
use std::sync::Arc;

use trunkline_wire::Json;

use super::words::{is_stop_word, stem, words};
use crate::catalog::PoolTool;

/// A field of a tool's definition: its weight, its typical length, and the penalty for longer
/// texts.
struct Field {
    weight: f32,
    typical_length: f32,
    length_penalty: f32,
}

impl Field {
    const fn new(weight: f32, typical_length: f32, length_penalty: f32) -> Self {
        Self {
            weight,
            typical_length,
            length_penalty,
        }
    }
}

const NAME: Field = Field::new(6.0, 3.0, 0.4);
const SERVER: Field = Field::new(2.5, 2.0, 0.2);
const TITLE: Field = Field::new(3.0, 4.0, 0.5);
const HINT: Field = Field::new(4.0, 6.0, 0.5);
const DESCRIPTION: Field = Field::new(1.6, 25.0, 0.6);
const PARAMETERS: Field = Field::new(0.8, 6.0, 0.6);
const PARAMETER_TEXT: Field = Field::new(0.35, 40.0, 0.7);

/// Maximum number of bytes of parameter descriptions.
const MAX_PARAMETER_TEXT: usize = 2048;

/// A tool that contains a term, with the term's weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posting {
    pub(super) tool: u32,
    pub(super) weight: f32,
}

/// The terms of one server's tools.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Sorted stems with the end of their postings, which start at the end of the previous stem's.
    terms: Vec<(Box<str>, u32)>,
    postings: Vec<Posting>,
}

impl Index {
    /// Builds the index; postings refer to tools by position.
    pub(crate) fn of(tools: &[Arc<PoolTool>]) -> Self {
        let mut builder = IndexBuilder::default();
        for (tool, number) in tools.iter().zip(0..) {
            builder.add(tool, number);
        }
        builder.finish()
    }

    /// Returns the postings of a stem.
    pub(super) fn exact(&self, stem: &str) -> &[Posting] {
        match self.terms.binary_search_by(|(term, _)| (**term).cmp(stem)) {
            Ok(at) => self.postings_at(at),
            Err(_) => &[],
        }
    }

    /// Returns longer stems that start with `prefix`.
    pub(super) fn with_prefix(&self, prefix: &str) -> impl Iterator<Item = (&str, &[Posting])> {
        let from = self.terms.partition_point(|(term, _)| **term <= *prefix);
        let terms = self.terms[from..].iter().enumerate();
        terms
            .take_while(move |(_, (term, _))| term.starts_with(prefix))
            .map(move |(at, (term, _))| (&**term, self.postings_at(from + at)))
    }

    /// Returns all stems with the same first letter.
    pub(super) fn same_initial(&self, stem: &str) -> impl Iterator<Item = (&str, &[Posting])> {
        let first = stem.chars().next().unwrap_or_default();
        let from = self
            .terms
            .partition_point(|(term, _)| term.chars().next() < Some(first));
        let terms = self.terms[from..].iter().enumerate();
        terms
            .take_while(move |(_, (term, _))| term.starts_with(first))
            .map(move |(at, (term, _))| (&**term, self.postings_at(from + at)))
    }

    fn postings_at(&self, at: usize) -> &[Posting] {
        let begin = if at == 0 { 0 } else { self.terms[at - 1].1 };
        &self.postings[begin as usize..self.terms[at].1 as usize]
    }
}

#[derive(Default)]
struct IndexBuilder {
    ids: HashMap<String, usize>,
    /// Postings by stem ID.
    postings: Vec<Vec<Posting>>,
    /// Stem IDs of the current field.
    field: Vec<usize>,
}

impl IndexBuilder {
    fn add(&mut self, tool: &PoolTool, number: u32) {
        self.text(number, &NAME, [&*tool.tool.name]);
        self.text(number, &SERVER, [&*tool.server]);
        self.text(number, &TITLE, tool.title.as_deref());
        self.text(number, &HINT, tool.search_hint.as_deref());
        self.text(number, &DESCRIPTION, [&*tool.description]);
        let (mut names, mut texts) = (Vec::new(), String::new());
        if let Some(properties) = tool.shown_schema.get("properties") {
            properties.members(|name, property| {
                names.push(name.to_owned());
                let text = property
                    .get("description")
                    .and_then(|text| Json::as_string(&text));
                if let Some(text) = text.filter(|_| texts.len() < MAX_PARAMETER_TEXT) {
                    texts.push_str(&text[..text.floor_char_boundary(MAX_PARAMETER_TEXT)]);
                    texts.push('\n');
                }
            });
        }
        self.text(number, &PARAMETERS, names.iter().map(String::as_str));
        self.text(number, &PARAMETER_TEXT, [&*texts]);
    }

    fn text<'t>(&mut self, tool: u32, field: &Field, texts: impl IntoIterator<Item = &'t str>) {
        let Self {
            ids,
            postings,
            field: found,
        } = self;
        found.clear();
        for text in texts {
            words(text, |word| {
                if is_stop_word(word) {
                    return;
                }
                let stem = stem(word);
                let id = ids.get(stem).copied().unwrap_or_else(|| {
                    postings.push(Vec::new());
                    ids.insert(stem.to_owned(), postings.len() - 1);
                    postings.len() - 1
                });
                found.push(id);
            });
        }
        #[expect(clippy::cast_precision_loss, reason = "no tool has millions of words")]
        let length = found.len() as f32;
        let weight = field.weight
            / (1.0 - field.length_penalty + field.length_penalty * length / field.typical_length);
        for id in found.drain(..) {
            match postings[id].last_mut() {
                Some(posting) if posting.tool == tool => posting.weight += weight,
                _ => postings[id].push(Posting { tool, weight }),
            }
        }
    }

    fn finish(mut self) -> Index {
        let mut ids: Vec<_> = self.ids.into_iter().collect();
        ids.sort();
        let mut index = Index::default();
        index.terms.reserve_exact(ids.len());
        index
            .postings
            .reserve_exact(self.postings.iter().map(Vec::len).sum());
        for (term, id) in ids {
            index.postings.append(&mut self.postings[id]);
            let end = u32::try_from(index.postings.len()).unwrap_or(u32::MAX);
            index.terms.push((term.into(), end));
        }
        index
    }
}
