//! Which of a server's lists are meant, and what is known about each besides its entries.

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

/// Something for each list.
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

/// Some of a server's lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lists(u8);

impl Lists {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const ALL: Self = Self(0b1111);
    pub(crate) const TOOLS: Self = Self(0b0001);
    /// Templates have no notification of their own: they change with the resources.
    pub(crate) const RESOURCES: Self = Self(0b0110);
    pub(crate) const PROMPTS: Self = Self(0b1000);

    pub(crate) fn of(kind: ListKind) -> Self {
        Self(1 << index(kind))
    }

    /// The lists that a `list_changed` notification is about; none for any other notification.
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

/// Where the entries of a list come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It has never been fetched whole.
    #[default]
    NotFetched,
    /// An earlier run of the program.
    Cache,
    /// This server, in this run.
    Server,
}

/// What is known about a list besides its entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListState {
    pub(crate) origin: Origin,
    /// What was wrong with it.
    pub(crate) problems: Arc<[String]>,
    /// What is worth knowing about it, and no harm.
    pub(crate) note: Option<Arc<str>>,
    /// It could not be fetched when it was last asked for.
    pub(crate) failed: bool,
    pub(crate) freshness: Option<Freshness>,
}

/// How long a list is fresh, as its server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freshness {
    pub(crate) ttl: Duration,
    pub(crate) until: Instant,
}

/// How soon a list that has become stale and could not be fetched may be tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Longer than this is for ever, for a host that is told so by a server.
const MAX_TTL: Duration = Duration::from_hours(24 * 365);

impl Freshness {
    /// What follows from a server's `ttlMs`. Zero says that a list may change at any time, not that it should be fetched all
    /// the time: such a list has no end of its own, as one without `ttlMs` has none.
    pub(crate) fn starting(ttl_ms: Option<u64>, now: Instant) -> Option<Self> {
        let ttl = Duration::from_millis(ttl_ms.filter(|ttl| *ttl > 0)?).min(MAX_TTL);
        Some(Self {
            ttl,
            until: now + ttl,
        })
    }

    /// The same list, kept because the newer one could not be had.
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
