//! `trunkline xaa`: the sign-in at the identity provider of a company (AUTH-9).

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::json;
use trunkline::auth::ServerAuth;
use trunkline_config::{Editor, Layout, XaaIdp, env_vars};

use super::login::{self, LoginMethod};
use super::login_errors::{SignInTarget, fail};
use super::{accounts, add};
use crate::args::XaaCommand;
use crate::audit;
use crate::change;
use crate::exit::Exit;
use crate::interrupt::interrupted;
use crate::output::{self, Lines, inline};
use crate::session;

const SETUP_HINT: &str = "set it with `trunkline xaa setup --issuer URL --client-id ID`";

pub(crate) async fn run(command: &XaaCommand, as_json: bool) -> Exit {
    let layout = session::layout();
    match command {
        XaaCommand::Setup {
            issuer,
            client_id,
            client_secret,
            callback_port,
        } => match XaaIdp::new(issuer, client_id, *callback_port) {
            Ok(idp) => setup(&layout, &idp, *client_secret, as_json).await,
            Err(problem) => {
                output::error(&problem, None);
                Exit::Usage
            }
        },
        XaaCommand::Login { no_browser } => {
            let method = match LoginMethod::new(false, *no_browser) {
                LoginMethod::Browser => LoginMethod::Browser,
                _ => LoginMethod::Url,
            };
            tokio::select! {
                exit = sign_in(&layout, method, as_json) => exit,
                () = interrupted() => Exit::Interrupted,
            }
        }
        XaaCommand::Show => show(&layout, as_json),
        XaaCommand::Clear => clear(&layout, as_json).await,
    }
}

fn editor(layout: &Layout) -> Result<Editor, Exit> {
    Ok(Editor::new(layout.clone(), session::cwd()?))
}

async fn setup(layout: &Layout, idp: &XaaIdp, has_secret: bool, as_json: bool) -> Exit {
    let secret = has_secret || std::env::var_os(env_vars::MCP_XAA_IDP_CLIENT_SECRET).is_some();
    let read = secret.then(|| add::read_secret(env_vars::MCP_XAA_IDP_CLIENT_SECRET));
    let secret = match read.transpose() {
        Ok(secret) => secret,
        Err(problem) => {
            let hint = format!("set {}", env_vars::MCP_XAA_IDP_CLIENT_SECRET);
            output::error(&problem, Some(&hint));
            return Exit::Usage;
        }
    };
    let auth = session::auth(layout);
    let old = auth.and_then(|auth| session::idp(layout, &auth).ok().flatten());
    let written = editor(layout).map(|editor| editor.set_xaa_idp(Some(idp)));
    let written = match written {
        Ok(Ok(written)) => written,
        Ok(Err(error)) => return change::fail(&error, None),
        Err(exit) => return exit,
    };
    if let Some((old, settings)) = old.filter(|(_, old)| old != idp) {
        forget(layout, &old, &settings.issuer).await;
    }
    if let Some(secret) = secret {
        match session::vault(layout).set_idp_secret(&idp.issuer, &secret) {
            Ok(stored) => {
                if let Some(warning) = stored.warning() {
                    output::warning(&warning);
                }
            }
            Err(error) => {
                output::error(&format!("the secret could not be stored: {error}"), None);
                return Exit::Failed;
            }
        }
    }
    let what = format!("identity provider: {}", idp.issuer);
    let document = json!({"xaaIdp": idp, "file": change::path(&written)});
    let exit = change::report(&what, &written, document, as_json);
    if exit == Exit::Done && !as_json {
        output::note("sign in with `trunkline xaa login`");
    }
    exit
}

/// The sign-in at the identity provider and its settings; `None` if none is set. An `Err` has been
/// reported.
fn configured(layout: &Layout) -> Result<Option<(Arc<ServerAuth>, XaaIdp)>, Exit> {
    let Some(auth) = session::auth(layout) else {
        return Ok(None);
    };
    session::idp(layout, &auth).map_err(|problem| {
        output::error(&problem, None);
        Exit::Usage
    })
}

/// Signs out at an identity provider and forgets its secret.
async fn forget(layout: &Layout, idp: &ServerAuth, issuer: &str) {
    let logout = idp.logout().await;
    audit::record_sign_in(issuer, "xaa-logout", logout.is_ok());
    if let Err(error) = logout {
        output::warning(&format!("the sign-in could not be ended: {error}"));
    }
    if let Err(error) = session::vault(layout).delete_idp_secret(issuer) {
        output::warning(&format!("the client secret could not be deleted: {error}"));
    }
}

async fn sign_in(layout: &Layout, method: LoginMethod, as_json: bool) -> Exit {
    let (idp, settings) = match configured(layout) {
        Ok(Some(found)) => found,
        Ok(None) => {
            output::error("no identity provider is set", Some(SETUP_HINT));
            return Exit::Usage;
        }
        Err(exit) => return exit,
    };
    let account = login::with_url(&idp, method).await;
    audit::record_sign_in(&settings.issuer, "xaa-login", account.is_ok());
    let account = match account {
        Ok(account) => account,
        Err(error) => return fail(SignInTarget::Idp(&settings.issuer), method, &error),
    };
    if let Some(warning) = idp.storage_warning() {
        output::warning(&warning);
    }
    if as_json {
        output::json(&json!({"issuer": settings.issuer, "account": account}));
    } else {
        let issuer = inline(&account.issuer);
        output::result(Lines::one(format!("signed in at {issuer}")));
    }
    Exit::Done
}

fn show(layout: &Layout, as_json: bool) -> Exit {
    let (idp, file) = match XaaIdp::load(layout) {
        Ok(Some(found)) => found,
        Ok(None) if as_json => {
            output::json(&json!(null));
            return Exit::Done;
        }
        Ok(None) => {
            output::note("no identity provider is set");
            return Exit::Done;
        }
        Err(problem) => {
            output::error(&problem, None);
            return Exit::Usage;
        }
    };
    let account = match configured(layout) {
        Ok(sign_in) => sign_in.and_then(|(idp, _)| idp.listed_account()),
        Err(exit) => return exit,
    };
    if as_json {
        let file = file.to_string_lossy();
        output::json(&json!({"xaaIdp": idp, "file": file, "account": account}));
        return Exit::Done;
    }
    let mut lines = Lines::new();
    lines.push(format!("issuer: {}", inline(&idp.issuer)));
    lines.push(format!("client id: {}", inline(&idp.client_id)));
    if let Some(port) = idp.callback_port {
        lines.push(format!("callback port: {port}"));
    }
    lines.push(format!("from {}", file.display()));
    lines.push(match account {
        Some(account) => format!(
            "signed in: {}",
            accounts::describe(&account, SystemTime::now())
        ),
        None => "nobody is signed in; sign in with `trunkline xaa login`".to_owned(),
    });
    output::result(lines);
    Exit::Done
}

async fn clear(layout: &Layout, as_json: bool) -> Exit {
    // An entry that cannot be used is removed all the same.
    let auth = session::auth(layout);
    let idp = auth.and_then(|auth| session::idp(layout, &auth).ok().flatten());
    let editor = match editor(layout) {
        Ok(editor) => editor,
        Err(exit) => return exit,
    };
    let written = match editor.set_xaa_idp(None) {
        Ok(written) => written,
        Err(error) => return change::fail(&error, None),
    };
    if let Some((idp, settings)) = &idp {
        forget(layout, idp, &settings.issuer).await;
    }
    let issuer = idp.as_ref().map(|(_, settings)| &settings.issuer);
    let what = match issuer {
        Some(issuer) => format!("forgot the identity provider {issuer}"),
        None => "no identity provider is set any more".to_owned(),
    };
    let document = json!({"removed": issuer, "file": change::path(&written)});
    change::report(&what, &written, document, as_json)
}
