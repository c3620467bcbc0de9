//! Times calls of a healthy server before, during and after floods from its neighbours.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trunkline::elicit::{ElicitAnswer, Elicitation};
use trunkline::log::LogStore;
use trunkline::{CallOptions, Host, HostBuilder, ServerEntry};
use trunkline_testkit::{Scratch, Script};

use crate::text::Flood;

/// Number of flooding servers, where several are possible.
const FLOODERS: usize = 3;

/// Number of timed calls.
const CALLS: usize = 60;

/// Number of rounds before a row fails. Outside load only makes a round worse and passes; a server
/// that starves its neighbours fails every round.
const ROUNDS: usize = 3;

/// The factor that CALL-7 allows.
const FACTOR: u32 = 10;
const ADDED: Duration = Duration::from_millis(20);
const LATE: Duration = Duration::from_millis(100);

/// After this time a test counts as hanging.
const SOON: Duration = Duration::from_secs(30);

/// The runtime of the host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Runtime {
    OneThread,
    TwoThreads,
}

/// Start and end of the flood, and the number of blocks sent.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    on: AtomicBool,
    over: AtomicBool,
    blocks: AtomicUsize,
    turn: Mutex<()>,
    bell: Condvar,
}

impl Signal {
    fn begin(&self) {
        self.on.store(true, Ordering::Release);
        self.ring();
    }

    fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.ring();
    }

    fn ring(&self) {
        let _turn = self.turn.lock().unwrap();
        self.bell.notify_all();
    }

    /// Waits briefly for the end of the test.
    pub(crate) fn wait_for_the_end(&self) {
        let turn = self.turn.lock().unwrap();
        let moment = Duration::from_millis(2);
        let over = self
            .bell
            .wait_timeout_while(turn, moment, |()| !self.is_over());
        drop(over.unwrap());
    }

    /// Waits until the flood starts or the test ends.
    pub(crate) fn wait(&self) {
        let turn = self.turn.lock().unwrap();
        drop(self.bell.wait_while(turn, |()| !self.is_on()).unwrap());
    }

    /// Returns whether the flood has started or the test has ended.
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire) || self.is_over()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Counts a sent block.
    pub(crate) fn sent(&self) {
        self.blocks.fetch_add(1, Ordering::AcqRel);
    }
}

/// A flooding server, which stops when dropped.
pub(crate) struct Flooder {
    pub(crate) entry: Entry,
    /// The tool whose call starts the flood, if the signal does not.
    pub(crate) tool: Option<&'static str>,
    /// A file that exists once the flood has started, if the signal cannot tell.
    pub(crate) begun: Option<std::path::PathBuf>,
    #[expect(dead_code, reason = "the server ends when this is dropped")]
    pub(crate) keep: Box<dyn Send>,
}

/// A server as added to the host.
pub(crate) enum Entry {
    Server(ServerEntry),
    Sdk(trunkline::transport::sdk::SdkBridge, ServerEntry),
}

pub(crate) struct Lab {
    pub(crate) scratch: Scratch,
    pub(crate) signal: Arc<Signal>,
}

/// Returns the entry of a scripted stdio server.
pub(crate) fn scripted(scratch: &Scratch, name: &str, script: &Script) -> ServerEntry {
    let written = scratch.entry(name, script);
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let args = written["args"].as_array().expect("arguments");
    ServerEntry::stdio(name, text(&written["command"]), args.iter().map(text))
}

/// The measurements of one round.
struct Figures {
    /// The median of quiet calls, before or after the flood, whichever is longer.
    quiet: Duration,
    /// Median, 90th percentile and maximum of calls during the flood.
    flooded: [Duration; 3],
    /// Lateness of deadlines during the flood.
    late: Duration,
}

impl Figures {
    /// Returns which bound of CALL-7 is broken.
    fn check(&self) -> Result<(), String> {
        let (quiet, [_, most, _], late) = (self.quiet, self.flooded, self.late);
        if most > quiet * FACTOR + ADDED {
            return Err(format!(
                "a tenth of the calls took over {most:?} under the flood, half of them {quiet:?} without"
            ));
        }
        if late > LATE {
            return Err(format!("a deadline was late by {late:?}"));
        }
        Ok(())
    }
}

/// Checks a flood against CALL-7.
pub(crate) fn check(
    start: fn(&Lab, &str, &Flood) -> Option<Flooder>,
    kind: fn() -> Flood,
    runtime: Runtime,
) {
    let flood = kind();
    let mut failures = Vec::new();
    while failures.len() < ROUNDS {
        let figures = measure(start, &flood, runtime);
        let (quiet, [half, most, worst]) = (figures.quiet, figures.flooded);
        let late = figures.late;
        println!("quiet {quiet:?}, flooded {half:?} {most:?} {worst:?}, late by {late:?}");
        match figures.check() {
            Ok(()) => return,
            Err(failure) => failures.push(failure),
        }
    }
    panic!("all rounds failed: {failures:#?}");
}

/// Runs one round on its own runtime.
fn measure(
    start: fn(&Lab, &str, &Flood) -> Option<Flooder>,
    flood: &Flood,
    runtime: Runtime,
) -> Figures {
    let runtime = match runtime {
        Runtime::OneThread => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build(),
        Runtime::TwoThreads => tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build(),
    };
    let limit = 2 * SOON;
    runtime.unwrap().block_on(async {
        let round = tokio::time::timeout(limit, run(start, flood));
        round.await.expect("the round to end in time")
    })
}

async fn run(start: fn(&Lab, &str, &Flood) -> Option<Flooder>, flood: &Flood) -> Figures {
    let lab = Lab {
        scratch: Scratch::new(),
        signal: Arc::default(),
    };
    let healthy = Script::default()
        .tool("echo", json!([{"echo": true}]))
        .tool("hang", json!([{"silence": true}]));
    let names: Vec<_> = (0..FLOODERS).map(|n| format!("flooder{n}")).collect();
    let flooders: Vec<_> = names
        .iter()
        .filter_map(|name| start(&lab, name, flood))
        .collect();
    let healthy = scripted(&lab.scratch, "healthy", &healthy);
    let calm = builder(&lab).server(healthy.clone()).start();
    let mut builder = builder(&lab).server(healthy);
    for flooder in &flooders {
        builder = match &flooder.entry {
            Entry::Server(entry) => builder.server(entry.clone()),
            Entry::Sdk(bridge, entry) => builder.server(entry.clone()).sdk(bridge.clone()),
        };
    }
    let host = builder.start();
    for host in [&calm, &host] {
        tokio::time::timeout(SOON, host.ready())
            .await
            .expect("a host");
    }

    let before = time_calls(&host).await;
    lab.signal.begin();
    let floods: Vec<_> = flooders
        .iter()
        .zip(&names)
        .filter_map(|(flooder, name)| {
            let tool = format!("mcp__{name}__{}", flooder.tool?);
            let (host, signal) = (host.clone(), Arc::clone(&lab.signal));
            // A call may never be answered; a result may be the flood itself.
            Some(tokio::spawn(async move {
                while !signal.is_over() {
                    drop(host.call(&tool, json!({}), CallOptions::new()).await);
                    tokio::task::yield_now().await;
                }
            }))
        })
        .collect();
    let begun = || {
        let files = flooders.iter().all(|flooder| match &flooder.begun {
            Some(file) => file.exists(),
            None => lab.signal.blocks.load(Ordering::Acquire) >= flooders.len(),
        });
        files.then_some(())
    };
    let since = Instant::now();
    while begun().is_none() {
        assert!(since.elapsed() < SOON, "the flood to begin");
        tokio::task::yield_now().await;
    }
    let flooded = time_calls(&host).await;
    let late = time_deadlines(&host).await;

    lab.signal.end();
    for flood in floods {
        flood.abort();
    }
    tokio::time::timeout(SOON, host.shutdown())
        .await
        .expect("a shutdown");
    drop(flooders);
    // Outside load may have started meanwhile.
    let after = time_calls(&calm).await;
    tokio::time::timeout(SOON, calm.shutdown())
        .await
        .expect("a shutdown");

    Figures {
        quiet: before[CALLS / 2].max(after[CALLS / 2]),
        flooded: [CALLS / 2, CALLS * 9 / 10, CALLS - 1].map(|at| flooded[at]),
        late,
    }
}

fn builder(lab: &Lab) -> HostBuilder {
    Host::builder()
        .permit(trunkline::permission::AllowAll)
        .elicit(|_: Elicitation| async { ElicitAnswer::Decline })
        .logs(LogStore::at(lab.scratch.join("logs")))
}

/// Returns the sorted durations of calls to the healthy server.
async fn time_calls(host: &Host) -> Vec<Duration> {
    let mut times = Vec::new();
    for n in 0..CALLS {
        let begun = Instant::now();
        let answer = host.call("mcp__healthy__echo", json!({"n": n}), CallOptions::new());
        let answer = tokio::time::timeout(SOON, answer).await.expect("an answer");
        assert_eq!(answer.unwrap().text(), json!({"n": n}).to_string());
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    times
}

/// Returns the median lateness of deadlines.
async fn time_deadlines(host: &Host) -> Duration {
    let limit = Duration::from_millis(50);
    let mut late = Vec::new();
    for _ in 0..5 {
        let begun = Instant::now();
        let options = CallOptions::new().timeout(limit);
        let outcome = host.call("mcp__healthy__hang", json!({}), options).await;
        assert!(outcome.unwrap_err().is_timeout());
        late.push(begun.elapsed().saturating_sub(limit));
    }
    late.sort_unstable();
    late[late.len() / 2]
}
