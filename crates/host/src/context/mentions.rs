//! Mentions of resources in a text: `@server:uri` (CTX-1).

use std::borrow::Cow;
use std::ops::Range;

use futures_util::future::join_all;
use trunkline_config::normalize_name;
use trunkline_wire::mcp::{ResourceBody, ResourceContent};

use super::ReadOptions;
use super::ResourceContents;
use super::uri::scheme;
use crate::call::CallError;
use crate::host::Host;
use crate::result::with_text;
use crate::sanitize::{Removed, strip_hidden};

/// The maximum number of mentions per text (SEC-4).
const MAX_MENTIONS: usize = 64;

/// A resource that a text mentions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mention {
    /// The server's name as configured.
    pub server: String,
    /// The resource's URI.
    pub uri: String,
    /// The byte range of the mention.
    pub range: Range<usize>,
}

impl Host {
    /// Returns the resources that a text mentions as `@server:uri`, in order. Only known servers
    /// count; the resource need not be listed.
    pub fn mentions(&self, text: &str) -> Vec<Mention> {
        let servers = self.servers();
        let known: Vec<(&str, Vec<&str>)> = servers
            .iter()
            .map(|status| {
                let resources = status.catalog.resources.iter();
                (
                    &*status.name,
                    resources.map(|resource| &*resource.uri).collect(),
                )
            })
            .collect();
        find(text, &known)
    }

    /// Reads all resources that a text mentions, each once and concurrently. Hidden characters are
    /// removed from their text, because it is for a model (TOOL-3).
    pub async fn read_mentions(
        &self,
        text: &str,
    ) -> Vec<(Mention, Result<ResourceContents, CallError>)> {
        let mut mentions: Vec<Mention> = Vec::new();
        for mention in self.mentions(text) {
            let same = |known: &Mention| known.server == mention.server && known.uri == mention.uri;
            if !mentions.iter().any(same) {
                mentions.push(mention);
            }
        }
        let reads = mentions.into_iter().map(|mention| async move {
            let options = ReadOptions::default();
            let read = self.read_resource(&mention.server, &mention.uri, options);
            let read = read.await.map(|mut read| {
                read.contents = read.contents.into_iter().map(visible).collect();
                read
            });
            (mention, read)
        });
        join_all(reads).await
    }
}

/// Removes hidden characters from a content.
fn visible(content: ResourceContent) -> ResourceContent {
    let ResourceBody::Text(text) = &content.body else {
        return content;
    };
    let Cow::Owned(visible) = strip_hidden(text, &mut Removed::default()) else {
        return content;
    };
    ResourceContent {
        raw: with_text(&content.raw, &visible),
        body: ResourceBody::Text(visible.into()),
        ..content
    }
}

/// Finds mentions of resources. Each server comes with the URIs that it lists.
fn find(text: &str, servers: &[(&str, Vec<&str>)]) -> Vec<Mention> {
    let mut mentions = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find('@').map(|at| from + at) {
        from = at + 1;
        // After part of a word it is an e-mail address or similar.
        let before = text[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || "._-+".contains(c)) {
            continue;
        }
        let Some((server, resources, start)) = server_at(text, from, servers) else {
            continue;
        };
        let length = address(&text[start..], resources);
        if length == 0 {
            continue;
        }
        from = start + length;
        mentions.push(Mention {
            server: server.to_owned(),
            uri: text[start..from].to_owned(),
            range: at..from,
        });
        if mentions.len() == MAX_MENTIONS {
            break;
        }
    }
    mentions
}

/// Returns the server named at `from`, its URIs, and the position of the URI after it. The longest
/// match wins, because names may contain anything; they may be spelt as configured or as in tool
/// names.
fn server_at<'s>(
    text: &str,
    from: usize,
    servers: &'s [(&'s str, Vec<&'s str>)],
) -> Option<(&'s str, &'s [&'s str], usize)> {
    let rest = &text[from..];
    let written = |name: &str| {
        rest.strip_prefix(name)?
            .strip_prefix(':')
            .map(|_| name.len())
    };
    let found = servers.iter().filter_map(|(name, resources)| {
        let length = written(name).or_else(|| written(&normalize_name(name)))?;
        Some((
            *name,
            &resources[..],
            from + length + 1,
            written(name).is_some(),
        ))
    });
    let best = found.max_by_key(|(_, _, start, exact)| (*start, *exact))?;
    Some((best.0, best.1, best.2))
}

/// Returns the length of the URI at the start of a text; 0 if there is none. A listed URI is
/// matched whole; any other ends with the word, without trailing punctuation.
fn address(text: &str, resources: &[&str]) -> usize {
    let ends = |length: usize| {
        let next = text[length..].chars().next();
        next.is_none_or(|c| !c.is_alphanumeric())
    };
    let listed = resources
        .iter()
        .filter(|uri| text.starts_with(**uri) && ends(uri.len()))
        .map(|uri| uri.len())
        .max()
        .unwrap_or(0);
    let stop = |c: char| c.is_whitespace() || c.is_control() || "\"'`<>".contains(c);
    let word = &text[..text.find(stop).unwrap_or(text.len())];
    let sentence = ['.', ',', ';', ':', '!', '?', ')', ']', '}'];
    let word = word.trim_end_matches(sentence);
    let prefix = scheme(word);
    let length = if prefix == 0 || prefix == word.len() {
        0
    } else {
        word.len()
    };
    // A listed URI that continues as a longer path is the longer URI.
    if listed > 0 && (listed >= length || !is_path(&text[listed..length])) {
        listed
    } else {
        length
    }
}

/// Returns whether the text can continue a URI.
fn is_path(rest: &str) -> bool {
    rest.starts_with(['/', '?', '#', '.', '-', '_', '%', '&', '=', '~'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let servers = [
            ("github", vec!["issue://1", "odd://a b"]),
            ("plugin:p:s", vec![]),
            ("claude.ai My Docs", vec!["doc:x"]),
            ("p", vec![]),
            ("a@b", vec![]),
        ];
        let mentions = find(text, &servers);
        let found: Vec<_> = mentions
            .iter()
            .map(|mention| (mention.server.as_str(), mention.uri.as_str()))
            .collect();
        assert_eq!(found, expected, "{text}");
        for mention in &mentions {
            let written = &text[mention.range.clone()];
            assert!(
                written.starts_with('@') && written.ends_with(&mention.uri),
                "{written}"
            );
        }
    }

    #[test]
    fn a_mention_is_a_server_and_an_address() {
        check("see @github:issue://1", &[("github", "issue://1")]);
        check(
            "compare @github:issue://1, and (@github:issue://23).",
            &[("github", "issue://1"), ("github", "issue://23")],
        );
        check(
            "@github:file:///a/../b?x=1#y!",
            &[("github", "file:///a/../b?x=1#y")],
        );
        check("\"@github:a://b\"", &[("github", "a://b")]);
        check("@github:odd://a b is listed", &[("github", "odd://a b")]);
        check(
            "@github:issue://1/comments",
            &[("github", "issue://1/comments")],
        );
        check("@github:issue://1é", &[("github", "issue://1é")]);
    }

    #[test]
    fn odd_names_are_found_as_they_are_and_as_in_tools() {
        check("@plugin:p:s:x://y", &[("plugin:p:s", "x://y")]);
        check(
            "@claude.ai My Docs:doc:x",
            &[("claude.ai My Docs", "doc:x")],
        );
        check(
            "@claude_ai_My_Docs:doc:y",
            &[("claude.ai My Docs", "doc:y")],
        );
        check("@a@b:x://y", &[("a@b", "x://y")]);
    }

    #[test]
    fn other_at_signs_are_left_alone() {
        for text in [
            "",
            "@",
            "@github",
            "@github:",
            "@github: x://y",
            "@github:word",
            "@github:x:",
            "@other:x://y",
            "me@github:x://y",
            "@githubx:a://b",
        ] {
            check(text, &[]);
        }
        let many = "@p:x://y ".repeat(MAX_MENTIONS + 1);
        assert_eq!(find(&many, &[("p", vec![])]).len(), MAX_MENTIONS);
    }
}
