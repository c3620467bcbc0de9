//! Servers that crash, flood and change, connections that fail, and a host that refreshes, replaces
//! and reconnects them all the time: memory, descriptors, tasks and processes stay as they are, and
//! a server without faults answers every call.
//!
//! `cargo xtask soak --faults` sets the time and reads the printed figures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::json;
use trunkline::server::State;
use trunkline::{CallOptions, Host, ServerEntry};
use trunkline_testkit::net::{Fault, Rates};
use trunkline_testkit::{Scratch, Script, bin, descendants};

use crate::alone::{self, descriptors, resident};
use crate::lab;
use crate::labs::http;
use crate::labs::net::{Kind, Net, Server};
use crate::waiting::{eventually_or, in_time};

/// How long it runs in the test suite.
const BRIEFLY: Duration = Duration::from_secs(4);

/// Tasks that call.
const CALLERS: u64 = 12;

/// The time limit of one call, and of one of the server without faults.
const LIMIT: Duration = Duration::from_secs(3);
const CALM_LIMIT: Duration = Duration::from_secs(20);

/// The parts that figures are printed for, and those of the test suite.
const PARTS: u32 = 10;
const FEW_PARTS: u32 = 3;

/// Memory that faults may add after the first part: caches and the allocator's reserve.
const SLACK: usize = 32 << 20;

const RATES: Rates = Rates {
    cut: 0.01,
    reset: 0.01,
    stall: 0.01,
    stall_for: Duration::from_millis(20),
    slow: 0.01,
    duplicate: 0.0,
    refuse: 0.05,
};

/// The tools of a server with faults.
const FAULTS: [&str; 9] = [
    "crash", "exit", "garbage", "silence", "huge", "stderr", "change", "child", "echo",
];

fn wild() -> Script {
    let extra = json!({"name": "extra", "inputSchema": {"type": "object"}});
    Script::default()
        .tool("crash", json!([{"signal": "KILL"}]))
        .tool("exit", json!([{"exit": 3}]))
        .tool("garbage", json!([{"garbage": 5000}, {"replyText": "ok"}]))
        .tool("silence", json!([{"silence": true}]))
        .tool("huge", json!([{"hugeText": 300_000}]))
        .tool(
            "stderr",
            json!([{"stderrFlood": 200_000}, {"replyText": "ok"}]),
        )
        .tool(
            "change",
            json!([{"addTool": extra}, {"removeTool": "extra"}, {"replyText": "ok"}]),
        )
        .tool(
            "child",
            json!([{"spawnGrandchild": {}}, {"replyText": "ok"}]),
        )
        .tool("echo", json!([{"echo": true}]))
}

/// A server of these, with the test's mark.
fn entry(scratch: &Scratch, name: &str, script: &Script) -> ServerEntry {
    let args = ["--inline".to_owned(), script.to_json()];
    let program = bin("testkit-server").display().to_string();
    let mut entry = ServerEntry::stdio(name, program, args);
    if let trunkline::config::TransportEntry::Stdio(stdio) = &mut entry.transport {
        let (variable, value) = scratch.marker().env();
        stdio
            .env
            .insert(variable.to_owned(), trunkline_config::Secret::new(value));
    }
    entry
}

/// Random numbers of a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        let index = self.below(list.len() as u64);
        &list[usize::try_from(index).unwrap()]
    }
}

/// What is counted while it runs.
#[derive(Default)]
struct Counts {
    calls: AtomicU64,
    failed: AtomicU64,
    changes: AtomicU64,
    stop: AtomicBool,
}

/// What must stay as it is.
#[derive(Clone, Copy, Debug)]
struct Figures {
    resident: usize,
    descriptors: usize,
    tasks: usize,
    processes: usize,
}

impl Figures {
    fn now() -> Self {
        Self {
            resident: resident(),
            descriptors: descriptors(),
            tasks: tokio::runtime::Handle::current()
                .metrics()
                .num_alive_tasks(),
            processes: descendants(std::process::id()).len(),
        }
    }
}

async fn call(host: Host, counts: Arc<Counts>, seed: u64) {
    let mut random = Random(seed);
    while !counts.stop.load(Ordering::Relaxed) {
        counts.calls.fetch_add(1, Ordering::Relaxed);
        if random.below(3) == 0 {
            let n = random.below(1_000_000);
            let options = CallOptions::new().timeout(CALM_LIMIT);
            let said = host.call_on("calm", "echo", json!({"n": n}), options).await;
            let said = said.unwrap_or_else(|error| panic!("the server without faults: {error}"));
            assert!(format!("{said:?}").contains(&n.to_string()), "{said:?}");
            continue;
        }
        let server = *random.of(&["wild-1", "wild-2", "net"]);
        let tool = if server == "net" {
            "echo"
        } else {
            *random.of(&FAULTS)
        };
        let options = CallOptions::new().timeout(LIMIT);
        let arguments = json!({"text": "x".repeat(usize::try_from(random.below(2000)).unwrap())});
        let called = in_time("a call", host.call_on(server, tool, arguments, options)).await;
        if called.is_err() {
            counts.failed.fetch_add(1, Ordering::Relaxed);
            // A server that restarts refuses at once.
            tokio::time::sleep(Duration::from_millis(random.below(20))).await;
        }
    }
}

/// Changes what the host has, all the time.
async fn change(host: Host, counts: Arc<Counts>, wild: ServerEntry, seed: u64) {
    let mut random = Random(seed);
    while !counts.stop.load(Ordering::Relaxed) {
        counts.changes.fetch_add(1, Ordering::Relaxed);
        let server = *random.of(&["wild-1", "wild-2", "net", "calm"]);
        match random.below(5) {
            0 if server != "calm" => _ = in_time("reconnecting", host.reconnect(server)).await,
            1 => {
                let removed = in_time("removing", host.remove("wild-2")).await;
                if removed.is_ok() {
                    host.add(wild.clone());
                }
            }
            2 => host.reload().await,
            _ => _ = tokio::time::timeout(LIMIT, host.refresh(server)).await,
        }
        tokio::time::sleep(Duration::from_millis(10 + random.below(90))).await;
    }
}

/// Runs callers and changes for a time, and then waits until everything is connected again.
async fn part<K: Kind>(
    bench: &Bench<K>,
    counts: &Arc<Counts>,
    time: Duration,
    seed: u64,
) -> Figures {
    counts.stop.store(false, Ordering::Relaxed);
    bench.net.proxy.random(seed, RATES);
    let callers = (0..CALLERS).map(|n| {
        let task = call(bench.host.clone(), Arc::clone(counts), seed * 31 + n + 1);
        tokio::spawn(task)
    });
    let changes = change(
        bench.host.clone(),
        Arc::clone(counts),
        bench.wild.clone(),
        seed + 7,
    );
    let tasks: Vec<_> = callers.chain([tokio::spawn(changes)]).collect();
    tokio::time::sleep(time).await;
    counts.stop.store(true, Ordering::Relaxed);
    bench.net.proxy.set(Fault::Pass);
    for task in tasks {
        in_time("a task", task).await.expect("no task fails");
    }
    // Faults may have left long pauses before the next attempt.
    for server in ["wild-1", "wild-2", "net", "calm"] {
        let _ = in_time("reconnecting", bench.host.reconnect(server)).await;
    }
    let states = || {
        bench
            .host
            .servers()
            .iter()
            .map(|server| server.state.clone())
            .collect::<Vec<_>>()
    };
    let are_connected = || {
        states()
            .iter()
            .all(|state| matches!(state, State::Connected(_)))
    };
    eventually_or(
        || format!("all to be connected: {:?}", states()),
        are_connected,
    )
    .await;
    bench.net.server.clear_requests();
    // What ends a little later than its connection.
    let servers = bench.host.servers().len() - 1;
    let settled = || descendants(std::process::id()).len() <= servers;
    eventually_or(
        || format!("processes to end: {:?}", descendants(std::process::id())),
        settled,
    )
    .await;
    Figures::now()
}

struct Bench<K: Kind> {
    host: Host,
    wild: ServerEntry,
    net: Net<K>,
}

async fn soak(time: Duration, is_long: bool) {
    let scratch = Scratch::new();
    let net = Net::<http::LegacySse>::with(Scratch::new(), wild());
    let wild = entry(&scratch, "wild-2", &self::wild());
    let mut remote = <http::LegacySse as Kind>::entry(net.proxy.through(&net.server.url()));
    "net".clone_into(&mut remote.name);
    let calm = Script::default().tool("echo", json!([{"echo": true}]));
    let host = lab::builder()
        .server(entry(&scratch, "calm", &calm))
        .server(entry(&scratch, "wild-1", &self::wild()))
        .server(wild.clone())
        .server(remote)
        .start();
    in_time("the host to be ready", host.ready()).await;
    let bench = Bench { host, wild, net };
    let counts = Arc::new(Counts::default());
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    let seed = u64::from(now.subsec_nanos()) + 1;
    println!("soak-faults seed {seed}");
    let mut first = None;
    let parts = if is_long { PARTS } else { FEW_PARTS };
    for number in 1..=parts {
        let figures = part(
            &bench,
            &counts,
            time / parts,
            seed * 100 + u64::from(number),
        )
        .await;
        let Figures {
            resident,
            descriptors,
            tasks,
            processes,
        } = figures;
        if is_long {
            let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
            let (calls, failed) = (count(&counts.calls), count(&counts.failed));
            let changes = count(&counts.changes);
            println!(
                "soak-faults {number} {calls} {failed} {changes} {resident} {descriptors} {tasks} {processes}"
            );
        }
        let before = *first.get_or_insert(figures);
        assert!(
            resident < before.resident + SLACK,
            "{before:?}, now {figures:?}"
        );
        // A connection more or less that the pool keeps, and its task.
        assert!(
            descriptors <= before.descriptors + 8,
            "{before:?}, now {figures:?}"
        );
        assert!(tasks <= before.tasks + 8, "{before:?}, now {figures:?}");
        assert!(processes <= before.processes, "{before:?}, now {figures:?}");
    }
    in_time("the shutdown", bench.host.shutdown()).await;
    drop(bench);
    scratch.assert_no_processes(Duration::from_secs(5));
}

#[test]
fn faults_of_all_kinds_leave_nothing_behind() {
    let minutes = std::env::var("TRUNKLINE_SOAK_MINUTES").ok();
    let minutes = minutes.map(|text| text.parse::<u64>().expect("a number of minutes"));
    let time = minutes.map_or(BRIEFLY, |minutes| Duration::from_secs(60 * minutes));
    alone::run(soak(time, minutes.is_some()));
}
