//! `trunkline serve token`: bearer tokens for clients of the HTTP endpoint.

use serde_json::{Value, json};
use trunkline_gateway::store::{NewToken, TokenRecord, TokenStatus, TokenStore as _, now_millis};

use super::http;
use crate::exit::Exit;
use crate::output::{self, Line, Lines, Style, inline};

#[derive(clap::Subcommand, Clone, Debug)]
pub(crate) enum TokenCommand {
    /// Create a token and print it, once
    Create {
        /// The client that will use it
        label: String,

        /// Restrict the client to this profile of the settings
        #[arg(long, value_name = "NAME")]
        profile: Option<String>,

        /// Refuse the token after this many days
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(1..=36_500))]
        expires: Option<u64>,
    },
    /// List the tokens, without the tokens themselves
    List,
    /// Revoke a token
    Revoke {
        /// Its id, or the client's name for all of its tokens
        name: String,
    },
}

pub(super) async fn run(command: TokenCommand, as_json: bool) -> Exit {
    let database = match http::database().await {
        Ok(database) => database,
        Err(problem) => return fail(&problem),
    };
    let now = now_millis();
    match command {
        TokenCommand::Create {
            label,
            profile,
            expires,
        } => {
            let days = |days: u64| now.saturating_add(days * 86_400_000);
            let profile = profile.as_deref();
            let new = match NewToken::generate(&label, profile, now, expires.map(days)) {
                Ok(new) => new,
                Err(error) => return fail(&error.to_string()),
            };
            if let Err(error) = database.insert(new.record.clone()).await {
                return fail(&error.to_string());
            }
            if as_json {
                let mut shown = shown(&new.record, now);
                shown["token"] = new.token.into();
                output::json(&shown);
            } else {
                output::result(Line::of(Style::Plain, new.token));
                output::note("this token is shown once; it goes into the client as a bearer token");
            }
            Exit::Done
        }
        TokenCommand::List => match database.list().await {
            Ok(tokens) => {
                list(&tokens, now, as_json);
                Exit::Done
            }
            Err(error) => fail(&error.to_string()),
        },
        TokenCommand::Revoke { name } => match database.revoke(&name, now).await {
            Ok(revoked) if revoked.is_empty() => {
                let name = inline(&name);
                output::error(
                    &format!("there is no valid token \"{name}\""),
                    Some("trunkline serve token list"),
                );
                Exit::Usage
            }
            Ok(revoked) => {
                if as_json {
                    let all: Vec<Value> = revoked.iter().map(|token| shown(token, now)).collect();
                    output::json(&all);
                } else {
                    for token in &revoked {
                        let label = output::name(&token.label);
                        let text = format!("revoked {} of {label}", token.id);
                        output::note(Line::of(Style::Plain, text));
                    }
                }
                Exit::Done
            }
            Err(error) => fail(&error.to_string()),
        },
    }
}

fn fail(problem: &str) -> Exit {
    output::error(problem, None);
    Exit::Failed
}

fn list(tokens: &[TokenRecord], now: u64, as_json: bool) {
    if as_json {
        let all: Vec<Value> = tokens.iter().map(|token| shown(token, now)).collect();
        output::json(&all);
        return;
    }
    if tokens.is_empty() {
        output::note("there are no tokens; create one with `trunkline serve token create NAME`");
        return;
    }
    let mut lines = Lines::new();
    for token in tokens {
        let line = Line::of(Style::Name, output::name(&token.label));
        let profile = match &token.profile {
            Some(profile) => format!(", profile {}", output::name(profile)),
            None => String::new(),
        };
        let text = format!("  {}{profile}, {}", token.id, describe(token, now));
        lines.push_line(line.and(Style::Plain, text));
    }
    output::result(lines);
}

fn describe(token: &TokenRecord, now: u64) -> String {
    match (token.status(now), token.expires) {
        (TokenStatus::Revoked, _) => "revoked".to_owned(),
        (TokenStatus::Expired, _) => "expired".to_owned(),
        (TokenStatus::Valid, None) => "valid".to_owned(),
        (TokenStatus::Valid, Some(expires)) => {
            let days = expires.saturating_sub(now).div_ceil(86_400_000);
            format!("expires in {days} days")
        }
    }
}

/// The record without its digest. Times are in seconds since the Unix epoch.
fn shown(token: &TokenRecord, now: u64) -> Value {
    let status = match token.status(now) {
        TokenStatus::Valid => "valid",
        TokenStatus::Expired => "expired",
        TokenStatus::Revoked => "revoked",
    };
    json!({
        "id": token.id,
        "label": token.label,
        "profile": token.profile,
        "status": status,
        "created": token.created / 1000,
        "expires": token.expires.map(|millis| millis / 1000),
        "revoked": token.revoked.map(|millis| millis / 1000),
    })
}
