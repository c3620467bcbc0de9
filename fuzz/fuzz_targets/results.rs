//! Any result of a tool, on its way to a model: nothing fails, and what the model is given is bounded by what it may be given, not by
//! what was sent.
#![no_main]

use std::sync::{Arc, Mutex};

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use trunkline::result::Results;
use trunkline::tool::{Format, HostTool};
use trunkline::{CallOptions, CallOutput, Host, Json};
use trunkline_wire::mcp::CallToolResult;

/// How many characters a result may have here. Inputs are short, and shall be too much all the same.
const CHARS: u64 = 200;

/// At most how many characters one stands for once it is spelt as everyone spells it (NFKC).
const SPELT: usize = 18;

/// More than the longest note in place of something, and how many there are at most.
const NOTE: usize = 4000;
const NOTES: usize = 103;

struct Lab {
    runtime: Runtime,
    host: Host,
    next: Arc<Mutex<Option<CallOutput>>>,
}

thread_local! {
    static LAB: Lab = {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let next: Arc<Mutex<Option<CallOutput>>> = Arc::default();
        let given = Arc::clone(&next);
        let tool = HostTool::new("T", "gives back what comes next", serde_json::json!({"type": "object"}), move |_| {
            let output = given.lock().expect("nobody fails with it").take();
            async move { Ok(output.ok_or("nothing comes next")?.into()) }
        });
        let results = Results::unsaved().max_chars(Some(CHARS)).max_tokens(Some(CHARS));
        let host = runtime.block_on(async { Host::builder().tool(tool).results(results).start() });
        Lab { runtime, host, next }
    };
}

fuzz_target!(|data: &[u8]| {
    let Ok(json) = Json::parse(String::from_utf8_lossy(data).into_owned()) else {
        return;
    };
    let Ok((_, result)) = CallToolResult::from_json(&json) else {
        return;
    };
    let blocks = result.content.len();
    LAB.with(|lab| {
        *lab.next.lock().expect("nobody fails with it") = Some(result.into());
        let called = lab.host.call(
            "T",
            Value::Object(serde_json::Map::new()),
            CallOptions::new(),
        );
        let output = lab.runtime.block_on(called).expect("a result");
        check(&output, blocks);
    });
});

fn check(output: &CallOutput, blocks: usize) {
    assert!(output.files.is_empty());
    let limit = CHARS as usize;
    if let Some(structured) = &output.structured_content {
        assert!(structured.as_str().chars().count() <= limit);
    }
    for format in [
        Format::Anthropic,
        Format::OpenAi,
        Format::OpenAiResponses,
        Format::Mcp,
    ] {
        let shown = output.for_model(format);
        if let Value::String(text) = shown {
            // Text, what stands beside text, notes, and a little for each block.
            let most = 2 * SPELT * limit + NOTE * NOTES.min(blocks + 3) + 32 * blocks;
            let chars = text.chars().count();
            assert!(chars <= most, "{chars} characters of {blocks} blocks");
        }
    }
}
