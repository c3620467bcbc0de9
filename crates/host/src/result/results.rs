//! Settings for results, and the entry point of processing.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::sync::Semaphore;
use trunkline_config::env_vars;
use trunkline_wire::mcp::Content;
use trunkline_wire::offload::offload;

use super::CallOutput;
use super::block_text::{BlockText, shown};
use super::image::ImageLimits;
use super::processor::{MAX_BLOCKS, ResultProcessor};
use super::size::Limit;
use super::store::Store;
use crate::sanitize::{Removed, strip_hidden_json};

/// The maximum number of characters of text (RES-4).
const MAX_CHARS: u64 = 100_000;

/// The approximate maximum number of tokens of text (RES-4).
const MAX_TOKENS: u64 = 25_000;

/// The maximum number of characters that a tool can request (TOOL-5).
const MAX_CHARS_OF_TOOL: u64 = 500_000;

/// The approximate number of characters per token.
const CHARS_PER_TOKEN: u64 = 4;

/// Settings for results: limits, and the directory for large parts. Clones share the directory.
///
/// ```
/// # let cache_dir = std::env::temp_dir();
/// let directory = cache_dir.join("my-agent").join("results");
/// let results = trunkline::result::Results::at(directory).max_tokens(Some(10_000));
/// let builder = trunkline::Host::builder().results(results);
/// # drop(builder);
/// ```
#[derive(Clone, Debug)]
pub struct Results {
    pub(super) store: Store,
    max_chars: Option<u64>,
    max_tokens: Option<u64>,
    /// The limits of images; without them, images are saved like other data.
    pub(super) images: Option<ImageLimits>,
    /// The output is for a person, not for a model.
    people: bool,
    /// Bounds the number of results in process: each may need much memory.
    workers: Arc<Semaphore>,
}

impl Default for Results {
    /// The limits of the contract, and the user's directory for temporary files.
    fn default() -> Self {
        Self::with(Store::temporary())
    }
}

impl Results {
    /// Saves files in `dir`, which is created if needed. It must belong to the user: a directory
    /// that others can write to, or a symbolic link, is not used, and results are truncated
    /// instead. Files older than a week are removed.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self::with(Store::new(Some(dir.into())))
    }

    /// Saves no files: large text is truncated, and binary data is omitted.
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

    /// Reads the limit from `MAX_MCP_OUTPUT_TOKENS`, if it is set. It raises the limit for
    /// characters too.
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

    /// Sets the maximum number of characters of text; `None` for no limit.
    #[must_use]
    pub fn max_chars(mut self, chars: Option<u64>) -> Self {
        self.max_chars = chars;
        self
    }

    /// Sets the approximate maximum number of tokens of text; `None` for no limit.
    #[must_use]
    pub fn max_tokens(mut self, tokens: Option<u64>) -> Self {
        self.max_tokens = tokens;
        self
    }

    /// Sets how long files are kept.
    #[must_use]
    pub fn keep_for(mut self, age: Duration) -> Self {
        self.store.keep_for = age;
        self
    }

    /// For a person at a terminal: text of any size stays text, and images are saved unchanged.
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

    /// Prepares a result for a model. Long work runs on a blocking thread.
    pub(crate) async fn process(
        &self,
        origin: &ResultOrigin<'_>,
        result: impl Into<CallOutput>,
    ) -> CallOutput {
        let output = self.worked_on(origin, result.into()).await;
        if self.people {
            return output;
        }
        let (bytes, is_error) = (length(&output), output.is_error);
        let tool = origin.tool.to_owned();
        let sanitized = offload(bytes, move || sanitized(output, &tool)).await;
        sanitized.unwrap_or_else(|_| unreadable(is_error))
    }

    async fn worked_on(&self, origin: &ResultOrigin<'_>, output: CallOutput) -> CallOutput {
        let limit = self.limit(origin);
        if is_plain_and_small(&output, limit.as_ref()) {
            return output;
        }
        let is_error = output.is_error;
        let job = ResultProcessor::new(self.clone(), origin, limit);
        // The semaphore is never closed.
        let _working = self.workers.acquire().await.ok();
        let processed = tokio::task::spawn_blocking(move || job.run(output)).await;
        processed.unwrap_or_else(|_| unreadable(is_error))
    }

    /// Returns the limit for text (RES-4, RES-6, TOOL-5).
    fn limit(&self, origin: &ResultOrigin) -> Option<Limit> {
        if origin.ide || (self.max_chars.is_none() && self.max_tokens.is_none()) {
            return None;
        }
        let tokens = self.max_tokens.unwrap_or(u64::MAX);
        Some(match origin.max_chars {
            Some(chars) => {
                let chars = (chars as u64).min(MAX_CHARS_OF_TOOL);
                // The tool's limit in characters raises that in tokens.
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

/// The origin of a result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResultOrigin<'a> {
    pub(crate) server: &'a str,
    pub(crate) tool: &'a str,
    /// True for an IDE, whose results may have any size (RES-6).
    pub(crate) ide: bool,
    /// The number of characters that the tool requests (TOOL-5).
    pub(crate) max_chars: Option<usize>,
}

/// Removes hidden characters (TOOL-3).
fn sanitized(mut output: CallOutput, tool: &str) -> CallOutput {
    let mut removed = Removed::default();
    let blocks = output.content.into_iter();
    output.content = blocks.map(|block| shown(block, &mut removed)).collect();
    for json in [&mut output.structured_content, &mut output.meta] {
        *json = json
            .take()
            .map(|json| strip_hidden_json(&json, &mut removed));
    }
    if !removed.is_empty() {
        let warning = format!("the result of \"{tool}\" is shown without {removed}");
        output.warnings.push(warning);
    }
    output
}

/// The output in place of a result whose processing panicked.
fn unreadable(is_error: bool) -> CallOutput {
    let lost = CallOutput::failure("the result could not be read: it made the host fail");
    CallOutput { is_error, ..lost }
}

/// Returns the length of everything in a result.
fn length(output: &CallOutput) -> usize {
    let blocks = output.content.iter().map(|block| match block {
        Content::Text(text) => text.len(),
        Content::Other { raw, .. } => raw.as_str().len(),
    });
    let json = [&output.structured_content, &output.meta];
    let json = json.into_iter().flatten().map(|json| json.as_str().len());
    blocks.chain(json).sum()
}

/// True if there is nothing to do, as for nearly every result.
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

    const ORIGIN: ResultOrigin = ResultOrigin {
        server: "s",
        tool: "t",
        ide: false,
        max_chars: None,
    };

    #[test]
    fn the_limit_is_specs_unless_somebody_says_otherwise() {
        let limit = |results: &Results, origin: ResultOrigin| {
            let limit = results.limit(&origin);
            limit.map(|limit| (limit.chars, limit.tokens))
        };
        let of_tool = |chars: usize| ResultOrigin {
            max_chars: Some(chars),
            ..ORIGIN
        };
        let ide = ResultOrigin {
            ide: true,
            ..ORIGIN
        };
        let results = Results::unsaved();
        assert_eq!(limit(&results, ORIGIN), Some((100_000, 25_000)));
        assert_eq!(limit(&results, of_tool(300_000)), Some((300_000, 75_000)));
        assert_eq!(
            limit(&results, of_tool(9_000_000)),
            Some((500_000, 125_000))
        );
        assert_eq!(limit(&results, of_tool(10_000)), Some((10_000, 25_000)));
        assert_eq!(limit(&results, ide), None);
        let few = Results::unsaved().max_tokens(Some(10));
        assert_eq!(limit(&few, ORIGIN), Some((100_000, 10)));
        assert_eq!(
            limit(&few.clone().max_chars(None), ORIGIN),
            Some((u64::MAX, 10))
        );
        assert_eq!(limit(&few.for_people(), of_tool(10)), None);
    }
}
