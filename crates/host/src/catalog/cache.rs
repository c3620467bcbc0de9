//! Caches results of single requests while they are fresh (LIF-9).
//!
//! Lists are not cached here: the catalog holds them and refreshes them by its own rules. This
//! cache is for single items, such as the contents of a resource.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use trunkline_wire::Json;

use super::lists::Freshness;

/// Maximum number of results per server.
const CAPACITY: usize = 20;

/// Maximum size of one result; twenty of these must stay negligible.
const MAX_RESULT_BYTES: usize = 1024 * 1024;

/// The results of one connection, most recently used last.
#[derive(Default)]
pub(crate) struct FetchCache(Mutex<Vec<Entry>>);

struct Entry {
    method: &'static str,
    params: String,
    result: Json,
    until: Instant,
}

impl FetchCache {
    /// Returns a result that is still fresh.
    pub(crate) fn get(&self, method: &str, params: &str) -> Option<Json> {
        let mut entries = self.lock();
        let now = Instant::now();
        entries.retain(|entry| now < entry.until);
        let at = entries.iter().position(|entry| entry.is(method, params))?;
        let entry = entries.remove(at);
        let result = entry.result.clone();
        entries.push(entry);
        Some(result)
    }

    /// Caches a result for its own `ttlMs`.
    pub(crate) fn put(&self, method: &'static str, params: &str, result: &Json) {
        let mut entries = self.lock();
        entries.retain(|entry| !entry.is(method, params));
        let freshness = Freshness::starting(result.field("ttlMs"), Instant::now());
        let Some(freshness) = freshness.filter(|_| result.as_str().len() <= MAX_RESULT_BYTES)
        else {
            return;
        };
        if entries.len() >= CAPACITY {
            entries.remove(0);
        }
        entries.push(Entry {
            method,
            params: params.to_owned(),
            result: result.clone(),
            until: freshness.until,
        });
    }

    /// Drops a result that the server reports as changed.
    pub(crate) fn forget(&self, method: &str, params: &str) {
        self.lock().retain(|entry| !entry.is(method, params));
    }

    /// Drops all results when the connection ends.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn is(&self, method: &str, params: &str) -> bool {
        self.method == method && self.params == params
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const READ: &str = "resources/read";

    fn result(n: usize, ttl: u64) -> Json {
        Json::from(serde_json::json!({"n": n, "ttlMs": ttl}))
    }

    fn number(found: Option<Json>) -> Option<usize> {
        found.and_then(|json| json.field("n"))
    }

    #[tokio::test(start_paused = true)]
    async fn result_is_reused_only_while_fresh() {
        let cache = FetchCache::default();
        cache.put(READ, "a", &result(1, 1000));
        cache.put(READ, "b", &result(2, 0));
        cache.put(READ, "c", &Json::empty_object());
        assert_eq!(number(cache.get(READ, "a")), Some(1));
        assert_eq!(number(cache.get("prompts/get", "a")), None);
        assert_eq!(number(cache.get(READ, "b")), None);
        assert_eq!(number(cache.get(READ, "c")), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(number(cache.get(READ, "a")), None);
    }

    #[test]
    fn least_recently_used_result_is_evicted() {
        let cache = FetchCache::default();
        for n in 0..CAPACITY {
            cache.put(READ, &n.to_string(), &result(n, 60_000));
        }
        assert_eq!(number(cache.get(READ, "0")), Some(0));
        cache.put(READ, "new", &result(99, 60_000));
        assert_eq!(number(cache.get(READ, "0")), Some(0));
        assert_eq!(number(cache.get(READ, "1")), None);
        assert_eq!(number(cache.get(READ, "2")), Some(2));
    }

    #[test]
    fn newer_result_replaces_older_and_changed_result_is_dropped() {
        let cache = FetchCache::default();
        cache.put(READ, "a", &result(1, 60_000));
        cache.put(READ, "a", &result(2, 60_000));
        assert_eq!(number(cache.get(READ, "a")), Some(2));
        cache.put(READ, "a", &result(3, 0));
        assert_eq!(number(cache.get(READ, "a")), None);
        cache.put(READ, "a", &result(4, 60_000));
        cache.put(READ, "b", &result(5, 60_000));
        cache.forget(READ, "a");
        assert_eq!(number(cache.get(READ, "a")), None);
        cache.clear();
        assert_eq!(number(cache.get(READ, "b")), None);
    }

    #[test]
    fn oversized_result_is_not_cached() {
        let cache = FetchCache::default();
        let long =
            serde_json::json!({"n": 1, "ttlMs": 60_000, "text": "x".repeat(MAX_RESULT_BYTES)});
        cache.put(READ, "a", &Json::from(long));
        assert_eq!(number(cache.get(READ, "a")), None);
    }
}
