//! CFG-3: unreadable files.

use std::fs;

use crate::lab::{GLOBAL, Lab, PROJECT, SHARED, USER, commands};

#[test]
fn a_file_that_is_too_long_or_not_text_costs_itself() {
    let huge = format!(
        "{{\"mcpServers\": {{}}, \"x\": \"{}\"}}",
        "x".repeat(17 << 20)
    );
    let cases: [(&[u8], &str); 3] = [
        (huge.as_bytes(), "the file is larger than 16 MB"),
        (
            b"{\"mcpServers\": {\"\xff\": {}}}",
            "the file is not UTF-8 text",
        ),
        (b"\xff\xfe{\0}\0", "the file is not UTF-8 text"),
    ];
    for (bytes, problem) in cases {
        for file in [PROJECT, GLOBAL, USER, SHARED] {
            let lab = Lab::new();
            lab.put_bytes(file, bytes);
            lab.check_with_problems(&[], &[&format!("{file}: {problem}")]);
        }
    }
}

#[test]
fn deep_nesting_costs_at_most_its_entry() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let objects = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    for deep in [deep, objects] {
        let lab = Lab::new();
        lab.put(
            PROJECT,
            format!(
                "{{\"unknown\": {deep}, \"mcpServers\": {{\"keeps\": {{\"command\": \"c\", \"unknown\": {deep}}}, \"loses\": {{\"command\": \"c\", \"sandbox\": {deep}}}, \"entry\": {deep}, \"ok\": {{\"command\": \"c\"}}}}}}"
            ),
        );
        let set = lab.loader().approve_project(true).load(&[]);
        assert_eq!(
            lab.servers(&set),
            ["keeps project [c] active", "ok project [c] active"]
        );
        assert_eq!(set.diagnostics.len(), 2);
        assert!(
            set.diagnostics
                .iter()
                .all(|problem| problem.message.len() < 200)
        );
        let entries: Vec<_> = set.active().collect();
        lab.editor().approve(&entries).unwrap();
        assert_eq!(lab.load().active().count(), 2);

        lab.put(GLOBAL, format!("{{\"projects\": {deep}}}"));
        lab.put(
            USER,
            format!("{{\"enabledPlugins\": {deep}, \"allowedMcpServers\": {deep}}}"),
        );
        lab.load();
    }
}

#[test]
fn what_is_no_file_costs_itself() {
    let lab = Lab::new();
    fs::create_dir(lab.at(PROJECT)).unwrap();
    fs::create_dir_all(lab.at(USER)).unwrap();
    lab.put(GLOBAL, commands([("u", "user")]));
    lab.check_with_problems(
        &["u user [user] active"],
        &[
            "home/.claude/settings.json: it is not a regular file",
            "repo/.mcp.json: it is not a regular file",
        ],
    );
}

#[cfg(unix)]
#[test]
fn a_pipe_in_the_repository_is_not_waited_for() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let lab = Lab::new();
    fs::create_dir(lab.at("repo/.claude")).unwrap();
    for file in [PROJECT, SHARED] {
        mknodat(CWD, lab.at(file), FileType::Fifo, Mode::RWXU, 0).unwrap();
    }
    lab.check_with_problems(
        &[],
        &[
            "repo/.claude/settings.json: it is not a regular file",
            "repo/.mcp.json: it is not a regular file",
        ],
    );
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_loops_are_named() {
    use std::os::unix::fs::symlink;
    let lab = Lab::new();
    lab.put("elsewhere.json", commands([("s", "linked")]));
    symlink(lab.at("elsewhere.json"), lab.at(GLOBAL)).unwrap();
    symlink(lab.at(PROJECT), lab.at(PROJECT)).unwrap();
    let set = lab.load();
    assert_eq!(lab.servers(&set), ["s user [linked] active"]);
    assert_eq!(set.diagnostics.len(), 1);
    assert!(lab.problems(&set)[0].starts_with("repo/.mcp.json: the file cannot be read: "));
}

/// `JSON.stringify` writes half a surrogate pair as an escape, and so does Claude Code.
#[test]
fn a_key_that_is_no_text_costs_only_itself() {
    for text in [
        r#"{"\ud800": 1, "mcpServers": {"s": {"command": "c"}}}"#,
        r#"{"projects": {"C:\\\ud800": {}, "<root>/repo": {}}, "mcpServers": {"s": {"command": "c"}}}"#,
        r#"{"mcpServers": {"s": {"command": "c"}, "\ud800": {"command": "c"}}}"#,
    ] {
        let lab = Lab::new();
        lab.put(GLOBAL, text);
        let set = lab.load();
        let named: Vec<_> = set.named("s").map(|server| &server.status).collect();
        assert_eq!(
            named,
            [&trunkline_config::EntryStatus::Active],
            "{text}: {:?}",
            lab.problems(&set)
        );
    }
}
