//! Dialogs and their keys.

use serde_json::json;
use trunkline::elicit::Form;

use super::*;

fn form_question(schema: serde_json::Value) -> Question {
    Question {
        id: 7,
        server: "github".to_owned(),
        call: Some("mcp__github__create".to_owned()),
        client: None,
        ask: Ask::Form {
            message: "How many?".to_owned(),
            form: Form::from_schema(&schema.into()),
        },
    }
}

fn url_question(url: &str) -> Dialog {
    Dialog::question(Question {
        id: 8,
        server: "s".to_owned(),
        call: None,
        client: Some("editor".to_owned()),
        ask: Ask::Url {
            message: "Please visit".to_owned(),
            url: url.to_owned(),
            repeats_call: true,
        },
    })
}

fn press(dialog: &mut Dialog, code: KeyCode) -> Pressed {
    dialog.key(&KeyEvent::from(code), Instant::now())
}

#[test]
fn keys_wait_until_typing_has_stopped() {
    let mut dialog = Dialog::question(form_question(json!({})));
    let now = Instant::now();
    dialog.armed_at = Some(now + QUIET);
    let enter = KeyEvent::from(KeyCode::Enter);
    let almost = now + QUIET / 2;
    assert_eq!(dialog.key(&enter, almost), Pressed::Nothing);
    // Each key postpones it.
    assert_eq!(dialog.key(&enter, now + QUIET), Pressed::Nothing);
    let later = now + 3 * QUIET;
    assert_eq!(dialog.key(&enter, later), Pressed::Chosen(Choice::Cancel));
}

#[test]
fn a_form_is_checked_before_it_is_sent() {
    let schema = json!({"properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let mut dialog = Dialog::question(form_question(schema));
    assert_eq!(dialog.button, None, "the form comes first");
    assert!(answer(&mut dialog, Choice::Send).is_none());
    assert_eq!(
        press(&mut dialog, KeyCode::F(5)),
        Pressed::Chosen(Choice::Send)
    );
    press(&mut dialog, KeyCode::Char('4'));
    press(&mut dialog, KeyCode::Enter);
    assert_eq!(
        press(&mut dialog, KeyCode::Enter),
        Pressed::Chosen(Choice::Cancel)
    );
    press(&mut dialog, KeyCode::Right);
    press(&mut dialog, KeyCode::Right);
    assert_eq!(
        press(&mut dialog, KeyCode::Enter),
        Pressed::Chosen(Choice::Send)
    );
    let Some(Answer::Elicit(ElicitAnswer::Accept(values))) = answer(&mut dialog, Choice::Send)
    else {
        panic!("not accepted");
    };
    assert_eq!(values["n"], 4);
}

#[test]
fn only_web_pages_can_be_opened() {
    for (url, host, opens) in [
        ("https://a.example:8443/x", "a.example:8443", true),
        ("http://127.0.0.1:80/", "127.0.0.1  (not encrypted)", true),
        (
            "http://a.example/",
            "a.example  (not encrypted; it is not opened)",
            false,
        ),
        (
            "https://user@evil.example/a.example",
            "evil.example  (has a user name or a password; it is not opened)",
            false,
        ),
        ("https://10.0.0.1/", "10.0.0.1", true),
        ("file:///etc/passwd", "file: is not opened", false),
        ("javascript:alert(1)", "javascript: is not opened", false),
        ("nonsense", "not a URL; it cannot be opened", false),
    ] {
        let dialog = url_question(url);
        assert_eq!(dialog.buttons.contains(&Choice::OpenPage), opens, "{url}");
        let hosts = dialog
            .doc
            .lines()
            .iter()
            .filter(|line| line.label == "host");
        assert_eq!(
            hosts.map(|line| line.text.as_str()).collect::<Vec<_>>(),
            [host]
        );
        assert_eq!(dialog.doc.lines()[0].text, "editor");
    }
}

#[test]
fn what_was_not_shown_to_the_end_cannot_be_allowed() {
    let question = Question {
        id: 9,
        server: "s".to_owned(),
        call: None,
        client: None,
        ask: Ask::Permission {
            reason: vec![DocLine::own("x"); 50],
            always: None,
        },
    };
    let mut dialog = Dialog::question(question);
    dialog.doc.window(50, 10);
    press(&mut dialog, KeyCode::Tab);
    assert_eq!(press(&mut dialog, KeyCode::Enter), Pressed::Nothing);
    press(&mut dialog, KeyCode::End);
    dialog.doc.window(50, 10);
    assert_eq!(
        press(&mut dialog, KeyCode::Enter),
        Pressed::Chosen(Choice::Once)
    );
}
