//! Protocol versions and the two eras that they belong to.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The protocol era of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// 2026-07-28 and later: no handshake, metadata on every request.
    Modern,
    /// 2024-11-05 to 2025-11-25: an `initialize` handshake first.
    Legacy,
}

/// The supported modern versions, newest first.
pub const MODERN: &[&str] = &["2026-07-28"];

/// The supported legacy versions, newest first. `initialize` requests the first.
pub const LEGACY: &[&str] = &["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Modern => "modern",
            Self::Legacy => "legacy",
        })
    }
}

/// Returns the supported version with this name.
pub fn supported_version(name: &str) -> Option<&'static str> {
    let mut known = MODERN.iter().chain(LEGACY).copied();
    known.find(|version| *version == name)
}

/// Returns the newest version in `ours` that `offered` contains.
pub fn newest_common(ours: &'static [&'static str], offered: &[String]) -> Option<&'static str> {
    ours.iter()
        .copied()
        .find(|version| offered.iter().any(|offer| offer == version))
}
