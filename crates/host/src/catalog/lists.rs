//! The kinds of lists and the state kept for each besides its items.

use std::ops::{BitOr, BitOrAssign};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use trunkline_wire::mcp::ListKind;

/// Every kind of list, in the order of [`PerList`].
pub(crate) const KINDS: [ListKind; 4] = [
    ListKind::Tools,
    ListKind::Resources,
    ListKind::ResourceTemplates,
    ListKind::Prompts,
];

/// One value per list.
#[derive(Clone, Debug, Default)]
pub(crate) struct PerList<T>([T; 4]);

impl<T> PerList<T> {
    pub(crate) fn of(kind: ListKind, values: &Self) -> &T {
        &values.0[index(kind)]
    }

    pub(crate) fn set(&mut self, kind: ListKind, value: T) {
        self.0[index(kind)] = value;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ListKind, &T)> {
        KINDS.into_iter().zip(&self.0)
    }
}

fn index(kind: ListKind) -> usize {
    match kind {
        ListKind::Tools => 0,
        ListKind::Resources => 1,
        ListKind::ResourceTemplates => 2,
        ListKind::Prompts => 3,
    }
}

/// A set of lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lists(u8);

impl Lists {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const ALL: Self = Self(0b1111);
    pub(crate) const TOOLS: Self = Self(0b0001);
    /// Templates have no notification of their own; they change with the resources.
    pub(crate) const RESOURCES: Self = Self(0b0110);
    pub(crate) const PROMPTS: Self = Self(0b1000);

    pub(crate) fn of(kind: ListKind) -> Self {
        Self(1 << index(kind))
    }

    /// Returns the lists that a `list_changed` notification covers; none for other notifications.
    pub(crate) fn changed_by(notification: &str) -> Self {
        match notification {
            "notifications/tools/list_changed" => Self::TOOLS,
            "notifications/resources/list_changed" => Self::RESOURCES,
            "notifications/prompts/list_changed" => Self::PROMPTS,
            _ => Self::NONE,
        }
    }

    pub(crate) fn contains(self, kind: ListKind) -> bool {
        self.0 & Self::of(kind).0 != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Self::NONE
    }

    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    pub(crate) fn from_bits(bits: u8) -> Self {
        Self(bits & Self::ALL.0)
    }
}

impl BitOr for Lists {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Lists {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

/// The source of a list's items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Never fetched completely.
    #[default]
    NotFetched,
    /// An earlier run of the program.
    Cache,
    /// The server, in this run.
    Server,
}

/// The state of a list besides its items.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListState {
    pub(crate) origin: Origin,
    /// Problems found in the list.
    pub(crate) problems: Arc<[String]>,
    /// A harmless remark about the list.
    pub(crate) note: Option<Arc<str>>,
    /// Whether the last fetch failed.
    pub(crate) failed: bool,
    pub(crate) freshness: Option<Freshness>,
}

/// The period for which the server declares a list fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freshness {
    pub(crate) ttl: Duration,
    pub(crate) until: Instant,
}

/// Minimum time before a stale list that could not be fetched is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Longer TTLs are clamped to this.
const MAX_TTL: Duration = Duration::from_hours(24 * 365);

impl Freshness {
    /// Converts a server's `ttlMs`. Zero means that the list may change at any time, not that it
    /// should be polled: like a missing `ttlMs`, it never expires.
    pub(crate) fn starting(ttl_ms: Option<u64>, now: Instant) -> Option<Self> {
        let ttl = Duration::from_millis(ttl_ms.filter(|ttl| *ttl > 0)?).min(MAX_TTL);
        Some(Self {
            ttl,
            until: now + ttl,
        })
    }

    /// Extends the previous list because a newer one could not be fetched.
    pub(crate) fn extended(self, now: Instant) -> Self {
        Self {
            until: now + self.ttl.max(RETRY_INTERVAL),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notification_selects_its_own_lists() {
        for (notification, kinds) in [
            ("notifications/tools/list_changed", vec![ListKind::Tools]),
            (
                "notifications/resources/list_changed",
                vec![ListKind::Resources, ListKind::ResourceTemplates],
            ),
            (
                "notifications/prompts/list_changed",
                vec![ListKind::Prompts],
            ),
            ("notifications/message", vec![]),
        ] {
            let lists = Lists::changed_by(notification);
            let found: Vec<_> = KINDS
                .into_iter()
                .filter(|kind| lists.contains(*kind))
                .collect();
            assert_eq!(found, kinds, "{notification}");
        }
        let both = Lists::TOOLS | Lists::PROMPTS;
        assert_eq!(Lists::from_bits(both.bits()), both);
    }

    #[test]
    fn only_a_positive_ttl_expires() {
        let now = Instant::now();
        assert_eq!(Freshness::starting(None, now), None);
        assert_eq!(Freshness::starting(Some(0), now), None);
        let short = Freshness::starting(Some(100), now).unwrap();
        assert_eq!(short.until - now, Duration::from_millis(100));
        assert_eq!(short.extended(now).until - now, RETRY_INTERVAL);
        assert!(Freshness::starting(Some(u64::MAX), now).is_some());
    }
}
