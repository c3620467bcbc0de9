//! stderr is always read, and bounded.

use std::fs;

use serde_json::json;
use trunkline_transport::stdio::STDERR_CAP;

use crate::support::{Child, shell, tool, until};

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.unwrap().split_ascii_whitespace().nth(1).unwrap();
    kilobytes.parse::<usize>().unwrap() * 1024
}

#[tokio::test]
async fn a_stderr_flood_does_not_block_the_server_and_is_bounded() {
    let script =
        tool(&json!([{"stderrFlood": 100_000_000}, {"stderr": "\nend"}, {"replyText": "done"}]));
    let child = Child::scripted(&script);
    assert_eq!(child.call_text(json!({})).await.unwrap(), "done");
    until(|| child.stderr.last_lines(1) == ["end"]).await;
    assert!(child.stderr.total_bytes() >= 100_000_000);
    assert!(child.stderr.kept_bytes() <= STDERR_CAP);
    child.close().await;
}

#[tokio::test]
async fn memory_for_stderr_matches_its_size() {
    let before = resident();
    let child = Child::start(shell(
        "i=0; while [ $i -lt 30000 ]; do echo $i >&2; i=$((i+1)); done; exec cat",
    ));
    until(|| child.stderr.last_lines(1) == ["29999"]).await;
    let grown = resident().saturating_sub(before);
    let kept = child.stderr.kept_bytes();
    assert!(
        grown < 8_000_000,
        "{kept} bytes of lines took {grown} bytes"
    );
    child.close().await;
}

#[tokio::test]
async fn the_log_outlives_the_server() {
    let child = Child::start(shell("printf 'one\\ntwo' >&2"));
    child.closed().await;
    child.close().await;
    assert_eq!(child.stderr.last_lines(5), ["one", "two"]);
    assert_eq!(child.stderr.total_bytes(), 7);
}
