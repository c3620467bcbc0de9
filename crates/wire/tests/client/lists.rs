//! Lists are fetched page by page. A failure costs only the pages after it.

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use trunkline_wire::client::{Listing, MAX_LIST_BYTES};
use trunkline_wire::mcp::{ListKind, Tool};
use trunkline_wire::{Client, RequestError};

use crate::harness::modern;
use crate::support::settle;

fn list_tools(client: &Client) -> JoinHandle<Result<Listing<Tool>, RequestError>> {
    let client = client.clone();
    tokio::spawn(async move { client.list::<Tool>(ListKind::Tools, None).await })
}

fn names(listing: &Listing<Tool>) -> Vec<&str> {
    listing.items.iter().map(|tool| &*tool.name).collect()
}

fn page(names: &[&str], cursor: &Value) -> Value {
    let tools: Vec<_> = names
        .iter()
        .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
        .collect();
    json!({"resultType": "complete", "tools": tools, "nextCursor": cursor})
}

/// The responses page by page, the names that are kept, and the text of the warning.
type Fault = (
    Vec<(&'static str, Value)>,
    &'static [&'static str],
    &'static str,
);

/// Responds page by page, and checks that each request has the previous cursor.
async fn fetch(answers: &[(&str, Value)]) -> Result<Listing<Tool>, RequestError> {
    let (client, mut wire) = modern().await;
    let list = list_tools(&client);
    let mut cursor = Value::Null;
    for (member, answer) in answers {
        let (id, params) = wire.request("tools/list").await;
        assert_eq!(params.get("cursor").unwrap_or(&Value::Null), &cursor);
        wire.feed(json!({"id": id, *member: answer}).to_string());
        cursor = answer["nextCursor"].clone();
    }
    let listing = list.await.unwrap();
    settle().await;
    wire.assert_nothing_sent();
    listing
}

#[tokio::test(start_paused = true)]
async fn pages_are_joined_in_order() {
    let mut second = page(&["c"], &json!("q\"\n2"));
    second["tools"].as_array_mut().unwrap().push(json!(7));
    second["ttlMs"] = json!(50);
    let mut last = page(&["d"], &Value::Null);
    last["ttlMs"] = json!(900);
    let answers = [
        ("result", page(&["a", "b"], &json!("1"))),
        ("result", second),
        ("result", last),
    ];
    let listing = fetch(&answers).await.unwrap();
    assert_eq!(names(&listing), ["a", "b", "c", "d"]);
    assert_eq!(listing.invalid.len(), 1);
    assert_eq!(listing.invalid[0].index, 3);
    assert_eq!(listing.ttl_ms, Some(50));
    assert!(listing.warnings.is_empty(), "{:?}", listing.warnings);
}

#[tokio::test(start_paused = true)]
async fn pages_before_a_failure_are_kept_with_a_warning() {
    let error = json!({"code": -1, "message": "tired"});
    let huge = "x".repeat(70_000);
    let cases: [Fault; 4] = [
        (
            vec![
                ("result", page(&["a"], &json!("1"))),
                ("result", page(&["b"], &json!("1"))),
            ],
            &["a", "b"],
            "cursor repeats",
        ),
        (
            vec![("result", page(&["a"], &json!("1"))), ("error", error)],
            &["a"],
            "page 2 could not be read: tired (error -1)",
        ),
        (
            vec![
                ("result", page(&["a"], &json!("1"))),
                ("result", json!({"tools": 5})),
            ],
            &["a"],
            "page 2 could not be read",
        ),
        (
            vec![("result", page(&["a"], &json!(huge)))],
            &["a"],
            "cursor is too long",
        ),
    ];
    for (answers, expected, warning) in cases {
        let listing = fetch(&answers).await.unwrap();
        assert_eq!(names(&listing), expected);
        let warnings = listing.warnings.join("; ");
        assert!(warnings.contains(warning), "{warning}: {warnings:?}");
        assert_eq!(listing.incomplete, warning.contains("could not be read"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cursor_that_is_not_a_string_ends_the_list_with_a_warning() {
    for cursor in [json!(5), json!({"x": 1}), json!(true)] {
        let listing = fetch(&[("result", page(&["a"], &cursor))]).await.unwrap();
        assert_eq!(names(&listing), ["a"]);
        assert_eq!(listing.warnings.len(), 1, "{cursor}: the rest is missing");
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_cursor_is_a_cursor() {
    let answers = [
        ("result", page(&["a"], &json!(""))),
        ("result", page(&["b"], &Value::Null)),
    ];
    assert_eq!(names(&fetch(&answers).await.unwrap()), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_first_page_that_fails_is_an_error() {
    let error = json!({"code": -1, "message": "tired"});
    for (member, answer, expected) in [
        ("error", error, "tired (error -1)"),
        (
            "result",
            json!({}),
            "invalid response from the server: it has no `tools`",
        ),
    ] {
        let error = fetch(&[(member, answer)]).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_endless_list_ends() {
    let (client, mut wire) = modern().await;
    let list = list_tools(&client);
    let mut pages = 0;
    while !list.is_finished() {
        settle().await;
        if let Some(request) = wire.try_sent() {
            pages += 1;
            let id = request["id"].as_u64().unwrap();
            wire.answer(id, page(&["a"], &json!(pages.to_string())));
        }
    }
    let listing = list.await.unwrap().unwrap();
    assert_eq!(pages, trunkline_wire::client::MAX_PAGES);
    assert_eq!(listing.items.len(), pages);
    assert_eq!(listing.warnings, ["the list was cut after 1000 pages"]);
}

#[tokio::test(start_paused = true)]
async fn the_total_size_of_all_pages_is_limited() {
    let mut first = page(&["a"], &json!("2"));
    first["padding"] = json!("x".repeat(MAX_LIST_BYTES / 2));
    let mut second = first.clone();
    second["tools"][0]["name"] = json!("b");
    second["nextCursor"] = json!("3");
    let listing = fetch(&[("result", first), ("result", second)]).await;
    let listing = listing.unwrap();
    assert_eq!(names(&listing), ["a"]);
    assert!(listing.incomplete);
    let [warning] = &listing.warnings[..] else {
        panic!("{:?}", listing.warnings);
    };
    assert!(warning.contains("exceeds 64 MB"), "{warning}");
}
