//! Hooks: the user's commands before and after calls and for elicitations (ELI-4).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use trunkline::call::CallErrorKind;
use trunkline::config::Layout;
use trunkline::elicit::{ElicitAnswer, Elicitation};
use trunkline::permission::{AskReason, PermissionAnswer, PermissionQuestion};
use trunkline::storage::PinStore;
use trunkline::tool::OnChange;
use trunkline::{CallOptions, CallOutput, Host, HostBuilder};
use trunkline_testkit::Script;

use crate::lab::{Lab, in_time};

/// A hook for everything.
fn hook(command: &str) -> Value {
    json!([{"matcher": "", "hooks": [{"type": "command", "command": command, "timeout": 20}]}])
}

/// The command that prints this output of an event.
fn printing(event: &str, output: &Value) -> String {
    let mut output = output.clone();
    output["hookEventName"] = json!(event);
    format!(
        "cat > /dev/null; echo '{}'",
        json!({"hookSpecificOutput": output})
    )
}

fn script() -> Script {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    Script::default().tool_with(json!({"name": "echo", "inputSchema": schema}))
}

/// A host with these hooks in the user's settings.
fn builder(lab: &Lab, hooks: &Value, script: Script) -> HostBuilder {
    let settings = json!({"hooks": hooks, "permissions": {"allow": ["mcp__s"]}});
    lab.scratch
        .write("home/.claude/settings.json", settings.to_string());
    let project = lab.scratch.write("project/x", "");
    Host::builder()
        .discover(Layout::under(lab.at("home")), project.parent().unwrap())
        .server(lab.server("s", script))
}

async fn call(host: &Host) -> Result<CallOutput, trunkline::CallError> {
    let call = host.call("mcp__s__echo", json!({"n": 1}), CallOptions::new());
    in_time("the call", call).await
}

#[tokio::test]
async fn a_hook_blocks_changes_or_leaves_a_call() {
    let updated = |input: &Value| printing("PreToolUse", &json!({"updatedInput": input}));
    let deny = json!({"permissionDecision": "deny", "permissionDecisionReason": "not today"});
    for (command, expected) in [
        ("exit 0".to_owned(), Ok((r#"{"n":1}"#, ""))),
        ("echo plain text".to_owned(), Ok((r#"{"n":1}"#, ""))),
        (updated(&json!({"n": 2})), Ok((r#"{"n":2}"#, ""))),
        (
            updated(&json!({"n": "two"})),
            Err((CallErrorKind::InvalidArguments, "do not fit")),
        ),
        (
            "echo too late >&2; exit 2".to_owned(),
            Err((CallErrorKind::Refused, "a hook blocks it: too late")),
        ),
        (
            printing("PreToolUse", &deny),
            Err((CallErrorKind::Refused, "not today")),
        ),
        (
            "echo oops >&2; exit 1".to_owned(),
            Ok((r#"{"n":1}"#, "failed with exit code 1: oops")),
        ),
        (
            "kill -9 $$".to_owned(),
            Ok((r#"{"n":1}"#, "ended by a signal")),
        ),
        (
            "echo '{oops'".to_owned(),
            Ok((r#"{"n":1}"#, "cannot be read")),
        ),
        (
            "head -c 100000000 /dev/zero".to_owned(),
            Ok((r#"{"n":1}"#, "more than 1 MiB")),
        ),
        (
            "/no/such/program".to_owned(),
            Ok((r#"{"n":1}"#, "exit code 127")),
        ),
    ] {
        let lab = Lab::new();
        let hooks = json!({"PreToolUse": hook(&command)});
        let host = lab.ready(builder(&lab, &hooks, script())).await;
        match (call(&host).await, expected) {
            (Ok(output), Ok((text, warning))) => {
                assert_eq!(output.text(), text, "{command}");
                let warnings = output.warnings.join("; ");
                assert_eq!(
                    warnings.is_empty(),
                    warning.is_empty(),
                    "{command}: {warnings}"
                );
                assert!(warnings.contains(warning), "{command}: {warnings}");
            }
            (Err(error), Err((kind, text))) => {
                assert_eq!(error.kind(), kind, "{command}: {error}");
                assert!(error.to_string().contains(text), "{command}: {error}");
                assert!(!error.may_have_run(), "{command}");
            }
            (found, expected) => panic!("{command}: {found:?}, not {expected:?}"),
        }
        lab.end(host).await;
    }
}

#[tokio::test]
async fn a_hook_that_hangs_costs_its_time_limit_and_blocks_if_it_must() {
    let hanging = |more: &str| {
        let text = format!(r#"{{"type": "command", "command": "sleep 60", "timeout": 0.3{more}}}"#);
        let hook: Value = serde_json::from_str(&text).unwrap();
        json!({"PreToolUse": [{"hooks": [hook]}]})
    };
    let lab = Lab::new();
    let host = lab.ready(builder(&lab, &hanging(""), script())).await;
    // The hook's time does not count as the call's.
    let options = CallOptions::new().timeout(Duration::from_secs(5));
    let output = host.call("mcp__s__echo", json!({}), options).await.unwrap();
    assert!(
        output.warnings[0].contains("did not end within 0.3 s"),
        "{output:?}"
    );
    lab.end(host).await;

    let lab = Lab::new();
    let blocking = hanging(r#", "onFailure": "block""#);
    let host = lab.ready(builder(&lab, &blocking, script())).await;
    let error = call(&host).await.unwrap_err();
    assert_eq!(error.kind(), CallErrorKind::Refused, "{error}");
    lab.end(host).await;
}

#[tokio::test]
async fn hooks_see_the_call_and_run_in_order() {
    let lab = Lab::new();
    let seen = lab.at("seen");
    let first = printing("PreToolUse", &json!({"updatedInput": {"n": 2}}));
    let second = format!("cat > {}", seen.display());
    let hooks = json!({"PreToolUse": [{"matcher": "mcp__s__.*", "hooks": [
        {"type": "command", "command": first}, {"type": "command", "command": second},
    ]}, {"matcher": "mcp__other__.*", "hooks": [{"type": "command", "command": "exit 2"}]}]});
    let host = lab.ready(builder(&lab, &hooks, script())).await;
    let options = CallOptions::new().client("window 1");
    host.call("mcp__s__echo", json!({"n": 1}), options)
        .await
        .unwrap();
    let input: Value = serde_json::from_str(&lab.scratch.read("seen")).unwrap();
    for (member, expected) in [
        ("hook_event_name", json!("PreToolUse")),
        ("tool_name", json!("mcp__s__echo")),
        ("mcp_server_name", json!("s")),
        ("tool_input", json!({"n": 2})),
        ("client", json!("window 1")),
    ] {
        assert_eq!(input[member], expected, "{member}: {input}");
    }
    assert!(
        input["cwd"].as_str().unwrap().ends_with("project"),
        "{input}"
    );
    lab.end(host).await;
}

#[tokio::test]
async fn permission_is_asked_for_the_changed_arguments_and_where_a_hook_wants_it() {
    let lab = Lab::new();
    let output = json!({
        "updatedInput": {"n": 2}, "permissionDecision": "ask", "permissionDecisionReason": "big",
    });
    let hooks = json!({"PreToolUse": hook(&printing("PreToolUse", &output))});
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&asked);
    let builder = builder(&lab, &hooks, script()).permit(move |question: PermissionQuestion| {
        let AskReason::Hook(reason) = &question.reason else {
            panic!("{question:?}");
        };
        let text = format!("{reason}: {}", question.arguments.as_str());
        seen.lock().unwrap().push(text);
        std::future::ready(PermissionAnswer::No("no".to_owned()))
    });
    let host = lab.ready(builder).await;
    for _ in 0..2 {
        let error = call(&host).await.unwrap_err();
        assert_eq!(error.kind(), CallErrorKind::Refused, "{error}");
    }
    assert_eq!(
        *asked.lock().unwrap(),
        [r#"big: {"n":2}"#, r#"big: {"n":2}"#]
    );
    lab.end(host).await;
}

#[tokio::test]
async fn a_hook_sees_arguments_that_are_too_deep_for_a_tree() {
    let lab = Lab::new();
    let command = format!("cat > {}; exit 2", lab.at("seen").display());
    let hooks = json!({"PreToolUse": hook(&command)});
    let host = lab.ready(builder(&lab, &hooks, script())).await;
    let deep = (0..300).fold(json!("secret"), |inner, _| json!([inner]));
    let call = host.call("mcp__s__echo", json!({"deep": deep}), CallOptions::new());
    let error = in_time("the call", call).await.unwrap_err();
    assert_eq!(error.kind(), CallErrorKind::Refused, "{error}");
    let seen = lab.scratch.read("seen");
    let expected = format!(r#""tool_input":{{"deep":{}"secret"]"#, "[".repeat(300));
    assert!(seen.contains(&expected), "{seen}");
    lab.end(host).await;
}

#[tokio::test]
async fn a_hook_blocks_however_much_it_prints() {
    for command in [
        "head -c 3000000 /dev/zero; exit 2",
        "head -c 3000000 /dev/zero >&2; exit 2",
    ] {
        let lab = Lab::new();
        let hooks = json!({"PreToolUse": hook(command)});
        let host = lab.ready(builder(&lab, &hooks, script())).await;
        let error = call(&host).await.unwrap_err();
        assert_eq!(error.kind(), CallErrorKind::Refused, "{command}");
        lab.end(host).await;
    }
}

#[tokio::test]
async fn a_hook_asks_about_a_changed_tool_too() {
    let lab = Lab::new();
    let asking = json!({"permissionDecision": "ask", "permissionDecisionReason": "big"});
    let asking = json!({"PreToolUse": hook(&printing("PreToolUse", &asking))});
    let asked: Arc<Mutex<Vec<&str>>> = Arc::default();
    for (description, hooks) in [("one", json!({})), ("another", asking)] {
        let script =
            Script::default().tool_with(json!({"name": "echo", "description": description}));
        let seen = Arc::clone(&asked);
        let builder = builder(&lab, &hooks, script)
            .pins(PinStore::at(lab.at("pins")))
            .on_change(OnChange::Ask)
            .permit(move |question: PermissionQuestion| {
                let (reason, answer) = match question.reason {
                    AskReason::Changed(_) => ("changed", PermissionAnswer::Always),
                    AskReason::Hook(_) => ("hook", PermissionAnswer::No("no".to_owned())),
                    other => panic!("{other:?}"),
                };
                seen.lock().unwrap().push(reason);
                std::future::ready(answer)
            });
        let host = lab.ready(builder).await;
        assert_eq!(call(&host).await.is_ok(), description == "one");
        lab.end(host).await;
    }
    assert_eq!(*asked.lock().unwrap(), ["changed", "hook"]);
}

#[tokio::test]
async fn a_hook_after_a_call_sees_the_result_and_adds_notes() {
    let note = json!({"additionalContext": "remember\u{200b} this"});
    for (command, expected) in [
        (
            printing("PostToolUse", &note),
            "{\"n\":1}\n[hook] remember this",
        ),
        (
            "echo bad result >&2; exit 2".to_owned(),
            "{\"n\":1}\n[hook] bad result",
        ),
        ("exit 1".to_owned(), "{\"n\":1}"),
    ] {
        let lab = Lab::new();
        let seen = lab.at("seen");
        let hooks = json!({"PostToolUse": [
            {"hooks": [{"command": format!("cat > {}", seen.display())}, {"command": command}]},
        ]});
        let host = lab.ready(builder(&lab, &hooks, script())).await;
        let output = call(&host).await.unwrap();
        assert_eq!(output.text(), expected);
        let input: Value = serde_json::from_str(&lab.scratch.read("seen")).unwrap();
        assert_eq!(input["tool_input"], json!({"n": 1}));
        assert_eq!(input["tool_response"]["isError"], false);
        assert_eq!(input["tool_response"]["content"][0]["text"], "{\"n\":1}");
        lab.end(host).await;
    }
}

fn asking(era: &str) -> Script {
    let schema = json!({"type": "object", "properties": {"age": {"type": "integer"}},
        "required": ["age"]});
    let question = json!({"method": "elicitation/create",
        "params": {"message": "how old?", "requestedSchema": schema}});
    let actions = match era {
        "modern" => {
            json!([{"inputRequired": {"inputRequests": {"q": question}}}, {"replyInputs": true}])
        }
        _ => json!([{"request": question}, {"replyAnswer": true}]),
    };
    json!({"era": era, "tools": [{"name": "echo", "do": actions}]}).into()
}

#[tokio::test]
async fn a_hook_answers_an_elicitation_before_the_user() {
    let accept = |age: Value| {
        let output = json!({"action": "accept", "content": {"age": age}});
        printing("Elicitation", &output)
    };
    for era in ["modern", "legacy"] {
        for (command, expected, by_user) in [
            (accept(json!(36)), r#""age":36"#, false),
            // An invalid answer is not sent.
            (accept(json!("old")), r#""age":7"#, true),
            ("exit 0".to_owned(), r#""age":7"#, true),
            ("exit 1".to_owned(), r#""age":7"#, true),
            ("exit 2".to_owned(), r#""decline""#, false),
            (
                printing("Elicitation", &json!({"action": "cancel"})),
                r#""cancel""#,
                false,
            ),
        ] {
            let lab = Lab::new();
            let hooks = json!({"Elicitation": hook(&command)});
            let asked: Arc<Mutex<u32>> = Arc::default();
            let count = Arc::clone(&asked);
            let builder = builder(&lab, &hooks, asking(era)).elicit(move |_: Elicitation| {
                *count.lock().unwrap() += 1;
                let content = json!({"age": 7}).as_object().unwrap().clone();
                std::future::ready(ElicitAnswer::Accept(content))
            });
            let host = lab.ready(builder).await;
            let output = call(&host).await.unwrap();
            let said = output.text();
            assert!(said.contains(expected), "{era} {command}: {said}");
            assert_eq!(
                *asked.lock().unwrap(),
                u32::from(by_user),
                "{era} {command}"
            );
            lab.end(host).await;
        }
    }
}

#[tokio::test]
async fn hooks_answer_without_any_callback_and_see_the_users_answer() {
    // A host with hooks alone.
    let lab = Lab::new();
    let output = json!({"action": "accept", "content": {"age": 36}});
    let hooks = json!({"Elicitation": [
        {"matcher": "s", "hooks": [{"command": printing("Elicitation", &output)}]},
        {"matcher": "other", "hooks": [{"command": "exit 2"}]},
    ]});
    let host = lab.ready(builder(&lab, &hooks, asking("legacy"))).await;
    let said = call(&host).await.unwrap().text();
    assert!(said.contains(r#""age":36"#), "{said}");
    lab.end(host).await;

    let change = json!({"action": "accept", "content": {"age": 8}});
    for (command, expected) in [
        ("exit 0".to_owned(), r#""age":7"#),
        (printing("ElicitationResult", &change), r#""age":8"#),
        ("exit 2".to_owned(), "decline"),
        // The hook wanted something else sent, but what it said is invalid.
        (
            printing(
                "ElicitationResult",
                &json!({"action": "accept", "content": {"age": "x"}}),
            ),
            "cancel",
        ),
    ] {
        let lab = Lab::new();
        let seen = lab.at("seen");
        let hooks = json!({"ElicitationResult": [{"hooks": [
            {"command": format!("cat > {}", seen.display())}, {"command": command},
        ]}]});
        let builder = builder(&lab, &hooks, asking("modern")).elicit(|_: Elicitation| {
            let content = json!({"age": 7}).as_object().unwrap().clone();
            std::future::ready(ElicitAnswer::Accept(content))
        });
        let host = lab.ready(builder).await;
        let said = call(&host).await.unwrap().text();
        assert!(said.contains(expected), "{command}: {said}");
        let input: Value = serde_json::from_str(&lab.scratch.read("seen")).unwrap();
        assert_eq!(input["action"], "accept");
        assert_eq!(input["content"], json!({"age": 7}));
        assert_eq!(input["tool_name"], "mcp__s__echo");
        lab.end(host).await;
    }
}

#[tokio::test]
async fn a_cancelled_call_ends_its_hook() {
    let lab = Lab::new();
    let (marker, value) = lab.scratch.marker().env();
    let begun = lab.at("begun");
    let command = format!(
        "export {marker}={value}; touch {}; sleep 60 & wait",
        begun.display()
    );
    let hooks = json!({"PreToolUse": hook(&command)});
    let host = lab.ready(builder(&lab, &hooks, script())).await;
    let options = CallOptions::new().cancel(lab.file("begun"));
    let error = in_time("the call", host.call("mcp__s__echo", json!({}), options)).await;
    assert!(error.unwrap_err().is_cancelled());
    // Proves that the hook's processes are gone.
    lab.end(host).await;
}

#[tokio::test]
async fn a_repository_and_a_program_that_opted_out_run_no_hooks() {
    let ran = |lab: &Lab| lab.at("ran").exists();
    let touching = |lab: &Lab| {
        let command = format!("touch {}", lab.at("ran").display());
        json!({"PreToolUse": hook(&command), "PostToolUse": hook(&command)})
    };
    for name in ["settings.json", "settings.local.json"] {
        let lab = Lab::new();
        let text = json!({"hooks": touching(&lab)}).to_string();
        lab.scratch.write(format!("project/.claude/{name}"), text);
        let host = lab.ready(builder(&lab, &json!({}), script())).await;
        call(&host).await.unwrap();
        assert!(!ran(&lab), "{name}");
        let problems = &host.config().diagnostics;
        let warned = problems
            .iter()
            .any(|problem| problem.message.contains("repository do not run"));
        assert!(warned, "{problems:?}");
        lab.end(host).await;
    }
    let lab = Lab::new();
    let host = builder(&lab, &touching(&lab), script()).hooks(false);
    let host = lab.ready(host).await;
    call(&host).await.unwrap();
    assert!(!ran(&lab));
    lab.end(host).await;
}

#[tokio::test]
async fn hooks_follow_the_settings() {
    let lab = Lab::new();
    let host = lab.ready(builder(&lab, &json!({}), script())).await;
    call(&host).await.unwrap();
    let settings = json!({"hooks": {"PreToolUse": hook("exit 2")},
        "permissions": {"allow": ["mcp__s"]}});
    lab.scratch
        .write("home/.claude/settings.json", settings.to_string());
    host.reload().await;
    assert_eq!(
        call(&host).await.unwrap_err().kind(),
        CallErrorKind::Refused
    );
    lab.end(host).await;
}
