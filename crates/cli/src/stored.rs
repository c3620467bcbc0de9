//! Answers from stored catalogs, without connecting (UI-6).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use trunkline::Host;
use trunkline::server::{ServerStatus, State};

use crate::background::Checker;
use crate::output::{self, Line, Style};

/// Where a command takes catalogs from (UI-6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Catalogs {
    /// From disk, without connecting. Only servers with no stored catalog, and those whose entry
    /// has `"lazy": false`, are connected.
    Stored,
    /// From the servers.
    Fresh,
}

impl Catalogs {
    /// Returns the meaning of `--refresh`.
    pub(crate) fn refreshed(refresh: bool) -> Self {
        if refresh { Self::Fresh } else { Self::Stored }
    }
}

/// Notes that an answer comes from stored catalogs, and how old they are, and starts a check of old
/// ones in the background (UI-6).
pub(crate) fn note(host: &Host, checker: &Checker) {
    let is_stored = |server: &&Arc<ServerStatus>| {
        let waits = matches!(server.state, State::Pending { attempt: 0, .. });
        waits && server.catalog.cached
    };
    let servers = host.servers();
    let stored: Vec<_> = servers.iter().filter(is_stored).collect();
    let now = SystemTime::now();
    let age = |server: &&Arc<ServerStatus>| now.duration_since(server.catalog.cached_at?).ok();
    let oldest = stored
        .iter()
        .copied()
        .filter_map(|server| age(&server))
        .max();
    let age = shown_age(oldest.unwrap_or_default());
    let what = match stored.len() {
        0 => return,
        1 => format!("from the catalog of {age} ago"),
        count => format!("from {count} catalogs of up to {age} ago"),
    };
    let next = if checker.start(host) {
        "checking in the background, --refresh waits for it"
    } else {
        "--refresh connects"
    };
    output::note(Line::of(Style::Dim, format_args!("{what}; {next}")));
}

/// Formats an age in its largest unit.
fn shown_age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..86_400 => format!("{} h", seconds / 3600),
        seconds if seconds < 2 * 86_400 => "1 day".to_owned(),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_one_unit() {
        for (seconds, shown) in [
            (0, "0 s"),
            (59, "59 s"),
            (125, "2 min"),
            (7300, "2 h"),
            (100_000, "1 day"),
            (400_000, "4 days"),
        ] {
            assert_eq!(shown_age(Duration::from_secs(seconds)), shown);
        }
    }
}
