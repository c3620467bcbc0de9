//! Lists connectors over real sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's helpers fail the test by panicking"
)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use trunkline::connectors::{ClaudeAi, ConnectorList, Connectors, ConnectorsError};
use trunkline::transport::Dialer;
use trunkline_config::Secret;

const TOKEN: &str = "sk-ant-oat01-hunter2";

/// The server's reaction to a request.
#[derive(Clone)]
enum Answer {
    /// Sends this and closes.
    Send(Vec<u8>),
    /// Sends this after a delay.
    Late(Duration, Vec<u8>),
    /// Sends nothing.
    Hang,
    /// Sends a byte now and then, forever.
    Drip,
    /// Sends forever.
    Flood,
}

fn http(status: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    Answer::Send(
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}")
            .into_bytes(),
    )
}

fn ok(body: &Value) -> Answer {
    http(
        "200 OK",
        "content-type: application/json\r\n",
        &body.to_string(),
    )
}

fn item(id: &str, name: &str) -> Value {
    json!({
        "type": "mcp_server",
        "id": id,
        "display_name": name,
        "url": format!("https://mcp.{id}.example/mcp"),
        "created_at": "2026-01-01T00:00:00Z",
    })
}

fn page(items: &[Value], next: Option<&str>) -> Answer {
    ok(&json!({"data": items, "has_more": next.is_some(), "next_page": next}))
}

/// Sends the responses in turn, the last one repeatedly, and records the requests.
struct Server {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let mut answers: VecDeque<Answer> = answers.into_iter().collect();
        let record = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let answer = if answers.len() > 1 {
                    answers.pop_front()
                } else {
                    answers.front().cloned()
                };
                tokio::spawn(serve(stream, answer.unwrap(), Arc::clone(&record)));
            }
        });
        Self { url, requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    async fn list(&self) -> Result<ConnectorList, ConnectorsError> {
        list(ClaudeAi::new(&self.url, Secret::new(TOKEN))).await
    }
}

async fn serve(mut stream: TcpStream, answer: Answer, record: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    record
        .lock()
        .unwrap()
        .push(String::from_utf8(head).unwrap());
    let endless = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"data\": [";
    match answer {
        Answer::Send(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
        Answer::Late(wait, bytes) => {
            tokio::time::sleep(wait).await;
            let _ = stream.write_all(&bytes).await;
        }
        Answer::Hang => {
            // Until the client gives up.
            let _ = stream.read_u8().await;
        }
        Answer::Drip => {
            let _ = stream.write_all(endless).await;
            while stream.write_all(b" ").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Answer::Flood => {
            let _ = stream.write_all(endless).await;
            while stream.write_all(&[b' '; 4096]).await.is_ok() {}
        }
    }
}

/// Lists connectors and checks that the output never contains the token.
async fn list(claude_ai: ClaudeAi) -> Result<ConnectorList, ConnectorsError> {
    let outcome = claude_ai.list().await;
    let said = match &outcome {
        Ok(list) => format!("{list:?}"),
        Err(error) => format!("{error} {error:?}"),
    };
    assert!(!said.contains("hunter2"), "{said}");
    outcome
}

async fn check_error(answer: Answer, expected: &str) {
    let server = Server::start([answer]).await;
    let error = server.list().await.unwrap_err();
    let said = error.to_string();
    assert!(said.contains(expected), "{said:?} has no {expected:?}");
    assert!(!said.ends_with('.'), "{said}");
}

#[tokio::test]
async fn list_is_parsed() {
    let server = Server::start([page(
        &[item("slack", "Slack"), item("drive", "Google Drive")],
        None,
    )])
    .await;
    let list = server.list().await.unwrap();
    assert_eq!(list.warnings, Vec::<String>::new());
    assert_eq!(list.names(), ["claude.ai Slack", "claude.ai Google Drive"]);
    assert_eq!(list.connectors[0].id, "slack");
    assert_eq!(list.connectors[0].url, "https://mcp.slack.example/mcp");
    assert_eq!(
        list.connectors[0].proxy_url,
        format!("{}/v1/mcp/slack", server.url)
    );

    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    let request = requests[0].to_lowercase();
    assert!(request.starts_with("get /v1/mcp_servers?limit=1000 http/1.1\r\n"));
    for header in [
        "\r\nauthorization: bearer sk-ant-oat01-hunter2\r\n",
        "\r\nanthropic-version: 2023-06-01\r\n",
        "\r\nanthropic-beta: mcp-servers-2025-12-04\r\n",
        "\r\naccept: application/json\r\n",
        "\r\nuser-agent: trunkline/",
    ] {
        assert!(request.contains(header), "{request}");
    }
}

#[tokio::test]
async fn account_without_connectors_yields_an_empty_list() {
    let server = Server::start([page(&[], None)]).await;
    assert_eq!(server.list().await.unwrap(), ConnectorList::default());
}

#[tokio::test]
async fn base_path_and_separate_proxy_are_supported() {
    let server = Server::start([page(&[item("slack", "Slack")], None)]).await;
    let claude_ai = ClaudeAi::new(format!("{}/gate/", server.url), Secret::new(TOKEN))
        .with_proxy_url("https://proxy.example");
    let list = list(claude_ai).await.unwrap();
    assert!(server.requests()[0].starts_with("GET /gate/v1/mcp_servers?"));
    assert_eq!(
        list.connectors[0].proxy_url,
        "https://proxy.example/v1/mcp/slack"
    );
}

#[tokio::test]
async fn pages_are_followed_and_overlaps_dropped() {
    let server = Server::start([
        page(&[item("a", "A")], Some("two/&?")),
        page(&[item("a", "A"), item("b", "B")], Some("three")),
        page(&[item("c", "C")], None),
    ])
    .await;
    let list = server.list().await.unwrap();
    assert_eq!(list.names(), ["claude.ai A", "claude.ai B", "claude.ai C"]);
    assert_eq!(list.warnings, Vec::<String>::new());
    let requests = server.requests();
    let asked = |index: usize, query: &str| {
        let line = format!("GET /v1/mcp_servers?limit=1000{query} HTTP/1.1\r\n");
        assert!(requests[index].starts_with(&line), "{}", requests[index]);
    };
    asked(0, "");
    asked(1, "&page=two%2F%26%3F");
    asked(2, "&page=three");
}

#[tokio::test]
async fn repeated_cursor_ends_the_list() {
    let server = Server::start([
        page(&[item("a", "A")], Some("x")),
        page(&[item("b", "B")], Some("y")),
        page(&[item("c", "C")], Some("x")),
    ])
    .await;
    let list = server.list().await.unwrap();
    assert_eq!(list.connectors.len(), 3);
    assert_eq!(list.warnings.len(), 1);
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn endless_pages_are_bounded() {
    let answers =
        (0..30).map(|n: u32| page(&[item(&format!("i{n}"), "N")], Some(&format!("p{n}"))));
    let server = Server::start(answers).await;
    let list = server.list().await.unwrap();
    assert_eq!(list.connectors.len(), 20);
    assert!(list.warnings[0].contains("more than 20 pages"));
    assert_eq!(server.requests().len(), 20);
}

#[tokio::test]
async fn failing_later_page_keeps_earlier_pages() {
    for bad in [
        http("500 Oops", "", ""),
        Answer::Hang,
        http("200 OK", "", "<html>"),
    ] {
        let server = Server::start([page(&[item("a", "A")], Some("x")), bad]).await;
        let claude_ai =
            ClaudeAi::new(&server.url, Secret::new(TOKEN)).with_limit(Duration::from_secs(2));
        let list = list(claude_ai).await.unwrap();
        assert_eq!(list.names(), ["claude.ai A"]);
        assert!(list.warnings[0].starts_with("some connectors are missing: "));
    }
}

#[tokio::test]
async fn invalid_item_is_skipped() {
    let mut unnamed = item("c", "C");
    unnamed["display_name"] = Value::Null;
    let server = Server::start([page(
        &[item("a", "A"), json!("nonsense"), unnamed, item("d", "D")],
        None,
    )])
    .await;
    let list = server.list().await.unwrap();
    assert_eq!(list.names(), ["claude.ai A", "claude.ai D"]);
    assert_eq!(
        list.warnings,
        [
            "skipped connector 2 of page 1: it has no id",
            "skipped connector 3 of page 1: it has no display name"
        ]
    );
}

#[tokio::test]
async fn malformed_responses_carry_a_next_step() {
    check_error(http("401 Unauthorized", "", "{}"), "sign in again").await;
    check_error(http("403 Forbidden", "", "{}"), "status 403").await;
    check_error(http("404 Not Found", "", "{}"), "status 404").await;
    check_error(
        http("500 Internal Server Error", "", "{}"),
        "status 500; try again later",
    )
    .await;
    check_error(http("200 OK", "", "<!doctype html>"), "it is a web page").await;
    check_error(http("200 OK", "", ""), "it ends too early").await;
    check_error(http("200 OK", "", "{\"data\": [{"), "it ends too early").await;
    check_error(
        http("200 OK", "", "{\"data\": \"sk-ant-oat01-hunter2\"}"),
        "not a list of connectors (line 1,",
    )
    .await;
    check_error(http("200 OK", "", "[]"), "not a list of connectors").await;
    let short = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"data\": [";
    check_error(Answer::Send(short.into()), "could not reach claude.ai: ").await;
    check_error(
        Answer::Send("nonsense\r\n\r\n".into()),
        "could not reach claude.ai: ",
    )
    .await;
    check_error(Answer::Send(Vec::new()), "could not reach claude.ai: ").await;
}

#[tokio::test]
async fn errors_report_whether_to_retry_or_sign_in() {
    let error = |answer| async { Server::start([answer]).await.list().await.unwrap_err() };
    assert!(error(http("401 No", "", "")).await.is_auth_required());
    assert!(error(http("503 Busy", "", "")).await.is_retryable());
    assert!(error(http("429 Slow", "", "")).await.is_retryable());
    assert!(!error(http("400 Bad", "", "")).await.is_retryable());
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Server::start([page(&[item("evil", "Evil")], None)]).await;
    for status in [
        "301 Moved",
        "302 Found",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
    ] {
        for location in [&elsewhere.url, "/v1/other", "//127.0.0.1:1/"] {
            let server =
                Server::start([http(status, &format!("location: {location}\r\n"), "")]).await;
            let error = server.list().await.unwrap_err();
            assert!(
                matches!(error, ConnectorsError::Redirected { .. }),
                "{error:?}"
            );
            assert_eq!(server.requests().len(), 1);
        }
    }
    assert_eq!(elsewhere.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn hanging_or_dripping_server_times_out() {
    for answer in [Answer::Hang, Answer::Drip] {
        let server = Server::start([answer]).await;
        let limit = Duration::from_millis(200);
        let start = Instant::now();
        let claude_ai = ClaudeAi::new(&server.url, Secret::new(TOKEN)).with_limit(limit);
        let error = list(claude_ai).await.unwrap_err();
        assert_eq!(error, ConnectorsError::TimedOut { after: limit });
        assert!(start.elapsed() >= limit);
        assert!(start.elapsed() < Duration::from_secs(3));
    }
}

#[tokio::test]
async fn time_limit_covers_all_pages() {
    let answers = (0..20).map(|n: u32| {
        let page = page(&[item(&format!("i{n}"), "N")], Some(&format!("p{n}")));
        match page {
            Answer::Send(bytes) if n > 0 => Answer::Late(Duration::from_millis(400), bytes),
            first => first,
        }
    });
    let server = Server::start(answers).await;
    let claude_ai =
        ClaudeAi::new(&server.url, Secret::new(TOKEN)).with_limit(Duration::from_secs(2));
    let start = Instant::now();
    let list = list(claude_ai).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(5));
    assert!((1..=5).contains(&list.connectors.len()), "{list:?}");
    assert!(list.warnings[0].contains("within 2.0 s"), "{list:?}");
}

/// Paused time jumps to the next timer, which shows which limit applies.
#[tokio::test(start_paused = true)]
async fn default_time_limit_is_five_seconds() {
    let server = Server::start([Answer::Hang]).await;
    let start = tokio::time::Instant::now();
    let error = server.list().await.unwrap_err();
    assert!(
        matches!(error, ConnectorsError::TimedOut { .. }),
        "{error:?}"
    );
    assert_eq!(start.elapsed().as_secs(), 5);
}

#[tokio::test]
async fn endless_body_is_bounded() {
    check_error(Answer::Flood, "longer than 1048576 bytes").await;
    let large = format!("{{\"data\": [], \"x\": \"{}\"}}", "x".repeat(1024 * 1024));
    check_error(http("200 OK", "", &large), "longer than 1048576 bytes").await;
}

#[tokio::test]
async fn unreachable_server_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = list(ClaudeAi::new(url, Secret::new(TOKEN)))
        .await
        .unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn token_is_not_sent_over_plain_http() {
    for url in [
        "http://example.com",
        "https://me:hunter2@example.com",
        "ws://localhost",
    ] {
        let error = list(ClaudeAi::new(url, Secret::new(TOKEN)))
            .await
            .unwrap_err();
        assert!(matches!(error, ConnectorsError::Url { .. }), "{error:?}");
    }
    let server = Server::start([page(&[], None)]).await;
    let claude_ai =
        ClaudeAi::new(&server.url, Secret::new(TOKEN)).with_proxy_url("http://example.com");
    let error = list(claude_ai).await.unwrap_err();
    assert!(matches!(error, ConnectorsError::Url { .. }), "{error:?}");
    assert_eq!(server.requests(), Vec::<String>::new());
}

/// Nothing speaks TLS here; the client must only start a handshake.
#[tokio::test]
async fn https_speaks_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let first_byte = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap()
    });
    let error = list(ClaudeAi::new(url, Secret::new(TOKEN)))
        .await
        .unwrap_err();
    assert!(
        matches!(error, ConnectorsError::Network { .. }),
        "{error:?}"
    );
    // A TLS handshake record.
    assert_eq!(first_byte.await.unwrap(), 0x16);
}

#[tokio::test]
async fn list_uses_the_hosts_dialer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let dialer = Dialer::with_vars(move |name| (name == "HTTPS_PROXY").then(|| proxy.clone()));
    let claude_ai = ClaudeAi::new("https://connectors.example", Secret::new(TOKEN));
    let asked = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let refusal = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(refusal).await.unwrap();
        String::from_utf8(head).unwrap()
    };
    let (listed, asked) = tokio::join!(claude_ai.list_over(&dialer), asked);
    assert!(
        asked.starts_with("CONNECT connectors.example:443 HTTP/1.1\r\n"),
        "{asked}"
    );
    assert!(!asked.contains("hunter2"), "{asked}");
    let error = listed.unwrap_err();
    assert!(
        matches!(error, ConnectorsError::Network { .. }),
        "{error:?}"
    );
}
