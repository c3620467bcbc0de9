//! `trunkline accounts`: the servers that the user is signed in to, never with a token (AUTH-3).

use std::time::SystemTime;

use trunkline::auth::Account;

use crate::exit::Exit;
use crate::output::{self, Lines, inline};
use crate::session;

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
        output::note("you are signed in to no server");
        return Exit::Done;
    }
    let mut lines = Lines::new();
    let now = SystemTime::now();
    for account in &accounts {
        let (server, issuer) = (output::name(&account.server), inline(&account.issuer));
        lines.push(format!("{server}  {issuer}, {}", validity(account, now)));
        if !account.scopes.is_empty() {
            lines.push(format!("  scopes: {}", inline(&account.scopes.join(" "))));
        }
    }
    output::result(lines);
    Exit::Done
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
        Ok(left) => format!("expires in {} min", left.as_secs().div_ceil(60)),
        Err(_) => "expired".to_owned(),
    }
}
