//! What servers ask of the host: input during a call, roots (CALL-3, ELI-1, LIF-6).

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::Notify;
use trunkline::call::CallErrorKind;
use trunkline::elicit::{Elicit, ElicitAnswer, Elicitation};
use trunkline::{CallOptions, Host, Json};
use trunkline_testkit::Script;

use crate::lab::{Lab, call, eventually, in_time};

/// Answers every question with what it was asked, and notes who asked.
#[derive(Clone, Default)]
struct Parrot(Arc<Mutex<Vec<String>>>);

impl Elicit for Parrot {
    fn elicit(&self, asked: Elicitation) -> Pin<Box<dyn Future<Output = ElicitAnswer> + Send>> {
        self.0.lock().unwrap().push(asked.server.to_string());
        let content = json!({"asked": asked.message});
        Box::pin(async move { accept(&content) })
    }
}

fn accept(content: &Value) -> ElicitAnswer {
    ElicitAnswer::Accept(content.as_object().unwrap().clone())
}

/// Somebody who answers when the test says so.
#[derive(Clone, Default)]
struct Slow {
    asked: Arc<Notify>,
    answer: Arc<Notify>,
}

impl Elicit for Slow {
    fn elicit(&self, _: Elicitation) -> Pin<Box<dyn Future<Output = ElicitAnswer> + Send>> {
        let Self { asked, answer } = self.clone();
        Box::pin(async move {
            asked.notify_one();
            answer.notified().await;
            accept(&json!({"name": "Ada"}))
        })
    }
}

/// Somebody whose answers make no sense.
struct Confused(Value);

impl Elicit for Confused {
    fn elicit(&self, _: Elicitation) -> Pin<Box<dyn Future<Output = ElicitAnswer> + Send>> {
        let answer = ElicitAnswer::Forward(Json::from(&self.0));
        Box::pin(async move { answer })
    }
}

fn question(message: &str) -> Value {
    json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": {"type": "object"}}})
}

/// A modern server that asks `rounds` times before it answers.
fn asking(rounds: usize) -> Script {
    let mut actions: Vec<Value> = (0..rounds)
        .map(|round| {
            json!({"inputRequired": {"inputRequests": {"name": question(&format!("round {round}"))},
            "requestState": format!("state {round}")}})
        })
        .collect();
    actions.push(json!({"replyInputs": true}));
    Script::default().tool("ask", json!(actions))
}

async fn host_with(lab: &Lab, script: Script, elicit: Option<Parrot>) -> Host {
    let mut builder = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .server(lab.server("s", script));
    if let Some(elicit) = elicit {
        builder = builder.elicit(elicit);
    }
    lab.ready(builder).await
}

#[tokio::test]
async fn input_that_a_call_needs_is_asked_for_and_sent_along() {
    let parrot = Parrot::default();
    let lab = Lab::new();
    let host = host_with(&lab, asking(3), Some(parrot.clone())).await;
    let said: Value =
        serde_json::from_str(&call(&host, "mcp__s__ask", json!({"a": 1})).await.unwrap()).unwrap();
    assert_eq!(
        said["inputResponses"]["name"]["content"]["asked"],
        "round 2"
    );
    assert_eq!(said["requestState"], "state 2");
    assert_eq!(*parrot.0.lock().unwrap(), ["s", "s", "s"]);
    lab.end(host).await;
}

#[tokio::test]
async fn without_anyone_to_ask_the_answer_is_cancel() {
    let lab = Lab::new();
    let host = host_with(&lab, asking(1), None).await;
    let said: Value =
        serde_json::from_str(&call(&host, "mcp__s__ask", json!({})).await.unwrap()).unwrap();
    assert_eq!(
        said["inputResponses"],
        json!({"name": {"action": "cancel"}})
    );
    lab.end(host).await;
}

#[tokio::test]
async fn a_server_may_ask_ten_times_and_no_more() {
    for (rounds, answered) in [(10, true), (11, false)] {
        let lab = Lab::new();
        let host = host_with(&lab, asking(rounds), Some(Parrot::default())).await;
        let outcome = call(&host, "mcp__s__ask", json!({})).await;
        assert_eq!(outcome.is_ok(), answered, "{outcome:?}");
        if let Err(error) = outcome {
            assert!(
                error
                    .to_string()
                    .contains("asked for input more than 10 times"),
                "{error}"
            );
        }
        lab.end(host).await;
    }
}

#[tokio::test]
async fn input_of_a_kind_that_is_not_offered_fails_the_call_and_names_it() {
    let lab = Lab::new();
    let request = json!({"method": "sampling/createMessage", "params": {}});
    let script = Script::default().tool(
        "ask",
        json!([{"inputRequired": {"inputRequests": {"x": request}}}]),
    );
    let host = host_with(&lab, script, None).await;
    let error = call(&host, "mcp__s__ask", json!({})).await.unwrap_err();
    assert!(error.kind() == CallErrorKind::InvalidResponse, "{error}");
    assert!(
        error.to_string().contains("sampling/createMessage"),
        "{error}"
    );
    lab.end(host).await;
}

/// A server of an era whose tool answers with what it was told.
fn telling(era: &str, question: &Value) -> Script {
    let asks = if era == "modern" {
        json!([{"inputRequired": {"inputRequests": {"name": question}}}, {"replyInputs": true}])
    } else {
        json!([{"request": question}, {"replyAnswer": true}])
    };
    json!({"era": era, "tools": [
        {"name": "ask", "do": asks},
        {"name": "silent", "do": [{"silence": true}]},
    ]})
    .into()
}

#[tokio::test]
async fn a_calls_time_limit_does_not_run_while_the_user_is_being_asked() {
    for era in ["modern", "legacy"] {
        let lab = Lab::new();
        let user = Slow::default();
        let builder = Host::builder()
            .permit(trunkline::permission::AllowAll)
            .server(lab.server("s", telling(era, &question("who?"))))
            .elicit(user.clone());
        let host = lab.ready(builder).await;
        let limit = Duration::from_millis(300);
        let options = || CallOptions::new().timeout(limit);
        let call = Box::pin(host.call("mcp__s__ask", json!({}), options()));
        let thinking = async {
            in_time("the question", user.asked.notified()).await;
            let asked = Instant::now();
            eventually("the limit to pass", || asked.elapsed() > 2 * limit).await;
            user.answer.notify_one();
        };
        let (output, ()) = in_time(era, async { tokio::join!(call, thinking) }).await;
        assert!(output.unwrap().text().contains("Ada"), "{era}");
        // It runs again for the next call.
        let error = in_time(era, host.call("mcp__s__silent", json!({}), options())).await;
        assert!(error.unwrap_err().is_timeout(), "{era}");
        lab.end(host).await;
    }
}

#[tokio::test]
async fn an_answer_that_does_not_fit_the_question_is_never_sent() {
    let asked = json!({"method": "elicitation/create", "params": {
        "message": "how old?",
        "requestedSchema": {"type": "object", "properties": {"age": {"type": "integer"}}},
    }});
    for era in ["modern", "legacy"] {
        for answer in [
            json!("rubbish"),
            json!({"action": "accept", "content": {"age": "rubbish"}}),
        ] {
            let lab = Lab::new();
            let builder = Host::builder()
                .permit(trunkline::permission::AllowAll)
                .server(lab.server("s", telling(era, &asked)))
                .elicit(Confused(answer));
            let host = lab.ready(builder).await;
            let text = call(&host, "mcp__s__ask", json!({})).await.unwrap();
            assert!(text.contains("cancel"), "{era}: {text}");
            assert!(!text.contains("rubbish"), "{era}: {text}");
            lab.end(host).await;
        }
    }
}

#[tokio::test]
async fn a_legacy_servers_requests_are_answered() {
    let lab = Lab::new();
    let project = lab
        .scratch
        .write("my project/x", "")
        .parent()
        .unwrap()
        .to_owned();
    let uri = format!("file://{}", project.to_str().unwrap().replace(' ', "%20"));
    let cases = [
        (
            json!({"method": "roots/list"}),
            json!({"roots": [{"uri": uri, "name": "my project"}]}),
        ),
        (json!({"method": "ping"}), json!({})),
        (
            question("who?"),
            json!({"action": "accept", "content": {"asked": "who?"}}),
        ),
        (
            json!({"method": "sampling/createMessage", "params": {}}),
            json!({"code": -32601, "message": "method not found: sampling/createMessage"}),
        ),
    ];
    let script = cases
        .iter()
        .enumerate()
        .fold(Script::default(), |script, (n, (request, _))| {
            script.tool(
                &format!("t{n}"),
                json!([{"request": request}, {"replyAnswer": true}]),
            )
        });
    for era in [trunkline_testkit::Era::Legacy, trunkline_testkit::Era::Dual] {
        let builder = Host::builder()
            .permit(trunkline::permission::AllowAll)
            .server(lab.server("s", script.clone().era(era)))
            .elicit(Parrot::default())
            .project_dir(&project);
        let host = lab.ready(builder).await;
        for (n, (request, answer)) in cases.iter().enumerate() {
            let said = call(&host, &format!("mcp__s__t{n}"), json!({}))
                .await
                .unwrap();
            assert_eq!(
                serde_json::from_str::<Value>(&said).unwrap(),
                *answer,
                "{request}"
            );
        }
        lab.end(host).await;
    }
}

#[tokio::test]
async fn a_legacy_servers_question_without_anyone_to_ask_is_cancelled() {
    let lab = Lab::new();
    let script = Script::default().era(trunkline_testkit::Era::Legacy).tool(
        "ask",
        json!([{"request": question("who?")}, {"replyAnswer": true}]),
    );
    let host = host_with(&lab, script, None).await;
    assert_eq!(
        call(&host, "mcp__s__ask", json!({})).await.unwrap(),
        r#"{"action":"cancel"}"#
    );
    lab.end(host).await;
}

#[tokio::test]
async fn servers_are_told_what_the_host_can_do_and_where_the_project_is() {
    for (era, place) in [
        ("legacy", "/params/capabilities"),
        (
            "modern",
            "/params/_meta/io.modelcontextprotocol~1clientCapabilities",
        ),
    ] {
        let lab = Lab::new();
        let script =
            json!({"era": era, "receivedLog": lab.at("received"), "tools": [{"name": "t"}]});
        let host = lab.host([lab.server("s", script)]).await;
        let log = lab.scratch.read("received");
        let method = if era == "legacy" {
            "\"initialize\""
        } else {
            "\"tools/list\""
        };
        let line: Value =
            serde_json::from_str(log.lines().find(|line| line.contains(method)).unwrap()).unwrap();
        let capabilities = line.pointer(place).unwrap();
        assert!(
            capabilities["roots"].is_object() && capabilities["elicitation"]["form"].is_object(),
            "{capabilities}"
        );
        assert!(capabilities.get("sampling").is_none());
        lab.end(host).await;
    }
}

fn message_request() -> Value {
    json!({"method": "sampling/createMessage", "params": {"maxTokens": 9,
        "messages": [{"role": "user", "content": {"type": "text", "text": "hi\u{200b}"}}]}})
}

/// A server whose tool asks for a message, and the messages that it received.
fn sampling(lab: &Lab, era: &str) -> Script {
    let actions = match era {
        "modern" => {
            json!([{"inputRequired": {"inputRequests": {"m": message_request()}}}, {"replyInputs": true}])
        }
        _ => json!([{"request": message_request()}, {"replyAnswer": true}]),
    };
    let script = json!({"era": era, "receivedLog": lab.at("received"), "tools": [{"name": "ask", "do": actions}]});
    script.into()
}

/// Whether any message declared sampling.
fn declares_sampling(lab: &Lab) -> bool {
    lab.scratch.read("received").contains(r#""sampling":{}"#)
}

#[tokio::test]
async fn a_server_gets_a_message_from_the_embedders_model_if_there_is_one() {
    for era in ["modern", "legacy"] {
        let lab = Lab::new();
        let model = |request: trunkline::elicit::SamplingRequest| async move {
            let asked = request.params.get("messages").unwrap().to_string();
            let text = format!("{}: {asked}", request.server);
            let message = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": text}});
            Ok(Json::from(message))
        };
        let builder = Host::builder()
            .permit(trunkline::permission::AllowAll)
            .sampling(model)
            .server(lab.server("s", sampling(&lab, era)));
        let host = lab.ready(builder).await;
        let said = call(&host, "mcp__s__ask", json!({})).await.unwrap();
        assert!(said.contains(r#""model":"m""#), "{era}: {said}");
        assert!(
            said.contains("s: [") && said.contains("hi") && !said.contains('\u{200b}'),
            "{era}: {said}"
        );
        assert!(declares_sampling(&lab), "{era}");
        lab.end(host).await;

        let lab = Lab::new();
        let host = host_with(&lab, sampling(&lab, era), None).await;
        let outcome = call(&host, "mcp__s__ask", json!({})).await;
        let refused = match &outcome {
            Ok(text) => text.clone(),
            Err(error) => error.to_string(),
        };
        assert!(
            refused.contains("sampling/createMessage"),
            "{era}: {refused}"
        );
        assert!(!declares_sampling(&lab), "{era}");
        lab.end(host).await;
    }
}

#[tokio::test]
async fn a_model_that_never_answers_does_not_outlast_the_call() {
    let lab = Lab::new();
    let never =
        |_: trunkline::elicit::SamplingRequest| std::future::pending::<Result<Json, String>>();
    let builder = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .sampling(never)
        .server(lab.server("s", sampling(&lab, "modern")));
    let host = lab.ready(builder).await;
    let options = CallOptions::new().timeout(Duration::from_millis(100));
    let error = in_time("the call", host.call("mcp__s__ask", json!({}), options)).await;
    assert!(error.unwrap_err().is_timeout());
    lab.end(host).await;
}

#[tokio::test]
async fn an_elicitation_names_its_call_and_its_client() {
    for era in ["modern", "legacy"] {
        let lab = Lab::new();
        let script = telling(era, &question("who?"));
        let asked: Arc<Mutex<Vec<Elicitation>>> = Arc::default();
        let seen = Arc::clone(&asked);
        let builder = Host::builder()
            .permit(trunkline::permission::AllowAll)
            .server(lab.server("s", script))
            .elicit(move |elicitation: Elicitation| {
                seen.lock().unwrap().push(elicitation);
                std::future::ready(ElicitAnswer::Decline)
            });
        let host = lab.ready(builder).await;
        let options = CallOptions::new().client("window 1");
        let call = host.call("mcp__s__ask", json!({}), options);
        in_time("the call", call).await.unwrap();
        let asked = asked.lock().unwrap().remove(0);
        assert_eq!(&*asked.server, "s");
        assert_eq!(asked.call.as_deref(), Some("mcp__s__ask"), "{era}");
        assert_eq!(asked.client.as_deref(), Some("window 1"), "{era}");
        lab.end(host).await;
    }
}
