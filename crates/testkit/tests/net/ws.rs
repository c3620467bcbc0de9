//! WebSocket: sessions, frames good and bad, crashes.

use std::net::TcpStream;

use serde_json::{Value, json};
use trunkline_testkit::{
    Script,
    net::{TestCa, TlsOptions, WsServer},
    wait_until,
};
use tungstenite::{
    Error, Message, WebSocket,
    client::IntoClientRequest,
    handshake::client::{Request, Response},
    protocol::CloseFrame,
};

use crate::browser::{Duplex, LIMIT, tcp, tls};

struct Client(WebSocket<Box<dyn Duplex>>);

fn upgrade(server: &WsServer, headers: &[(&'static str, &str)]) -> Request {
    let mut request = server.url().into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    request
}

const MCP: (&str, &str) = ("sec-websocket-protocol", "mcp");

impl Client {
    fn connect(server: &WsServer) -> Self {
        let (client, response) = Self::over(tcp(server.address()), upgrade(server, &[MCP]));
        assert_eq!(response.headers()[MCP.0], "mcp");
        client
    }

    fn over(stream: impl Duplex + 'static, request: Request) -> (Self, Response) {
        let stream: Box<dyn Duplex> = Box::new(stream);
        let (socket, response) = tungstenite::client(request, stream).expect("an upgrade");
        (Self(socket), response)
    }

    fn send(&mut self, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.0.send(Message::text(message.to_string())).unwrap();
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.send(method, params);
        self.message()
    }

    fn message(&mut self) -> Value {
        loop {
            match self.0.read().expect("a message") {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Binary(bytes) => return serde_json::from_slice(&bytes).unwrap(),
                _ => {}
            }
        }
    }

    fn initialize(&mut self) {
        let answer = self.request("initialize", json!({"protocolVersion": "2025-11-25"}));
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    }
}

fn script() -> Script {
    Script::default()
        .tool("echo", json!([{"echo": true}]))
        .tool("crash", json!([{"exit": 1}]))
        .tool("bad", json!([{"garbage": 20}]))
        .tool(
            "slow",
            json!([{"slowWrite": {"text": "{\"id\":$ID}", "chunk": 2}}]),
        )
}

#[test]
fn each_connection_is_a_session() {
    let server = WsServer::start(script());
    let mut clients = [Client::connect(&server), Client::connect(&server)];
    for client in &mut clients {
        client.initialize();
        let answer = client.request("tools/call", json!({"name": "echo", "arguments": {"a": 1}}));
        assert_eq!(answer["result"]["content"][0]["text"], r#"{"a":1}"#);
    }
    server.push(json!({"method": "notifications/tools/list_changed"}));
    for client in &mut clients {
        assert_eq!(
            client.message()["method"],
            "notifications/tools/list_changed"
        );
    }
    assert_eq!((server.connections(), server.sessions()), (2, 2));
    let [mut leaving, _staying] = clients;
    let frame = CloseFrame {
        code: 1000.into(),
        reason: "".into(),
    };
    leaving.0.close(Some(frame)).unwrap();
    while leaving.0.read().is_ok() {}
    wait_until(LIMIT, || server.sessions() == 1);
    assert_eq!(server.closes(), [Some(1000)]);
}

#[test]
fn upgrades_are_recorded_and_judged() {
    let ca = TestCa::new();
    let server = WsServer::builder(script())
        .token("good")
        .tls(TlsOptions::new(&ca))
        .path("/ws")
        .start();
    assert!(server.url().starts_with("wss://127.0.0.1:") && server.url().ends_with("/ws"));
    let connect = |headers: &[(&'static str, &str)]| {
        let stream = tls(server.address(), &ca, None);
        tungstenite::client(upgrade(&server, headers), stream).map(|(_, response)| response)
    };
    let refused = connect(&[MCP]).expect_err("no token").to_string();
    assert!(refused.contains("401"), "{refused}");
    let good = connect(&[("authorization", "Bearer good")]).unwrap();
    assert!(!good.headers().contains_key(MCP.0));
    let both = [
        ("authorization", "Bearer good"),
        ("sec-websocket-protocol", "x, mcp"),
    ];
    assert_eq!(connect(&both).unwrap().headers()[MCP.0], "mcp");
    let seen = server.requests();
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[0].header(MCP.0), Some("mcp"));
    assert_eq!(seen[1].header("authorization"), Some("Bearer good"));

    let server = WsServer::builder(script())
        .subprotocol(Some("other"))
        .start();
    // The library checks it as a client should.
    let wrong = tungstenite::client(upgrade(&server, &[MCP]), tcp(server.address()));
    assert!(wrong.is_err());
}

#[test]
fn messages_come_in_fragments_binary_or_broken() {
    let server = WsServer::builder(script())
        .fragments(7)
        .binary(true)
        .start();
    let mut client = Client::connect(&server);
    client.send("ping", json!({}));
    let Message::Binary(bytes) = client.0.read().unwrap() else {
        panic!("not binary");
    };
    assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap()["id"], 1);

    let server = WsServer::start(script());
    let mut client = Client::connect(&server);
    client.initialize();
    assert_eq!(
        client.request("tools/call", json!({"name": "slow"}))["id"],
        1
    );
    client.send("tools/call", json!({"name": "bad"}));
    assert!(matches!(client.0.read(), Err(Error::Utf8(_))));
    let mut client = Client::connect(&server);
    client.initialize();
    // There is no such opcode.
    server.send_raw([0x87, 0]);
    assert!(matches!(client.0.read(), Err(Error::Protocol(_))));
    let mut client = Client::connect(&server);
    client.initialize();
    server.send("not json");
    assert_eq!(client.0.read().unwrap(), Message::text("not json"));
}

#[test]
fn pings_are_answered_unless_told() {
    let server = WsServer::start(script());
    let mut client = Client::connect(&server);
    client.0.send(Message::Ping("x".into())).unwrap();
    assert_eq!(client.0.read().unwrap(), Message::Pong("x".into()));
    server.ping();
    assert!(matches!(client.0.read().unwrap(), Message::Ping(_)));
    client.0.flush().unwrap();
    wait_until(LIMIT, || (server.pings(), server.pongs()) == (1, 1));

    let mute = WsServer::builder(script()).mute_pings(true).start();
    let mut client = Client::connect(&mute);
    client.0.send(Message::Ping("x".into())).unwrap();
    // The next thing to come is the answer, not the pong.
    assert!(client.request("ping", json!({}))["id"] == 1);
    client.0.close(None).unwrap();
    assert!(matches!(client.0.read().unwrap(), Message::Close(_)));
}

#[test]
fn connections_end_as_told_and_the_server_comes_back() {
    let server = WsServer::start(script());
    let mut client = Client::connect(&server);
    wait_until(LIMIT, || server.sessions() == 1);
    server.close(1001, "away");
    let Message::Close(Some(frame)) = client.0.read().unwrap() else {
        panic!("no Close frame");
    };
    assert_eq!(
        (u16::from(frame.code), frame.reason.as_str()),
        (1001, "away")
    );

    let ends: [fn(&WsServer); 3] = [
        WsServer::drop_connections,
        WsServer::reset_connections,
        WsServer::restart,
    ];
    for end in ends {
        let mut client = Client::connect(&server);
        client.initialize();
        end(&server);
        assert!(client.0.read().is_err());
        wait_until(LIMIT, || server.open_connections() == 0);
    }
    let mut client = Client::connect(&server);
    client.initialize();
    client.send("tools/call", json!({"name": "crash"}));
    assert!(client.0.read().is_err());
    assert!(TcpStream::connect(server.address()).is_err());
    server.restart();
    Client::connect(&server).initialize();
}
