//! Whole edits, with other processes and `kill -9` interfering.
//!
//! The children are this test program: it runs only `child`, with a role given by the environment.

use std::cell::Cell;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Instant, SystemTime};

use serde_json::{Value, json};

use super::*;

/// The role of a child, its file and its state directory.
const ROLE: &str = "TRUNKLINE_TEST_EDIT_ROLE";
const FILE: &str = "TRUNKLINE_TEST_EDIT_FILE";
const STATE: &str = "TRUNKLINE_TEST_EDIT_STATE";

/// Far below the ten seconds after which a lock is stale, and far above the duration of an edit.
const PROMPT: Duration = Duration::from_secs(5);

/// The number of editing threads in each of the two processes.
const THREADS: usize = 100;

/// How often the editing child is killed.
const KILLS: usize = 40;

type Change = fn(&str) -> Outcome<(Option<String>, ())>;
type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

struct Scratch {
    /// Contains nothing but the file.
    home: tempfile::TempDir,
    state: tempfile::TempDir,
    file: PathBuf,
}

impl Scratch {
    fn new(text: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".claude.json");
        fs::write(&file, text).unwrap();
        let state = tempfile::tempdir().unwrap();
        Self { home, state, file }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn options(&self) -> EditOptions<'_> {
        EditOptions {
            locks: Some(self.state.path()),
            private: true,
            lock_timeout: None,
            bounds: None,
        }
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.file).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.home.path()).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// This program, to be run as a child with a role.
    fn child(&self, role: &str) -> Command {
        let mut command = Command::new("sh");
        let program = std::env::current_exe().unwrap();
        command
            .args(["-c", "exec \"$0\" --exact edit::tests::child --nocapture"])
            .arg(program)
            .env(ROLE, role)
            .env(FILE, &self.file)
            .env(STATE, self.state.path())
            .stdout(Stdio::piped());
        command
    }
}

fn set(path: &Path, options: &EditOptions, keys: &[&str], value: &Value) -> Outcome<()> {
    edit_file(path, options, |text| {
        Ok((Some(splice::set(text, keys, value)?), ()))
    })
}

/// A `~/.claude.json` of about 300 KB that would not survive being parsed and written again.
fn realistic() -> String {
    let mut text =
        String::from("{\n  \"numStartups\": 0,\n  \"mcpServers\": {},\n  \"projects\": {");
    for project in 0..250 {
        let comma = if project == 0 { "" } else { "," };
        let _ = write!(
            text,
            "{comma}\n    \"/home/jürgen/проект {project}\": {{\n      \"allowedTools\": [],\n      \"history\": ["
        );
        for line in 0..8 {
            let comma = if line == 0 { "" } else { "," };
            let _ = write!(
                text,
                "{comma}\n        {{\n          \"display\": \"line {line} \\u00e9 ünï 🦀 \\ud83e\\udd80 \\/\",\n          \"pastedContents\": {{}}\n        }}"
            );
        }
        let _ = write!(
            text,
            "\n      ],\n      \"mcpServers\": {{}},\n      \"lastCost\": 1.0,\n      \"lastDuration\": 1e21,\n      \"big\": 12345678901234567890,\n      \"twice\": 1,\n      \"twice\": 0.10\n    }}"
        );
    }
    text.push_str("\n  },\n  \"unknown\": [ 1,2,   3 ]\n}\n");
    text
}

/// Where entry `at` of a process goes: half to the user's servers, half to a project's.
fn keys(name: &str, at: usize) -> Vec<&str> {
    if at.is_multiple_of(2) {
        vec!["mcpServers", name]
    } else {
        vec!["projects", "/home/jürgen/проект 7", "mcpServers", name]
    }
}

fn random_u64() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn spin(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        std::hint::spin_loop();
    }
}

/// Increments the counter.
fn count(path: &Path, options: &EditOptions) -> Outcome<u64> {
    edit_file(path, options, |text| {
        let next = counted(text) + 1;
        let new = splice::set(text, &["numStartups"], &json!(next))?;
        Ok((Some(new), next))
    })
}

fn counted(text: &str) -> u64 {
    let number = splice::get(text, &["numStartups"]).unwrap().unwrap();
    number.get().parse().unwrap()
}

/// The body of a child. It does nothing when run as a test.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let variable = |name| PathBuf::from(std::env::var_os(name).unwrap());
    let (file, state) = (variable(FILE), variable(STATE));
    let options = EditOptions {
        locks: Some(&state),
        private: true,
        lock_timeout: None,
        bounds: None,
    };
    match &*role {
        "count" => loop {
            let number = count(&file, &options).unwrap();
            // The test harness may have begun a line.
            let mut out = io::stdout().lock();
            writeln!(out, "\nat {number}").unwrap();
            out.flush().unwrap();
        },
        "fail" => {
            let error = count(&file, &options).unwrap_err().to_string();
            writeln!(io::stdout(), "\nrefused: {error}").unwrap();
        }
        name => thread::scope(|scope| {
            for at in 0..THREADS {
                let (file, options) = (&file, &options);
                let name = format!("{name}-{at}");
                let value = json!({"command": name, "args": ["ü", at]});
                scope.spawn(move || set(file, options, &keys(&name, at), &value).unwrap());
            }
        }),
    }
}

#[test]
fn two_processes_that_add_a_hundred_servers_each_lose_none_and_touch_nothing_else() {
    let original = realistic();
    assert!(original.len() > 250_000, "{}", original.len());
    add_from_two_processes(&Scratch::new(&original), |_| {});
}

#[test]
fn two_processes_without_a_state_directory_lose_none_either() {
    let scratch = Scratch::new(&realistic());
    // Nothing can be created below a file.
    let nowhere = scratch.state.path().join("file");
    fs::write(&nowhere, "").unwrap();
    add_from_two_processes(&scratch, |child| {
        child.env(STATE, nowhere.join("state"));
    });
}

/// As in two containers that share the file.
#[test]
fn two_processes_with_a_state_directory_each_lose_none_either() {
    let scratch = Scratch::new(&realistic());
    add_from_two_processes(&scratch, |child| {
        let own = scratch.state.path().join(random_u64().to_string());
        child.env(STATE, own);
    });
}

fn add_from_two_processes(scratch: &Scratch, prepare: impl Fn(&mut Command)) {
    let original = scratch.text();
    let children = ["one", "two"].map(|name| {
        let mut child = scratch.child(name);
        prepare(&mut child);
        child.spawn().unwrap()
    });
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let mut text = scratch.text();
    for name in ["one", "two"] {
        for at in 0..THREADS {
            let name = format!("{name}-{at}");
            let found = splice::get(&text, &keys(&name, at)).unwrap().unwrap();
            let found: Value = serde_json::from_str(found.get()).unwrap();
            assert_eq!(found, json!({"command": name, "args": ["ü", at]}));
            text = splice::remove(&text, &keys(&name, at)).unwrap().unwrap();
        }
    }
    assert!(text == original, "other bytes than the added ones changed");
    assert_eq!(scratch.names(), [".claude.json"]);
}

#[test]
fn a_kill_at_any_instant_leaves_the_old_or_the_new_file_and_no_wait() {
    let original = realistic();
    let scratch = Scratch::new(&original);
    let (mut kills, mut while_locked, mut while_writing) = (0, 0, 0);
    let mut usual = Duration::from_millis(2);
    // How many kills hit an edit is random, so repeat until enough have.
    while kills < KILLS || ((while_locked < 5 || while_writing < 2) && kills < 20 * KILLS) {
        let mut child = scratch.child("count").spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut reported = next_count(&mut lines).unwrap();
        spin(Duration::from_nanos(
            random_u64() % u64::try_from(usual.as_nanos() * 2).unwrap(),
        ));
        kill(&mut child);
        kills += 1;
        while let Some(number) = next_count(&mut lines) {
            reported = number;
        }

        let text = scratch.text();
        let number = counted(&text);
        assert!(
            number == reported || number == reported + 1,
            "{reported} was reported and {number} found"
        );
        let whole = splice::set(&original, &["numStartups"], &json!(number)).unwrap();
        assert!(text == whole, "the file is neither the old nor the new one");
        let names = scratch.names();
        let there = |name: &str| usize::from(names.iter().any(|there| there == name));
        while_locked += there(".claude.json.lock");
        while_writing += there("..claude.json.trunkline-tmp");

        let start = Instant::now();
        assert_eq!(
            count(&scratch.file, &scratch.options()).unwrap(),
            number + 1
        );
        usual = start.elapsed();
        assert!(usual < PROMPT, "the next edit took {usual:?}");
        assert_eq!(scratch.names(), [".claude.json"]);
    }
    assert!(while_locked >= 5 && while_writing >= 2);
}

/// `None` once the child has exited.
fn next_count(lines: &mut impl Iterator<Item = io::Result<String>>) -> Option<u64> {
    lines
        .map(Result::unwrap)
        .find_map(|line| line.strip_prefix("at ")?.parse().ok())
}

fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The kernel refuses to write beyond the limit, as on a full disk, once the signal is ignored.
#[test]
fn a_write_that_fails_halfway_leaves_the_old_file_and_nothing_else() {
    let original = realistic();
    let scratch = Scratch::new(&original);
    let mut command = Command::new("sh");
    let plain = scratch.child("fail");
    let limits = "trap '' XFSZ; ulimit -f 64; exec \"$0\" --exact edit::tests::child --nocapture";
    command.args(["-c", limits]).args(plain.get_args().skip(2));
    for (name, value) in plain.get_envs() {
        command.env(name, value.unwrap());
    }
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("refused: "), "{said}");
    assert!(said.contains("cannot be written: File too large"), "{said}");
    assert!(scratch.text() == original);
    assert_eq!(scratch.names(), [".claude.json"]);
}

#[test]
fn a_fresh_lock_of_another_program_is_waited_for() {
    let scratch = Scratch::new("{}");
    let lock = scratch.at(".claude.json.lock");
    fs::create_dir(&lock).unwrap();
    let edited = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            edit_file(&scratch.file, &scratch.options(), |_| {
                edited.store(true, Ordering::SeqCst);
                Outcome::Ok((Some("{\"a\":1}".to_owned()), ()))
            })
            .unwrap();
        });
        // The holder of the journal is waiting for the lock directory.
        wait_until(|| {
            let locks = fs::read_dir(scratch.state.path().join("locks"));
            let mut ledgers = locks.into_iter().flatten();
            ledgers.any(|journal| {
                let journal = File::open(journal.unwrap().path()).unwrap();
                journal.try_lock().is_err()
            })
        });
        assert!(!edited.load(Ordering::SeqCst));
        assert!(lock.exists());
        fs::remove_dir(&lock).unwrap();
    });
    assert_eq!(scratch.text(), "{\"a\":1}");
    assert_eq!(scratch.names(), [".claude.json"]);
}

fn wait_until(condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < end, "it does not happen");
        thread::yield_now();
    }
}

#[test]
fn a_stale_lock_of_another_program_is_taken_over_at_once() {
    let scratch = Scratch::new("{}");
    let lock = scratch.at(".claude.json.lock");
    fs::create_dir(&lock).unwrap();
    let old = SystemTime::now() - Duration::from_secs(11);
    File::open(&lock).unwrap().set_modified(old).unwrap();
    let start = Instant::now();
    set(&scratch.file, &scratch.options(), &["a"], &json!(1)).unwrap();
    assert!(start.elapsed() < PROMPT);
    assert_eq!(scratch.text(), "{\n  \"a\": 1\n}");
    assert_eq!(scratch.names(), [".claude.json"]);
}

#[test]
fn threads_without_a_state_directory_lose_nothing_either() {
    let scratch = Scratch::new("");
    thread::scope(|scope| {
        for at in 0..20 {
            let (file, options) = (&scratch.file, EditOptions::default());
            scope.spawn(move || set(file, &options, &[&format!("{at}")], &json!(at)).unwrap());
        }
    });
    let found: Value = serde_json::from_str(&scratch.text()).unwrap();
    assert_eq!(found.as_object().unwrap().len(), 20);
}

#[test]
fn an_edit_starts_again_when_its_lock_was_lost_or_the_file_changed() {
    let scratch = Scratch::new("{}");
    let lock = scratch.at(".claude.json.lock");
    for lock_too in [true, false] {
        let calls = Cell::new(0);
        edit_file(&scratch.file, &scratch.options(), |text| {
            calls.set(calls.get() + 1);
            if calls.get() == 1 {
                // Another program considers our lock stale, takes it, edits, and releases it.
                if lock_too {
                    fs::remove_dir(&lock).unwrap();
                }
                fs::write(&scratch.file, "{\"theirs\":1}").unwrap();
            }
            Outcome::Ok((Some(splice::set(text, &["ours"], &json!(2))?), ()))
        })
        .unwrap();
        assert_eq!(calls.get(), 2);
        assert_eq!(scratch.text(), "{\"theirs\":1,\"ours\":2}");
        assert_eq!(scratch.names(), [".claude.json"]);
        fs::write(&scratch.file, "{}").unwrap();
    }

    // A program that never stops writing.
    let error = edit_file(&scratch.file, &scratch.options(), |_| {
        fs::write(&scratch.file, random_u64().to_string()).unwrap();
        Ok::<_, EditError>((Some("[]".to_owned()), ()))
    });
    let error = error.unwrap_err();
    assert!(matches!(error, EditError::Contended { .. }), "{error}");
    assert_eq!(scratch.names(), [".claude.json"]);
}

#[test]
fn an_edit_through_a_link_locks_link_and_file_and_keeps_the_link() {
    let scratch = Scratch::new("{}");
    fs::create_dir(scratch.at("dotfiles")).unwrap();
    fs::rename(&scratch.file, scratch.at("dotfiles/c.json")).unwrap();
    symlink("dotfiles/c.json", &scratch.file).unwrap();
    edit_file(&scratch.file, &scratch.options(), |_| {
        assert!(scratch.at(".claude.json.lock").is_dir());
        assert!(scratch.at("dotfiles/c.json.lock").is_dir());
        Outcome::Ok((Some("1".to_owned()), ()))
    })
    .unwrap();
    assert!(fs::symlink_metadata(&scratch.file).unwrap().is_symlink());
    assert_eq!(scratch.text(), "1");
    assert_eq!(scratch.names(), [".claude.json", "dotfiles"]);
    assert_eq!(fs::read_dir(scratch.at("dotfiles")).unwrap().count(), 1);
}

/// `/proc` has links to open files, and no directory can be created there.
#[test]
#[cfg(target_os = "linux")]
fn a_link_where_no_lock_can_be_made_is_no_hindrance() {
    let scratch = Scratch::new("{}");
    let open = File::open(&scratch.file).unwrap();
    let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open));
    set(Path::new(&link), &scratch.options(), &["a"], &json!(1)).unwrap();
    assert_eq!(scratch.text(), "{\n  \"a\": 1\n}");
    assert_eq!(scratch.names(), [".claude.json"]);
}

#[test]
fn directories_are_made_only_for_a_file_that_is_written() {
    let scratch = Scratch::new("{}");
    let file = scratch.at("a/b/c.json");
    let nothing = edit_file(&file, &scratch.options(), |text| {
        assert_eq!(text, "");
        Outcome::Ok((None, 5))
    });
    assert_eq!(nothing.unwrap(), 5);
    assert_eq!(scratch.names(), [".claude.json"]);
    set(&file, &scratch.options(), &["x"], &json!([])).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "{\n  \"x\": []\n}\n");
}

#[test]
fn an_edit_that_changes_nothing_or_fails_does_not_touch_the_file() {
    let scratch = Scratch::new("{\"a\": 1.0}");
    let stamp = || {
        let metadata = fs::metadata(&scratch.file).unwrap();
        (
            std::os::unix::fs::MetadataExt::ino(&metadata),
            metadata.modified().unwrap(),
        )
    };
    let before = stamp();
    let outcomes: [Change; 3] = [
        |_| Ok((None, ())),
        |text| Ok((Some(text.to_owned()), ())),
        |_| Err("no".into()),
    ];
    for outcome in outcomes {
        let _ = edit_file(&scratch.file, &scratch.options(), outcome);
        assert!(stamp() == before);
        assert_eq!(scratch.names(), [".claude.json"]);
    }
}

#[test]
fn what_cannot_be_edited_is_refused_with_its_name() {
    let scratch = Scratch::new("{}");
    fs::create_dir(scratch.at("directory")).unwrap();
    symlink("loop", scratch.at("loop")).unwrap();
    let fifo = Command::new("mkfifo").arg(scratch.at("fifo")).status();
    assert!(fifo.unwrap().success());
    // Where even root can create nothing.
    let read_only = PathBuf::from("/proc/self/x.json");
    let cases = [
        (scratch.at("directory"), "is not a regular file"),
        (scratch.at("fifo"), "is not a regular file"),
        (scratch.at("loop"), "too many symbolic links"),
        (scratch.at(".claude.json/x"), "Not a directory"),
        (read_only, "cannot be written"),
    ];
    let names = scratch.names();
    for (path, expected) in cases {
        let error = set(&path, &scratch.options(), &["a"], &json!(1));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(scratch.names(), names);
    }
}
