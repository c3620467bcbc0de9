//! Update tables: messages in, effects out.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent};
use serde_json::json;
use trunkline::elicit::{ElicitAnswer, Form};
use trunkline::permission::PermissionAnswer;

use super::dialog::Kind;
use super::*;
use crate::ui::msg::{Answer, Ask, CallOutcome, Effect, Msg, Question};
use crate::ui::tests::{empty, model, press, send};

/// Describes effects in a few words.
fn shown(effects: &[Effect]) -> Vec<String> {
    effects.iter().map(describe).collect()
}

fn describe(effect: &Effect) -> String {
    match effect {
        Effect::Reconnect(_, servers) => format!("reconnect {}", servers.join(" ")),
        Effect::SetEnabled(_, entry, on) => format!("set {} {on}", entry.name),
        Effect::Approve(_, entry) => format!("approve {}", entry.name),
        Effect::Reject(_, entry) => format!("reject {}", entry.name),
        Effect::Login(_, server) => format!("login {server}"),
        Effect::FinishLogin(_, url) => format!("finish {url}"),
        Effect::CancelLogin(_) => "cancel login".to_owned(),
        Effect::Logout(_, server) => format!("logout {server}"),
        Effect::OpenUrl(_, url) => format!("open {url}"),
        Effect::Call(_, request) => {
            let arguments = serde_json::Value::Object(request.arguments.clone());
            format!("{:?} on {} {arguments}", request.subject, request.server)
        }
        Effect::CancelCall(_) => "cancel".to_owned(),
        Effect::Answer(id, answer) => format!("answer {id} {answer:?}"),
        Effect::ReadLog(server) => format!("log {server}"),
        Effect::ReadScripts(server) => format!("scripts of {}", server.entry.name),
        Effect::Copy { text, .. } => format!("copy {text}"),
        other => format!("{other:?}"),
    }
}

fn question(id: u64) -> Msg {
    let schema = json!({"properties": {"n": {"type": "integer"}}, "required": ["n"]});
    Msg::Question(Box::new(Question {
        id,
        server: "github".to_owned(),
        call: None,
        client: None,
        ask: Ask::Form {
            message: "How many?".to_owned(),
            form: Form::from_schema(&schema.into()),
        },
    }))
}

#[test]
fn keys_have_effects() {
    for (keys, expected) in [
        ("r", vec!["reconnect brave"]),
        (
            "R",
            vec!["reconnect brave evil\u{1b}[2J\nerror: \u{202e}宽e\u{301}"],
        ),
        (" ", vec![]),
        ("l", vec![]),
        ("q", vec!["Quit"]),
        ("⏎q", vec![]),
        ("⌃z", vec!["Suspend"]),
        ("⌃c", vec!["Quit"]),
        ("y", vec!["copy trunkline doctor brave"]),
        ("/linear⏎l", vec!["login linear"]),
        ("/linear⏎l⎋", vec!["login linear", "cancel login"]),
        // The default answer leaves everything as it is.
        ("/linear⏎o⏎", vec![]),
        ("/linear⏎o⇥⏎", vec!["logout linear"]),
        ("/linear⏎oo⇥⏎", vec!["logout linear"]),
        ("/off⏎ ", vec!["set tickets true"]),
        ("/tickets⏎a⏎", vec!["scripts of tickets"]),
        ("/tickets⏎aa", vec!["scripts of tickets"]),
        ("/greet⏎", vec!["Prompt(\"greet\") on github {}"]),
        (
            "/README⏎",
            vec!["Resource(\"repo://acme/shop/README.md\") on github {}"],
        ),
        (
            "/review⏎7⑤",
            vec!["Prompt(\"review\") on github {\"number\":\"7\"}"],
        ),
        (
            "/name path⏎shop⇥a⑤",
            vec![
                "Template(\"repo://acme/{name}/{path}\") on github {\"name\":\"shop\",\"path\":\"a\"}",
            ],
        ),
        ("/create⏎⑤", vec![]),
        (
            "/create⏎a/b⇥t⑤",
            vec!["Tool(\"create_issue\") on github {\"repo\":\"a/b\",\"title\":\"t\",\"count\":2}"],
        ),
        (
            "/delete⏎x⑤⌃c",
            vec!["Tool(\"delete_repo\") on github {\"repo\":\"x\"}", "cancel"],
        ),
        (
            "/delete⏎x⑤c",
            vec!["Tool(\"delete_repo\") on github {\"repo\":\"x\"}", "cancel"],
        ),
        (
            "/delete⏎x⌃y",
            vec!["copy trunkline call github delete_repo repo=x"],
        ),
        ("/github⏎5", vec!["log github"]),
        (":quit⏎", vec!["Quit"]),
        ("M", vec!["Mouse(true)"]),
    ] {
        let mut model = model(80, 24);
        assert_eq!(shown(&press(&mut model, keys)), expected, "{keys}");
    }
}

#[test]
fn escape_goes_back_one_level() {
    let mut model = model(80, 24);
    press(&mut model, "/create⏎");
    assert_eq!(model.context(), Context::Form);
    for expected in [Context::Items, Context::Servers, Context::Servers] {
        press(&mut model, "⎋");
        assert_eq!(model.context(), expected);
    }
    press(&mut model, "?⎋:⎋/⎋");
    assert_eq!(model.context(), Context::Servers);
}

#[test]
fn approval_needs_the_end_and_another_key() {
    let mut model = model(80, 24);
    press(&mut model, "/tickets⏎a");
    // Nothing has been drawn, so nothing has been read.
    assert_eq!(shown(&press(&mut model, "⇥⏎")), Vec::<String>::new());
    let dialog = model.dialog.as_ref().unwrap();
    dialog.doc.window(1, 10);
    assert_eq!(shown(&press(&mut model, "⏎")), ["approve tickets"]);
    assert!(model.dialog.is_none());
    press(&mut model, "a⇥⇥");
    assert_eq!(shown(&press(&mut model, "⏎")), ["reject tickets"]);
}

#[test]
fn typing_does_not_answer_a_question() {
    let mut model = model(80, 24);
    press(&mut model, "/iss");
    send(&mut model, question(1));
    // The user goes on typing.
    for _ in 0..20 {
        model.now += Duration::from_millis(200);
        let effects = send(&mut model, Msg::Key(KeyEvent::from(KeyCode::Enter)));
        assert!(effects.is_empty(), "{effects:?}");
    }
    let armed = model.front().unwrap().armed_at.unwrap();
    assert_eq!(
        model.next_tick(model.now),
        Some(armed),
        "a frame shows when keys count"
    );
    let effects = press(&mut model, "4⏎→→⏎");
    let [Effect::Answer(1, Answer::Elicit(ElicitAnswer::Accept(values)))] = &effects[..] else {
        panic!("{effects:?}");
    };
    assert_eq!(values["n"], 4);
    assert_eq!(
        model.context(),
        Context::Find,
        "what was typed before stays"
    );
}

#[test]
fn questions_queue_up_and_are_withdrawn() {
    let mut model = model(80, 24);
    for id in 1..=3 {
        send(&mut model, question(id));
    }
    send(&mut model, Msg::Withdrawn(1));
    assert_eq!(model.front().unwrap().question_id(), Some(2));
    let effects = press(&mut model, "⎋");
    assert!(
        matches!(
            &effects[..],
            [Effect::Answer(2, Answer::Elicit(ElicitAnswer::Cancel))]
        ),
        "{effects:?}"
    );
    // The next one waits again: the second Escape was meant for the first.
    assert!(send(&mut model, Msg::Key(KeyEvent::from(KeyCode::Esc))).is_empty());
    model.now += Duration::from_secs(2);
    press(&mut model, "②");
    assert_eq!(
        (model.context(), model.questions.len()),
        (Context::Servers, 1)
    );
    press(&mut model, "!");
    assert_eq!(model.context(), Context::Dialog);
    send(&mut model, Msg::Withdrawn(3));
    assert_eq!(model.context(), Context::Servers);
}

/// Asks for a visit to a page.
fn ask_for_page(model: &mut Model, repeats_call: bool) {
    let ask = Ask::Url {
        message: "Go".to_owned(),
        url: "https://x.example/grant".to_owned(),
        repeats_call,
    };
    let question = Question {
        id: 6,
        server: "s".to_owned(),
        call: None,
        client: None,
        ask,
    };
    send(model, Msg::Question(Box::new(question)));
}

#[test]
fn a_page_is_answered_when_it_opens_if_the_server_waits_itself() {
    let mut model = model(80, 24);
    ask_for_page(&mut model, false);
    let open = |model: &mut Model, keys: &str| {
        let effects = press(model, keys);
        let [Effect::OpenUrl(task, _)] = &effects[..] else {
            panic!("{effects:?}");
        };
        *task
    };
    let task = open(&mut model, "⇥⇥⏎");
    assert!(press(&mut model, "⏎").is_empty(), "it opens once");
    // A page that did not open is not accepted.
    let failed = Msg::ActionDone(task, Err("no browser".to_owned()));
    assert!(send(&mut model, failed).is_empty());
    assert_eq!(model.context(), Context::Dialog);
    let task = open(&mut model, "⏎");
    let effects = send(&mut model, Msg::ActionDone(task, Ok("opened".to_owned())));
    assert!(
        matches!(
            &effects[..],
            [Effect::Answer(6, Answer::Elicit(ElicitAnswer::Accept(_)))]
        ),
        "{effects:?}"
    );
    assert_eq!(model.context(), Context::Servers);
}

#[test]
fn a_page_can_be_visited_elsewhere() {
    let mut model = model(80, 24);
    ask_for_page(&mut model, false);
    let copied = "copy https://x.example/grant";
    assert_eq!(shown(&press(&mut model, "⇥⇥⇥⏎")), [copied]);
    let effects = press(&mut model, "⇥⇥⏎");
    assert!(
        matches!(&effects[..], [Effect::Answer(6, _)]),
        "{effects:?}"
    );
}

#[test]
fn names_that_no_command_can_hold_are_not_copied() {
    let mut model = model(80, 24);
    assert_eq!(
        shown(&press(&mut model, "/evil⏎y")),
        Vec::<String>::new(),
        "control characters"
    );
    assert_eq!(
        model.notice.as_ref().unwrap().text,
        "no command can name this"
    );
}

#[test]
fn a_page_is_answered_when_the_visit_is_over() {
    let mut model = model(80, 24);
    ask_for_page(&mut model, true);
    let effects = press(&mut model, "⇥⇥⏎");
    assert_eq!(shown(&effects), ["open https://x.example/grant"]);
    let [Effect::OpenUrl(task, _)] = &effects[..] else {
        panic!("{effects:?}");
    };
    send(&mut model, Msg::ActionDone(*task, Ok("opened".to_owned())));
    assert_eq!(model.context(), Context::Dialog);
    let effects = press(&mut model, "⇥⇥⏎");
    assert!(
        matches!(
            &effects[..],
            [Effect::Answer(6, Answer::Elicit(ElicitAnswer::Accept(_)))]
        ),
        "{effects:?}"
    );
}

#[test]
fn a_permission_is_denied_by_default() {
    let mut model = model(80, 24);
    let ask = || {
        let ask = Ask::Permission {
            reason: Vec::new(),
            always: None,
        };
        Msg::Question(Box::new(Question {
            id: 5,
            server: "s".to_owned(),
            call: None,
            client: None,
            ask,
        }))
    };
    for (keys, expected) in [("⏎", "No"), ("⎋", "No"), ("⇥⏎", "Once")] {
        send(&mut model, ask());
        model.front().unwrap().doc.window(0, 1);
        let effects = press(&mut model, keys);
        let [Effect::Answer(5, Answer::Permission(answer))] = &effects[..] else {
            panic!("{effects:?}");
        };
        let answer = match answer {
            PermissionAnswer::No(_) => "No",
            PermissionAnswer::Once => "Once",
            _ => "other",
        };
        assert_eq!(answer, expected);
    }
}

#[test]
fn late_results_are_dropped() {
    let mut model = model(80, 24);
    press(&mut model, "/linear⏎l");
    let Some(Kind::Login { task, .. }) = model.dialog.as_ref().map(|dialog| &dialog.kind) else {
        panic!("no dialog");
    };
    let task = *task;
    press(&mut model, "⎋");
    let effects = send(
        &mut model,
        Msg::LoginUrl(task, "https://x.example".to_owned()),
    );
    assert_eq!(shown(&effects), ["cancel login"]);
    send(&mut model, Msg::LoginDone(task, Ok("signed in".to_owned())));
    assert!(model.notice.is_none());

    press(&mut model, "⎋/delete⏎x⑤");
    let id = model.calls.0[0].id;
    let outcome = |text: &str| CallOutcome {
        is_error: false,
        cancelled: false,
        lines: vec![crate::ui::doc::DocLine::own(text)],
    };
    send(&mut model, Msg::CallDone(id, outcome("first")));
    send(&mut model, Msg::CallDone(id, outcome("second")));
    send(&mut model, Msg::CallDone(id + 7, outcome("third")));
    assert_eq!(model.calls.get(id).unwrap().result.lines()[0].text, "first");
    send(&mut model, Msg::ActionDone(100, Ok("later".to_owned())));
    send(&mut model, Msg::ActionDone(99, Ok("earlier".to_owned())));
    assert_eq!(model.notice.as_ref().unwrap().text, "later");
}

#[test]
fn a_call_can_be_repeated_and_edited() {
    let mut model = model(80, 24);
    press(&mut model, "/delete⏎x⑤");
    let id = model.calls.0[0].id;
    let outcome = CallOutcome {
        is_error: true,
        cancelled: false,
        lines: Vec::new(),
    };
    send(&mut model, Msg::CallDone(id, outcome));
    assert_eq!(model.context(), Context::Result);
    let again = "Tool(\"delete_repo\") on github {\"repo\":\"x\"}";
    assert_eq!(shown(&press(&mut model, "r")), [again]);
    press(&mut model, "⎋⎋H");
    assert_eq!(model.context(), Context::History);
    press(&mut model, "↓e");
    assert_eq!(model.context(), Context::Form);
    let changed = "Tool(\"delete_repo\") on github {\"repo\":\"xy\"}";
    assert_eq!(shown(&press(&mut model, "y⑤")), [changed]);
}

#[test]
fn the_selection_stays_on_its_server() {
    let mut model = model(80, 24);
    press(&mut model, "↓↓↓");
    let selected = model.selected.clone();
    let mut snapshot = crate::ui::tests::snapshot(model.now);
    snapshot.servers.remove(0);
    send(&mut model, Msg::Snapshot(Box::new(snapshot.clone())));
    assert_eq!(
        (model.selected.clone(), model.list.at),
        (selected.clone(), 2)
    );
    snapshot.servers.remove(2);
    send(&mut model, Msg::Snapshot(Box::new(snapshot)));
    assert_ne!(model.selected, selected);
    assert_eq!(model.list.at, 2);
}

#[test]
fn a_screen_that_is_too_small_takes_no_answers() {
    let mut model = model(40, 10);
    send(&mut model, question(1));
    assert_eq!(shown(&press(&mut model, "4⏎⏎r")), Vec::<String>::new());
    assert_eq!(shown(&press(&mut model, "q")), ["Quit"]);
    assert_eq!(model.questions.len(), 1);
}

#[test]
fn nothing_wakes_an_idle_screen() {
    let mut idle = empty(80, 24);
    assert_eq!(idle.next_tick(idle.now), None);
    send(&mut idle, Msg::Snapshot(Box::default()));
    assert_eq!(idle.next_tick(idle.now), None);
    // A countdown wakes once a second, while it is visible.
    let mut counting = model(80, 24);
    let wait = counting.next_tick(counting.now).unwrap() - counting.now;
    assert!(wait <= Duration::from_secs(1), "{wait:?}");
    press(&mut counting, "H");
    assert_eq!(counting.next_tick(counting.now), None);
}
