//! Ranks tools with BM25F over the servers' indexes; inexact matches count less.

use std::sync::Arc;

use super::index::{Index, Posting};
use super::synonyms::synonyms;
use crate::catalog::ServerTools;

/// Term frequency saturation.
const SATURATION: f32 = 3.0;
/// Weight of a synonym.
const SYNONYM: f32 = 0.6;
/// Weight of a longer word.
const PREFIX: f32 = 0.6;
/// Weight of a misspelt word, used only if nothing else matches.
const FUZZY: f32 = 0.5;
/// Weight of two words written as one.
const JOINED: f32 = 0.8;
/// Weight of a term's own rarity relative to that of all its matches.
const OWN_RARITY: f32 = 0.4;
/// Share of the score that depends on how much of the query matched.
const COVERAGE: f32 = 0.6;

/// Minimum length of a prefix.
const MIN_PREFIX: usize = 3;
/// Maximum number of longer words per prefix and server.
const MAX_PREFIX_MATCHES: usize = 32;

/// The tools of all servers, numbered consecutively.
pub(super) struct Ranking<'p> {
    parts: Vec<(&'p Index, usize)>,
    tools: usize,
}

/// Tools that match one word of the query.
struct Matches<'p> {
    /// The number of a server's first tool, and the postings.
    lists: Vec<(usize, &'p [Posting])>,
    weight: f32,
}

impl Matches<'_> {
    fn count(&self) -> usize {
        self.lists.iter().map(|(_, list)| list.len()).sum()
    }
}

impl<'p> Ranking<'p> {
    pub(super) fn of(parts: &'p [Arc<ServerTools>]) -> Self {
        let mut tools = 0;
        let mut numbered = Vec::with_capacity(parts.len());
        for part in parts {
            numbered.push((part.index(), tools));
            tools += part.len();
        }
        Self {
            parts: numbered,
            tools,
        }
    }

    /// Returns a score per tool; zero without a match.
    pub(super) fn scores(&self, terms: &[String]) -> Vec<f32> {
        let mut scores = vec![0.0_f32; self.tools];
        let mut covered = vec![0.0_f32; self.tools];
        let mut best = vec![0.0_f32; self.tools];
        let mut touched = Vec::new();
        let mut all = 0.0;
        for (at, term) in terms.iter().enumerate() {
            let next = terms.get(at + 1);
            let matches = self.matches(term, next);
            // A rare synonym of a common action is not much rarer than the action.
            let meant = self.rarity(matches.iter().map(Matches::count).sum());
            // A word that matches no tool does not lower any score.
            let mut rarity: f32 = 0.0;
            for matches in &matches {
                let found = matches.count();
                let idf = OWN_RARITY * self.rarity(found) + (1.0 - OWN_RARITY) * meant;
                if found > 0 {
                    rarity = rarity.max(matches.weight * idf);
                }
                for (first, list) in &matches.lists {
                    for posting in *list {
                        let tool = first + posting.tool as usize;
                        let part = posting.weight / (SATURATION + posting.weight);
                        let score = matches.weight * idf * part;
                        if best[tool] == 0.0 {
                            touched.push(tool);
                        }
                        best[tool] = best[tool].max(score);
                    }
                }
            }
            all += rarity;
            for tool in touched.drain(..) {
                scores[tool] += best[tool];
                covered[tool] += rarity;
                best[tool] = 0.0;
            }
        }
        if all > 0.0 {
            for (score, covered) in scores.iter_mut().zip(covered) {
                *score *= 1.0 - COVERAGE + COVERAGE * covered / all;
            }
        }
        scores
    }

    /// Returns all matches of a word, alone or joined with the next one.
    fn matches(&self, term: &str, next: Option<&String>) -> Vec<Matches<'p>> {
        let mut found = vec![self.exact(term, 1.0)];
        if term.len() >= MIN_PREFIX {
            let longer = |(index, first): &(&'p Index, usize)| {
                let first = *first;
                let longer = index.with_prefix(term).take(MAX_PREFIX_MATCHES);
                longer
                    .map(move |(_, list)| (first, list))
                    .collect::<Vec<_>>()
            };
            found.push(Matches {
                lists: self.parts.iter().flat_map(longer).collect(),
                weight: PREFIX,
            });
        }
        found.extend(
            synonyms(term)
                .iter()
                .map(|other| self.exact(other, SYNONYM)),
        );
        if let Some(next) = next {
            found.push(self.exact(&format!("{term}{next}"), JOINED));
        }
        if found.iter().all(|matches| matches.lists.is_empty()) {
            found.push(self.fuzzy(term));
        }
        found
    }

    fn exact(&self, term: &str, weight: f32) -> Matches<'p> {
        let lists = self
            .parts
            .iter()
            .map(|(index, first)| (*first, index.exact(term)));
        Matches {
            lists: lists.filter(|(_, list)| !list.is_empty()).collect(),
            weight,
        }
    }

    fn fuzzy(&self, term: &str) -> Matches<'p> {
        let mut lists = Vec::new();
        if term.len() > MIN_PREFIX {
            for (index, first) in &self.parts {
                let near = index
                    .same_initial(term)
                    .filter(|(other, _)| differ_by_one(term, other));
                lists.extend(near.map(|(_, list)| (*first, list)));
            }
        }
        Matches {
            lists,
            weight: FUZZY,
        }
    }

    /// Returns the inverse document frequency.
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts of tools, far below 2^24"
    )]
    fn rarity(&self, found: usize) -> f32 {
        let (all, found) = (self.tools as f32, found.min(self.tools) as f32);
        (1.0 + (all - found + 0.5) / (found + 0.5)).ln()
    }
}

/// Returns whether the words differ by one insertion, deletion, substitution or transposition.
fn differ_by_one(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let (short, long) = if one.len() <= other.len() {
        (one, other)
    } else {
        (other, one)
    };
    if long.len() - short.len() > 1 {
        return false;
    }
    let same = short.iter().zip(long).take_while(|(a, b)| a == b).count();
    let (short, long) = (&short[same..], &long[same..]);
    match (short, long) {
        ([], _) => true,
        ([a, b, short @ ..], [c, d, long @ ..]) if a == d && b == c && short == long => true,
        ([_, rest @ ..], [_, others @ ..]) if short.len() == long.len() => rest == others,
        (short, [_, others @ ..]) => short == others,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_edit_is_tolerated() {
        for (one, other, expected) in [
            ("issue", "isue", true),
            ("issue", "issuee", true),
            ("issue", "isseu", true),
            ("issue", "isxue", true),
            ("issue", "issue", true),
            ("issue", "tissu", false),
            ("issue", "isxxe", false),
            ("abc", "abcde", false),
        ] {
            assert_eq!(differ_by_one(one, other), expected, "{one} {other}");
            assert_eq!(differ_by_one(other, one), expected, "{other} {one}");
        }
    }
}
