//! Every screen at 80×24 and 160×50, as text. `INSTA_UPDATE=always` rewrites the expected screens.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::json;
use trunkline::elicit::Form;
use trunkline::log::LogKind;

use super::{Theme, draw};
use crate::ui::doc::{DocLine, Tone};
use crate::ui::model::stream::LogRow;
use crate::ui::model::{Model, Screen};
use crate::ui::msg::{Ask, CallOutcome, Msg, Progress, Question, RawMessage};
use crate::ui::tests::{HOSTILE, detail, empty, model, press, send};

const THEME: Theme = Theme {
    colour: true,
    unicode: true,
    pictures: None,
};

/// Draws a model, and returns the rows of the screen.
fn screen_with(model: &Model, theme: Theme) -> String {
    let backend = TestBackend::new(model.size.0, model.size.1);
    let mut terminal = Terminal::new(backend).unwrap();
    // What a frame shows may depend on scroll limits that the first frame finds out.
    for _ in 0..2 {
        terminal.draw(|frame| draw(model, theme, frame)).unwrap();
    }
    let buffer = terminal.backend().buffer();
    let width = usize::from(model.size.0);
    let mut text = String::new();
    for row in buffer.content.chunks(width) {
        let mut skip = 0;
        let mut line = String::new();
        for cell in row {
            if skip == 0 {
                line += cell.symbol();
                skip = crate::ui::text::width(cell.symbol()).saturating_sub(1);
            } else {
                skip -= 1;
            }
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Compares a screen at both sizes.
fn check(name: &str, prepare: impl Fn(&mut Model)) {
    for (width, height) in [(80, 24), (160, 50)] {
        let mut model = model(width, height);
        prepare(&mut model);
        let text = screen_with(&model, THEME);
        assert!(
            !text.contains('\u{1b}') && !text.contains('\u{202e}'),
            "{text}"
        );
        insta::assert_snapshot!(format!("{name}-{width}x{height}"), text);
    }
}

fn open_github(model: &mut Model) {
    press(model, "/github⏎");
    send(model, detail("github", "user"));
}

fn question(id: u64, ask: Ask) -> Msg {
    Msg::Question(Box::new(Question {
        id,
        server: "github".to_owned(),
        call: Some("mcp__github__create_issue".to_owned()),
        client: Some("editor".to_owned()),
        ask,
    }))
}

fn form_question(id: u64) -> Msg {
    let schema = json!({"type": "object", "properties": {
        "count": {"type": "integer", "minimum": 1, "maximum": 5, "default": 2, "description": "Reviewers to ask"},
        "urgent": {"type": "boolean", "title": "Urgent?"},
        "team": {"type": "string", "enum": ["a", "b"], "enumNames": ["Team A", "Team B"]},
    }, "required": ["count"]});
    let form = Form::from_schema(&schema.into());
    let message = format!("How many reviewers?\n{HOSTILE}");
    question(id, Ask::Form { message, form })
}

fn message(model: &Model, sent: bool, text: &str) -> RawMessage {
    RawMessage {
        at: model.now + Duration::from_millis(if sent { 0 } else { 410 }),
        time: std::time::SystemTime::UNIX_EPOCH + Duration::from_millis(50_531_120),
        server: "github".into(),
        sent,
        bytes: text.len(),
        text: text.to_owned(),
    }
}

#[test]
fn servers() {
    check("servers", |model| {
        send(model, detail("brave", "local"));
    });
}

#[test]
fn log() {
    check("log", |model| {
        open_github(model);
        press(model, "5");
        let lines = (0..30).map(|at| {
            let (kind, text) = match at % 3 {
                0 => (LogKind::State, "connected: github 1.0, 41 tools".to_owned()),
                1 => (LogKind::Stderr, format!("line {at} {HOSTILE}")),
                _ => (LogKind::Notice, "a long line is wrapped ".repeat(8)),
            };
            LogRow::shown("github", &format!("14:02:{at:02}.120"), kind, &text)
        });
        if let Some(Screen::Detail(detail)) = model.screens.last_mut() {
            detail.log.history = Some(lines.collect());
        }
    });
}

#[test]
fn first_run() {
    for (width, height) in [(80, 24), (160, 50)] {
        let mut model = empty(width, height);
        let nothing = crate::ui::data::Snapshot::default();
        send(&mut model, Msg::Snapshot(Box::new(nothing)));
        let text = screen_with(&model, THEME);
        insta::assert_snapshot!(format!("first-run-{width}x{height}"), text);
    }
}

#[test]
fn overview() {
    check("overview", |model| {
        press(model, "⏎");
        send(model, detail("brave", "local"));
    });
}

#[test]
fn tools() {
    check("tools", |model| {
        open_github(model);
        press(model, "2");
    });
}

#[test]
fn resources() {
    check("resources", |model| {
        open_github(model);
        press(model, "3");
    });
}

#[test]
fn prompts() {
    check("prompts", |model| {
        open_github(model);
        press(model, "4");
    });
}

#[test]
fn protocol() {
    check("protocol", |model| {
        open_github(model);
        press(model, "6");
        let messages = vec![
            message(
                model,
                true,
                r#"{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"create_issue","arguments":{"token":"***"}}}"#,
            ),
            message(
                model,
                false,
                r#"{"jsonrpc":"2.0","id":17,"result":{"content":[{"type":"text","text":"\u001b[2J"}]}}"#,
            ),
            message(
                model,
                false,
                r#"{"jsonrpc":"2.0","method":"notifications/message"}"#,
            ),
        ];
        send(model, Msg::Messages(messages, 0));
        press(model, "↑⏎");
    });
}

#[test]
fn call_form() {
    check("form", |model| {
        open_github(model);
        press(model, "2⏎acme/shop⇥⇥⇥→⇥ ⇥y↑↑↑↑");
        press(model, "⑤");
    });
}

#[test]
fn raw_form() {
    check("raw-form", |model| {
        open_github(model);
        press(model, "2⏎acme/shop⌃j");
    });
}

#[test]
fn running_call() {
    check("running", |model| {
        open_github(model);
        press(model, "2↓⏎x⑤");
        let id = model.calls.0[0].id;
        let progress = Progress {
            done: 2.0,
            total: Some(4.0),
            message: "baking".to_owned(),
        };
        send(model, Msg::Progress(id, progress));
    });
}

fn finish(model: &mut Model, is_error: bool) {
    let id = model.calls.0.back().unwrap().id;
    let mut lines: Vec<DocLine> =
        DocLine::foreign(&format!("{{\n  \"number\": 7\n}}\n{HOSTILE}")).collect();
    lines.push(DocLine::field("saved", "/tmp/x.png (image/png, 12kB)").tone(Tone::Hint));
    model.now += Duration::from_millis(1240);
    let outcome = CallOutcome {
        is_error,
        cancelled: false,
        lines,
    };
    send(model, Msg::CallDone(id, outcome));
}

#[test]
fn result() {
    check("result", |model| {
        open_github(model);
        press(model, "2↓⏎x⑤");
        finish(model, false);
    });
}

#[test]
fn history() {
    check("history", |model| {
        open_github(model);
        press(model, "2↓⏎x⑤");
        finish(model, false);
        press(model, "r");
        finish(model, true);
        press(model, "H");
    });
}

#[test]
fn find() {
    check("find", |model| {
        press(model, "/issue");
    });
}

#[test]
fn palette() {
    check("palette", |model| {
        press(model, ":");
    });
}

#[test]
fn help() {
    check("help", |model| {
        press(model, "?");
    });
}

#[test]
fn approval_of_a_changed_server() {
    check("approval", |model| {
        press(model, "↓↓a");
    });
}

#[test]
fn elicitation() {
    check("elicitation", |model| {
        send(model, form_question(1));
        send(model, form_question(2));
        model.now += Duration::from_secs(3);
    });
}

#[test]
fn elicitation_that_waits() {
    check("elicitation-waits", |model| {
        send(model, form_question(1));
    });
}

#[test]
fn elicitation_of_a_page() {
    check("page", |model| {
        let url = "https://accounts.example:8443/grant?state=1".to_owned();
        let message = "Please grant access".to_owned();
        send(
            model,
            question(
                1,
                Ask::Url {
                    message,
                    url,
                    repeats_call: true,
                },
            ),
        );
        model.now += Duration::from_secs(3);
    });
}

#[test]
fn permission() {
    check("permission", |model| {
        let reason = vec![
            DocLine::own("The rule mcp__github__* asks before each call.").tone(Tone::Warn),
            DocLine::own(""),
            DocLine::heading("Arguments"),
        ];
        let always = Some("mcp__github__delete_repo".to_owned());
        send(model, question(1, Ask::Permission { reason, always }));
        model.now += Duration::from_secs(3);
    });
}

#[test]
fn sign_in_with_a_code() {
    check("sign-in-code", |model| {
        press(model, "/linear⏎l");
        let task = match &model.dialog.as_ref().unwrap().kind {
            crate::ui::model::dialog::Kind::Login { task, .. } => *task,
            _ => panic!("no sign-in"),
        };
        let page = "https://linear.example/device".to_owned();
        send(model, Msg::LoginCode(task, "WDJB-MJHT".to_owned(), page));
    });
}

#[test]
fn sign_in() {
    check("sign-in", |model| {
        press(model, "/linear⏎l");
        let task = match &model.dialog.as_ref().unwrap().kind {
            crate::ui::model::dialog::Kind::Login { task, .. } => *task,
            _ => panic!("no sign-in"),
        };
        let url = "https://linear.example/authorize?client_id=1&state=2".to_owned();
        send(model, Msg::LoginUrl(task, url));
    });
}

#[test]
fn sign_out() {
    check("sign-out", |model| {
        press(model, "/linear⏎o");
    });
}

#[test]
fn plain_terminal() {
    let mut model = model(80, 24);
    send(&mut model, detail("brave", "local"));
    let theme = Theme {
        colour: false,
        unicode: false,
        pictures: None,
    };
    let text = screen_with(&model, theme);
    assert!(text.is_ascii(), "{text}");
    insta::assert_snapshot!("plain-80x24", text);
}

#[test]
fn a_small_terminal_is_told_so() {
    for (width, height) in [(59, 24), (80, 13), (20, 2), (1, 1)] {
        let model = model(width, height);
        let text = screen_with(&model, THEME);
        assert!(
            text.starts_with("trunkline needs 60x14"[..usize::from(width).min(21)].trim_end()),
            "{text}"
        );
    }
}

#[test]
fn every_screen_can_be_drawn_at_every_size() {
    let keys = [
        "",
        "⏎",
        "/github⏎2",
        "/github⏎2⏎",
        "/github⏎2⏎⌃j",
        "/github⏎2⏎a⇥b⑤",
        "/github⏎3",
        "/github⏎4",
        "/github⏎5",
        "/github⏎6",
        "/iss",
        ":",
        "?",
        "↓↓a",
        "H",
        "/linear⏎l",
    ];
    for keys in keys {
        let mut model = model(80, 24);
        press(&mut model, keys);
        send(&mut model, form_question(1));
        for asked in [true, false] {
            for (width, height) in [
                (60, 14),
                (61, 15),
                (79, 20),
                (109, 30),
                (110, 14),
                (200, 60),
                (400, 100),
            ] {
                send(&mut model, Msg::Resize(width, height));
                screen_with(&model, THEME);
            }
            if asked {
                send(&mut model, Msg::Withdrawn(1));
            }
        }
    }
}

#[test]
fn only_visible_rows_of_a_long_list_are_formatted() {
    let mut model = model(80, 24);
    let tool = |at: usize| json!({"name": format!("tool_{at}"), "description": "x".repeat(500), "inputSchema": {"type": "object"}});
    let tools: Vec<_> = (0..5000).map(tool).collect();
    let pool = trunkline::tool::Pool::from_lists([("github", json!({"tools": tools}).into())]);
    let mut snapshot = crate::ui::tests::snapshot(model.now);
    for server in &mut snapshot.servers {
        if server.name() == "github" {
            server.offers = std::sync::Arc::new(crate::ui::data::Offers {
                tools: pool.tools().to_vec(),
                ..Default::default()
            });
        }
    }
    send(&mut model, Msg::Snapshot(Box::new(snapshot)));
    open_github(&mut model);
    press(&mut model, "2G");
    let started = std::time::Instant::now();
    for _ in 0..20 {
        screen_with(&model, THEME);
    }
    // 40 frames; formatting 5,000 rows each time would take many times as long.
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "{:?}",
        started.elapsed()
    );
    assert!(screen_with(&model, THEME).contains("5000 of 5000"));
}

#[test]
fn the_mouse_chooses_rows_and_tabs() {
    use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

    let mut model = model(80, 24);
    let click = |model: &mut Model, part: &str| {
        let screen = screen_with(model, THEME);
        let mut rows = screen.lines().enumerate();
        let (row, line) = rows.find(|(_, line)| line.contains(part)).unwrap();
        let column = crate::ui::text::width(&line[..line.find(part).unwrap()]) + 1;
        let event = MouseEvent {
            kind: MouseEventKind::Down(MouseButton::Left),
            column: u16::try_from(column).unwrap(),
            row: u16::try_from(row).unwrap(),
            modifiers: KeyModifiers::NONE,
        };
        send(model, Msg::Mouse(event));
    };
    click(&mut model, "✓ github");
    assert!(screen_with(&model, THEME).contains("▸✓ github"));
    click(&mut model, "▸✓ github");
    click(&mut model, "Tools 4");
    click(&mut model, "delete_repo");
    assert!(screen_with(&model, THEME).contains("▸! delete_repo"));
    click(&mut model, "delete_repo");
    assert!(screen_with(&model, THEME).contains("github/delete_repo"));
}

#[test]
fn secrets_are_masked() {
    let mut model = model(80, 24);
    let schema = json!({"properties": {
        "key": {"type": "string", "format": "password"},
    }});
    let form = Form::from_schema(&schema.into());
    let message = "Key?".to_owned();
    send(&mut model, question(1, Ask::Form { message, form }));
    press(&mut model, "hunter2");
    let text = screen_with(&model, THEME);
    assert!(
        text.contains("•••••••") && !text.contains("hunter2"),
        "{text}"
    );
}
