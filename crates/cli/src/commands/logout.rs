//! `trunkline logout`: signs out of a server (AUTH-10).

use serde_json::json;
use trunkline::auth::{Logout, Revocation, server_config};

use super::login::takes_no_sign_in;
use super::login_errors::fail_logout;
use crate::args::ConfigArgs;
use crate::audit;
use crate::exit::Exit;
use crate::output::{self, Lines};
use crate::session;

pub(crate) async fn run(
    config: &ConfigArgs,
    name: &str,
    account: Option<&str>,
    as_json: bool,
) -> Exit {
    let mut configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    if let Err(exit) = configured.use_account(name, account) {
        return exit;
    }
    let auth = session::auth(configured.loader.layout());
    let logout = match (configured.foremost(name), auth) {
        (Some(server), Some(auth)) => match server_config(&server.entry) {
            Some(settings) => auth.server(settings).logout().await,
            None => return takes_no_sign_in(server),
        },
        // A server that was removed may have left a sign-in.
        (None, Some(auth)) => match auth.logout_stored(name, account).await {
            Ok(None) => return configured.unknown(name),
            Ok(Some(logout)) => Ok(logout),
            Err(error) => Err(error),
        },
        (Some(server), None) => return takes_no_sign_in(server),
        (None, None) => return configured.unknown(name),
    };
    audit::record_sign_in(name, "logout", logout.is_ok());
    match logout {
        Ok(logout) => report(name, account, &logout, as_json),
        Err(error) => fail_logout(name, &error),
    }
}

fn report(name: &str, account: Option<&str>, logout: &Logout, as_json: bool) -> Exit {
    let revoked = match &logout.revocation {
        Revocation::Revoked => "revoked",
        Revocation::Unsupported => "unsupported",
        Revocation::Failed(error) => {
            let what = format!(
                "the tokens of \"{name}\" are deleted here, but could not be revoked: {error}"
            );
            output::warning(&what);
            "failed"
        }
        Revocation::Nothing => "nothing",
    };
    if as_json {
        let signed_out = logout.was_signed_in;
        output::json(&json!({"server": name, "signedOut": signed_out, "revocation": revoked}));
        return Exit::Done;
    }
    let shown = output::name(name);
    let mut lines = Lines::new();
    lines.push(if logout.was_signed_in {
        format!("signed out of \"{shown}\"")
    } else {
        match account {
            Some(account) => format!(
                "nobody is signed in to \"{shown}\" as {}",
                output::name(account)
            ),
            None => format!("nobody is signed in to \"{shown}\""),
        }
    });
    output::result(lines);
    Exit::Done
}
