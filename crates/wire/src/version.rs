//! Protocol versions and the two eras they fall into.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// 2026-07-28 and later: no handshake, metadata on every request.
    Modern,
    /// 2024-11-05 to 2025-11-25: an `initialize` handshake first.
    Legacy,
}

/// The modern versions spoken here, newest first.
pub const MODERN: &[&str] = &["2026-07-28"];

/// The legacy versions spoken here, newest first; the first is the one we ask for.
pub const LEGACY: &[&str] = &["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Modern => "modern",
            Self::Legacy => "legacy",
        })
    }
}

/// The version of that name, if it is spoken here.
pub fn supported_version(name: &str) -> Option<&'static str> {
    let mut known = MODERN.iter().chain(LEGACY).copied();
    known.find(|version| *version == name)
}

/// The newest version in `offered` that is also in `ours`.
pub fn newest_common(ours: &'static [&'static str], offered: &[String]) -> Option<&'static str> {
    ours.iter()
        .copied()
        .find(|version| offered.iter().any(|offer| offer == version))
}
