//! Profiles: what a client may see and do (AGT-2).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use trunkline::{AgentScope, Host};
use trunkline_config::GatewayProfile;
use trunkline_wire::RpcError;

/// The part of the host that a client sees, and the rate at which it may use it.
pub(crate) struct Profile {
    /// Holds the servers that belong to the client alone.
    owner: Host,
    /// What the client sees.
    host: Host,
    rate: Option<Rate>,
    /// The names of the servers that belong to the client alone.
    private: Mutex<BTreeSet<String>>,
}

impl Profile {
    pub(crate) fn new(root: &Host, client: &Arc<str>, profile: GatewayProfile) -> Self {
        let owner = root.agent(AgentScope::all().client(Arc::clone(client)));
        let rate = profile.requests_per_minute.map(Rate::new);
        let unrestricted = profile.servers.is_none()
            && profile.tools.is_none()
            && profile.deny.is_empty()
            && !profile.read_only;
        let host = if unrestricted {
            owner.clone()
        } else {
            owner.agent(scope(profile))
        };
        Self {
            owner,
            host,
            rate,
            private: Mutex::default(),
        }
    }

    /// Sets the servers that belong to the client alone; returns those that no longer do.
    pub(crate) fn replace_private(&self, names: BTreeSet<String>) -> Vec<String> {
        let mut private = self.private.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *private, names);
        old.difference(&private).cloned().collect()
    }

    /// The host of the servers that belong to the client alone.
    pub(crate) fn owner(&self) -> &Host {
        &self.owner
    }

    /// What the client sees.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// Counts a request against the client's rate.
    pub(crate) fn admit(&self) -> Result<(), RpcError> {
        let Some(rate) = &self.rate else {
            return Ok(());
        };
        rate.take(Instant::now()).map_err(|wait| {
            let seconds = wait.as_secs_f64().ceil();
            let message = format!(
                "the profile allows {} requests a minute; try again in {seconds} s",
                rate.per_minute
            );
            RpcError {
                data: Some(
                    serde_json::json!({
                        "reason": "rate-limited", "mayHaveRun": false, "retryAfterSeconds": seconds,
                    })
                    .into(),
                ),
                ..RpcError::new(RpcError::INTERNAL_ERROR, message)
            }
        })
    }
}

fn scope(profile: GatewayProfile) -> AgentScope {
    let GatewayProfile {
        servers,
        tools,
        deny,
        read_only,
        ..
    } = profile;
    let mut scope = match servers {
        Some(servers) => AgentScope::only(servers),
        None => AgentScope::all(),
    };
    if let Some(tools) = tools {
        scope = scope.tools(tools);
    }
    scope = scope.without(deny);
    if read_only {
        scope = scope.filter(trunkline::tool::PoolTool::is_read_only);
    }
    scope
}

/// A bucket of requests that fills at a steady rate.
struct Rate {
    per_minute: u32,
    bucket: Mutex<Bucket>,
}

struct Bucket {
    tokens: f64,
    filled_at: Option<Instant>,
}

impl Rate {
    fn new(per_minute: u32) -> Self {
        Self {
            per_minute,
            bucket: Mutex::new(Bucket {
                tokens: f64::from(per_minute),
                filled_at: None,
            }),
        }
    }

    /// Takes one request; otherwise returns how long it takes until there is one.
    fn take(&self, now: Instant) -> Result<(), Duration> {
        const MINUTE: f64 = 60.0;
        let most = f64::from(self.per_minute);
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(filled_at) = bucket.filled_at {
            let passed = now.saturating_duration_since(filled_at).as_secs_f64();
            bucket.tokens = (bucket.tokens + passed * most / MINUTE).min(most);
        }
        bucket.filled_at = Some(now);
        if bucket.tokens >= 1.0 {
            bucket.tokens -= 1.0;
            return Ok(());
        }
        if self.per_minute == 0 {
            return Err(Duration::from_mins(1));
        }
        Err(Duration::from_secs_f64(
            (1.0 - bucket.tokens) * MINUTE / most,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_rate_allows_a_burst_and_then_refills() {
        let rate = Rate::new(60);
        let start = Instant::now();
        for _ in 0..60 {
            assert_eq!(rate.take(start), Ok(()));
        }
        let wait = rate.take(start).unwrap_err();
        assert_eq!(wait, Duration::from_secs(1));
        assert_eq!(rate.take(start + wait), Ok(()));
        assert!(rate.take(start + wait).is_err());
        assert!(Rate::new(0).take(start).is_err());
    }
}
