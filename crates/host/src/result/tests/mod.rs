//! What becomes of results, whole: each test sends one through the way that every call takes.

mod blocks;
mod hostile;
mod images;
mod large;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use trunkline_wire::Json;
use trunkline_wire::mcp::{CallToolResult, Content};

use super::{CallOutput, ResultOrigin, Results, SavedFile};

/// The result of the tool `t` of the server `s`.
const ORIGIN: ResultOrigin = ResultOrigin {
    server: "s",
    tool: "t",
    ide: false,
    max_chars: None,
};

/// A directory for the files of one test.
struct Lab {
    scratch: TempDir,
}

impl Lab {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        Self { scratch }
    }

    fn dir(&self) -> PathBuf {
        self.scratch.path().join("results")
    }

    fn results(&self) -> Results {
        Results::at(self.dir())
    }

    /// What becomes of a result by default.
    fn process(&self, result: &Value) -> CallOutput {
        process(&self.results(), &ORIGIN, result)
    }

    /// How many files there are.
    fn files(&self) -> usize {
        fs::read_dir(self.dir()).map_or(0, Iterator::count)
    }
}

fn process(results: &Results, origin: &ResultOrigin, result: &Value) -> CallOutput {
    let text = Json::from(result);
    process_text(results, origin, &text)
}

fn process_text(results: &Results, origin: &ResultOrigin, result: &Json) -> CallOutput {
    let (_, result) = CallToolResult::from_json(result).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(results.process(origin, result))
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// The blocks as JSON, with the paths of saved files as `[FILE]`.
fn blocks(output: &CallOutput) -> Vec<Value> {
    let shown = output.content.iter().map(Content::to_json);
    let plain = |block: Json| {
        let mut block = block.to_string();
        for file in &output.files {
            block = block.replace(file.path.to_str().unwrap(), "[FILE]");
        }
        serde_json::from_str(&block).unwrap()
    };
    shown.map(plain).collect()
}

/// The text of all blocks, likewise.
fn words(output: &CallOutput) -> String {
    let all = blocks(output);
    let texts = all.iter().filter_map(|block| block["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// The only file that was saved, which has the name that it must have.
#[track_caller]
fn only_file<'o>(output: &'o CallOutput, extension: &str) -> &'o SavedFile {
    let [file] = &output.files[..] else {
        panic!("{:?}", output.files)
    };
    let name = file.path.file_name().unwrap().to_str().unwrap();
    assert!(
        name.starts_with("mcp-s-t-2") && name.ends_with(&format!(".{extension}")),
        "{name}"
    );
    assert_eq!(fs::metadata(&file.path).unwrap().len(), file.size);
    file
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}
