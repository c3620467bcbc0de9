//! How results are made fit for a model: the settings, and the way in.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::sync::Semaphore;
use trunkline_config::env_vars;
use trunkline_wire::mcp::Content;

use super::CallOutput;
use super::block_text::{BlockText, shown};
use super::image::ImageLimits;
use super::processor::{MAX_BLOCKS, ResultProcessor};
use super::size::Limit;
use super::store::Store;
use crate::sanitize::{Removed, strip_hidden_json};

/// How many characters of text a result may have (RES-4).
const MAX_CHARS: u64 = 100_000;

/// About how many tokens of text a result may have (RES-4).
const MAX_TOKENS: u64 = 25_000;

/// How many characters a tool may ask for at most (TOOL-5).
const MAX_CHARS_OF_TOOL: u64 = 500_000;

/// A token is about so many characters.
const CHARS_PER_TOKEN: u64 = 4;

/// How results are made fit for a model, and where what is too large for one goes. Clones share their directory.
///
/// ```
/// # let cache_dir = std::env::temp_dir();
/// let results = trunkline::result::Results::at(cache_dir.join("my-agent").join("results")).max_tokens(Some(10_000));
/// let builder = trunkline::Host::builder().results(results);
/// # drop(builder);
/// ```
#[derive(Clone, Debug)]
pub struct Results {
    pub(super) store: Store,
    max_chars: Option<u64>,
    max_tokens: Option<u64>,
    /// What images may be; without it they are saved like other data.
    pub(super) images: Option<ImageLimits>,
    /// A person reads it, not a model.
    people: bool,
    /// How many results are worked on at a time: each may need much memory.
    workers: Arc<Semaphore>,
}

impl Default for Results {
    /// SPEC's limits, and a directory of the user's own below the system's for temporary files.
    fn default() -> Self {
        Self::with(Store::temporary())
    }
}

impl Results {
    /// Saves files in `dir`, which need not exist. It must be the user's own: a directory that others may write to, or that is a
    /// symbolic link, is not used, and results are truncated instead. Files older than a week are removed from it.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self::with(Store::new(Some(dir.into())))
    }

    /// Never writes a file: what is too large is truncated, and what only a file could hold is left out.
    pub fn unsaved() -> Self {
        Self::with(Store::new(None))
    }

    fn with(store: Store) -> Self {
        let workers = available_parallelism().map_or(2, usize::from);
        Self {
            store,
            max_chars: Some(MAX_CHARS),
            max_tokens: Some(MAX_TOKENS),
            images: Some(ImageLimits::default()),
            people: false,
            workers: Arc::new(Semaphore::new(workers)),
        }
    }

    /// Takes the limit from `MAX_MCP_OUTPUT_TOKENS`, where it is set. More tokens are more characters too.
    #[must_use]
    pub fn limits_from_env(self) -> Self {
        match env_vars::number(env_vars::MAX_MCP_OUTPUT_TOKENS) {
            Some(tokens) if tokens > 0 => Self {
                max_tokens: Some(tokens),
                max_chars: Some(tokens.saturating_mul(CHARS_PER_TOKEN).max(MAX_CHARS)),
                ..self
            },
            _ => self,
        }
    }

    /// How many characters of text a result may have; `None` is any number.
    #[must_use]
    pub fn max_chars(mut self, chars: Option<u64>) -> Self {
        self.max_chars = chars;
        self
    }

    /// About how many tokens of text a result may have; `None` is any number.
    #[must_use]
    pub fn max_tokens(mut self, tokens: Option<u64>) -> Self {
        self.max_tokens = tokens;
        self
    }

    /// How long files are kept.
    #[must_use]
    pub fn keep_for(mut self, age: Duration) -> Self {
        self.store.keep_for = age;
        self
    }

    /// For a person at a terminal: text of any size stays text, and every image is saved as it came.
    #[must_use]
    pub fn for_people(self) -> Self {
        Self {
            max_chars: None,
            max_tokens: None,
            images: None,
            people: true,
            ..self
        }
    }

    /// What a tool gave back, fit for a model. Work that takes time is done off the runtime's threads.
    pub(crate) async fn process(
        &self,
        about: &About<'_>,
        result: impl Into<CallOutput>,
    ) -> CallOutput {
        let mut output = self.worked_on(about, result.into()).await;
        if !self.people {
            let mut removed = Removed::default();
            let blocks = output.content.into_iter();
            output.content = blocks.map(|block| shown(block, &mut removed)).collect();
            for json in [&mut output.structured_content, &mut output.meta] {
                *json = json
                    .take()
                    .map(|json| strip_hidden_json(&json, &mut removed));
            }
            if !removed.is_empty() {
                let tool = about.tool;
                let warning = format!("the result of \"{tool}\" is shown without {removed}");
                output.warnings.push(warning);
            }
        }
        output
    }

    async fn worked_on(&self, about: &About<'_>, output: CallOutput) -> CallOutput {
        let limit = self.limit(about);
        if is_plain_and_small(&output, limit.as_ref()) {
            return output;
        }
        let is_error = output.is_error;
        let job = ResultProcessor::new(self.clone(), about, limit);
        // The semaphore is never closed.
        let _working = self.workers.acquire().await.ok();
        let processed = tokio::task::spawn_blocking(move || job.run(output)).await;
        processed.unwrap_or_else(|_| {
            let lost = CallOutput::failure("the result could not be read: it made the host fail");
            CallOutput { is_error, ..lost }
        })
    }

    /// How much text a result may have (RES-4, RES-6, TOOL-5).
    fn limit(&self, about: &About) -> Option<Limit> {
        if about.ide || (self.max_chars.is_none() && self.max_tokens.is_none()) {
            return None;
        }
        let tokens = self.max_tokens.unwrap_or(u64::MAX);
        Some(match about.max_chars {
            Some(chars) => {
                let chars = (chars as u64).min(MAX_CHARS_OF_TOOL);
                // What a tool may say in characters it may say in tokens.
                let tokens = tokens.max(chars / CHARS_PER_TOKEN);
                Limit { chars, tokens }
            }
            None => Limit {
                chars: self.max_chars.unwrap_or(u64::MAX),
                tokens,
            },
        })
    }
}

/// Whose result it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    pub(crate) server: &'a str,
    pub(crate) tool: &'a str,
    /// Whether it is from an IDE, whose results may have any size (RES-6).
    pub(crate) ide: bool,
    /// How many characters its tool asks for (TOOL-5).
    pub(crate) max_chars: Option<usize>,
}

/// Whether there is nothing to do, which is so for nearly every result.
fn is_plain_and_small(output: &CallOutput, limit: Option<&Limit>) -> bool {
    if limit.is_some() && output.content.len() > MAX_BLOCKS {
        return false;
    }
    let fits = |bytes: usize| limit.is_none_or(|limit| limit.allows_any(bytes));
    let mut bytes = 0;
    for block in &output.content {
        bytes += match block {
            Content::Text(text) => text.len(),
            Content::Other { kind, raw } => match &**kind {
                "image" | "audio" => return false,
                "resource" if BlockText::of(block).is_none() => return false,
                _ => raw.as_str().len(),
            },
        };
    }
    let structured = output.structured_content.as_ref();
    fits(bytes) && structured.is_none_or(|structured| fits(structured.as_str().len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABOUT: About = About {
        server: "s",
        tool: "t",
        ide: false,
        max_chars: None,
    };

    #[test]
    fn the_limit_is_specs_unless_somebody_says_otherwise() {
        let limit = |results: &Results, about: About| {
            let limit = results.limit(&about);
            limit.map(|limit| (limit.chars, limit.tokens))
        };
        let of_tool = |chars: usize| About {
            max_chars: Some(chars),
            ..ABOUT
        };
        let ide = About { ide: true, ..ABOUT };
        let results = Results::unsaved();
        assert_eq!(limit(&results, ABOUT), Some((100_000, 25_000)));
        assert_eq!(limit(&results, of_tool(300_000)), Some((300_000, 75_000)));
        assert_eq!(
            limit(&results, of_tool(9_000_000)),
            Some((500_000, 125_000))
        );
        assert_eq!(limit(&results, of_tool(10_000)), Some((10_000, 25_000)));
        assert_eq!(limit(&results, ide), None);
        let few = Results::unsaved().max_tokens(Some(10));
        assert_eq!(limit(&few, ABOUT), Some((100_000, 10)));
        assert_eq!(
            limit(&few.clone().max_chars(None), ABOUT),
            Some((u64::MAX, 10))
        );
        assert_eq!(limit(&few.for_people(), of_tool(10)), None);
    }
}
