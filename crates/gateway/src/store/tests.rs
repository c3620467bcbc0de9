//! Every store has the same behaviour, in memory and on disk.

use std::sync::Arc;

use bytes::Bytes;

use super::*;

/// Runs `check` on the stores in memory and on disk.
async fn each<F: Future<Output = ()>>(check: impl Fn(Stores) -> F) {
    let limits = EventLimits {
        events: 4,
        bytes: 100,
        total_bytes: 150,
    };
    let memory = Stores {
        events: Arc::new(MemoryEventLog::with_limits(limits)),
        ..Stores::in_memory()
    };
    check(memory).await;
    #[cfg(feature = "sqlite")]
    {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("state/gateway.db");
        let database = Sqlite::open(&file).unwrap().with_event_limits(limits);
        check(Stores::durable(&Arc::new(database))).await;
    }
}

#[tokio::test]
async fn a_token_is_found_by_its_digest_until_it_expires_or_is_revoked() {
    each(async |stores: Stores| {
        let new = NewToken::generate("laptop", Some("readonly"), 1000, Some(5000)).unwrap();
        let other = NewToken::generate("phone", None, 2000, None).unwrap();
        assert_ne!(new.token, other.token);
        assert!(!format!("{:?}", new.record).contains(&new.token));
        for record in [&new.record, &other.record] {
            stores.tokens.insert(record.clone()).await.unwrap();
        }
        let found = stores.tokens.find(Digest::of(&new.token)).await.unwrap();
        assert_eq!(found, Some(new.record.clone()));
        assert_eq!(new.record.status(4999), TokenStatus::Valid);
        assert_eq!(new.record.status(5000), TokenStatus::Expired);
        let missing = stores.tokens.find(Digest::of("trunkline_x")).await;
        assert_eq!(missing.unwrap(), None);

        let revoked = stores.tokens.revoke(&new.record.id, 3000).await.unwrap();
        assert_eq!(revoked.len(), 1);
        assert_eq!(revoked[0].status(3001), TokenStatus::Revoked);
        assert_eq!(stores.tokens.revoke("laptop", 4000).await.unwrap(), []);
        assert_eq!(stores.tokens.revoke("phone", 4000).await.unwrap().len(), 1);
        let listed = stores.tokens.list().await.unwrap();
        let labels: Vec<_> = listed.iter().map(|record| &*record.label).collect();
        assert_eq!(labels, ["laptop", "phone"]);
        assert_eq!(listed[0].revoked, Some(3000));
    })
    .await;
}

#[tokio::test]
async fn a_session_is_kept_until_it_is_removed_or_unused() {
    each(async |stores: Stores| {
        let record = |id: &str, last_used| SessionRecord {
            key: Digest::of(id),
            owner: "token:laptop".to_owned(),
            server: Some("github".to_owned()),
            initialize: "{}".to_owned(),
            last_used,
        };
        for (id, last_used) in [("a", 10), ("b", 20), ("c", 30)] {
            stores.sessions.put(record(id, last_used)).await.unwrap();
        }
        stores.sessions.touch(Digest::of("a"), 40).await.unwrap();
        stores.sessions.expire(25).await.unwrap();
        stores.sessions.remove(Digest::of("c")).await.unwrap();
        let get = async |id| stores.sessions.get(Digest::of(id)).await.unwrap();
        assert_eq!(get("a").await, Some(record("a", 40)));
        assert_eq!((get("b").await, get("c").await), (None, None));
    })
    .await;
}

#[tokio::test]
async fn a_rate_allows_its_burst_and_then_refills() {
    each(async |stores: Stores| {
        let rate = Rate {
            per_second: 2.0,
            burst: 3.0,
        };
        let take = async |key, now| stores.rates.take(key, rate, now).await.unwrap();
        for _ in 0..3 {
            assert_eq!(take("a", 1000).await, RateDecision::Allowed);
        }
        let half = std::time::Duration::from_millis(500);
        assert_eq!(take("a", 1000).await, RateDecision::Limited(half));
        assert_eq!(take("b", 1000).await, RateDecision::Allowed);
        assert_eq!(take("a", 1500).await, RateDecision::Allowed);
        assert_ne!(take("a", 1500).await, RateDecision::Allowed);
        assert_ne!(
            take("a", 900).await,
            RateDecision::Allowed,
            "the clock went back"
        );
    })
    .await;
}

#[tokio::test]
async fn events_are_replayed_by_stream_within_their_limits() {
    each(async |stores: Stores| {
        let (session, other) = (Digest::of("s"), Digest::of("t"));
        let event = |number| Event {
            number,
            data: Bytes::from(vec![b'x'; 30]),
        };
        let after = async |session, stream, number| {
            let replay = stores.events.after(session, stream, number).await.unwrap();
            match replay {
                Replay::Events(events) => Some(events.iter().map(|e| e.number).collect::<Vec<_>>()),
                Replay::Incomplete => None,
            }
        };
        for (stream, number) in [(1, 1), (2, 1), (1, 2)] {
            stores
                .events
                .append(session, stream, event(number))
                .await
                .unwrap();
        }
        assert_eq!(after(session, 1, 0).await, Some(vec![1, 2]));
        assert_eq!(after(session, 1, 1).await, Some(vec![2]));
        assert_eq!(after(session, 1, 2).await, Some(vec![]));
        assert_eq!(after(other, 1, 0).await, Some(vec![]));
        // 120 bytes are over the limit of 100: the oldest goes.
        stores.events.append(session, 1, event(3)).await.unwrap();
        assert_eq!(after(session, 1, 0).await, None);
        assert_eq!(after(session, 1, 1).await, Some(vec![2, 3]));
        // 90 and 90 are over the total of 150.
        for number in 1..=3 {
            stores.events.append(other, 7, event(number)).await.unwrap();
        }
        let left = async |session, stream| after(session, stream, 3).await.unwrap_or_default();
        assert_eq!(left(session, 1).await, [0; 0]);
        stores.events.forget(other).await.unwrap();
        assert_eq!(after(other, 7, 0).await, Some(vec![]));
    })
    .await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn records_on_disk_survive_a_restart_and_are_private() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("gateway.db");
    let new = NewToken::generate("laptop", None, 1, None).unwrap();
    let first = Sqlite::open(&file).unwrap();
    first.insert(new.record.clone()).await.unwrap();
    // Another process at the same time.
    let second = Sqlite::open(&file).unwrap();
    let found = second.find(Digest::of(&new.token)).await.unwrap();
    assert_eq!(found, Some(new.record));
    #[cfg(unix)]
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        use std::os::unix::fs::PermissionsExt as _;
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{entry:?}");
    }
    let bytes = std::fs::read(&file).unwrap();
    let secret = new.token.as_bytes();
    assert!(!bytes.windows(secret.len()).any(|part| part == secret));
}

#[cfg(feature = "sqlite")]
#[test]
fn a_file_of_a_newer_version_or_of_something_else_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("gateway.db");
    drop(Sqlite::open(&file).unwrap());
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    let error = Sqlite::open(&file).err().unwrap().to_string();
    assert!(error.contains("a newer Trunkline"), "{error}");
    let text = directory.path().join("text.db");
    std::fs::write(
        &text,
        "not a database, but long enough to be read as one".repeat(50),
    )
    .unwrap();
    let error = Sqlite::open(&text).err().unwrap().to_string();
    assert!(error.contains("text.db cannot be opened"), "{error}");
}
