//! Tests of log files: concurrent writers, rotation, disk errors, following.

use std::fs;
use std::sync::Mutex;
use std::time::Instant;

use super::*;
use crate::disk::create_private_dir;

fn store(limits: Limits) -> (tempfile::TempDir, LogStore) {
    let scratch = tempfile::tempdir().unwrap();
    let store = LogStore::with_limits(scratch.path().join("deep/logs"), limits);
    (scratch, store)
}

fn small() -> Limits {
    Limits {
        file: 20_000,
        total: 1_000_000,
    }
}

/// Returns the texts of lines.
fn texts(lines: &[LogLine]) -> Vec<&str> {
    lines.iter().map(|line| line.text.as_str()).collect()
}

/// Polls until there is a value.
fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn records_land_in_a_private_file_per_server() {
    let (_scratch, store) = store(Limits::default());
    assert_eq!(store.servers(), [""; 0]);
    let log = store.server("github");
    log.hide("hunter2x");
    log.state("connecting");
    log.stderr(b"half a ");
    log.stderr(b"line with hunter2x\nunfinished");
    log.notice("odd");
    log.stderr(b"last, hunter2x");
    store.flush().await;

    let path = store.dir().join("github.log");
    let text = fs::read_to_string(&path).unwrap();
    let shown: Vec<&str> = text.lines().map(|line| &line[time::STAMP_LEN..]).collect();
    assert_eq!(
        shown,
        [
            " state  connecting",
            " stderr half a line with ***",
            " stderr unfinished",
            " notice odd",
            " stderr last, ***",
        ]
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(store.dir()), 0o700);
    }
    assert!(store.has("github") && !store.has("gitlab"));
    assert_eq!(store.servers(), ["github"]);
    assert_eq!(store.problem(), None);
}

#[tokio::test]
async fn names_that_are_not_file_names_are_preserved() {
    let (_scratch, store) = store(small());
    let names = ["My Server", "a/b", "é", "plain", "\u{1b}[2J"];
    for name in names {
        for number in 0..300 {
            let log = store.server(name);
            log.notice(&format!("{number} {}", "x".repeat(90)));
        }
    }
    store.flush().await;
    // The name survives rotation.
    let mut expected = names.map(str::to_owned);
    expected.sort();
    assert_eq!(store.servers(), expected);
    let lines = store.read(Some("My Server"), Some(1), None);
    assert!(lines[0].text.starts_with("299 ") && lines[0].server == "My Server");
    let all = store.read(None, None, None);
    assert!(all.iter().all(|line| names.contains(&line.server.as_str())));
    assert!(
        !all.iter()
            .any(|line| line.text.contains("log of the server"))
    );
}

#[test]
fn concurrent_writers_keep_lines_whole_across_rotation() {
    const WRITERS: usize = 4;
    const LINES: usize = 400;
    let scratch = tempfile::tempdir().unwrap();
    let limits = Limits {
        file: 60_000,
        total: 10_000_000,
    };
    // Each writer has its own thread and handles, like a process.
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let dir = scratch.path().to_owned();
            std::thread::spawn(move || {
                let store = LogStore::with_limits(dir, limits);
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_time()
                    .build()
                    .unwrap();
                let log = store.server("s");
                for number in 0..LINES {
                    log.stderr(
                        format!("w{writer} n{number} {}\n", "x".repeat(number % 90)).as_bytes(),
                    );
                    if number % 20 == 0 {
                        runtime.block_on(store.flush());
                    }
                }
                runtime.block_on(store.flush());
                assert_eq!(store.problem(), None);
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    let path = scratch.path().join("s.log");
    let old = fs::read_to_string(file::rotated_path(&path)).unwrap();
    let new = fs::read_to_string(&path).unwrap();
    // A writer that misses the rotation may append once more to the old file.
    let most = limits.file + (WRITERS * 20 * 140) as u64;
    let size = |text: &str| text.len() as u64;
    assert!(
        size(&old) <= most && size(&new) <= most,
        "{} {}",
        old.len(),
        new.len()
    );
    let mut next = [None; WRITERS];
    for line in format!("{old}{new}").lines() {
        let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        let [stamp, "stderr", writer, number, ..] = words[..] else {
            panic!("{line}");
        };
        assert!(time::is_stamp(stamp), "{line}");
        let writer: usize = writer[1..].parse().unwrap();
        let number: usize = number[1..].parse().unwrap();
        assert_eq!(words.get(4).map_or(0, |x| x.len()), number % 90, "{line}");
        // From the first kept line on, no line of a writer is missing, except for one late write.
        let expected = next[writer].unwrap_or(number);
        assert!(number <= expected, "{line}: not {expected}");
        next[writer] = Some(number.max(expected) + 1);
    }
    // A writer that finished early may have been rotated out.
    assert!(
        next.iter()
            .all(|next| next.is_none_or(|next| next == LINES)),
        "{next:?}"
    );
    assert!(next.iter().any(Option::is_some));
}

#[tokio::test]
async fn flood_is_dropped_and_counted_without_affecting_other_servers() {
    let (_scratch, store) = store(Limits::default());
    let (flood, quiet) = (store.server("flood"), store.server("quiet"));
    let chunk = "0123456789abcde\n".repeat(256);
    for _ in 0..5000 {
        flood.stderr(chunk.as_bytes());
    }
    quiet.state("still here");
    store.flush().await;
    assert_eq!(
        texts(&store.read(Some("quiet"), None, None)),
        ["still here"]
    );

    let size = |name: &str| fs::metadata(store.dir().join(name)).map_or(0, |found| found.len());
    let limit = Limits::default().file + PIECE_SLACK;
    assert!(size("flood.log") <= limit && size("flood.log.1") <= limit);
    // Every line is present or counted.
    if size("flood.log.1") == 0 {
        let lines = store.read(Some("flood"), None, None);
        let told = lines.iter().map(|line| match line.text.strip_prefix("… ") {
            Some(dropped) => dropped.split(' ').next().unwrap().parse::<u64>().unwrap(),
            None => 1,
        });
        assert_eq!(told.sum::<u64>(), 5000 * 256);
    }
}

/// A file may exceed its limit by one write.
const PIECE_SLACK: u64 = 128 * 1024;

#[tokio::test]
async fn full_queue_reports_how_many_lines_it_dropped() {
    let (_scratch, store) = store(Limits::default());
    let log = store.server("s");
    let Some((server, _)) = &log.0 else {
        panic!("no log");
    };
    log.stderr(b"first\n");
    store.flush().await;
    assert!(server.budget.take(MAX_QUEUED_BYTES));
    log.stderr(b"1\n2\n3");
    log.state("lost");
    store.flush().await;
    server.budget.release(MAX_QUEUED_BYTES);
    log.stderr(b"last\n");
    store.flush().await;
    let lines = store.read(None, None, None);
    assert_eq!(
        texts(&lines),
        ["first", "… 3 lines dropped", "lost", "last"]
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn full_disk_is_reported_once_and_lost_lines_are_counted() {
    let (_scratch, store) = store(Limits::default());
    create_private_dir(store.dir()).unwrap();
    let path = store.dir().join("s.log");
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let log = store.server("s");
    log.stderr(b"one\ntwo\n");
    store.flush().await;
    let problem = store.problem().unwrap().to_owned();
    assert!(problem.contains("s.log: No space left"), "{problem}");
    log.state("three");
    store.flush().await;
    assert_eq!(store.problem(), Some(problem.as_str()));

    // A few lines are kept and written later.
    fs::remove_file(&path).unwrap();
    log.state("four");
    store.flush().await;
    let lines = store.read(None, None, None);
    assert_eq!(texts(&lines), ["one", "two", "three", "four"]);

    // More lines are counted.
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    log.stderr("line\n".repeat(3000).as_bytes());
    store.flush().await;
    fs::remove_file(&path).unwrap();
    log.state("five");
    store.flush().await;
    let lines = store.read(None, None, None);
    assert_eq!(texts(&lines), ["… 3000 lines dropped", "five"]);
}

#[tokio::test]
async fn deleted_files_and_directories_are_recreated() {
    let (_scratch, store) = store(Limits::default());
    let log = store.server("s");
    log.state("one");
    store.flush().await;
    fs::remove_file(store.dir().join("s.log")).unwrap();
    log.state("two");
    store.flush().await;
    assert_eq!(texts(&store.read(None, None, None)), ["two"]);
    fs::remove_dir_all(store.dir()).unwrap();
    log.state("three");
    store.flush().await;
    assert_eq!(texts(&store.read(None, None, None)), ["three"]);
    assert_eq!(store.problem(), None);
}

#[tokio::test]
async fn unwritable_directory_disables_logging_silently() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("file");
    fs::write(&file, "").unwrap();
    for dir in [file.join("logs"), "/proc/1/nothing/logs".into()] {
        let store = LogStore::at(dir);
        let log = store.server("s");
        for _ in 0..3 {
            log.state("one");
            store.flush().await;
        }
        assert_eq!(store.problem(), None);
        assert!(store.read(None, None, None).is_empty() && store.servers().is_empty());
    }
    // A directory in place of the file is a problem.
    let store = LogStore::at(scratch.path());
    fs::create_dir(scratch.path().join("s.log")).unwrap();
    store.server("s").state("one");
    store.flush().await;
    assert!(store.problem().unwrap().contains("s.log: Is a directory"));
}

#[tokio::test]
async fn lines_of_several_servers_are_merged_by_time() {
    let (_scratch, store) = store(Limits::default());
    let put = |name: &str, lines: &str| {
        create_private_dir(store.dir()).unwrap();
        fs::write(store.dir().join(name), lines).unwrap();
    };
    put("a.log.1", "2026-01-01T00:00:01.000Z state  a1\n");
    put(
        "a.log",
        "2026-01-01T00:00:04.000Z stderr   a4\ngarbage\n\n2026-01-01T00:00:05.000Z other  a5\n2026-01-01T00:00:06.000Z notice a6",
    );
    put(
        "b.log",
        "2026-01-01T00:00:02.000Z state  b2\n2026-01-01T00:00:05.000Z state  b5\n",
    );
    let read = |server, newest, since: Option<&str>| {
        let since = since.map(|since| Since::parse(since).unwrap());
        let lines = store.read(server, newest, since.as_ref());
        let (followed, _) = store.follow(server, newest, since.as_ref());
        // A partial line is left for the next poll.
        let whole: Vec<_> = lines.iter().filter(|line| line.text != "a6").collect();
        if newest.is_none() {
            assert_eq!(whole, followed.iter().collect::<Vec<_>>());
        }
        lines
            .into_iter()
            .map(|line| line.text)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(read(None, None, None), "a1 b2   a4 b5 a6");
    assert_eq!(read(None, Some(2), None), "b5 a6");
    assert_eq!(read(None, Some(0), None), "");
    assert_eq!(read(Some("a"), None, None), "a1   a4 a6");
    assert_eq!(read(Some("c"), None, None), "");
    assert_eq!(read(None, None, Some("2026-01-01T00:00:04Z")), "  a4 b5 a6");
    assert_eq!(read(None, None, Some("2026-01-01 00:00:05")), "b5 a6");
    assert_eq!(read(None, None, Some("1d")), "");
}

#[test]
fn since_parses_durations_and_timestamps() {
    for good in [
        "90s",
        "10m",
        "2h",
        "7d",
        "2026-11-16",
        "2026-11-16T02:03",
        "2026-11-16 02:03:04.5",
    ] {
        assert!(Since::parse(good).is_some(), "{good}");
    }
    for bad in [
        "",
        "m",
        "10",
        "10x",
        "-1m",
        "1.5h",
        "2026",
        "2026-11",
        "yesterday",
        "2026-11-16T02:03:04.567ZZZZ",
        "é",
    ] {
        assert!(Since::parse(bad).is_none(), "{bad}");
    }
}

#[tokio::test]
async fn follow_yields_every_line_once_across_rotation_and_new_servers() {
    let (_scratch, store) = store(small());
    let log = store.server("S one");
    log.notice("before");
    store.flush().await;
    let (shown, mut follow) = store.follow(None, Some(10), None);
    assert_eq!(texts(&shown), ["before"]);
    assert!(follow.poll().is_empty());

    let mut seen = Vec::new();
    for number in 0..2000 {
        log.notice(&format!("{number} {}", "x".repeat(50)));
        if number == 1000 {
            store.server("two").notice("hello");
        }
        // Poll before the file is rotated twice.
        if number % 50 == 0 {
            store.flush().await;
            seen.extend(follow.poll());
        }
    }
    store.flush().await;
    seen.extend(follow.poll());
    assert!(file::rotated_path(&file::log_path(store.dir(), "S one")).exists());
    let of = |name: &str| -> Vec<usize> {
        let lines = seen.iter().filter(|line| line.server == name);
        lines
            .filter_map(|line| line.text.split(' ').next()?.parse().ok())
            .collect()
    };
    assert_eq!(of("S one"), (0..2000).collect::<Vec<_>>());
    assert_eq!(seen.iter().filter(|line| line.server == "two").count(), 1);

    // Truncated, then deleted.
    let path = file::log_path(store.dir(), "two");
    let two = store.server("two");
    fs::write(&path, "").unwrap();
    assert!(follow.poll().is_empty());
    two.notice("again");
    store.flush().await;
    assert_eq!(texts(&follow.poll()), ["again"]);
    fs::remove_file(&path).unwrap();
    assert!(follow.poll().is_empty());
    two.notice("anew");
    store.flush().await;
    assert_eq!(texts(&follow.poll()), ["anew"]);
}

#[tokio::test]
async fn server_without_a_log_can_be_followed() {
    let (_scratch, store) = store(small());
    let (shown, mut follow) = store.follow(Some("later"), None, None);
    assert!(shown.is_empty() && follow.poll().is_empty());
    store.server("other").notice("not this");
    store.server("later").notice("this");
    store.flush().await;
    assert_eq!(texts(&follow.poll()), ["this"]);
}

#[test]
fn dropped_store_writes_pending_lines() {
    let scratch = tempfile::tempdir().unwrap();
    LogStore::at(scratch.path()).server("s").stderr(b"the end");
    let store = LogStore::at(scratch.path());
    let lines = eventually("the line", || {
        let lines = store.read(None, None, None);
        (!lines.is_empty()).then_some(lines)
    });
    assert_eq!(texts(&lines), ["the end"]);
}

/// A destination for traces.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the trace of one server.
async fn traced(messages: impl FnOnce(&dyn trunkline_transport::Trace)) -> Vec<serde_json::Value> {
    let page = Page::default();
    let tracer = Tracer::to(page.clone());
    let redactor = Redactor::default();
    redactor.hide("hunter2x");
    messages(&*tracer.server("my \"server\"", redactor));
    tracer.flush().await;
    assert_eq!(tracer.problem(), None);
    let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
    text.lines()
        .map(|line| {
            let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
            let time = value.as_object_mut().unwrap().remove("time").unwrap();
            assert!(time::is_stamp(time.as_str().unwrap()));
            value
        })
        .collect()
}

#[tokio::test]
async fn trace_records_every_message_without_secrets() {
    use serde_json::json;
    use trunkline_wire::transport::{
        CloseReason, Closed, DeliveryError, DeliveryErrorKind, Incoming,
    };

    let lines = traced(|trace| {
        trace.sent(r#"{"id":1,"params":{"password":"x","a":"hunter2x"}}"#.into());
        trace.received(&Incoming::Frame("{\n \"id\": 1 }".into()));
        trace.received(&Incoming::Reply {
            to: 1,
            frame: "[1]".into(),
        });
        trace.received(&Incoming::Frame(b"garbage hunter2x \x1b\xff"[..].into()));
        trace.received(&Incoming::Activity { to: None });
        trace.received(&Incoming::Oversize {
            bytes: 9,
            limit: 5,
            head: "{".into(),
            tail: "}".into(),
        });
        let failure = DeliveryError::new(DeliveryErrorKind::Unreachable, "no route", false);
        trace.received(&Incoming::DeliveryFailed { to: 4, failure });
        trace.closed(&Closed::new(CloseReason::ByPeer));
    })
    .await;
    let server = "my \"server\"";
    assert_eq!(
        lines,
        [
            json!({"server": server, "direction": "out", "message": {"id": 1, "params": {"password": "***", "a": "***"}}}),
            json!({"server": server, "direction": "in", "message": {"id": 1}}),
            json!({"server": server, "direction": "in", "message": [1]}),
            json!({"server": server, "direction": "in", "text": "garbage *** \u{1b}\u{fffd}"}),
            json!({"server": server, "note": "message of 9 bytes exceeds the limit of 5"}),
            json!({"server": server, "note": "request 4 failed: no route"}),
            json!({"server": server, "note": "link closed: the server closed the connection"}),
        ]
    );
}

#[tokio::test]
async fn trace_file_is_truncated_and_private() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("trace");
    fs::write(&path, "old").unwrap();
    let tracer = Tracer::to_file(&path).unwrap();
    tracer.server("s", Redactor::default()).sent("{}".into());
    tracer.flush().await;
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.starts_with("{\"time\":") && text.ends_with("\"message\":{}}\n"),
        "{text}"
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
    assert!(Tracer::to_file(scratch.path()).is_err());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn trace_on_a_full_disk_reports_the_problem() {
    let tracer = Tracer::to_file("/dev/full".as_ref()).unwrap();
    let trace = tracer.server("s", Redactor::default());
    for _ in 0..3 {
        trace.sent("{}".into());
        tracer.flush().await;
    }
    assert!(
        tracer
            .problem()
            .unwrap()
            .contains("incomplete: No space left")
    );
}
