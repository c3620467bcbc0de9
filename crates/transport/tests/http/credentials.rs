//! Credentials: tokens, refusals and redaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use http::{HeaderValue, Method};
use tokio::sync::Mutex;
use trunkline_transport::http::{
    AfterRefusal, BoxFuture, Credentials, CredentialsError, FixedToken, HeadersHelper, HttpServer,
    ProofKey, Refusal, Token,
};
use trunkline_wire::client::ConnectError;
use trunkline_wire::transport::{CloseReason, DeliveryError, DeliveryErrorKind};
use url::Url;

use crate::inline::{InlineServer, ReceivedRequest, Steps, discovered, reply, whole};
use crate::support::{at, call, connect_with, delivery_error, in_time, try_connect};

const CHALLENGE: &str = r#"Bearer resource_metadata="https://example.com/.well-known""#;

fn refuse(status: u16) -> Steps {
    whole(status, &[("www-authenticate", CHALLENGE)], "who are you?")
}

/// A modern server that accepts requests by a predicate and refuses others with this status.
async fn guarded(
    status: u16,
    judge: impl Fn(&ReceivedRequest) -> bool + Send + Sync + 'static,
) -> InlineServer {
    InlineServer::start(move |seen| {
        if !judge(seen) {
            return refuse(status);
        }
        match seen.what() {
            "server/discover" => reply(200, &seen.result(&discovered())),
            _ => reply(200, &seen.text("done")),
        }
    })
    .await
}

fn bearer(seen: &ReceivedRequest) -> Option<&str> {
    seen.header("authorization")?.strip_prefix("Bearer ")
}

fn with(server: &InlineServer, credentials: impl Credentials) -> HttpServer {
    let mut entry = at(&server.url());
    entry.credentials = Some(Arc::new(credentials));
    entry
}

/// The error of the handshake.
fn failure<T>(outcome: Result<T, ConnectError>) -> DeliveryError {
    match outcome {
        Err(ConnectError::Request(error)) => delivery_error::<()>(Err(error)),
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("it was let in"),
    }
}

/// Tokens `t0`, `t1`, …: the next one when the current one is refused.
#[derive(Clone, Default)]
struct Renewing {
    number: Arc<Mutex<usize>>,
    renewed: Arc<AtomicUsize>,
    refusals: Arc<std::sync::Mutex<Vec<Refusal>>>,
}

impl Renewing {
    fn token(number: usize) -> Token {
        Token::bearer(&format!("t{number}")).unwrap()
    }
}

impl Credentials for Renewing {
    fn token(&self) -> BoxFuture<'_, Result<Option<Token>, CredentialsError>> {
        Box::pin(async { Ok(Some(Self::token(*self.number.lock().await))) })
    }

    fn refused(&self, refusal: Refusal) -> BoxFuture<'_, AfterRefusal> {
        self.refusals.lock().unwrap().push(refusal.clone());
        Box::pin(async move {
            let mut number = self.number.lock().await;
            if refusal.sent == Some(Self::token(*number)) {
                // Concurrent refusals must wait for this.
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                *number += 1;
                self.renewed.fetch_add(1, Ordering::AcqRel);
            }
            AfterRefusal::Retry
        })
    }
}

#[tokio::test]
async fn every_request_carries_the_token() {
    let server = InlineServer::session(|seen| match seen.what() {
        "tools/call" => reply(200, &seen.text("done")),
        _ => crate::inline::status(405),
    })
    .await;
    let entry = with(&server, FixedToken(Token::bearer("abc").unwrap()));
    let client = try_connect(&entry).await.unwrap();
    call(&client, "t").await.unwrap();
    client.peer().close().await;
    let seen = server.seen();
    assert_eq!(seen.len(), 6);
    for seen in seen {
        assert_eq!(bearer(&seen), Some("abc"), "{}", seen.what());
    }
}

#[tokio::test]
async fn an_authorization_header_of_the_entry_replaces_the_token() {
    let server = guarded(401, |seen| seen.header("authorization") == Some("Basic x")).await;
    let mut entry = with(&server, FixedToken(Token::bearer("abc").unwrap()));
    entry.headers = vec![("Authorization".into(), "Basic x".into())];
    try_connect(&entry).await.unwrap();
}

#[tokio::test]
async fn without_credentials_a_401_asks_for_a_sign_in() {
    let server = guarded(401, |_| false).await;
    let failure = failure(try_connect(&at(&server.url())).await);
    let challenge = Some(CHALLENGE.to_owned());
    assert_eq!(failure.kind, DeliveryErrorKind::Unauthorized { challenge });
    assert_eq!(
        failure.to_string(),
        "the server asks for a sign-in (401): who are you?"
    );
    assert!(!failure.may_have_run);
    assert_eq!(
        server.seen().len(),
        1,
        "no second try, and no other protocol"
    );
}

#[tokio::test]
async fn a_token_that_cannot_be_renewed_is_not_sent_again() {
    for status in [401, 403] {
        let server = guarded(status, |_| false).await;
        let entry = with(&server, FixedToken(Token::bearer("s3cret").unwrap()));
        let failure = failure(try_connect(&entry).await);
        let challenge = Some(CHALLENGE.to_owned());
        let kind = if status == 401 {
            DeliveryErrorKind::Unauthorized { challenge }
        } else {
            DeliveryErrorKind::Forbidden { challenge }
        };
        assert_eq!(failure.kind, kind);
        assert!(!failure.to_string().contains("s3cret"));
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_401_during_a_call_closes_the_link_and_the_call_did_not_run() {
    let server = guarded(401, |seen| seen.what() == "server/discover").await;
    let client = try_connect(&at(&server.url())).await.unwrap();
    let calls = join_all((0..12).map(|_| call(&client, "t"))).await;
    for outcome in calls {
        let error = outcome.unwrap_err();
        assert!(!error.may_have_run(), "{error:?}");
        let failure = delivery_error::<()>(Err(error));
        assert!(
            matches!(failure.kind, DeliveryErrorKind::Unauthorized { .. }),
            "{failure:?}"
        );
    }
    let closed = in_time("the end", client.peer().closed()).await;
    let challenge = Some(CHALLENGE.to_owned());
    assert_eq!(closed.reason(), &CloseReason::Unauthorized { challenge });
}

#[tokio::test]
async fn a_403_fails_only_its_own_call() {
    let server = guarded(403, |seen| seen.body["params"]["name"] != "forbidden").await;
    let client = try_connect(&at(&server.url())).await.unwrap();
    let failure = delivery_error(call(&client, "forbidden").await);
    assert!(matches!(failure.kind, DeliveryErrorKind::Forbidden { .. }));
    assert_eq!(call(&client, "t").await.unwrap(), "done");
}

#[tokio::test]
async fn concurrent_calls_with_an_expired_token_renew_it_once() {
    for status in [401, 403] {
        let good = Arc::new(AtomicUsize::new(0));
        let judge = Arc::clone(&good);
        let server = guarded(status, move |seen| {
            bearer(seen) == Some(&format!("t{}", judge.load(Ordering::Acquire)))
        })
        .await;
        let credentials = Renewing::default();
        let client = try_connect(&with(&server, credentials.clone()))
            .await
            .unwrap();
        for round in 1..=3 {
            good.store(round, Ordering::Release);
            let calls = join_all((0..12).map(|_| call(&client, "t"))).await;
            for outcome in calls {
                assert_eq!(outcome.unwrap(), "done");
            }
            assert_eq!(credentials.renewed.load(Ordering::Acquire), round);
        }
        let refusals = credentials.refusals.lock().unwrap();
        assert!(refusals.len() >= 36, "{}", refusals.len());
        for refusal in &*refusals {
            assert_eq!(refusal.status, status);
            assert_eq!(refusal.challenge.as_deref(), Some(CHALLENGE));
        }
    }
}

#[tokio::test]
async fn a_refused_request_is_retried_once() {
    let server = guarded(401, |_| false).await;
    let credentials = Renewing::default();
    let failure = failure(try_connect(&with(&server, credentials.clone())).await);
    assert!(matches!(
        failure.kind,
        DeliveryErrorKind::Unauthorized { .. }
    ));
    let sent: Vec<_> = server
        .seen()
        .iter()
        .map(|seen| bearer(seen).unwrap().to_owned())
        .collect();
    assert_eq!(sent, ["t0", "t1"]);
}

/// Has no token.
struct Locked;

impl Credentials for Locked {
    fn token(&self) -> BoxFuture<'_, Result<Option<Token>, CredentialsError>> {
        Box::pin(async { Err(CredentialsError("the keychain is locked".to_owned())) })
    }

    fn refused(&self, _: Refusal) -> BoxFuture<'_, AfterRefusal> {
        Box::pin(async { AfterRefusal::GiveUp })
    }
}

#[tokio::test]
async fn nothing_is_sent_when_there_is_no_token() {
    let server = guarded(401, |_| true).await;
    let failure = failure(try_connect(&with(&server, Locked)).await);
    assert_eq!(failure.kind, DeliveryErrorKind::Credentials);
    assert_eq!(failure.to_string(), "the keychain is locked");
    assert_eq!(server.accepted(), 0);
}

/// A helper that prints `{"X-Token": "n1"}`, then `n2`, …, and the number of its runs.
fn counting(folder: &tempfile::TempDir) -> (Arc<HeadersHelper>, impl Fn() -> usize) {
    let file = folder.path().join("runs");
    let command = format!(
        "echo x >> {0}; echo \"{{\\\"X-Token\\\": \\\"n$(wc -l < {0})\\\", \\\"Host\\\": \\\"evil\\\"}}\"",
        file.display()
    );
    let runs = move || std::fs::read_to_string(&file).map_or(0, |text| text.lines().count());
    (Arc::new(HeadersHelper::new(command, Vec::new())), runs)
}

#[tokio::test]
async fn concurrent_refusals_rerun_the_helper_once() {
    for status in [401, 403] {
        let folder = tempfile::tempdir().unwrap();
        let (helper, runs) = counting(&folder);
        let good = Arc::new(AtomicUsize::new(1));
        let judge = Arc::clone(&good);
        let server = guarded(status, move |seen| {
            seen.header("x-token") == Some(&format!("n{}", judge.load(Ordering::Acquire)))
        })
        .await;
        let mut entry = at(&server.url());
        entry.helper = Some(helper);
        let client = try_connect(&entry).await.unwrap();
        call(&client, "t").await.unwrap();
        assert_eq!(runs(), 1, "what it printed is used again");
        good.store(2, Ordering::Release);
        let calls = join_all((0..12).map(|_| call(&client, "t"))).await;
        for outcome in calls {
            assert_eq!(outcome.unwrap(), "done");
        }
        assert_eq!(runs(), 2);
        for seen in server.seen() {
            assert_ne!(
                seen.header("host"),
                Some("evil"),
                "what is the protocol's stays so"
            );
        }
    }
}

#[tokio::test]
async fn a_helper_that_prints_the_same_headers_causes_no_retry() {
    let server = guarded(403, |_| false).await;
    let mut entry = at(&server.url());
    let command = r#"echo '{"X-Token": "s3cret"}'"#;
    entry.helper = Some(Arc::new(HeadersHelper::new(command, Vec::new())));
    let failure = failure(try_connect(&entry).await);
    assert!(matches!(failure.kind, DeliveryErrorKind::Forbidden { .. }));
    assert_eq!(server.seen().len(), 1);
    assert!(!failure.to_string().contains("s3cret"));
}

#[tokio::test]
async fn a_failing_helper_is_named_and_nothing_is_sent() {
    let server = guarded(403, |_| true).await;
    let mut entry = at(&server.url());
    entry.helper = Some(Arc::new(HeadersHelper::new(
        "echo nope >&2; exit 3",
        Vec::new(),
    )));
    let failure = failure(try_connect(&entry).await);
    assert_eq!(failure.kind, DeliveryErrorKind::Credentials);
    let text = failure.to_string();
    assert!(
        text.contains("headersHelper") && text.contains("nope"),
        "{text}"
    );
    assert_eq!(server.accepted(), 0);
}

#[tokio::test]
async fn debug_output_contains_no_secret() {
    let server = guarded(401, |_| false).await;
    let token = Token::bearer("s3cret").unwrap();
    let mut entry = with(&server, FixedToken(token.clone()));
    entry.headers = vec![("X-Key".into(), "s3cret".into())];
    entry.url.set_query(Some("key=s3cret"));
    entry.url.set_username("user").unwrap();
    entry.url.set_password(Some("s3cret")).unwrap();
    let refusal = Refusal {
        status: 401,
        challenge: None,
        sent: Some(token.clone()),
    };
    let recorder = Arc::default();
    let shown = [
        format!("{entry:?}"),
        format!("{token:?}"),
        format!("{refusal:?}"),
        format!("{:?}", failure(try_connect(&entry).await)),
    ];
    for shown in shown {
        assert!(!shown.contains("s3cret"), "{shown}");
    }
    let server = guarded(401, |_| true).await;
    let mut entry = at(&server.url());
    entry.headers = vec![("X-Key".into(), "s3cret\r\nX-Evil: 1".into())];
    let refused = entry.streamable(&crate::support::dialer()).err().unwrap();
    assert!(!format!("{refused:?}").contains("s3cret"), "{refused:?}");
    entry.headers = vec![("X-Key".into(), "fine".into())];
    connect_with(&entry, &recorder).await;
}

/// A key whose proofs are the method, the URL and the nonce.
#[derive(Default)]
struct SpokenKey {
    nonce: std::sync::Mutex<String>,
}

impl ProofKey for SpokenKey {
    fn proof(&self, method: &Method, url: &Url) -> Option<HeaderValue> {
        let nonce = self.nonce.lock().unwrap();
        HeaderValue::try_from(format!("{method} {url} {nonce}")).ok()
    }

    fn set_nonce(&self, nonce: &HeaderValue) {
        nonce
            .to_str()
            .unwrap()
            .clone_into(&mut self.nonce.lock().unwrap());
    }
}

/// Bound credentials that must not be told of a missing nonce.
struct BoundCredentials(Token);

impl Credentials for BoundCredentials {
    fn token(&self) -> BoxFuture<'_, Result<Option<Token>, CredentialsError>> {
        Box::pin(async { Ok(Some(self.0.clone())) })
    }

    fn refused(&self, refusal: Refusal) -> BoxFuture<'_, AfterRefusal> {
        let challenge = refusal.challenge.unwrap_or_default();
        assert!(challenge.contains("use_dpop_nonce"), "{challenge}");
        Box::pin(async { AfterRefusal::GiveUp })
    }
}

/// Asks for the nonce of `wanted`, which may change with every request.
async fn with_nonces(wanted: impl Fn(usize) -> String + Send + Sync + 'static) -> InlineServer {
    let requests = AtomicUsize::new(0);
    InlineServer::start(move |seen| {
        let nonce = wanted(requests.fetch_add(1, Ordering::SeqCst));
        assert_eq!(seen.header("authorization"), Some("DPoP abc"));
        let proof = seen.header("dpop").unwrap();
        assert!(proof.starts_with("POST http://127.0.0.1:"), "{proof}");
        if !proof.ends_with(&format!("/mcp {nonce}")) {
            let challenge = r#"DPoP error="use_dpop_nonce""#;
            let headers = [("www-authenticate", challenge), ("dpop-nonce", &nonce)];
            return whole(401, &headers, "");
        }
        match seen.what() {
            "server/discover" => reply(200, &seen.result(&discovered())),
            _ => reply(200, &seen.text("done")),
        }
    })
    .await
}

fn bound() -> BoundCredentials {
    BoundCredentials(Token::dpop("abc", Arc::new(SpokenKey::default())).unwrap())
}

#[tokio::test]
async fn a_request_is_repeated_with_the_nonce_that_the_server_asks_for() {
    let server = with_nonces(|request| if request < 3 { "n1" } else { "n2" }.to_owned()).await;
    let client = try_connect(&with(&server, bound())).await.unwrap();
    call(&client, "t").await.unwrap();
    // The discovery without a nonce, then with `n1`; the call with `n1`.
    assert_eq!(server.seen().len(), 3);
    let calls = || async {
        let calls = join_all((0..8).map(|_| call(&client, "t"))).await;
        assert!(calls.iter().all(Result::is_ok));
        server.seen().len()
    };
    // Concurrent requests that are refused for the same new nonce are all repeated, each once.
    let seen = calls().await;
    assert!((3 + 9..=3 + 16).contains(&seen), "{seen}");
    // The nonce is kept.
    assert_eq!(calls().await, seen + 8);
}

#[tokio::test]
async fn a_server_that_never_accepts_a_nonce_is_asked_twice() {
    let server = with_nonces(|request| format!("n{request}")).await;
    let error = failure(try_connect(&with(&server, bound())).await);
    assert!(matches!(error.kind, DeliveryErrorKind::Unauthorized { .. }));
    assert_eq!(server.seen().len(), 2);
}
