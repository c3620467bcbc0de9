//! Fuzzy search over servers, tools, resources and prompts, and over the actions.

use crossterm::event::KeyEvent;
use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use tui_input::Input;

use super::cursor::Cursor;
use super::form::edit;
use crate::ui::data::{Key, Snapshot};
use crate::ui::text;

/// Something that can be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::ui) enum Item {
    Server(Key),
    Tool(Key, usize),
    Resource(Key, usize),
    Prompt(Key, usize),
}

impl Item {
    pub(in crate::ui) fn kind(&self) -> &'static str {
        match self {
            Self::Server(_) => "server",
            Self::Tool(..) => "tool",
            Self::Resource(..) => "resource",
            Self::Prompt(..) => "prompt",
        }
    }
}

/// A list that is narrowed by typing.
pub(in crate::ui) struct Find<T> {
    pub(in crate::ui) input: Input,
    items: Vec<(String, T)>,
    hits: Vec<usize>,
    pub(in crate::ui) cursor: Cursor,
    matcher: Matcher,
}

impl<T> std::fmt::Debug for Find<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Find")
            .field("input", &self.input.value())
            .finish_non_exhaustive()
    }
}

impl<T> Find<T> {
    pub(in crate::ui) fn new(items: Vec<(String, T)>) -> Self {
        let mut find = Self {
            input: Input::default(),
            items,
            hits: Vec::new(),
            cursor: Cursor::default(),
            matcher: Matcher::new(Config::DEFAULT),
        };
        find.search();
        find
    }

    /// Edits the text, and searches again.
    pub(in crate::ui) fn key(&mut self, event: &KeyEvent) {
        if edit(&mut self.input, event) {
            self.search();
        }
    }

    /// Searches again, after the text has changed. Best hits come first, equal ones in order.
    pub(in crate::ui) fn search(&mut self) {
        self.cursor.at = 0;
        let pattern = Pattern::parse(
            self.input.value(),
            CaseMatching::Smart,
            Normalization::Smart,
        );
        let mut buffer = Vec::new();
        let mut hits: Vec<(u32, usize)> = Vec::new();
        for (at, (label, _)) in self.items.iter().enumerate() {
            let label = Utf32Str::new(label, &mut buffer);
            if let Some(score) = pattern.score(label, &mut self.matcher) {
                hits.push((score, at));
            }
        }
        hits.sort_by_key(|(score, at)| (std::cmp::Reverse(*score), *at));
        self.hits = hits.into_iter().map(|(_, at)| at).collect();
    }

    pub(in crate::ui) fn len(&self) -> usize {
        self.hits.len()
    }

    pub(in crate::ui) fn total(&self) -> usize {
        self.items.len()
    }

    pub(in crate::ui) fn hit(&self, row: usize) -> Option<&(String, T)> {
        self.items.get(*self.hits.get(row)?)
    }

    pub(in crate::ui) fn selected(&self) -> Option<&T> {
        self.hit(self.cursor.at).map(|(_, item)| item)
    }
}

/// Lists everything that can be found.
pub(in crate::ui) fn items(snapshot: &Snapshot) -> Vec<(String, Item)> {
    let mut items = Vec::new();
    for server in &snapshot.servers {
        let (key, name) = (&server.key, text::line(server.name()));
        items.push((name.clone(), Item::Server(key.clone())));
        for (at, tool) in server.offers.tools.iter().enumerate() {
            let label = format!("{name}/{}", text::line(&tool.tool.name));
            items.push((label, Item::Tool(key.clone(), at)));
        }
        for (at, resource) in server.offers.resources.iter().enumerate() {
            let label = format!("{name}/{}", text::line(&resource.uri));
            items.push((label, Item::Resource(key.clone(), at)));
        }
        for (at, prompt) in server.offers.prompts.iter().enumerate() {
            let label = format!("{name}/{}", text::line(&prompt.name));
            items.push((label, Item::Prompt(key.clone(), at)));
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_hit_comes_first() {
        let labels = ["github/create_issue", "github/list_issues", "git/commit"];
        let items = labels.iter().map(|label| ((*label).to_owned(), *label));
        let mut find = Find::new(items.collect());
        assert_eq!((find.len(), find.selected()), (3, Some(&labels[0])));
        for (typed, first, hits) in [
            ("gitcommit", Some(&labels[2]), 1),
            ("issue", Some(&labels[0]), 2),
            ("list iss", Some(&labels[1]), 1),
            ("zzz", None, 0),
        ] {
            find.input = Input::new(typed.to_owned());
            find.search();
            assert_eq!((find.selected(), find.len()), (first, hits), "{typed}");
        }
    }
}
