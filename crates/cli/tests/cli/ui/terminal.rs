//! The terminal itself: sizes, modes, signals, colours, hostile text, and a first run.

use rustix::process::Signal;
use serde_json::json;
use trunkline_testkit::wait_for;

use super::screen::Tui;
use super::{ENTER, ESC, F5, toolbox};
use crate::lab::{Lab, SOON, echo};

#[test]
fn a_first_run_helps_and_shows_a_demo() {
    let lab = Lab::new();
    let mut tui = Tui::run(&lab, &[], (80, 24), |_| ());
    let screen = tui.sees("No MCP servers are configured");
    for part in ["trunkline add", "trunkline import", "demo"] {
        assert!(screen.contains(part), "{part}\n{screen}");
    }
    tui.keys("d");
    tui.sees("✓ calculator");
    tui.keys("/bake\r");
    tui.at("what *", &format!("bread{F5}"));
    tui.sees("The bread is ready.");
    tui.quit("\u{3}").is(0);
}

#[test]
fn a_server_that_is_added_elsewhere_appears() {
    let lab = Lab::new();
    let tui = Tui::run(&lab, &[], (80, 24), |_| ());
    tui.sees("No MCP servers are configured");
    lab.servers(
        "home/.claude.json",
        &json!({"s": lab.scratch.entry("s", &echo())}),
    );
    tui.sees("✓ s");
    tui.quit("q").is(0);
}

#[test]
fn the_screen_follows_the_size_of_the_terminal() {
    let lab = Lab::new();
    lab.configure([("s", toolbox(&lab))]);
    let mut tui = Tui::start(&lab);
    let screen = tui.sees("✓ s");
    assert!(!screen.contains("[Overview]"), "{screen}");
    tui.resize(160, 50);
    tui.sees("[Overview]");
    tui.sees("Use it with care.");
    tui.resize(40, 10);
    tui.sees("trunkline needs 60x14");
    tui.resize(80, 24);
    tui.sees_no("[Overview]");
    tui.sees("✓ s");
    tui.quit("q").is(0);
}

#[test]
fn signals_restore_the_terminal_and_leave_nothing() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let lab = Lab::new();
        lab.configure([("s", toolbox(&lab))]);
        let mut tui = Tui::start(&lab);
        tui.at("✓ s", "M");
        tui.sees("mouse on");
        tui.signal(signal);
        tui.end().is(130);
    }
}

/// The state of a process, from `/proc`.
fn state(tui: &Tui) -> String {
    let pid = tui.pid().as_raw_nonzero();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    rest[..1].to_owned()
}

#[test]
fn suspending_gives_the_terminal_back() {
    let lab = Lab::new();
    lab.configure([("s", toolbox(&lab))]);
    let mut tui = Tui::start(&lab);
    for how in ["key", "signal"] {
        tui.sees("✓ s");
        if how == "key" {
            tui.keys("\u{1a}");
        } else {
            tui.signal(Signal::TSTP);
        }
        wait_for(SOON, "a stopped program", || {
            (state(&tui) == "T").then_some(())
        });
        wait_for(SOON, "the shell's screen", || {
            (!tui.is_open()).then_some(())
        });
        tui.signal(Signal::CONT);
        wait_for(SOON, "the interface", || tui.is_open().then_some(()));
        tui.keys("?");
        tui.sees("Keys of this screen");
        tui.keys(ESC);
        tui.sees_no("Keys of this screen");
    }
    tui.quit("q").is(0);
}

#[test]
fn without_colours_the_selection_is_still_visible() {
    let lab = Lab::new();
    lab.configure([("s", toolbox(&lab))]);
    let plain = |command: &mut std::process::Command| {
        command.env("NO_COLOR", "1").env("LANG", "C");
    };
    let mut tui = Tui::run(&lab, &["--mcp-config", ".mcp-config.json"], (80, 24), plain);
    tui.sees("+ s");
    tui.keys(ENTER);
    let screen = tui.sees("+ connected");
    assert!(screen.is_ascii(), "{screen}");
    tui.keys(ESC);
    tui.sees_no("[Overview]");
    let ended = tui.quit("q");
    ended.is(0);
    assert!(
        ended.bytes.contains("\u{1b}[7m"),
        "the selection is reversed"
    );
    assert!(!ended.bytes.contains("\u{1b}[38;5;"), "no colour");
    // 39 is the default colour.
    for colour in (30..48).filter(|colour| *colour != 39) {
        for code in [format!("\u{1b}[{colour}m"), format!("\u{1b}[{colour};")] {
            assert!(!ended.bytes.contains(&code), "{code:?}");
        }
    }
}

/// SEC-3: nothing that a server says steers the terminal.
#[test]
fn hostile_text_stays_text() {
    const EVIL: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\r\u{202e}\n ✓ trusted  9 tools";
    let lab = Lab::with([(
        "s",
        json!({
            "serverInfo": {"name": EVIL, "version": EVIL},
            "instructions": EVIL,
            "onStart": [{"stderr": EVIL}],
            "tools": [{"name": format!("say{EVIL}"), "description": EVIL, "do": [
                {"progress": {"steps": 2, "message": EVIL}}, {"stderr": EVIL}, {"replyText": EVIL}],
                "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "title": EVIL, "description": EVIL}}}}],
            "resources": [{"uri": format!("x:{EVIL}"), "name": EVIL, "text": EVIL}],
            "prompts": [{"name": EVIL, "description": EVIL}],
        }),
    )]);
    let mut tui = Tui::run(
        &lab,
        &["--mcp-config", ".mcp-config.json"],
        (160, 50),
        |_| (),
    );
    tui.sees("1 tool");
    tui.keys(ENTER);
    tui.at("[Overview]", "2");
    tui.at("[Tools", "3");
    tui.at("[Resources", "4");
    tui.at("[Prompts", "5");
    tui.at("[Log]", "6");
    tui.at("[Protocol]", ENTER);
    tui.keys("2\r");
    tui.sees("▸");
    tui.keys(F5);
    tui.sees("✓ done");
    let ended = tui.quit("\u{3}");
    ended.is(0);
    for bad in ["\u{1b}]0;", "\u{9b}", "\u{202e}", "\u{7}"] {
        assert!(!ended.bytes.contains(bad), "{bad:?}");
    }
}

#[test]
fn the_interface_needs_a_terminal() {
    let lab = Lab::new();
    let run = lab.plainly(&["ui"]);
    run.fails(
        2,
        "the terminal interface needs a terminal",
        "in scripts, use `trunkline list --json`; see `trunkline --help`",
    );
    let alone = lab.plainly(&[]);
    assert_eq!(alone.code, Some(2));
    assert!(alone.err.contains("Usage:"), "{}", alone.err);
}
