//! Who we are: what is sent, what becomes of a refusal, and what is never shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use tokio::sync::Mutex;
use trunkline_transport::http::{
    AfterRefusal, BoxFuture, Credentials, CredentialsError, FixedToken, HeadersHelper, HttpServer,
    Refusal, Token,
};
use trunkline_wire::client::ConnectError;
use trunkline_wire::transport::{CloseReason, DeliveryError, DeliveryErrorKind};

use crate::inline::{Answer, Inline, Seen, discovered, reply, whole};
use crate::lab::{at, call, connect_with, delivery_error, in_time, try_connect};

const CHALLENGE: &str = r#"Bearer resource_metadata="https://example.com/.well-known""#;

fn refuse(status: u16) -> Answer {
    whole(status, &[("www-authenticate", CHALLENGE)], "who are you?")
}

/// A modern server that lets in whom `judge` likes, and refuses others with this status.
async fn guarded(status: u16, judge: impl Fn(&Seen) -> bool + Send + Sync + 'static) -> Inline {
    Inline::start(move |seen| {
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

fn bearer(seen: &Seen) -> Option<&str> {
    seen.header("authorization")?.strip_prefix("Bearer ")
}

fn with(server: &Inline, credentials: impl Credentials) -> HttpServer {
    let mut entry = at(&server.url());
    entry.credentials = Some(Arc::new(credentials));
    entry
}

/// Why the handshake failed.
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
                // Whoever else was refused meanwhile must wait for this.
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                *number += 1;
                self.renewed.fetch_add(1, Ordering::AcqRel);
            }
            AfterRefusal::Retry
        })
    }
}

#[tokio::test]
async fn a_token_goes_with_every_request() {
    let server = Inline::session(|seen| match seen.what() {
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
async fn an_entrys_own_header_comes_first() {
    let server = guarded(401, |seen| seen.header("authorization") == Some("Basic x")).await;
    let mut entry = with(&server, FixedToken(Token::bearer("abc").unwrap()));
    entry.headers = vec![("Authorization".into(), "Basic x".into())];
    try_connect(&entry).await.unwrap();
}

#[tokio::test]
async fn without_credentials_a_sign_in_is_asked_for() {
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
async fn a_token_that_is_refused_for_good_is_not_sent_again() {
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
async fn a_token_refused_during_a_call_ends_the_link_and_the_call_did_not_run() {
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
async fn a_refusal_of_access_costs_only_its_own_call() {
    let server = guarded(403, |seen| seen.body["params"]["name"] != "forbidden").await;
    let client = try_connect(&at(&server.url())).await.unwrap();
    let failure = delivery_error(call(&client, "forbidden").await);
    assert!(matches!(failure.kind, DeliveryErrorKind::Forbidden { .. }));
    assert_eq!(call(&client, "t").await.unwrap(), "done");
}

#[tokio::test]
async fn many_calls_with_an_old_token_are_renewed_once() {
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
async fn a_request_is_tried_once_more_and_no_more() {
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

/// Cannot give any token.
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
async fn without_a_token_to_be_had_nothing_is_sent() {
    let server = guarded(401, |_| true).await;
    let failure = failure(try_connect(&with(&server, Locked)).await);
    assert_eq!(failure.kind, DeliveryErrorKind::Credentials);
    assert_eq!(failure.to_string(), "the keychain is locked");
    assert_eq!(server.accepted(), 0);
}

/// A helper that prints `{"X-Token": "n1"}`, then `n2`, …, and how often it ran.
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
async fn a_helper_is_run_again_once_for_many_refusals() {
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
async fn a_helper_that_prints_the_same_again_is_no_help() {
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
async fn a_helper_that_fails_is_named_and_nothing_is_sent() {
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
async fn no_secret_is_printed_by_accident() {
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
    let ears = Arc::default();
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
    let refused = entry.streamable(&crate::lab::dialer()).err().unwrap();
    assert!(!format!("{refused:?}").contains("s3cret"), "{refused:?}");
    entry.headers = vec![("X-Key".into(), "fine".into())];
    connect_with(&entry, &ears).await;
}
