//! Measures search quality: catalogs of real servers, and queries with acceptable tools (TOOL-9).
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a test's helpers fail the test by panicking, and this one is for its figures"
)]

use std::fs;
use std::path::{Path, PathBuf};

use trunkline::Json;
use trunkline::tool::Pool;

/// Labelled queries and their target, slightly below the current score, so regressions are noticed.
struct Set {
    file: &'static str,
    least: usize,
    recall_at_1: f64,
    recall_at_5: f64,
}

/// Used for tuning.
const TUNED: Set = Set {
    file: "queries.txt",
    least: 200,
    recall_at_1: 0.80,
    recall_at_5: 0.95,
};

/// Not used for tuning.
const HELD_OUT: Set = Set {
    file: "held_out.txt",
    least: 50,
    recall_at_1: 0.48,
    recall_at_5: 0.85,
};

/// A labelled query.
struct Case {
    query: String,
    /// Acceptable tools as `server/tool`.
    wanted: Vec<String>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/search")
}

/// A pool of `tools/list` results of real servers.
fn pool() -> Pool {
    let files = fs::read_dir(folder().join("catalogs")).unwrap();
    let mut lists: Vec<_> = files
        .map(|file| {
            let path = file.unwrap().path();
            let server = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let list = Json::parse(fs::read_to_string(path).unwrap()).unwrap();
            (server, list)
        })
        .collect();
    lists.sort_by(|a, b| a.0.cmp(&b.0));
    Pool::from_lists(
        lists
            .iter()
            .map(|(name, list)| (name.as_str(), list.clone())),
    )
}

fn cases(pool: &Pool, file: &str) -> Vec<Case> {
    let text = fs::read_to_string(folder().join(file)).unwrap();
    let lines = text
        .lines()
        .filter(|line| line.contains("=>") && !line.starts_with('#'));
    let cases: Vec<_> = lines
        .map(|line| {
            let (query, wanted) = line.split_once("=>").unwrap();
            let wanted = wanted.split(',').map(|name| name.trim().to_owned());
            Case {
                query: query.trim().to_owned(),
                wanted: wanted.collect(),
            }
        })
        .collect();
    for name in cases.iter().flat_map(|case| &case.wanted) {
        let (server, tool) = name.split_once('/').unwrap();
        assert!(pool.find(server, tool).is_some(), "there is no {name}");
    }
    cases
}

#[test]
fn expected_tool_is_among_the_first_five() {
    let pool = pool();
    for set in [TUNED, HELD_OUT] {
        let cases = cases(&pool, set.file);
        assert!(cases.len() >= set.least);
        let (mut first, mut five) = (0, 0);
        for case in &cases {
            let place = place(&pool, case);
            first += usize::from(place == Some(0));
            five += usize::from(place.is_some());
        }
        let share = |hits: usize| hits as f64 / cases.len() as f64;
        let (at_1, at_5) = (share(first), share(five));
        println!(
            "{}: {} queries over {} tools: recall@1 {at_1:.3}, recall@5 {at_5:.3}",
            set.file,
            cases.len(),
            pool.tools().len()
        );
        assert!(at_1 >= set.recall_at_1, "recall@1 is {at_1:.3}");
        assert!(at_5 >= set.recall_at_5, "recall@5 is {at_5:.3}");
    }
}

/// Returns the position of the first acceptable tool among the first five.
fn place(pool: &Pool, case: &Case) -> Option<usize> {
    let found = pool.search(&case.query, 5);
    let names = found
        .iter()
        .map(|found| format!("{}/{}", found.tool.server, found.tool.tool.name));
    let place = names.clone().position(|name| case.wanted.contains(&name));
    if place.is_none() {
        let names: Vec<_> = names.collect();
        println!("not found: {:?}: {}", case.query, names.join(" "));
    }
    place
}
