//! Clients that speak raw JSON lines, and servers to put behind a gateway.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, WriteHalf, duplex, split,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use trunkline::permission::AllowAll;
use trunkline::{Host, HostBuilder, ServerEntry};
use trunkline_gateway::{ClientInfo, Gateway, GatewayOptions};
use trunkline_testkit::{Script, bin};
use trunkline_transport::IoTransport;

/// Nothing here takes this long.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

pub(crate) const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// All pairs of a client's and a server's era.
pub(crate) fn pairs() -> impl Iterator<Item = (Era, Era)> {
    ERAS.into_iter()
        .flat_map(|client| ERAS.map(|server| (client, server)))
}

/// An entry for a scripted server process.
pub(crate) fn entry(name: &str, era: Era, script: Script) -> ServerEntry {
    let era = match era {
        Era::Legacy => trunkline_testkit::Era::Legacy,
        Era::Modern => trunkline_testkit::Era::Modern,
    };
    let program = bin("testkit-server").to_string_lossy().into_owned();
    let script = script.era(era).to_json();
    ServerEntry::stdio(name, program, ["--inline".to_owned(), script])
}

pub(crate) fn builder(entries: impl IntoIterator<Item = ServerEntry>) -> HostBuilder {
    Host::builder().servers(entries).permit(AllowAll)
}

pub(crate) fn gateway(entries: impl IntoIterator<Item = ServerEntry>) -> Gateway {
    Gateway::start(builder(entries), GatewayOptions::default())
}

/// All that a client can be asked.
pub(crate) fn everything() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}})
}

/// Answers by method.
pub(crate) fn answers() -> HashMap<String, Value> {
    [
        (
            "elicitation/create",
            json!({"action": "accept", "content": {"name": "Ada"}}),
        ),
        (
            "sampling/createMessage",
            json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "hi"}}),
        ),
        ("roots/list", json!({"roots": [{"uri": "file:///client"}]})),
    ]
    .map(|(method, answer)| (method.to_owned(), answer))
    .into()
}

/// A client over a pipe.
pub(crate) struct TestClient {
    pub(crate) era: Era,
    pub(crate) capabilities: Value,
    pub(crate) answers: HashMap<String, Value>,
    /// Answers in place of `answers`, from the method and the params of a question.
    pub(crate) answer_with: Option<fn(&str, &Value) -> Value>,
    /// Notifications and requests of the gateway, in order.
    pub(crate) seen: Vec<Value>,
    writer: WriteHalf<DuplexStream>,
    incoming: mpsc::UnboundedReceiver<Value>,
    next_id: u64,
    serving: JoinHandle<()>,
}

impl Drop for TestClient {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl TestClient {
    pub(crate) async fn new(gateway: &Gateway, era: Era) -> Self {
        Self::with(gateway, era, ClientInfo::new("test"), everything()).await
    }

    pub(crate) async fn with(
        gateway: &Gateway,
        era: Era,
        info: ClientInfo,
        capabilities: Value,
    ) -> Self {
        let (ours, theirs) = duplex(1 << 16);
        let gateway = gateway.clone();
        let serving = tokio::spawn(async move {
            let (reader, writer) = split(theirs);
            let served = gateway.serve(IoTransport::new(reader, writer), info);
            served.await.expect("a session");
        });
        let (reader, writer) = split(ours);
        let (messages, incoming) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut lines = BufReader::new(reader).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let message = serde_json::from_str(&line).expect("JSON");
                if messages.send(message).is_err() {
                    return;
                }
            }
        });
        let mut client = Self {
            era,
            capabilities,
            answers: answers(),
            answer_with: None,
            seen: Vec::new(),
            writer,
            incoming,
            next_id: 0,
            serving,
        };
        if era == Era::Legacy {
            let params = json!({
                "protocolVersion": "2025-11-25", "capabilities": client.capabilities,
                "clientInfo": {"name": "test", "version": "1"},
            });
            let result = client.request("initialize", params).await;
            assert_eq!(result["result"]["protocolVersion"], "2025-11-25");
            client.notify("notifications/initialized", json!({})).await;
        }
        client
    }

    async fn write(&mut self, message: Value) {
        let line = format!("{message}\n");
        self.writer
            .write_all(line.as_bytes())
            .await
            .expect("a pipe");
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.write(json!({"jsonrpc": "2.0", "method": method, "params": params}))
            .await;
    }

    /// Sends a request and returns its id.
    pub(crate) async fn send(&mut self, method: &str, mut params: Value) -> u64 {
        self.next_id += 1;
        if self.era == Era::Modern {
            let meta = &mut params["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        }
        let id = self.next_id;
        self.write(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
        id
    }

    fn answer(&self, method: &str, params: &Value) -> Value {
        match self.answer_with {
            Some(answer) => answer(method, params),
            None => self.answers.get(method).cloned().unwrap_or_default(),
        }
    }

    /// The next message; answers questions on the way.
    pub(crate) async fn next(&mut self) -> Value {
        let message = timeout(LIMIT, self.incoming.recv()).await;
        let message = message.expect("a message in time").expect("an open pipe");
        if let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) {
            let answer = self.answer(method, &message["params"]);
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": answer});
            self.write(answer).await;
        }
        if message.get("method").is_some() {
            self.seen.push(message.clone());
        }
        message
    }

    /// The response to a request.
    pub(crate) async fn response(&mut self, id: u64) -> Value {
        loop {
            let message = self.next().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Sends a request and returns the response.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        self.response(id).await
    }

    /// As [`TestClient::request`]; a modern client answers questions and repeats the request.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let mut response = self.request(method, params.clone()).await;
        while response["result"]["resultType"] == "input_required" {
            let mut retry = params.clone();
            retry["requestState"] = response["result"]["requestState"].clone();
            let requests = response["result"]["inputRequests"].as_object().cloned();
            for (key, request) in requests.expect("input requests") {
                let method = request["method"].as_str().expect("a method").to_owned();
                retry["inputResponses"][key] = self.answer(&method, &request["params"]);
                self.seen.push(request);
            }
            response = self.request(method, retry).await;
        }
        response
    }

    /// Calls a tool and returns its text, or its error.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Result<String, Value> {
        let params = json!({"name": tool, "arguments": arguments});
        let response = self.ask("tools/call", params).await;
        match response.get("error") {
            Some(error) => Err(error.clone()),
            None => {
                let text = &response["result"]["content"][0]["text"];
                Ok(text.as_str().expect("text").to_owned())
            }
        }
    }

    /// Waits for a notification, among those seen and those to come.
    pub(crate) async fn notification(&mut self, method: &str) -> Value {
        loop {
            let at = self
                .seen
                .iter()
                .position(|message| message["method"] == method);
            if let Some(at) = at {
                return self.seen.remove(at);
            }
            self.next().await;
        }
    }

    /// Whether it has seen a message, once all that was sent before has arrived.
    pub(crate) async fn has_seen(&mut self, method: &str) -> bool {
        self.request("tools/list", json!({})).await;
        self.seen.iter().any(|message| message["method"] == method)
    }

    /// The names of a list.
    pub(crate) async fn names(&mut self, method: &str, list: &str, member: &str) -> Vec<String> {
        let response = self.request(method, json!({})).await;
        let items = response["result"][list].as_array().expect("a list").clone();
        let names = items
            .iter()
            .map(|item| item[member].as_str().expect("a name"));
        names.map(str::to_owned).collect()
    }

    pub(crate) async fn tools(&mut self) -> Vec<String> {
        self.names("tools/list", "tools", "name").await
    }
}

/// Waits until a file has a line with this text.
pub(crate) async fn line_in(file: &std::path::Path, text: &str) {
    let found = async {
        loop {
            let content = std::fs::read_to_string(file).unwrap_or_default();
            if content.contains(text) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LIMIT, found).await.expect("the line in time");
}
