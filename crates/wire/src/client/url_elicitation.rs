//! Requests that the server rejects until the user has opened a URL (error -32042, CALL-3).

use bytestring::ByteString;
use futures_util::future::{Either, join_all, select};
use std::pin::pin;
use tokio::time::Instant;

use super::input_required::with_deadline;
use super::notification_waiters::Topic;
use super::{Client, MAX_INPUTS};
use crate::json::{Json, ObjectWriter};
use crate::peer::RequestError;
use crate::rpc_error::RpcError;

/// The maximum number of retries of one request for this reason (CALL-3).
pub const MAX_URL_ELICITATIONS: usize = 3;

/// The method that prompts the user.
const ELICITATION: &str = "elicitation/create";

impl Client {
    /// Prompts the user to open the URLs in the error. `Ok` means that the request, which has not
    /// run, may be repeated. The error tells why not.
    pub(super) async fn open_required_urls(
        &self,
        error: RpcError,
        visits: usize,
        deadline: &mut Option<Instant>,
    ) -> Result<(), RequestError> {
        let refused = |why: &str| {
            let message = match error.message.as_str() {
                "" => why.to_owned(),
                message => format!("{message}; {why}"),
            };
            Err(RequestError::Rpc(RpcError {
                message,
                ..error.clone()
            }))
        };
        let pages = match pages(&error) {
            Ok(pages) => pages,
            Err(problem) => return refused(problem),
        };
        if visits == MAX_URL_ELICITATIONS {
            return refused("it still asks for a page that was visited");
        }
        let visits = join_all(pages.iter().map(|page| self.open_url(page)));
        // The server rejected the request, so it has not run even if the deadline passes now.
        let asks = self.shared.handler.prompts_user(ELICITATION);
        let Ok(outcomes) = with_deadline(asks, deadline, visits).await else {
            return refused("the prompt to visit the page it needs timed out");
        };
        for outcome in outcomes {
            match outcome.as_deref() {
                Some("accept") => {}
                Some("decline") => return refused("the user declined to visit the page it needs"),
                _ => return refused("the page it needs was not visited"),
            }
        }
        Ok(())
    }

    /// Prompts the user to open one URL, and returns the decision. The server may report completion
    /// first.
    async fn open_url(&self, page: &Json) -> Option<ByteString> {
        let handler = &self.shared.handler;
        let method = ByteString::from_static(ELICITATION);
        let mut params = ObjectWriter::new();
        page.members(|key, value| {
            if key != "mode" {
                params.raw(key, &value);
            }
        });
        params.string("mode", "url");
        let asked = pin!(handler.request(method, Some(params.finish())));
        let id: Option<String> = page.field("elicitationId");
        let mut waiter = handler
            .notification_waiters()
            .zip(id)
            .map(|(waiters, id)| waiters.subscribe(Topic::Elicitation(id)));
        let done = pin!(async {
            match &mut waiter {
                Some(waiter) => waiter.next().await,
                None => std::future::pending().await,
            }
        });
        match select(asked, done).await {
            Either::Left((answer, _)) => answer.ok()?.get("action")?.as_string(),
            Either::Right(_) => Some(ByteString::from_static("accept")),
        }
    }
}

/// Returns the elicitations in the error.
fn pages(error: &RpcError) -> Result<Vec<Json>, &'static str> {
    let listed = error
        .data
        .as_ref()
        .and_then(|data| data.get("elicitations"));
    let mut pages = Vec::new();
    if let Some(listed) = listed {
        listed.elements(|page| {
            // One too many is enough to refuse them.
            if pages.len() <= MAX_INPUTS {
                pages.push(page);
            }
        });
    }
    if pages.is_empty() {
        return Err("it does not say which page to visit");
    }
    if pages.len() > MAX_INPUTS {
        return Err("it names too many pages to visit");
    }
    let is_page = |page: &Json| page.field::<String>("url").is_some();
    if pages.iter().all(is_page) {
        Ok(pages)
    } else {
        Err("one of the pages to visit has no address")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elicitations_are_valid_only_if_all_have_a_url() {
        let check = |data: Option<&str>| {
            let data = data.map(|data| Json::parse(data.to_owned()).unwrap());
            pages(&RpcError {
                data,
                ..RpcError::new(RpcError::URL_ELICITATION_REQUIRED, "")
            })
            .map(|pages| pages.len())
        };
        assert_eq!(
            check(Some(
                r#"{"elicitations":[{"url":"https://a"},{"url":"https://b"}]}"#
            )),
            Ok(2)
        );
        for data in [
            None,
            Some("7"),
            Some(r#"{"elicitations":[]}"#),
            Some(r#"{"elicitations":{}}"#),
        ] {
            assert_eq!(check(data), Err("it does not say which page to visit"));
        }
        assert!(check(Some(r#"{"elicitations":[{"url":"https://a"},{"url":5}]}"#)).is_err());
    }
}
