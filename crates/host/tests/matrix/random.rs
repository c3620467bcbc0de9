//! Makes a thousand calls over a connection that fails at random. Each ends once, its error agrees
//! with the server's own record, and everything works afterwards.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};
use trunkline::{CallError, CallOptions};
use trunkline_testkit::net::{Fault, Rates};
use trunkline_testkit::{Scratch, Script};

use crate::alone::{self, resident};
use crate::lab::{Bench, Lab, call};
use crate::labs::net::{Kind, Net};
use crate::labs::stdio::Stdio;
use crate::labs::{http, sse, ws};
use crate::waiting::eventually;

const CALLS: usize = 1000;
const AT_ONCE: usize = 16;

/// Memory that a thousand calls may leave behind: allocator slack, not a leak of a kilobyte each.
const SLACK: usize = 24 << 20;

/// Time limit of one call.
const LIMIT: Duration = Duration::from_secs(4);

const RATES: Rates = Rates {
    cut: 0.015,
    reset: 0.015,
    stall: 0.02,
    stall_for: Duration::from_millis(20),
    slow: 0.02,
    duplicate: 0.0,
    refuse: 0.1,
};

/// A server that records each call before answering it.
fn recording(scratch: &Scratch) -> Script {
    let line = json!({"path": scratch.join("executed"), "text": "$ARGUMENTS\n"});
    Script::default()
        .tool("echo", json!([{"echo": true}]))
        .tool("once", json!([{"appendFile": line}, {"echo": true}]))
}

/// Returns how often each call was executed, from the server's record.
fn executed(scratch: &Scratch) -> HashMap<usize, usize> {
    let mut times = HashMap::new();
    for line in scratch.read("executed").lines() {
        let call: Value = serde_json::from_str(line).expect("a whole line");
        let number = call["n"].as_u64().expect("a number");
        *times.entry(usize::try_from(number).unwrap()).or_default() += 1;
    }
    times
}

type Outcomes = Vec<(usize, Result<String, CallError>)>;

/// Makes the calls and runs `done` after each.
async fn calls<L: Lab>(bench: &Bench<L>, count: usize, done: impl Fn()) -> Outcomes {
    let one = async |n: usize| {
        let options = CallOptions::new().timeout(LIMIT);
        let started = Instant::now();
        let outcome = call::<L>(&bench.host, "once", json!({"n": n}), options).await;
        let took = started.elapsed();
        assert!(took < LIMIT * 2, "call {n} took {took:?}: {outcome:?}");
        done();
        (n, outcome)
    };
    stream::iter(0..count)
        .map(one)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await
}

/// Compares the outcomes with the server's record.
fn judge(outcomes: &Outcomes, executed: &HashMap<usize, usize>) {
    let mut failed = 0;
    for (n, outcome) in outcomes {
        let times = executed.get(n).copied().unwrap_or(0);
        assert!(
            times <= 1,
            "call {n} was executed {times} times: {outcome:?}"
        );
        match outcome {
            Ok(text) => {
                assert_eq!(
                    *text,
                    json!({"n": n}).to_string(),
                    "the answer of another call"
                );
                assert_eq!(times, 1, "call {n} has an answer but was not executed");
            }
            Err(error) => {
                failed += 1;
                assert!(
                    times == 0 || error.may_have_run(),
                    "call {n} was executed, but: {error}"
                );
            }
        }
    }
    let succeeded = outcomes.len() - failed;
    assert_eq!(outcomes.len(), CALLS);
    assert!(
        failed > 0,
        "nothing went wrong: the faults did not reach the calls"
    );
    // The number depends on chance: on a shared stream one fault fails many calls.
    assert!(succeeded > CALLS / 20, "only {succeeded} calls succeeded");
}

/// Prints the seed of a failing test and how to reuse it.
struct Seed(u64);

impl Seed {
    fn new() -> Self {
        let given = std::env::var("TRUNKLINE_SEED").ok();
        let given = given.map(|text| text.parse().expect("a number in TRUNKLINE_SEED"));
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_micros();
        Self(given.unwrap_or_else(|| u64::try_from(now).unwrap() & 0xffff_ffff))
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the faults were those of TRUNKLINE_SEED={}", self.0);
        }
    }
}

async fn network<K: Kind>() {
    let seed = Seed::new();
    let scratch = Scratch::new();
    let script = recording(&scratch);
    let bench = Bench::<Net<K>>::with(Net::with(scratch, script)).await;
    let proxy = &bench.lab.proxy;
    for _ in 0..100 {
        bench.answers_again().await;
    }
    let before = resident();
    proxy.random(seed.0, RATES);
    // Faults apply to new connections, so the current one must go.
    proxy.once(Fault::Reset);
    let outcomes = calls(&bench, CALLS, || ()).await;
    proxy.set(Fault::Pass);
    // Open connections would keep failing.
    proxy.once(Fault::Cut);
    recovers(&bench).await;
    let grown = resident().saturating_sub(before);
    assert!(grown < SLACK, "{grown} bytes more than before");
    let executed = end(bench).await;
    judge(&outcomes, &executed);
}

/// Once faults stop, calls succeed again.
async fn recovers<L: Lab>(bench: &Bench<L>) {
    let started = Instant::now();
    while let Err(error) = bench.call("echo", json!({})).await {
        assert!(started.elapsed() < Duration::from_secs(10), "{error}");
    }
    for _ in 0..10 {
        bench.answers_again().await;
    }
}

/// Ends everything, so no call can run any more, and returns the record.
async fn end<L: Lab>(bench: Bench<L>) -> HashMap<usize, usize> {
    bench.host.shutdown().await;
    eventually("all connections to be closed", || {
        bench.lab.connections() == 0
    })
    .await;
    let executed = executed(bench.lab.scratch());
    bench.end().await;
    executed
}

/// A child that is killed repeatedly, each time after some calls.
async fn process() {
    let seed = Seed::new();
    let scratch = Scratch::new();
    let script = recording(&scratch);
    let bench = Bench::<Stdio>::with(Stdio::with(scratch, script)).await;
    for _ in 0..100 {
        bench.answers_again().await;
    }
    let before = resident();
    let done = AtomicUsize::new(0);
    let mut dice = seed.0;
    let mut next = 0;
    let killing = async {
        loop {
            dice = dice
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            next += 20 + usize::try_from((dice >> 33) % 60).unwrap();
            eventually("more calls to end", || {
                done.load(Ordering::SeqCst) >= next.min(CALLS)
            })
            .await;
            if next >= CALLS {
                return;
            }
            bench.lab.crash();
        }
    };
    let (outcomes, ()) = tokio::join!(
        calls(&bench, CALLS, || {
            done.fetch_add(1, Ordering::SeqCst);
        }),
        killing
    );
    recovers(&bench).await;
    let grown = resident().saturating_sub(before);
    assert!(grown < SLACK, "{grown} bytes more than before");
    let executed = end(bench).await;
    judge(&outcomes, &executed);
}

#[test]
fn calls_over_http_legacy() {
    alone::run(network::<http::LegacySse>());
}

#[test]
fn calls_over_http_legacy_with_json_answers() {
    alone::run(network::<http::LegacyJson>());
}

#[test]
fn calls_over_http_modern() {
    alone::run(network::<http::Modern>());
}

#[test]
fn calls_over_sse() {
    alone::run(network::<sse::Sse>());
}

#[test]
fn calls_over_ws() {
    alone::run(network::<ws::Ws>());
}

#[test]
fn calls_over_stdio() {
    alone::run(process());
}
