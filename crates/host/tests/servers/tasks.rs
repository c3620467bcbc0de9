//! Calls that become tasks, and calls that need a page to be visited first (CALL-3, CALL-6).

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use trunkline::call::CallErrorKind;
use trunkline::config::TransportEntry;
use trunkline::elicit::{Elicit, ElicitAnswer, Elicitation};
use trunkline::{CallOptions, Host, ServerEntry, Settings};
use trunkline_config::{HttpEntry, HttpFlavour};
use trunkline_testkit::Script;
use trunkline_testkit::net::HttpServer;

use crate::lab::{Lab, call, eventually, in_time};

/// Decides about every question in the same way, and remembers it.
#[derive(Clone)]
struct Decided(&'static str, Arc<Mutex<Vec<Value>>>);

impl Decided {
    fn new(action: &'static str) -> Self {
        Self(action, Arc::default())
    }
}

impl Elicit for Decided {
    fn elicit(&self, asked: Elicitation) -> Pin<Box<dyn Future<Output = ElicitAnswer> + Send>> {
        self.1.lock().unwrap().push(asked.raw.to_value().unwrap());
        let answer = json!({"action": self.0, "content": {"name": "Ada"}});
        Box::pin(async move { ElicitAnswer::Forward(answer.into()) })
    }
}

/// A server whose tool `t` becomes this task.
fn task(lab: &Lab, era: &str, task: &Value) -> Script {
    json!({"era": era, "receivedLog": lab.at("received"),
        "tools": [{"name": "t", "execution": {"taskSupport": "required"}, "do": [{"task": task}]}]})
    .into()
}

fn received(lab: &Lab, method: &str) -> usize {
    let log = lab.scratch.read("received");
    log.matches(&format!("\"method\":\"{method}\"")).count()
}

async fn host(lab: &Lab, script: Script, elicit: Decided) -> Host {
    let settings = Settings::default().reconnect_delay(Duration::from_millis(1));
    let server = lab.server("s", script);
    let builder = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .settings(settings)
        .server(server);
    lab.ready(builder.elicit(elicit)).await
}

fn question() -> Value {
    json!({"who": {"method": "elicitation/create", "params": {"message": "who?", "requestedSchema": {"type": "object"}}}})
}

#[tokio::test]
async fn a_task_is_driven_to_its_result_and_its_progress_told() {
    for era in ["modern", "legacy"] {
        let lab = Lab::new();
        let script = task(
            &lab,
            era,
            &json!({"pollMs": 1, "end": {"result": {"content": [{"type": "text", "text": "found"}]}},
            "steps": [{"progress": {"steps": 3, "message": "p"}}, {"status": "nearly"}, {"waitForFile": lab.at("go")}]}),
        );
        let host = host(&lab, script, Decided::new("accept")).await;
        let told = Arc::new(Mutex::new(Vec::new()));
        let options = CallOptions::new().on_progress({
            let (told, go) = (Arc::clone(&told), lab.at("go"));
            move |step| {
                let message = step.message.unwrap_or_default();
                let mut told = told.lock().unwrap();
                told.push((step.progress, message));
                if told.len() == 3 || told.last().unwrap().1 == "nearly" {
                    std::fs::write(&go, "").unwrap();
                }
            }
        });
        let output = in_time("the task", host.call("mcp__s__t", json!({}), options))
            .await
            .unwrap();
        assert_eq!(output.text(), "found");
        let told = told.lock().unwrap().clone();
        let numbers: Vec<f64> = told.iter().map(|(number, _)| *number).collect();
        assert!(
            numbers.is_sorted() && numbers.len() >= 3 || told[0].1 == "nearly",
            "{era}: {told:?}"
        );
        assert_eq!(received(&lab, "tasks/result"), usize::from(era == "legacy"));
        assert_eq!(received(&lab, "tasks/cancel"), 0);
        lab.end(host).await;
    }
}

#[tokio::test]
async fn what_a_task_asks_is_answered() {
    for era in ["modern", "legacy"] {
        let lab = Lab::new();
        let script = task(
            &lab,
            era,
            &json!({"pollMs": 1, "steps": [{"ask": question()}], "end": {"answers": true}}),
        );
        let user = Decided::new("accept");
        let host = host(&lab, script, user.clone()).await;
        let answers: Value =
            serde_json::from_str(&call(&host, "mcp__s__t", json!({})).await.unwrap()).unwrap();
        assert_eq!(
            answers,
            json!({"who": {"action": "accept", "content": {"name": "Ada"}}}),
            "{era}"
        );
        assert_eq!(user.1.lock().unwrap().len(), 1, "{era}");
        lab.end(host).await;
    }
}

#[tokio::test]
async fn a_task_that_ends_badly_says_how() {
    let cases = [
        (
            json!({"error": {"code": -32000, "message": "boom"}}),
            "boom",
        ),
        (json!({"vanish": true}), "the tool may have run"),
        (
            json!({"cancelled": "for maintenance"}),
            "the server cancelled the task: for maintenance",
        ),
    ];
    for era in ["modern", "legacy"] {
        for (end, expected) in &cases {
            let lab = Lab::new();
            let script = task(&lab, era, &json!({"pollMs": 1, "end": end}));
            let host = host(&lab, script, Decided::new("accept")).await;
            let error = call(&host, "mcp__s__t", json!({})).await.unwrap_err();
            assert!(error.to_string().contains(expected), "{era}: {error}");
            assert!(error.may_have_run(), "{era}: {error}");
            lab.end(host).await;
        }
    }
}

#[tokio::test]
async fn a_task_that_never_ends_is_cancelled_by_time_and_by_whoever_drops_it() {
    for era in ["modern", "legacy"] {
        let lab = Lab::new();
        let script = task(&lab, era, &json!({"pollMs": 1, "end": {"never": true}}));
        let host = host(&lab, script, Decided::new("accept")).await;
        let options = CallOptions::new().timeout(Duration::from_millis(300));
        let error = in_time("the end", host.call("mcp__s__t", json!({}), options))
            .await
            .unwrap_err();
        assert!(error.is_timeout() && error.may_have_run(), "{era}: {error}");
        assert_eq!(received(&lab, "tasks/cancel"), 1, "{era}");
        let calling = tokio::spawn({
            let host = host.clone();
            async move { host.call("mcp__s__t", json!({}), CallOptions::new()).await }
        });
        let polls = received(&lab, "tasks/get");
        eventually("a poll", || received(&lab, "tasks/get") > polls).await;
        calling.abort();
        eventually("the cancellation", || received(&lab, "tasks/cancel") == 2).await;
        lab.end(host).await;
    }
}

#[tokio::test]
async fn a_task_of_a_process_that_died_is_an_error_that_says_it_may_have_run() {
    let lab = Lab::new();
    let script = task(
        &lab,
        "modern",
        &json!({"pollMs": 1, "end": {"never": true}}),
    );
    let host = host(&lab, script, Decided::new("accept")).await;
    let calling = tokio::spawn({
        let host = host.clone();
        async move { host.call("mcp__s__t", json!({}), CallOptions::new()).await }
    });
    eventually("a poll", || received(&lab, "tasks/get") > 0).await;
    lab.kill("s");
    let error = in_time("the end", calling).await.unwrap().unwrap_err();
    assert!(error.kind() == CallErrorKind::InvalidResponse, "{error}");
    assert!(
        error.may_have_run() && error.to_string().contains("no longer knows"),
        "{error}"
    );
    assert_eq!(received(&lab, "tools/call"), 1, "never called again");
    lab.end(host).await;
}

#[tokio::test]
async fn a_task_behind_http_outlives_the_connections_to_it() {
    let lab = Lab::new();
    let script = task(
        &lab,
        "modern",
        &json!({"pollMs": 20, "steps": [{"waitForFile": lab.at("go")}],
        "end": {"result": {"content": [{"type": "text", "text": "found"}]}}}),
    );
    let server = HttpServer::start(script);
    let http = HttpEntry::new(HttpFlavour::Streamable, server.url());
    let host = lab
        .host([ServerEntry::new("s", TransportEntry::Http(http))])
        .await;
    let calling = tokio::spawn({
        let host = host.clone();
        async move { host.call("mcp__s__t", json!({}), CallOptions::new()).await }
    });
    eventually("a poll", || received(&lab, "tasks/get") > 0).await;
    server.drop_connections();
    let polls = received(&lab, "tasks/get");
    eventually("another poll", || received(&lab, "tasks/get") > polls).await;
    lab.scratch.write("go", "");
    assert_eq!(
        in_time("the task", calling).await.unwrap().unwrap().text(),
        "found"
    );
    assert_eq!(received(&lab, "tools/call"), 1);
    lab.end(host).await;
}

/// A server whose tool `t` wants a page to be visited until the file `done` is there.
fn wanting(lab: &Lab) -> Script {
    let page = json!({"mode": "url", "elicitationId": "e1", "url": "https://h.example/sign-in", "message": "sign in"});
    let required =
        json!({"code": -32042, "message": "sign in first", "data": {"elicitations": [page]}});
    json!({"era": "legacy", "receivedLog": lab.at("received"), "tools": [{"name": "t", "do": [{"replyError": required}]}]}).into()
}

#[tokio::test]
async fn a_page_is_put_to_the_user_and_the_call_made_again_three_times_at_most() {
    for (action, calls, expected) in [
        ("accept", 4, "a page that was visited"),
        ("decline", 1, "the user declined to visit the page it needs"),
        ("cancel", 1, "the page it needs was not visited"),
    ] {
        let lab = Lab::new();
        let user = Decided::new(action);
        let host = host(&lab, wanting(&lab), user.clone()).await;
        let error = call(&host, "mcp__s__t", json!({})).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.may_have_run());
        assert_eq!(received(&lab, "tools/call"), calls, "{action}");
        let asked = user.1.lock().unwrap().clone();
        assert_eq!(asked[0]["url"], "https://h.example/sign-in");
        assert_eq!(asked.len(), calls.min(3));
        lab.end(host).await;
    }
}
