//! Servers, their actions, and calls.

use serde_json::json;
use trunkline_testkit::net::{OAuthServer, follow_redirect};
use trunkline_testkit::wait_for;

use super::screen::Tui;
use super::{ENTER, ESC, F5, toolbox};
use crate::images::red;
use crate::lab::{Lab, SOON, echo, parsed};
use crate::sign_in::protected;

#[test]
fn servers_are_listed_with_their_state_and_opened() {
    let lab = Lab::with_entries(|lab| {
        json!({
            "works": lab.scratch.entry("works", &toolbox(lab)),
            "missing": {"command": "/no/such/program"},
            "broken": {"command": 5},
        })
    });
    let mut tui = Tui::start(&lab);
    tui.sees("✓ works");
    let screen = tui.sees("✗ missing");
    assert!(
        screen.contains("✗ broken") && screen.contains("DYNAMIC"),
        "{screen}"
    );
    assert!(screen.contains("✓1 ✗2"), "{screen}");
    tui.keys("/works\r");
    let screen = tui.sees("Use it with care.");
    for part in [
        "servers/works",
        "✓ connected",
        "[Overview]",
        "Tools 3",
        ".mcp-config.json",
        "testkit",
    ] {
        assert!(screen.contains(part), "{part}\n{screen}");
    }
    tui.keys("\t");
    tui.sees("Echoes its arguments");
    tui.keys("3");
    tui.sees("note://one");
    tui.keys("5");
    tui.at("[Log]", ESC);
    tui.sees_no("[Log]");
    tui.quit("q").is(0);
}

#[test]
fn a_tool_is_called_from_a_form_and_again_from_the_history() {
    let lab = Lab::new();
    lab.configure([("s", toolbox(&lab))]);
    let mut tui = Tui::start(&lab);
    tui.at("3 tools", "/echo\r");
    tui.at("word *", F5);
    tui.sees("is required");
    tui.keys("héllo 宽\t3");
    let screen = tui.sees("word='héllo 宽' times:=3");
    assert!(screen.contains("call s echo"), "{screen}");
    tui.keys(F5);
    let screen = tui.sees("✓ done");
    assert!(
        screen.contains("\"word\": \"héllo 宽\"") && screen.contains("\"times\": 3"),
        "{screen}"
    );
    tui.keys("r");
    tui.sees("✓ done");
    tui.keys(ESC);
    tui.at("word *", ESC);
    tui.at("[Tools", "H");
    let screen = tui.until("two calls", |text| text.matches("s/echo").count() == 2);
    assert_eq!(screen.matches("✓ done").count(), 2, "{screen}");
    tui.keys("y");
    tui.sees("copied:");
    wait_for(SOON, "OSC 52", || {
        tui.bytes().contains("\u{1b}]52;c;").then_some(())
    });
    tui.quit("\u{3}").is(0);
}

#[test]
fn an_image_of_a_result_is_drawn_in_cells() {
    let image = red(image::ImageFormat::Png);
    let lab = Lab::new();
    let tools = json!([{"name": "draw", "do": [{"reply": {"content": [image]}}]}]);
    lab.configure([("s", json!({"tools": tools}))]);
    let colours = [("COLORTERM", "truecolor"), ("NO_COLOR", "")];
    for (colours, red, rows) in [
        (&colours[..], "38;2;255;0;0", 3),
        (&colours[1..], "38;5;196", 3),
        // Without colours there is nothing to see.
        (&[], "", 0),
    ] {
        let arguments = ["--mcp-config", ".mcp-config.json"];
        let mut tui = Tui::run(&lab, &arguments, (80, 24), |command| {
            command.envs(colours.iter().copied());
        });
        tui.at("1 tool", "/draw\r");
        tui.at("no arguments", F5);
        let screen = tui.sees("[image image/png");
        assert_eq!(screen.matches("▀▀▀▀\n").count(), rows, "{screen}");
        assert!(tui.bytes().contains(red), "{screen}");
        tui.quit("\u{3}").is(0);
    }
}

#[test]
fn a_call_shows_its_progress_and_can_be_cancelled() {
    let lab = Lab::new();
    lab.configure([("s", toolbox(&lab))]);
    let mut tui = Tui::start(&lab);
    tui.at("3 tools", "/slow\r");
    tui.at("no arguments", F5);
    let screen = tui.sees("100%");
    assert!(
        screen.contains("kneading") && screen.contains("◌ running"),
        "{screen}"
    );
    tui.keys("c");
    tui.sees("○ cancelled");
    tui.keys("r");
    tui.sees("◌ running");
    lab.scratch.write("go", "");
    tui.sees("✓ done");
    tui.quit("\u{3}").is(0);
}

#[test]
fn a_server_that_crashes_while_it_is_looked_at_comes_back() {
    let lab = Lab::new();
    lab.configure([("s", toolbox(&lab))]);
    let mut tui = Tui::start(&lab);
    tui.at("3 tools", "/crash\r");
    tui.at("no arguments", F5);
    tui.sees("✗ failed");
    // One Escape to the form, one to the list of tools.
    tui.keys(ESC);
    tui.at("no arguments", ESC);
    tui.at("[Tools", "1");
    tui.sees("retry 1/5 in");
    tui.sees("✓ connected");
    tui.keys("5");
    tui.sees("out of flour");
    tui.quit("\u{3}").is(0);
}

#[test]
fn a_resource_is_read_and_a_prompt_is_got() {
    let lab = Lab::new();
    lab.configure([("s", toolbox(&lab))]);
    let mut tui = Tui::start(&lab);
    tui.at("3 tools", "/note one\r");
    tui.sees("the first note");
    tui.keys(ESC);
    tui.at("[Resources", "/greet\r");
    tui.at("who *", &format!("Ada{F5}"));
    let screen = tui.sees("✓ done");
    assert!(
        screen.contains("Ada") && screen.contains("user"),
        "{screen}"
    );
    assert!(screen.contains("prompt s greet who=Ada"), "{screen}");
    tui.quit("\u{3}").is(0);
}

#[test]
fn failed_servers_are_reconnected_together() {
    let lab = Lab::new();
    let late = |name: &str| {
        let entry = lab.scratch.entry(name, &echo());
        let (command, ready) = (entry["command"].as_str().unwrap(), lab.at("ready"));
        let script = format!("test -e {} && exec {command} \"$@\"", ready.display());
        let arguments = entry["args"].as_array().unwrap();
        let mut words = vec![json!("-c"), json!(script), json!("sh")];
        words.extend(arguments.iter().cloned());
        json!({"command": "/bin/sh", "args": words, "env": entry["env"]})
    };
    let entries = json!({"mcpServers": {"one": late("one"), "two": late("two")}});
    lab.write_json(".mcp-config.json", &entries);
    let mut tui = Tui::start(&lab);
    tui.sees("✗2");
    tui.keys(ENTER);
    tui.at("cause", ESC);
    tui.sees_no("[Overview]");
    lab.scratch.write("ready", "");
    tui.keys("R");
    tui.sees("✓2");
    tui.keys("r");
    tui.sees("reconnecting one");
    tui.sees("✓2");
    tui.quit("q").is(0);
}

/// CFG-10: the choice is stored as the command line stores it.
#[test]
fn a_server_is_switched_off_and_on_for_the_project() {
    let lab = Lab::new();
    lab.servers(
        "home/.claude.json",
        &json!({"s": lab.scratch.entry("s", &echo())}),
    );
    let mut tui = Tui::run(&lab, &[], (80, 24), |_| ());
    tui.at("✓ s", " ");
    tui.sees("○ s");
    tui.sees("trunkline disable s");
    assert_eq!(lab.of_project()["disabledMcpServers"], json!(["s"]));
    tui.keys(" ");
    tui.sees("✓ s");
    tui.quit("q").is(0);
    assert_eq!(lab.state("s"), "connected");
}

/// CFG-6: the dialog shows what will run; Enter alone approves nothing.
#[test]
fn a_project_server_is_reviewed_before_it_runs() {
    let lab = Lab::new();
    lab.servers(
        ".mcp.json",
        &json!({"p": lab.marking("p"), "x": lab.marking("x")}),
    );
    let mut tui = Tui::run(&lab, &[], (80, 24), |_| ());
    tui.at("! p", "a");
    tui.sees("Approve a server of the project: p");
    tui.sees("testkit-server");
    tui.keys(ENTER);
    tui.sees_no("Approve a server");
    tui.keys("a");
    tui.at("Entry", "\u{1b}[F\t\r");
    tui.sees("✓ p");
    lab.file("p.started");
    tui.keys("ja");
    tui.at("of the project: x", "\u{1b}[F\t\t\r");
    tui.sees("○ x");
    assert!(!lab.started("x"));
    tui.quit("q").is(0);
    assert_eq!(lab.of_project()["disabledMcpjsonServers"], json!(["x"]));
    assert_eq!(lab.state("p"), "connected");

    // A changed entry waits again, and the change is shown.
    let mut changed = lab.marking("p");
    changed["args"]
        .as_array_mut()
        .unwrap()
        .push(json!("--evil"));
    lab.servers(".mcp.json", &json!({"p": changed}));
    let mut tui = Tui::run(&lab, &[], (160, 50), |_| ());
    tui.at("changed since approval", "a");
    let screen = tui.sees("Changed since you approved it");
    assert!(
        screen.contains("+ args") && screen.contains("--evil"),
        "{screen}"
    );
    tui.keys(ESC);
    tui.sees_no("Changed since you approved it");
    tui.quit("q").is(0);
    assert_eq!(lab.state("p"), "pending-approval");
}

/// Returns the URL that the test's browser was given.
fn visited(lab: &Lab) -> String {
    lab.file("visited");
    wait_for(SOON, "the URL", || {
        let url = lab.scratch.read("visited");
        url.ends_with('\n').then(|| url.trim().to_owned())
    })
}

/// A browser that only writes down what it should open.
pub(super) fn browser(lab: &Lab) -> String {
    let path = lab.scratch.write(
        "browser.sh",
        format!("#!/bin/sh\necho \"$1\" > {}\n", lab.at("visited").display()),
    );
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// AUTH-2, AUTH-10: the browser opens only after a confirmation.
#[test]
fn the_user_signs_in_and_out() {
    let (lab, issuer): (Lab, OAuthServer) = protected();
    let browser = browser(&lab);
    let mut tui = Tui::run(
        &lab,
        &["--mcp-config", ".mcp-config.json"],
        (80, 24),
        |command| {
            command.env("BROWSER", &browser);
        },
    );
    tui.at("! s", "l");
    let screen = tui.sees("/authorize?");
    assert!(
        screen.contains("Sign in to s") && screen.contains("127.0.0.1"),
        "{screen}"
    );
    assert!(!lab.at("visited").exists(), "nothing opens unasked");
    tui.keys("\t\r");
    let page = follow_redirect(&issuer.authorize(&visited(&lab)));
    assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
    tui.sees("✓ s");
    tui.at("signed in to s", "o");
    tui.at("Sign out of s?", "\t\r");
    tui.sees("! s");
    assert!(issuer.count("/revoke") > 0);
    tui.quit("q").is(0);
}

#[test]
fn the_protocol_is_shown_live_without_secrets() {
    let lab = Lab::with_entries(|lab| {
        let mut entry = lab.scratch.entry("s", &echo());
        entry["env"]["API_TOKEN"] = json!("s3cr3t-t0ken-value");
        json!({"s": entry})
    });
    let mut tui = Tui::run(
        &lab,
        &["--mcp-config", ".mcp-config.json"],
        (160, 50),
        |_| (),
    );
    tui.at("1 tool", "/echo\r");
    tui.at(" s ", "\t\t");
    tui.keys(&format!("s3cr3t-t0ken-value{F5}"));
    tui.at("✓ done", ESC);
    tui.at("ctrl-j", ESC);
    tui.at("[Tools", "6");
    tui.sees("tools/call");
    tui.keys("/tools/call\rk");
    tui.keys(ENTER);
    let screen = tui.sees("\"arguments\": {");
    assert!(!screen.contains("s3cr3t-t0ken-value"), "{screen}");
    assert!(screen.contains("***"), "{screen}");
    tui.keys("f");
    tui.sees("frozen");
    tui.keys("w");
    tui.sees("saved to");
    let saved = lab.scratch.read("trunkline-messages-1.jsonl");
    let first = parsed(saved.lines().next().unwrap());
    assert_eq!(first["message"]["method"], "tools/call");
    assert!(!saved.contains("s3cr3t-t0ken-value"));
    tui.quit("\u{3}").is(0);
}

#[test]
fn many_servers_and_many_tools_are_usable() {
    let lab = Lab::with_entries(|lab| {
        let mut entries = serde_json::Map::new();
        for number in 0..98 {
            let entry = json!({"command": "/no/such/program", "args": [number.to_string()]});
            entries.insert(format!("server-{number:02}"), entry);
        }
        let big = json!({"generateTools": 5000});
        entries.insert("zbig".to_owned(), lab.scratch.entry("zbig", &big));
        json!(entries)
    });
    let mut tui = Tui::start(&lab);
    tui.sees("✗98");
    tui.keys("G");
    tui.sees("5000 tools");
    tui.keys(ENTER);
    tui.at("[Overview]", "2G");
    tui.sees("5000 of 5000");
    tui.keys("/gen_4321\r");
    tui.sees("zbig/gen_4321");
    tui.quit("\u{3}").is(0);
}
