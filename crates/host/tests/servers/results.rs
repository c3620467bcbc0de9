//! What becomes of results on their way from a real server (RES-1 … RES-7).

use std::path::PathBuf;

use serde_json::{Value, json};
use trunkline::result::Results;
use trunkline::{CallOptions, CallOutput, Host};
use trunkline_testkit::Script;

use crate::lab::{Lab, in_time};

/// A host with one server `s` and these tools, whose results are saved in `results`.
async fn host_with(lab: &Lab, script: impl Into<Script>) -> Host {
    let results = Results::at(lab.at("results"));
    let builder = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .server(lab.server("s", script));
    lab.ready(builder.results(results)).await
}

async fn call(host: &Host, tool: &str, options: CallOptions<'_>) -> CallOutput {
    let call = host.call(tool, json!({}), options);
    in_time(tool, call).await.unwrap()
}

fn files(lab: &Lab) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(lab.at("results")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[tokio::test]
async fn a_large_text_reaches_its_file_and_raw_it_reaches_the_caller() {
    for era in ["modern", "legacy"] {
        let lab = Lab::new();
        let script = json!({"era": era, "tools": [{"name": "t", "do": [{"hugeText": 3_000_000}]}]});
        let host = host_with(&lab, script).await;
        let output = call(&host, "mcp__s__t", CallOptions::new()).await;
        assert_eq!(output.files[0].size, 3_000_000);
        assert!(output.text().len() < 1000, "{}", output.text().len());
        let raw = CallOptions::new().raw(true);
        let output = call(&host, "mcp__s__t", raw).await;
        assert_eq!((output.text().len(), output.files.len()), (3_000_000, 0));
        let written = std::fs::read_to_string(&files(&lab)[0]).unwrap();
        assert!(written == output.text());
        lab.end(host).await;
    }
}

#[tokio::test]
async fn a_tools_own_limit_counts() {
    let lab = Lab::new();
    let tool = |name: &str, limit: Value| json!({"name": name, "_meta": {"anthropic/maxResultSizeChars": limit}, "do": [{"hugeText": 200_000}]});
    let script = json!({"tools": [tool("more", json!(200_000)), tool("less", json!(199_999)), tool("odd", json!("many")), tool("none", json!(0))]});
    let host = host_with(&lab, script).await;
    for (name, saved) in [("more", 0), ("less", 1), ("odd", 1), ("none", 1)] {
        let output = call(&host, &format!("mcp__s__{name}"), CallOptions::new()).await;
        assert_eq!(output.files.len(), saved, "{name}");
    }
    assert_eq!(files(&lab).len(), 3);
    lab.end(host).await;
}

#[tokio::test]
async fn many_large_results_at_once_each_get_their_file() {
    let lab = Lab::new();
    let host = host_with(
        &lab,
        Script::default().tool("t", json!([{"hugeText": 500_000}])),
    )
    .await;
    let calls = (0..20).map(|_| call(&host, "mcp__s__t", CallOptions::new()));
    let outputs = futures_util::future::join_all(calls).await;
    let mut paths: Vec<_> = outputs
        .iter()
        .map(|output| output.files[0].path.clone())
        .collect();
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), 20);
    assert!(
        paths
            .iter()
            .all(|path| path.metadata().unwrap().len() == 500_000)
    );
    lab.end(host).await;
}

#[tokio::test]
async fn an_error_that_is_too_large_is_still_an_error() {
    let lab = Lab::new();
    let text = "no such table\n".repeat(20_000);
    let result = json!({"content": [{"type": "text", "text": text}], "isError": true});
    let host = host_with(
        &lab,
        Script::default().tool("t", json!([{"reply": result}])),
    )
    .await;
    let output = call(&host, "mcp__s__t", CallOptions::new()).await;
    assert!(output.is_error && output.files.len() == 1);
    lab.end(host).await;
}
