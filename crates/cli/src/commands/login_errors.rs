//! Explains why a sign-in or sign-out failed, and what to do.

use trunkline::auth::{AuthError, AuthErrorKind};

use super::login::Way;
use crate::exit::Exit;
use crate::output;
use crate::standing::{last_word, quoted};

/// The service to sign in to.
#[derive(Clone, Copy, Debug)]
pub(super) enum SignInTarget<'a> {
    /// A server, by its name.
    Server(&'a str),
    /// The identity provider of a company, by its issuer.
    Idp(&'a str),
}

impl SignInTarget<'_> {
    fn shown(self) -> String {
        match self {
            Self::Server(name) => format!("\"{name}\""),
            Self::Idp(issuer) => issuer.to_owned(),
        }
    }

    /// The command that signs in here.
    fn login(self) -> String {
        match self {
            Self::Server(name) => format!("trunkline login {}", last_word(name)),
            Self::Idp(_) => "trunkline xaa login".to_owned(),
        }
    }

    /// The command that changes a setting of the sign-in, or where to change it.
    fn set(self, setting: &str) -> String {
        match self {
            Self::Server(name) => {
                format!("trunkline edit {} --set oauth.{setting}", quoted(name))
            }
            Self::Idp(_) => "trunkline xaa setup".to_owned(),
        }
    }
}

/// Reports a sign-in that failed.
pub(super) fn fail(target: SignInTarget, way: Way, error: &AuthError) -> Exit {
    let what = format!("could not sign in to {}: {error}", target.shown());
    output::error(&what, hint(target, way, error).as_deref());
    match error.kind() {
        AuthErrorKind::TimedOut => Exit::TimedOut,
        AuthErrorKind::Unavailable => Exit::NotConnected,
        _ => Exit::NeedsAuth,
    }
}

/// Reports a sign-out that failed.
pub(super) fn fail_logout(name: &str, error: &AuthError) -> Exit {
    output::error(&format!("could not sign out of \"{name}\": {error}"), None);
    Exit::Failed
}

/// Returns what the user can do about a sign-in that failed.
fn hint(target: SignInTarget, way: Way, error: &AuthError) -> Option<String> {
    let login = target.login();
    Some(match error.kind() {
        AuthErrorKind::TimedOut | AuthErrorKind::Denied | AuthErrorKind::Cancelled => {
            format!("to try again, run `{login}`")
        }
        AuthErrorKind::Unavailable => format!("try again later with `{login}`"),
        AuthErrorKind::InProgress => match error.process() {
            Some(process) => {
                format!("finish that sign-in, or end it with `kill {process}`")
            }
            None => "finish that sign-in first".to_owned(),
        },
        AuthErrorKind::PortInUse => {
            let any = target.set("callbackPort=0");
            match error.process() {
                Some(process) => format!(
                    "end that program with `kill {process}`; if the provider accepts any port, \
                     run `{any}` instead"
                ),
                None => format!(
                    "end that program; if the provider accepts any port, run `{any}` instead"
                ),
            }
        }
        AuthErrorKind::Registration => format!(
            "register a client with the provider, and set its id with `{}`",
            target.set("clientId=ID")
        ),
        AuthErrorKind::UnsupportedGrant if way == Way::Device => {
            format!("sign in with `{login} --no-browser`")
        }
        AuthErrorKind::UnsupportedGrant => format!(
            "if you have a client id and its secret, run `{}`",
            target.set("grantType=client_credentials")
        ),
        _ => return None,
    })
}
