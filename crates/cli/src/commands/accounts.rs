//! `trunkline accounts`: the servers that the user is signed in to, never with a token (AUTH-3).

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use trunkline::auth::Account;

use crate::exit::Exit;
use crate::output::{self, Line, Lines, Style, inline};
use crate::session;

/// The account of a server without a named one.
const DEFAULT_ACCOUNT: &str = "default";

pub(crate) fn run(as_json: bool) -> Exit {
    let accounts = match session::auth(&session::layout()) {
        Some(auth) => auth.accounts(),
        None => Vec::new(),
    };
    if as_json {
        output::json(&accounts);
        return Exit::Done;
    }
    if accounts.is_empty() {
        output::note("you are not signed in to any server");
        return Exit::Done;
    }
    let mut lines = Lines::new();
    let now = SystemTime::now();
    for account in &accounts {
        let server = output::name(&account.server);
        let line = Line::of(Style::Name, server);
        lines.push_line(line.and(Style::Plain, format_args!("  {}", describe(account, now))));
    }
    output::result(lines);
    Exit::Done
}

/// Describes who is signed in where, until when and with which scopes.
pub(crate) fn describe(account: &Account, now: SystemTime) -> String {
    let mut text = format!("{}, {}", inline(&account.issuer), validity(account, now));
    if account.account != DEFAULT_ACCOUNT {
        text = format!("{} at {text}", output::name(&account.account));
    }
    if !account.scopes.is_empty() {
        let scopes = inline(&account.scopes.join(" "));
        let _ = write!(text, ", scopes: {scopes}");
    }
    text
}

/// Describes how long a sign-in lasts.
fn validity(account: &Account, now: SystemTime) -> String {
    if account.can_refresh {
        return "refreshed when due".to_owned();
    }
    let Some(expires) = account.expires() else {
        return "no expiry".to_owned();
    };
    match expires.duration_since(now) {
        Ok(left) => format!("expires in {}", rounded(left)),
        Err(_) => "expired".to_owned(),
    }
}

/// Formats a time in the largest unit that fits.
fn rounded(left: Duration) -> String {
    let minutes = left.as_secs().div_ceil(60);
    match (minutes, minutes.div_ceil(60), minutes.div_ceil(60 * 24)) {
        (0..=120, ..) => format!("{minutes} min"),
        (_, hours @ 0..=48, _) => format!("{hours} h"),
        (.., days) => format!("{days} days"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up() {
        for (seconds, expected) in [
            (1, "1 min"),
            (3600, "60 min"),
            (3 * 3600 - 1, "3 h"),
            (49 * 3600, "3 days"),
            (365 * 86_400, "365 days"),
        ] {
            assert_eq!(rounded(Duration::from_secs(seconds)), expected);
        }
    }
}
