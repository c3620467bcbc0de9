//! Real children: what they say arrives, what they do is noticed, and nothing of them is left.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "test code"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use trunkline_testkit::{MODERN_VERSION, Marker, Scratch, Script, bin, processes_in_group};
use trunkline_transport::stdio::{
    INTERRUPT_GRACE, KILL_GRACE, STDERR_CAP, STDIN_GRACE, StderrLog, TERMINATE_GRACE,
};
use trunkline_transport::{MAX_MESSAGE_BYTES, StdioServer};
use trunkline_wire::peer::{Handler, RequestOptions};
use trunkline_wire::transport::{CloseReason, Closed};
use trunkline_wire::{Json, Peer, RequestError};

/// How long anything may take on a busy machine before it counts as hanging.
const LIMIT: Duration = Duration::from_secs(20);

/// The longest that closing may take, by its own rules and with some time to be scheduled.
fn closing_limit() -> Duration {
    STDIN_GRACE + INTERRUPT_GRACE + TERMINATE_GRACE + KILL_GRACE + Duration::from_secs(3)
}

/// Remembers what made no sense.
#[derive(Default)]
struct Nonsense(Mutex<Vec<String>>);

impl Handler for Nonsense {
    fn nonsense(&self, what: &str, _frame: &[u8]) {
        self.0.lock().unwrap().push(what.to_owned());
    }
}

/// A running server, whose processes are killed when the test is over.
struct Child {
    peer: Peer,
    pid: u32,
    stderr: StderrLog,
    nonsense: Arc<Nonsense>,
    leftovers: Leftovers,
}

/// Every process of one server, wherever it hides.
struct Leftovers(Marker);

impl Drop for Leftovers {
    fn drop(&mut self) {
        self.0.kill_all();
    }
}

fn scripted(script: &Value) -> StdioServer {
    let script: Script = script.clone().into();
    StdioServer {
        command: bin("testkit-server").to_str().unwrap().to_owned(),
        args: vec!["--inline".to_owned(), script.to_json()],
        ..StdioServer::default()
    }
}

fn shell(line: &str) -> StdioServer {
    StdioServer {
        command: "/bin/sh".to_owned(),
        args: vec!["-c".to_owned(), line.to_owned()],
        ..StdioServer::default()
    }
}

/// A server with one tool `t` that does `actions`.
fn tool(actions: &Value) -> Value {
    json!({"tools": [{"name": "t", "inputSchema": {}, "do": actions}]})
}

impl Child {
    fn start(mut server: StdioServer) -> Self {
        let marker = Marker::new();
        let (variable, value) = marker.env();
        server.env.insert(variable.to_owned(), value.to_owned());
        let leftovers = Leftovers(marker);
        let transport = server.spawn().unwrap();
        let (pid, stderr) = (transport.pid(), transport.stderr());
        let nonsense = Arc::<Nonsense>::default();
        Self {
            peer: Peer::start(transport, nonsense.clone()),
            pid,
            stderr,
            nonsense,
            leftovers,
        }
    }

    fn scripted(script: &Value) -> Self {
        Self::start(scripted(script))
    }

    /// Calls `t`.
    fn call(
        &self,
        arguments: Value,
        options: RequestOptions,
    ) -> JoinHandle<Result<Json, RequestError>> {
        let peer = self.peer.clone();
        tokio::spawn(async move {
            peer.request("tools/call", call_of(&arguments), options)
                .await
        })
    }

    /// Calls `t` and gives its text.
    async fn call_text(&self, arguments: Value) -> Result<String, RequestError> {
        let call = self.call(arguments, RequestOptions::default());
        let result = soon(call).await.unwrap()?;
        let result = result.to_value().unwrap();
        Ok(result["content"][0]["text"].as_str().unwrap().to_owned())
    }

    /// Why the link ended.
    async fn closed(&self) -> Closed {
        soon(self.peer.closed()).await
    }

    /// Closes, and proves that it took no longer than it may and that nothing is left.
    async fn close(&self) {
        let start = Instant::now();
        soon(self.peer.close()).await;
        let took = start.elapsed();
        assert!(took < closing_limit(), "closing took {took:?}");
        self.assert_gone().await;
    }

    async fn assert_gone(&self) {
        let left = || (processes_in_group(self.pid), self.leftovers.0.processes());
        until(|| left() == (vec![], vec![])).await;
    }
}

/// The params of a call of `t`, as a modern server wants them.
fn call_of(arguments: &Value) -> Json {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"name": "t", "arguments": arguments, "_meta": meta}).into()
}

fn within(limit: Duration) -> RequestOptions {
    RequestOptions {
        deadline: Some(tokio::time::Instant::now() + limit),
        ..RequestOptions::default()
    }
}

/// Fails the test when `future` hangs.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.expect("it hangs")
}

/// Waits for a condition.
async fn until(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "waited in vain");
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

fn exited(code: i32) -> CloseReason {
    CloseReason::Exited {
        code: Some(code),
        signal: None,
    }
}

fn killed_by(signal: &str) -> CloseReason {
    CloseReason::Exited {
        code: None,
        signal: Some(signal.to_owned()),
    }
}

fn hex(text: &str) -> String {
    text.bytes().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.unwrap().split_ascii_whitespace().nth(1).unwrap();
    kilobytes.parse::<usize>().unwrap() * 1024
}

mod messages {
    use super::*;

    #[tokio::test]
    async fn a_call_goes_there_and_back() {
        let child = Child::scripted(&tool(&json!([{"echo": true}])));
        let text = child.call_text(json!({"a": "é\n\u{1}"})).await.unwrap();
        assert_eq!(text, r#"{"a":"é\n\u0001"}"#);
        child.close().await;
        assert!(child.nonsense.0.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_message_of_40_mb_arrives_whole() {
        let child = Child::scripted(&tool(&json!([{"hugeText": 40_000_000}])));
        let text = child.call_text(json!({})).await.unwrap();
        assert_eq!(text.len(), 40_000_000);
        child.close().await;
    }

    #[tokio::test]
    async fn a_line_over_the_limit_fails_its_call_and_what_follows_is_intact() {
        let mut script = tool(&json!([{"hugeText": MAX_MESSAGE_BYTES}]));
        let small = json!({"name": "small", "do": [{"replyText": "fine"}]});
        script["tools"].as_array_mut().unwrap().push(small);
        let child = Child::scripted(&script);
        let huge = child.call(json!({}), RequestOptions::default());
        let error = soon(huge).await.unwrap().unwrap_err();
        assert!(
            error.to_string().contains("is over the limit of 67108864"),
            "{error}"
        );
        let mut params = call_of(&json!({})).to_value().unwrap();
        params["name"] = json!("small");
        let options = RequestOptions::default();
        let small = child.peer.request("tools/call", params.into(), options);
        let result = soon(small).await.unwrap();
        assert!(result.as_str().contains("fine"), "{result}");
        child.close().await;
    }

    #[tokio::test]
    async fn messages_of_100_kb_go_both_ways_many_times() {
        let child = Child::scripted(&tool(&json!([{"echo": true}])));
        let big = "x".repeat(100_000);
        for round in 0..10 {
            let calls: Vec<_> = (0..10)
                .map(|number| {
                    let arguments = json!({"n": [round, number], "big": big});
                    let sent = arguments.to_string();
                    (sent, child.call(arguments, RequestOptions::default()))
                })
                .collect();
            for (sent, call) in calls {
                let result = soon(call).await.unwrap().unwrap().to_value().unwrap();
                let text = result["content"][0]["text"].as_str().unwrap();
                assert!(text == sent, "round {round}: {} bytes back", text.len());
            }
        }
        child.close().await;
    }

    #[tokio::test]
    async fn lines_may_end_as_they_like() {
        let last = hex(r#"{"id":1,"result":"ok"}"#);
        let cases = [
            (
                "CRLF",
                json!([{"replyRaw": "{\"id\":$ID,\"result\":\"ok\"}\r"}]),
            ),
            (
                "blank lines around",
                json!([{"write": ""}, {"write": " \r"}, {"replyRaw": "  {\"id\":$ID,\"result\":\"ok\"} "}]),
            ),
            (
                "no newline, then the end",
                json!([{"writeHex": last}, {"exit": 0}]),
            ),
            (
                "no newline, then stdout closes",
                json!([{"writeHex": last}, {"closeStdout": true}]),
            ),
            (
                "byte by byte",
                json!([{"slowWrite": {"text": r#"{"id":$ID,"result":"ok"}"#, "chunk": 1, "everyMs": 1}}]),
            ),
            (
                "behind garbage",
                json!([{"garbage": 10_000}, {"replyRaw": r#"{"id":$ID,"result":"ok"}"#}]),
            ),
        ];
        for (what, actions) in cases {
            let child = Child::scripted(&tool(&actions));
            let call = child.call(json!({}), RequestOptions::default());
            let result = soon(call).await.unwrap();
            assert_eq!(result.unwrap().as_str(), r#""ok""#, "{what}");
            child.close().await;
        }
    }
}

mod starting {
    use super::*;

    fn failure(server: &StdioServer) -> String {
        server.spawn().err().expect("no such server").to_string()
    }

    #[tokio::test]
    async fn what_cannot_be_started_says_why() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = Scratch::new();
        let plain = scratch.write("plain", "#!/bin/sh\n");
        let orphan = scratch.write("orphan", "#!/no/such/interpreter\n");
        fs::set_permissions(&orphan, fs::Permissions::from_mode(0o755)).unwrap();
        let (plain, orphan) = (plain.to_str().unwrap(), orphan.to_str().unwrap());
        let directory = scratch.path().to_str().unwrap();
        let nowhere = "/no/such/directory";
        let cases = [
            (
                "no-such-program-x1",
                None,
                "command not found: no-such-program-x1".to_owned(),
            ),
            (
                "/no/such/program",
                None,
                "command not found: /no/such/program".to_owned(),
            ),
            ("", None, "command not found: ".to_owned()),
            (plain, None, format!("not executable: {plain}")),
            (directory, None, format!("not executable: {directory}")),
            (
                orphan,
                None,
                format!(
                    "{orphan} could not be started: the interpreter named in its first line is missing"
                ),
            ),
            (
                "/bin/sh",
                Some(nowhere),
                format!("its working directory does not exist: {nowhere}"),
            ),
            (
                "/bin/sh",
                Some(plain),
                format!("its working directory does not exist: {plain}"),
            ),
        ];
        for (command, cwd, expected) in cases {
            let server = StdioServer {
                command: command.to_owned(),
                cwd: cwd.map(Into::into),
                ..StdioServer::default()
            };
            assert_eq!(failure(&server), expected, "{command}");
        }
    }

    #[tokio::test]
    async fn arguments_environment_and_directory_arrive_verbatim() {
        let scratch = Scratch::new();
        let arguments = [
            "$(touch x); *",
            "",
            "a b",
            "'\"\\",
            "é\n`id`",
            "--",
            "$HOME",
        ];
        let script = scratch.write(
            "script.sh",
            r#"printf '%s\0' "$@" > args; printf '%s\0' "$ODD" "$PATH" "$(pwd -P)" > rest; exit 7"#,
        );
        let mut args = vec![script.to_str().unwrap().to_owned()];
        args.extend(arguments.map(str::to_owned));
        let child = Child::start(StdioServer {
            command: "sh".to_owned(),
            args,
            env: BTreeMap::from([("ODD".to_owned(), "$(touch y); 'é'\n".to_owned())]),
            cwd: Some(scratch.home()),
        });
        assert_eq!(*child.closed().await.reason(), exited(7));
        let read = |name: &str| {
            let text = scratch.read(Path::new("home").join(name));
            let parts: Vec<_> = text.split_terminator('\0').map(str::to_owned).collect();
            parts
        };
        assert_eq!(read("args"), arguments);
        let home = fs::canonicalize(scratch.home()).unwrap();
        let path = std::env::var("PATH").unwrap();
        assert_eq!(
            read("rest"),
            ["$(touch y); 'é'\n", &path, home.to_str().unwrap()]
        );
        let files = fs::read_dir(scratch.home()).unwrap().count();
        assert_eq!(files, 2, "no shell has read them");
    }
}

mod dying {
    use super::*;

    #[tokio::test]
    async fn the_exit_status_and_the_last_stderr_lines_reach_every_call() {
        let deaths = [
            (json!({"exit": 3}), exited(3)),
            (json!({"exit": 0}), exited(0)),
            (json!({"signal": "KILL"}), killed_by("SIGKILL")),
            (json!({"signal": "SEGV"}), killed_by("SIGSEGV")),
            (json!({"signal": "TERM"}), killed_by("SIGTERM")),
        ];
        for (death, expected) in deaths {
            let scratch = Scratch::new();
            let go = scratch.join("go");
            let mut last: Vec<_> = (0..30)
                .map(|line| json!({"stderr": format!("line {line}")}))
                .collect();
            last.push(death);
            let mut script = tool(&json!([{"waitForFile": go}]));
            script["tools"][0]["do"]
                .as_array_mut()
                .unwrap()
                .extend(last);
            let child = Child::scripted(&script);
            let calls: Vec<_> = (0..20)
                .map(|_| child.call(json!({}), RequestOptions::default()))
                .collect();
            let silent = child.peer.request(
                "tools/call",
                call_of(&json!({})),
                within(Duration::from_millis(1)),
            );
            // It may be dead or alive when this gives up; the point is that a call more does no harm.
            drop(silent.await);
            scratch.write("go", "");
            for call in calls {
                let error = soon(call).await.unwrap().unwrap_err();
                let RequestError::Closed { cause, .. } = error else {
                    panic!("{error}")
                };
                assert_eq!(*cause.reason(), expected);
                let stderr = cause.stderr();
                assert_eq!(stderr.len(), 20);
                assert!(
                    stderr.iter().all(|line| line.starts_with("line ")),
                    "{stderr:?}"
                );
            }
            child.assert_gone().await;
        }
    }

    #[tokio::test]
    async fn a_server_that_dies_at_once_is_told_by_its_status_and_words_not_by_a_broken_pipe() {
        for _ in 0..10 {
            let server = shell("echo 'no such module' >&2; exit 9");
            let child = Child::start(server);
            let big = json!({"big": "x".repeat(200_000)});
            let call = child.call(big, RequestOptions::default());
            let RequestError::Closed { cause, .. } = soon(call).await.unwrap().unwrap_err() else {
                panic!()
            };
            assert_eq!(*cause.reason(), exited(9));
            assert_eq!(cause.stderr(), ["no such module"]);
        }
    }

    #[tokio::test]
    async fn a_death_is_noticed_at_once_although_a_grandchild_holds_stdout() {
        for new_session in [false, true] {
            let child = Child::scripted(&tool(&json!([
                {"spawnGrandchild": {"holdStdout": true, "ignoreTerm": true, "newSession": new_session}},
                {"stderr": "aargh"},
                {"signal": "KILL"},
            ])));
            let call = child.call(json!({}), RequestOptions::default());
            let cause = child.closed().await;
            assert_eq!(*cause.reason(), killed_by("SIGKILL"));
            assert_eq!(cause.stderr(), ["aargh"]);
            assert!(soon(call).await.unwrap().is_err());
            if new_session {
                // It left our group on purpose; that is beyond a process group's reach.
                child.leftovers.0.kill_all();
            }
            child.assert_gone().await;
        }
    }

    #[tokio::test]
    async fn a_death_is_noticed_although_an_escaped_grandchild_keeps_talking() {
        let scratch = Scratch::new();
        let child = Child::start(StdioServer {
            cwd: Some(scratch.path().to_owned()),
            ..shell(
                "setsid sh -c 'touch up; while :; do echo noise; sleep 0.02; done' &
                while [ ! -e up ]; do sleep 0.01; done; exit 5",
            )
        });
        let cause = child.closed().await;
        assert_eq!(*cause.reason(), exited(5));
    }

    #[tokio::test]
    async fn a_server_that_closes_its_stdout_but_lives_is_reported_and_ended() {
        let script = tool(&json!([{"stderr": "tired"}, {"closeStdout": true}]));
        let child = Child::scripted(&script);
        let call = child.call(json!({}), RequestOptions::default());
        let error = soon(call).await.unwrap().unwrap_err().to_string();
        assert_eq!(
            error,
            "the connection broke: the server closed its stdout but is still running"
        );
        assert_eq!(child.closed().await.stderr(), ["tired"]);
        child.close().await;
    }

    #[tokio::test]
    async fn a_server_that_closes_its_stdin_but_lives_is_reported() {
        let child = Child::start(shell("exec 0<&-; echo ready >&2; exec sleep 60"));
        until(|| child.stderr.last_lines(1) == ["ready"]).await;
        let call = child.call(json!({}), RequestOptions::default());
        let error = soon(call).await.unwrap().unwrap_err().to_string();
        assert!(error.contains("stdin"), "{error}");
        child.close().await;
    }
}

mod stderr {
    use super::*;

    #[tokio::test]
    async fn a_flood_does_not_hold_up_the_server_and_is_kept_within_bounds() {
        let script = tool(
            &json!([{"stderrFlood": 100_000_000}, {"stderr": "\nend"}, {"replyText": "done"}]),
        );
        let child = Child::scripted(&script);
        assert_eq!(child.call_text(json!({})).await.unwrap(), "done");
        until(|| child.stderr.last_lines(1) == ["end"]).await;
        assert!(child.stderr.total_bytes() >= 100_000_000);
        assert!(child.stderr.kept_bytes() <= STDERR_CAP);
        child.close().await;
    }

    #[tokio::test]
    async fn many_short_lines_take_about_their_own_size() {
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
}

mod ending {
    use super::*;

    /// Servers that differ in how hard they are to end. Each has answered `up` on stderr when it is ready.
    fn hard_cases() -> Vec<(&'static str, Value)> {
        let up = json!({"stderr": "up"});
        let deaf = json!({"ignoreSignals": ["INT", "TERM", "HUP"]});
        let held = json!({"spawnGrandchild": {"ignoreTerm": true, "holdStdout": true}});
        vec![
            ("normal", json!({"onStart": [up]})),
            (
                "ignores the end of stdin",
                json!({"onStart": [up], "onEof": "ignore"}),
            ),
            (
                "ignores everything but SIGKILL",
                json!({"onStart": [deaf, up], "onEof": "ignore"}),
            ),
            (
                "has a grandchild that holds stdout",
                json!({"onStart": [held, up]}),
            ),
            (
                "has such a grandchild and ignores everything",
                json!({"onStart": [deaf, held, up], "onEof": "ignore"}),
            ),
            (
                "does not read",
                json!({"onStart": [{"stopReading": true}, deaf, up]}),
            ),
        ]
    }

    async fn up(child: &Child) {
        until(|| child.stderr.last_lines(1) == ["up"]).await;
    }

    /// Sends more than the pipe holds.
    async fn fill(child: &Child) {
        for _ in 0..30 {
            let params = json!("x".repeat(100_000));
            child.peer.notify("n", Some(params.into())).await.unwrap();
        }
    }

    #[tokio::test]
    async fn closing_leaves_no_process() {
        for (what, script) in hard_cases() {
            let child = Child::scripted(&script);
            up(&child).await;
            if what == "does not read" {
                fill(&child).await;
            }
            child.close().await;
        }
    }

    #[tokio::test]
    async fn a_server_that_ends_by_itself_is_closed_without_waiting() {
        let child = Child::scripted(&json!({"onStart": [{"stderr": "up"}]}));
        up(&child).await;
        child.close().await;
        let reason = child.closed().await;
        assert_eq!(*reason.reason(), CloseReason::ByUs);
    }

    #[tokio::test]
    async fn dropping_the_peer_leaves_no_process() {
        for (what, script) in hard_cases() {
            let child = Child::scripted(&script);
            up(&child).await;
            if what == "does not read" {
                fill(&child).await;
            }
            let Child {
                peer, leftovers, ..
            } = child;
            drop(peer);
            until(|| leftovers.0.processes().is_empty()).await;
        }
    }

    #[test]
    fn dropping_the_runtime_leaves_no_process() {
        for (what, script) in hard_cases() {
            for threads in [0, 2] {
                let runtime = if threads == 0 {
                    tokio::runtime::Builder::new_current_thread()
                        .enable_all()
                        .build()
                } else {
                    tokio::runtime::Builder::new_multi_thread()
                        .worker_threads(threads)
                        .enable_all()
                        .build()
                };
                let runtime = runtime.unwrap();
                let child = runtime.block_on(async {
                    let child = Child::scripted(&script);
                    up(&child).await;
                    child
                });
                assert!(!child.leftovers.0.processes().is_empty(), "{what}");
                drop(runtime);
                child.leftovers.0.assert_gone(LIMIT);
            }
        }
    }

    #[test]
    fn dropping_the_runtime_at_once_leaves_no_process() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let marker = Marker::new();
        let mut server = shell("trap '' INT TERM HUP; sleep 60 & sleep 60");
        let (variable, value) = marker.env();
        server.env.insert(variable.to_owned(), value.to_owned());
        let leftovers = Leftovers(marker);
        let transport = runtime.block_on(async { server.spawn().unwrap() });
        drop(transport);
        drop(runtime);
        leftovers.0.assert_gone(LIMIT);
    }

    #[tokio::test]
    async fn calls_to_a_server_that_stopped_reading_end_by_their_deadlines() {
        let script = json!({"onStart": [{"stopReading": true}, {"stderr": "up"}]});
        let child = Child::scripted(&script);
        up(&child).await;
        let limit = Duration::from_secs(1);
        let start = Instant::now();
        let calls: Vec<_> = (0..1000)
            .map(|number| {
                let arguments = json!({"n": number, "more": "x".repeat(2000)});
                child.call(arguments, within(limit))
            })
            .collect();
        let mut unsent = 0;
        for call in calls {
            match soon(call).await.unwrap() {
                Err(RequestError::Timeout { sent, .. }) => unsent += usize::from(!sent),
                other => panic!("{other:?}"),
            }
        }
        let took = start.elapsed();
        assert!(took < limit + Duration::from_secs(5), "{took:?}");
        assert!(unsent > 0, "two megabytes do not fit into a pipe");
        child.close().await;
    }
}
