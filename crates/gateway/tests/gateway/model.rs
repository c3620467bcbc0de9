//! Fifty clients of both eras at servers of both eras, at random, against a model of what must
//! arrive where. Every text carries the number of its client, so that a message at the wrong client
//! is seen at once.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex, split};
use tokio::sync::{mpsc, oneshot};
use trunkline::Host;
use trunkline::permission::AllowAll;
use trunkline_gateway::{Gateway, GatewayOptions};

use crate::support::{Era, TestClient};

const CLIENTS: usize = 50;
/// Interactions of all clients together; `TRUNKLINE_MODEL_INTERACTIONS` sets another number.
const INTERACTIONS: usize = 3000;
const SERVERS: [(&str, Era); 4] = [
    ("leg1", Era::Legacy),
    ("leg2", Era::Legacy),
    ("mod1", Era::Modern),
    ("mod2", Era::Modern),
];

/// A small generator: the same seed gives the same run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// What the servers have seen.
#[derive(Default)]
struct Seen {
    hanging: HashSet<String>,
    cancelled: HashSet<String>,
}

/// A server in this process. It works on all its calls at once.
struct Server {
    era: Era,
    seen: Arc<Mutex<Seen>>,
    out: mpsc::UnboundedSender<Value>,
    /// Our questions that wait for answers.
    questions: HashMap<u64, oneshot::Sender<Value>>,
    /// Calls that wait for a cancellation, by id.
    hanging: HashMap<String, String>,
    next_question: u64,
}

impl Server {
    async fn run(era: Era, seen: Arc<Mutex<Seen>>, pipe: DuplexStream) {
        let (reader, mut writer) = split(pipe);
        let (out, mut messages) = mpsc::unbounded_channel::<Value>();
        tokio::spawn(async move {
            while let Some(message) = messages.recv().await {
                let line = format!("{message}\n");
                if writer.write_all(line.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
        let mut server = Self {
            era,
            seen,
            out,
            questions: HashMap::new(),
            hanging: HashMap::new(),
            next_question: 0,
        };
        let mut lines = BufReader::new(reader).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            server.message(serde_json::from_str(&line).expect("JSON"));
        }
    }

    fn message(&mut self, message: Value) {
        let Some(method) = message["method"].as_str() else {
            let question = message["id"]
                .as_u64()
                .and_then(|id| self.questions.remove(&id));
            if let Some(question) = question {
                let _ = question.send(message["result"].clone());
            }
            return;
        };
        if method == "notifications/cancelled" {
            let id = message["params"]["requestId"].to_string();
            if let Some(text) = self.hanging.remove(&id) {
                self.seen.lock().unwrap().cancelled.insert(text);
            }
            return;
        }
        let Some(id) = message.get("id").cloned() else {
            return;
        };
        let tools: Vec<Value> = ["echo", "ask", "steps", "hang"]
            .iter()
            .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
            .collect();
        let info = json!({"name": "model", "version": "1"});
        let capabilities = json!({"tools": {}});
        let result = match (method, self.era) {
            ("server/discover", Era::Modern) => json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private",
            }),
            ("initialize", Era::Legacy) => json!({
                "protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info,
            }),
            ("tools/list", _) => json!({"tools": tools, "resultType": "complete"}),
            ("tools/call", _) => return self.call(id, &message["params"]),
            _ => {
                let error = json!({"code": -32601, "message": "no"});
                let _ = self
                    .out
                    .send(json!({"jsonrpc": "2.0", "id": id, "error": error}));
                return;
            }
        };
        let _ = self
            .out
            .send(json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    fn call(&mut self, id: Value, params: &Value) {
        let text = params["arguments"]["text"]
            .as_str()
            .expect("a text")
            .to_owned();
        let (out, key) = (self.out.clone(), id.to_string());
        let reply = move |result: Value| {
            let _ = out.send(json!({"jsonrpc": "2.0", "id": id, "result": result}));
        };
        let said = |text: &str| json!({"content": [{"type": "text", "text": text}], "resultType": "complete"});
        let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        let question = json!({"message": text, "requestedSchema": schema});
        match params["name"].as_str().expect("a name") {
            "echo" => reply(said(&text)),
            "steps" => {
                for step in 1..=3 {
                    let token = &params["_meta"]["progressToken"];
                    let progress =
                        json!({"progressToken": token, "progress": step, "message": text});
                    let _ = self.out.send(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}));
                }
                reply(said(&text));
            }
            "hang" => {
                self.seen.lock().unwrap().hanging.insert(text.clone());
                self.hanging.insert(key, text);
            }
            _ if self.era == Era::Modern => {
                let answer = &params["inputResponses"]["k"]["content"]["name"];
                if let Some(answer) = answer.as_str() {
                    assert_eq!(params["requestState"], text, "the state of another call");
                    return reply(said(&format!("{text} {answer}")));
                }
                reply(json!({"resultType": "input_required", "requestState": text,
                    "inputRequests": {"k": {"method": "elicitation/create", "params": question}}}));
            }
            _ => {
                self.next_question += 1;
                let (answer, answered) = oneshot::channel();
                self.questions.insert(self.next_question, answer);
                let _ = self
                    .out
                    .send(json!({"jsonrpc": "2.0", "id": self.next_question,
                    "method": "elicitation/create", "params": question}));
                tokio::spawn(async move {
                    if let Ok(answer) = answered.await {
                        let name = answer["content"]["name"].as_str().unwrap_or("nothing");
                        reply(said(&format!("{text} {name}")));
                    }
                });
            }
        }
    }
}

/// One client of the model.
struct Actor {
    number: usize,
    client: TestClient,
    random: Random,
    count: u64,
    /// The open calls by id.
    open: HashMap<u64, Call>,
    cancelled: HashSet<u64>,
}

struct Call {
    tool: &'static str,
    text: String,
    params: Value,
    steps: u64,
}

/// The answer to a question is its text, reversed: nobody else's.
fn answer(question: &Value) -> Value {
    let text = question["message"].as_str().expect("a message");
    let name: String = own_part(text).chars().rev().collect();
    json!({"action": "accept", "content": {"name": name}})
}

/// The text without the server's name in front.
fn own_part(message: &str) -> &str {
    message.split_once("] ").map_or(message, |(_, text)| text)
}

impl Actor {
    fn is_mine(&self, text: &str) -> bool {
        text.starts_with(&format!("c{}-", self.number))
    }

    async fn interact(&mut self) {
        for _ in 0..=self.random.below(3) {
            self.start_call().await;
        }
        while !self.open.is_empty() {
            let message = self.client.next().await;
            self.check(message).await;
        }
    }

    async fn start_call(&mut self) {
        let (server, _) = SERVERS[usize::try_from(self.random.below(4)).unwrap()];
        let tool = ["echo", "ask", "steps", "hang"][usize::try_from(self.random.below(4)).unwrap()];
        self.count += 1;
        let text = format!("c{}-{}", self.number, self.count);
        let params = json!({"name": format!("mcp__{server}__{tool}"), "arguments": {"text": text},
            "_meta": {"progressToken": self.count}});
        let id = self.client.send("tools/call", params.clone()).await;
        if tool == "hang" {
            // Sometimes before the server has the call, sometimes after.
            for _ in 0..self.random.below(50) {
                tokio::task::yield_now().await;
            }
            self.client
                .notify("notifications/cancelled", json!({"requestId": id}))
                .await;
            self.cancelled.insert(id);
            return;
        }
        self.open.insert(
            id,
            Call {
                tool,
                text,
                params,
                steps: 0,
            },
        );
    }

    async fn check(&mut self, message: Value) {
        match message["method"].as_str() {
            Some("elicitation/create") => {
                let text = own_part(message["params"]["message"].as_str().unwrap()).to_owned();
                assert!(
                    self.is_mine(&text),
                    "client {} was asked {text}",
                    self.number
                );
                let is_open = |call: &Call| call.text == text && call.tool == "ask";
                assert!(self.open.values().any(is_open), "{text} is not open");
            }
            Some("notifications/progress") => {
                let params = &message["params"];
                let text = params["message"].as_str().unwrap();
                assert!(self.is_mine(text), "client {} got {message}", self.number);
                let call = self.open.values_mut().find(|call| call.text == text);
                let call = call.expect("progress of an open call");
                call.steps += 1;
                assert_eq!(
                    params["progressToken"],
                    call.params["_meta"]["progressToken"]
                );
                assert_eq!(params["progress"], call.steps, "in order");
            }
            Some("notifications/tools/list_changed") => {}
            Some(other) => panic!("client {} got {other}: {message}", self.number),
            None => self.response(message).await,
        }
    }

    async fn response(&mut self, message: Value) {
        let id = message["id"].as_u64().expect("an id");
        assert!(
            !self.cancelled.contains(&id),
            "a cancelled call was answered: {message}"
        );
        let call = self.open.remove(&id).expect("a response to an open call");
        let result = &message["result"];
        if result["resultType"] == "input_required" {
            assert_eq!(self.client.era, Era::Modern);
            let mut retry = call.params.clone();
            retry["requestState"] = result["requestState"].clone();
            // The question may be about another of its calls: it has one client, not one call.
            for (key, request) in result["inputRequests"].as_object().unwrap() {
                let text = own_part(request["params"]["message"].as_str().unwrap());
                let number = self.number;
                assert!(self.is_mine(text), "client {number} was asked {text}");
                retry["inputResponses"][key] = answer(&request["params"]);
            }
            let id = self.client.send("tools/call", retry).await;
            self.open.insert(id, call);
            return;
        }
        let said = result["content"][0]["text"].as_str();
        let said = said.unwrap_or_else(|| panic!("client {}: {message}", self.number));
        let expected = match call.tool {
            "ask" => format!(
                "{} {}",
                call.text,
                call.text.chars().rev().collect::<String>()
            ),
            _ => call.text.clone(),
        };
        assert_eq!(said, expected, "client {}", self.number);
        assert_eq!(call.steps, if call.tool == "steps" { 3 } else { 0 });
    }
}

#[tokio::test(start_paused = true)]
async fn everything_arrives_where_it_belongs() {
    let variable = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let time = time.unwrap().subsec_nanos();
    let seed = variable("TRUNKLINE_MODEL_SEED").unwrap_or(u64::from(time) | 1);
    let wanted = variable("TRUNKLINE_MODEL_INTERACTIONS");
    let wanted = wanted.map_or(INTERACTIONS, |count| usize::try_from(count).unwrap());
    println!("TRUNKLINE_MODEL_SEED={seed} TRUNKLINE_MODEL_INTERACTIONS={wanted}");

    let seen = Arc::new(Mutex::new(Seen::default()));
    let mut builder = Host::builder().permit(AllowAll);
    for (name, era) in SERVERS {
        let seen = Arc::clone(&seen);
        builder = builder.connect(name, move || {
            let (ours, theirs) = duplex(1 << 16);
            tokio::spawn(Server::run(era, Arc::clone(&seen), theirs));
            let pipe = split(ours);
            async move { Ok(pipe) }
        });
    }
    let gateway = Gateway::start(builder, GatewayOptions::default());
    gateway.host().ready().await;
    let mut actors = Vec::new();
    for number in 0..CLIENTS {
        let era = [Era::Legacy, Era::Modern][number % 2];
        let mut client = TestClient::new(&gateway, era).await;
        client.answer_with = Some(|_, params| answer(params));
        let random = Random(seed.wrapping_mul(2 * number as u64 + 1) | 1);
        actors.push(Actor {
            number,
            client,
            random,
            count: 0,
            open: HashMap::new(),
            cancelled: HashSet::new(),
        });
    }
    // A server that has asked gets the calls of one client at a time.
    for (server, _) in SERVERS {
        let tool = format!("mcp__{server}__ask");
        let said = actors[0]
            .client
            .call(&tool, json!({"text": "c0-first"}))
            .await;
        assert_eq!(said.unwrap(), "c0-first tsrif-0c");
    }
    actors[0].client.seen.clear();
    let mut running = tokio::task::JoinSet::new();
    for mut actor in actors {
        running.spawn(async move {
            while usize::try_from(actor.count).unwrap() < wanted / CLIENTS {
                actor.interact().await;
                actor.client.seen.clear();
            }
            (actor.count, actor)
        });
    }
    let mut total = 0;
    let mut done = Vec::new();
    while let Some(finished) = running.join_next().await {
        let (count, actor) = finished.expect("a client of the model");
        total += count;
        done.push(actor);
    }
    assert!(total >= wanted as u64, "{total}");
    // Every call that reached a server and was cancelled was cancelled there.
    let settled = async {
        loop {
            {
                let seen = seen.lock().unwrap();
                if seen.hanging == seen.cancelled {
                    return;
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let settled = tokio::time::timeout(crate::support::LIMIT, settled).await;
    settled.expect("all cancellations arrive");
    drop(done);
    gateway.shutdown().await;
}
