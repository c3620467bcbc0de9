use std::fs;
use std::path::Path;

use serde_json::json;

use super::file::{Limits, append};
use super::*;

const LIMITS: Limits = Limits {
    file_bytes: 2000,
    files: 100,
};

fn write(dir: &Path, from: usize, to: usize) {
    for number in from..to {
        let record = format!("{{\"event\":\"e{number}\"}}");
        append(dir, &[record], LIMITS, false).unwrap();
    }
}

fn problems(dir: &Path) -> Vec<String> {
    let report = verify(dir).unwrap();
    report
        .problems
        .iter()
        .map(|found| found.problem.clone())
        .collect()
}

fn files(dir: &Path) -> Vec<std::path::PathBuf> {
    super::file::list(dir).unwrap()
}

/// Rewrites the lines of a file.
fn rewrite(path: &Path, change: impl FnOnce(&mut Vec<String>)) {
    let text = fs::read_to_string(path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    change(&mut lines);
    let text = lines
        .iter()
        .fold(String::new(), |text, line| text + line + "\n");
    fs::write(path, text).unwrap();
}

#[test]
fn removed_changed_and_truncated_records_are_found_across_files() {
    let scratch = tempfile::tempdir().unwrap();
    let fresh = |name: &str| {
        let dir = scratch.path().join(name);
        write(&dir, 0, 40);
        assert!(files(&dir).len() > 3);
        assert_eq!(problems(&dir), [""; 0]);
        dir
    };
    let report = verify(fresh("whole")).unwrap();
    assert_eq!(
        (report.records, report.first, report.last),
        (40, Some(0), Some(39))
    );

    let dir = fresh("line removed");
    rewrite(&files(&dir)[1], |lines| _ = lines.remove(2));
    assert_eq!(problems(&dir).len(), 1);
    assert!(
        problems(&dir)[0].ends_with("are missing"),
        "{:?}",
        problems(&dir)
    );

    let dir = fresh("line changed");
    rewrite(&files(&dir)[1], |lines| {
        lines[2] = lines[2].replace("\"e", "\"x");
    });
    assert_eq!(problems(&dir).len(), 1);
    assert!(
        problems(&dir)[0].ends_with("was changed"),
        "{:?}",
        problems(&dir)
    );

    let dir = fresh("file removed");
    fs::remove_file(&files(&dir)[1]).unwrap();
    assert_eq!(problems(&dir).len(), 1);
    let dir = fresh("first file removed");
    fs::remove_file(&files(&dir)[0]).unwrap();
    assert_eq!(problems(&dir).len(), 1);
    let dir = fresh("last file removed");
    fs::remove_file(files(&dir).pop().unwrap()).unwrap();
    assert!(
        problems(&dir)[0].ends_with("are missing at the end"),
        "{:?}",
        problems(&dir)
    );

    let dir = fresh("truncated");
    rewrite(&files(&dir).pop().unwrap(), |lines| _ = lines.pop());
    assert!(
        problems(&dir)[0].ends_with("are missing at the end"),
        "{:?}",
        problems(&dir)
    );
    // The gap stays visible when more is written.
    write(&dir, 40, 42);
    assert!(
        problems(&dir)[0].ends_with("are missing"),
        "{:?}",
        problems(&dir)
    );

    let dir = fresh("head removed");
    fs::remove_file(dir.join("head")).unwrap();
    assert_eq!(problems(&dir).len(), 1);
    // It stays visible when more is written, whether something was cut off or not.
    write(&dir, 40, 42);
    assert!(problems(&dir)[0].contains("head was missing"));

    let dir = fresh("truncated and head removed");
    rewrite(&files(&dir).pop().unwrap(), |lines| _ = lines.pop());
    fs::remove_file(dir.join("head")).unwrap();
    write(&dir, 40, 42);
    let found = problems(&dir);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("head was missing"), "{found:?}");
}

#[test]
fn a_crash_before_the_first_line_leaves_a_log_that_begins() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("a");
    write(&dir, 0, 1);
    // The head before the first line, with the line and without it.
    let before = json!({
        "oldest": 0, "seq": 0, "hash": "0".repeat(64), "file": "audit-000000000000.jsonl", "len": 0,
    });
    for has_line in [true, false] {
        fs::write(dir.join("head"), before.to_string()).unwrap();
        if !has_line {
            fs::remove_file(&files(&dir)[0]).unwrap();
        }
        assert_eq!(problems(&dir), [""; 0], "{has_line}");
        write(&dir, 1, 2);
        assert_eq!(problems(&dir), [""; 0], "{has_line}");
    }
}

#[test]
fn a_crash_leaves_a_log_that_goes_on() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("a");
    write(&dir, 0, 3);
    // The lines were written, and the head was not.
    let head = fs::read(dir.join("head")).unwrap();
    write(&dir, 3, 5);
    fs::write(dir.join("head"), head).unwrap();
    write(&dir, 5, 6);
    assert_eq!(problems(&dir), [""; 0]);
    // Half of a line was written.
    let file = files(&dir).pop().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}{{\"seq\":6,\"pr")).unwrap();
    write(&dir, 6, 8);
    let problems = problems(&dir);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains("interrupted"), "{problems:?}");
    assert_eq!(verify(&dir).unwrap().records, 8);
}

#[test]
fn old_files_are_removed_and_the_rest_stays_verifiable() {
    let scratch = tempfile::tempdir().unwrap();
    let limits = Limits {
        file_bytes: 2000,
        files: 3,
    };
    for number in 0..60 {
        let record = format!("{{\"event\":\"e{number}\"}}");
        append(scratch.path(), &[record], limits, true).unwrap();
    }
    assert_eq!(files(scratch.path()).len(), 3);
    let report = verify(scratch.path()).unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
    assert!(report.first.unwrap() > 0);
    assert_eq!(report.last, Some(59));
    // Without the first of them, the check fails.
    fs::remove_file(&files(scratch.path())[0]).unwrap();
    assert_eq!(problems(scratch.path()).len(), 1);
}

#[test]
fn processes_share_one_chain() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| write(dir, 0, 25));
        }
    });
    let report = verify(dir).unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
    assert_eq!(report.records, 100);
    let last = records(dir, 3, |_| true).unwrap();
    let seqs: Vec<_> = last
        .iter()
        .map(|record| record.field::<u64>("seq"))
        .collect();
    assert_eq!(seqs, [Some(97), Some(98), Some(99)]);
    let none = records(dir, 3, |_| false).unwrap();
    assert!(none.is_empty());
}

#[cfg(unix)]
#[test]
fn a_planted_link_is_not_written_through() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("log");
    write(&dir, 0, 1);
    let target = scratch.path().join("target");
    fs::write(&target, "mine").unwrap();
    for name in ["head", ".lock", "audit-000000000000.jsonl"] {
        fs::remove_file(dir.join(name)).unwrap();
        std::os::unix::fs::symlink(&target, dir.join(name)).unwrap();
        append(&dir, &["{\"event\":\"e\"}"], LIMITS, false).unwrap_err();
        assert_eq!(fs::read_to_string(&target).unwrap(), "mine", "{name}");
        fs::remove_file(dir.join(name)).unwrap();
        let _ = append(&dir, &["{\"event\":\"e\"}"], LIMITS, false);
    }
}

#[cfg(unix)]
#[test]
fn a_link_in_place_of_the_directory_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let (elsewhere, dir) = (scratch.path().join("elsewhere"), scratch.path().join("log"));
    write(&elsewhere, 0, 1);
    std::os::unix::fs::symlink(&elsewhere, &dir).unwrap();
    let refused = append(&dir, &["{\"event\":\"e\"}"], LIMITS, false).unwrap_err();
    assert!(refused.to_string().contains("it is a link"), "{refused}");
    assert!(verify(&dir).is_err());
    assert_eq!(verify(&elsewhere).unwrap().records, 1);
    assert!(AuditLog::at(&dir).required("the test").refusal().is_some());
}

#[tokio::test]
async fn a_required_log_that_cannot_be_written_refuses_and_recovers() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("log");
    // A file is in the way.
    fs::write(&dir, "").unwrap();
    let log = AuditLog::at(&dir).required("the test");
    assert!(log.refusal().unwrap().contains("which the test requires"));
    log.record(AuditRecord::now(AuditEvent::Lost { count: 1 }));
    assert!(!log.flush(Duration::from_secs(20)).await);
    assert!(log.refusal().is_some());
    fs::remove_file(&dir).unwrap();
    // What was recorded meanwhile is written now.
    log.record(AuditRecord::now(AuditEvent::Lost { count: 2 }));
    assert!(log.flush(Duration::from_secs(20)).await);
    assert_eq!(log.refusal(), None);
    assert_eq!(verify(&dir).unwrap().records, 2);
}
