//! One sign-in in many processes (AUTH-4): a token is refreshed once, and a process that is killed
//! in the middle of it costs no login that the provider still allows.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use trunkline_testkit::net::OAuthServer;
use trunkline_testkit::wait_for;

use crate::lab::{Lab, SOON, files_under, parsed};
use crate::sign_in::{protected, sign_in};
use crate::signals::send;

const PROCESSES: usize = 12;
const CALLS: usize = 20;

/// The variable with the number of rounds of the tests that kill processes.
const ROUNDS: &str = "TRUNKLINE_KILL_ROUNDS";

/// How long a provider accepts a refresh token that it has replaced.
const GRACE: Duration = Duration::from_mins(10);

/// The file with the tokens.
const SECRETS: &str = "home/.claude/trunkline/secrets.json";

/// `trunkline sdk` with calls in flight.
struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
}

/// The result of a call: its text, or the code of its error.
type Outcome = Result<String, String>;

impl Process {
    fn start(lab: &Lab) -> Self {
        let mut child = lab
            .command(&["sdk"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = sender.send(parsed(&line));
            }
        });
        let mut process = Self {
            stdin: child.stdin.take(),
            child,
            lines,
        };
        process.send("hello", &json!({"subtype": "initialize"}));
        process
    }

    fn send(&mut self, id: &str, request: &Value) {
        let line = json!({"type": "control_request", "request_id": id, "request": request});
        let line = format!("{line}\n");
        self.stdin
            .as_mut()
            .unwrap()
            .write_all(line.as_bytes())
            .unwrap();
    }

    /// Waits until the server is connected or has failed.
    fn connect(&mut self) {
        self.send("ready", &json!({"subtype": "tools"}));
        while self.response()["request_id"] != "ready" {}
    }

    fn start_calls(&mut self) {
        let call = json!({"subtype": "call_tool", "name": "mcp__s__greet"});
        for number in 0..CALLS {
            self.send(&format!("call {number}"), &call);
        }
    }

    fn response(&mut self) -> Value {
        loop {
            let line = self.lines.recv_timeout(SOON).expect("a response");
            if line["type"] == "control_response" {
                return line["response"].clone();
            }
        }
    }

    /// Waits for the calls, and ends the program.
    fn finish(mut self) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        while outcomes.len() < CALLS {
            let response = self.response();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            if !text(&response["request_id"]).starts_with("call ") {
                continue;
            }
            outcomes.push(match response["subtype"].as_str() {
                Some("success") => Ok(text(&response["response"]["content"][0]["text"])),
                _ => Err(text(&response["code"])),
            });
        }
        drop(self.stdin.take());
        let status = wait_for(SOON, "the program's end", || self.child.try_wait().unwrap());
        assert!(status.success(), "{status}");
        outcomes
    }

    /// Ends the program as `kill -9` does.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A lab with a user who is signed in and allows all calls.
fn signed_in() -> (Lab, OAuthServer) {
    let (lab, issuer) = protected();
    lab.write_json(
        "home/.claude/settings.json",
        &json!({"permissions": {"allow": ["mcp__*"]}}),
    );
    assert_eq!(sign_in(&lab, &issuer).code, Some(0));
    (lab, issuer)
}

/// Changes the stored tokens.
pub(crate) fn edit_tokens(lab: &Lab, edit: impl FnOnce(&mut Value)) {
    let mut secrets = parsed(&lab.scratch.read(SECRETS));
    let records = secrets["trunkline OAuth"].as_object_mut().unwrap();
    let record = records.values_mut().next().unwrap();
    let mut stored = parsed(record.as_str().unwrap());
    edit(&mut stored["tokens"]);
    *record = json!(stored.to_string());
    lab.write_json(SECRETS, &secrets);
}

/// Moves a time of the stored tokens into the past.
pub(crate) fn age(tokens: &mut Value, name: &str, by: Duration) {
    let time = tokens[name].as_u64().unwrap();
    tokens[name] = json!(time - by.as_secs());
}

/// Lets the token expire, for the client and for the server.
fn expire(lab: &Lab, issuer: &OAuthServer) {
    edit_tokens(lab, |tokens| {
        age(tokens, "obtainedAt", Duration::from_hours(2));
        age(tokens, "expiresAt", Duration::from_hours(2));
    });
    issuer.expire_access_tokens();
}

/// The stored tokens must be the newest: unused, and known to the provider.
#[track_caller]
fn assert_newest_is_stored(lab: &Lab, issuer: &OAuthServer) {
    edit_tokens(lab, |tokens| {
        let text = |name: &str| tokens[name].as_str().unwrap();
        assert!(issuer.is_unused(text("refresh")), "{}", text("refresh"));
        assert!(issuer.accepts(text("access")), "{}", text("access"));
    });
}

fn all_succeeded() -> Vec<Outcome> {
    vec![Ok("hello".to_owned()); CALLS]
}

#[test]
fn an_interrupt_does_not_wait_for_the_process_that_refreshes() {
    let (lab, issuer) = signed_in();
    expire(&lab, &issuer);
    let locks: Vec<_> = files_under(&lab.scratch.home())
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "lock"))
        .filter(|path| path.to_string_lossy().contains("/locks/"))
        .collect();
    let [path] = &*locks else {
        panic!("{locks:?}");
    };
    // The other process.
    let held = fs::File::options().write(true).open(path).unwrap();
    held.lock().unwrap();
    let running = lab.start(&mut lab.command(&["call", "s", "echo", "n:=1"]));
    // It has the file open, and so it waits for the lock.
    let files = format!("/proc/{}/fd", running.child.id());
    wait_for(SOON, "the wait for the lock", || {
        let mut open = fs::read_dir(&files).ok()?.flatten();
        open.find(|file| fs::read_link(file.path()).is_ok_and(|file| file == *path))
    });
    let start = Instant::now();
    send(&running, Signal::INT);
    let run = running.end();
    assert_eq!(run.code, Some(130), "{run:#?}");
    let took = start.elapsed();
    assert!(took < Duration::from_millis(2500), "{took:?}");
    drop(held);
}

#[test]
fn processes_that_start_with_an_expired_token_refresh_it_once() {
    let (lab, issuer) = signed_in();
    expire(&lab, &issuer);
    let start = || {
        let mut process = Process::start(&lab);
        process.start_calls();
        process
    };
    let processes: Vec<_> = (0..PROCESSES).map(|_| start()).collect();
    for process in processes {
        assert_eq!(process.finish(), all_succeeded());
    }
    assert_eq!(issuer.grants(), ["authorization_code", "refresh_token"]);
    assert_newest_is_stored(&lab, &issuer);
}

#[test]
fn processes_whose_token_is_refused_refresh_it_once() {
    let (lab, issuer) = signed_in();
    // Valid by its date, and not so new that another one would be refused too.
    edit_tokens(&lab, |tokens| {
        age(tokens, "obtainedAt", Duration::from_mins(1));
    });
    let mut processes: Vec<_> = (0..PROCESSES).map(|_| Process::start(&lab)).collect();
    processes.iter_mut().for_each(Process::connect);
    assert_eq!(issuer.refreshes(), 0);
    issuer.expire_access_tokens();
    processes.iter_mut().for_each(Process::start_calls);
    for process in processes {
        assert_eq!(process.finish(), all_succeeded());
    }
    assert_eq!(issuer.grants(), ["authorization_code", "refresh_token"]);
    assert_newest_is_stored(&lab, &issuer);
}

/// A process to kill, and when.
#[derive(Clone, Copy, Debug)]
enum Victim {
    /// The one that refreshes, before it gets the response.
    Refresher,
    /// Any of them, while the response is on its way.
    Any(usize),
    /// The one that refreshes, some time after its request.
    Racing,
}

/// What came of a round in which a process was killed.
#[derive(Debug, Default)]
struct Round {
    /// The results of all calls of the surviving processes.
    outcomes: Vec<Outcome>,
    /// The refresh requests.
    requests: usize,
}

impl Round {
    /// Starts all processes with an expired token, and kills one during the refresh.
    fn run(lab: &Lab, issuer: &OAuthServer, victim: Victim) -> Self {
        expire(lab, issuer);
        let before = issuer.count("/token");
        let is_held = !matches!(victim, Victim::Racing);
        issuer.configure(|options| options.hold_token_responses = is_held);
        let mut processes: Vec<_> = (0..PROCESSES).map(|_| Process::start(lab)).collect();
        processes.iter_mut().for_each(Process::start_calls);
        wait_for(SOON, "a refresh", || {
            (issuer.count("/token") > before).then_some(())
        });
        let index = match victim {
            Victim::Any(index) => index % PROCESSES,
            Victim::Refresher | Victim::Racing => {
                let holder = lock_holder(lab);
                let is_holder = |process: &Process| Some(process.child.id()) == holder;
                let found = processes.iter().position(is_holder);
                assert!(found.is_some() || !is_held, "nobody holds the lock");
                found.unwrap_or_default()
            }
        };
        processes.swap_remove(index).kill();
        issuer.configure(|options| options.hold_token_responses = false);
        Self {
            outcomes: processes.into_iter().flat_map(Process::finish).collect(),
            requests: issuer.count("/token") - before,
        }
    }

    fn succeeded(&self) -> usize {
        self.outcomes.iter().filter(|call| call.is_ok()).count()
    }
}

/// The process that holds the lock of the sign-in.
fn lock_holder(lab: &Lab) -> Option<u32> {
    let folder = lab.at("home/.local/state/trunkline/auth/locks");
    let locks = fs::read_dir(folder).unwrap().flatten();
    let mut locks = locks.filter(|lock| lock.path().extension().is_some_and(|it| it == "lock"));
    let inode = locks.next()?.metadata().unwrap().ino();
    let table = fs::read_to_string("/proc/locks").unwrap();
    table.lines().find_map(|line| {
        // 1: FLOCK ADVISORY WRITE 4711 fe:00:123 0 EOF
        let fields: Vec<_> = line.split_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", process, file, ..] = fields[..] else {
            return None;
        };
        let is_it = file.rsplit(':').next() == Some(&inode.to_string());
        is_it.then(|| process.parse().ok())?
    })
}

/// The victims of the rounds, in turn.
fn victims() -> impl Iterator<Item = Victim> {
    let rounds = std::env::var(ROUNDS).ok();
    let rounds = rounds.map_or(3, |text| text.parse().expect("a number of rounds"));
    (0..rounds).map(|round| match round % 3 {
        0 => Victim::Refresher,
        1 => Victim::Any(round * 7),
        _ => Victim::Racing,
    })
}

#[test]
fn a_process_killed_in_a_refresh_costs_no_login_within_the_grace_period() {
    let (lab, issuer) = signed_in();
    issuer.configure(|options| options.grace = Some(GRACE));
    let mut total = Round::default();
    for victim in victims() {
        let round = Round::run(&lab, &issuer, victim);
        let expected = (PROCESSES - 1) * CALLS;
        assert_eq!(round.succeeded(), expected, "{victim:?}: {round:?}");
        // That of the victim, and at most one more for everybody else.
        assert!(round.requests <= 2, "{victim:?}: {}", round.requests);
        assert_newest_is_stored(&lab, &issuer);
        total.outcomes.extend(round.outcomes);
        total.requests += round.requests;
    }
    report(&total, 0);
}

#[test]
fn a_process_killed_in_a_refresh_without_a_grace_period_ends_in_a_demand_at_worst() {
    let (lab, issuer) = signed_in();
    let mut total = Round::default();
    let mut demands = 0;
    for victim in victims() {
        let round = Round::run(&lab, &issuer, victim);
        assert!(round.requests <= 2, "{victim:?}: {}", round.requests);
        if round.succeeded() == round.outcomes.len() {
            assert_newest_is_stored(&lab, &issuer);
        } else {
            // Everybody learns it from the one process that asked, and nobody asks again.
            assert_eq!(round.succeeded(), 0, "{victim:?}: {round:?}");
            assert!(
                round
                    .outcomes
                    .iter()
                    .all(|call| *call == Err("needs_auth".to_owned())),
                "{victim:?}: {round:?}"
            );
            assert_eq!(round.requests, 2, "{victim:?}");
            let run = lab.run(&["call", "s", "greet"]);
            assert_eq!(run.code, Some(4), "{run:#?}");
            assert!(run.err.contains("trunkline login s"), "{run:#?}");
            demands += 1;
            assert_eq!(sign_in(&lab, &issuer).code, Some(0));
        }
        total.outcomes.extend(round.outcomes);
        total.requests += round.requests;
    }
    assert!(demands > 0, "no round lost a token");
    report(&total, demands);
}

/// Prints the figures of a long run.
#[allow(
    clippy::print_stderr,
    reason = "whoever asked for it wants the figures"
)]
fn report(total: &Round, demands: usize) {
    if std::env::var_os(ROUNDS).is_some() {
        eprintln!(
            "{} calls, {} succeeded, {} refresh requests, {demands} sign-ins lost",
            total.outcomes.len(),
            total.succeeded(),
            total.requests
        );
    }
}
