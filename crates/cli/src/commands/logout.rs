//! `trunkline logout`: signs out of a server (AUTH-10).

use serde_json::json;
use trunkline::auth::{Revocation, server_config};

use super::login;
use crate::args::ConfigArgs;
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
    let Some(server) = configured.foremost(name) else {
        return configured.unknown(name);
    };
    let auth = session::auth(configured.loader.layout());
    let Some((auth, settings)) = auth.zip(server_config(&server.entry)) else {
        output::error(&format!("\"{name}\" takes no sign-in"), None);
        return Exit::Usage;
    };
    let logout = match auth.server(settings).logout().await {
        Ok(logout) => logout,
        Err(error) => return login::fail(name, &error),
    };
    let revoked = match &logout.revocation {
        Revocation::Revoked => "revoked",
        Revocation::Unsupported => "unsupported",
        Revocation::Failed(error) => {
            let what = format!("the tokens of \"{name}\" could not be revoked: {error}");
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
