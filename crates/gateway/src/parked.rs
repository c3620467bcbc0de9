//! Calls that wait for a modern client's answers (MRTR). The upstream call goes on; the client
//! holds an unguessable `requestState` and repeats its request with the answers.

use std::sync::Arc;
use std::time::Duration;

use ring::rand::SecureRandom as _;
use tokio::task::{AbortHandle, JoinHandle};
use trunkline_wire::{Json, RpcError};

use crate::caller::Caller;
use crate::calls::Work;
use crate::errors::invalid_params;
use crate::link::ClientLink;
use crate::open_call::OpenCall;
use crate::session::ClientSession;
use crate::translate;

/// How long a client may take to answer.
const PARKED_FOR: Duration = Duration::from_mins(10);

/// The most calls of one client that wait for its answers.
const MAX_PARKED: usize = 256;

/// A call that waits for its client's answers. Dropping it cancels the call.
pub(crate) struct Parked {
    call: Arc<OpenCall>,
    /// The request that it belongs to.
    request: (&'static str, String),
    work: RunningWork,
    expiry: AbortHandle,
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.expiry.abort();
    }
}

/// Work on a task of its own, which ends with it.
struct RunningWork(Option<JoinHandle<Result<Json, RpcError>>>);

impl Drop for RunningWork {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

impl RunningWork {
    /// Waits for the outcome. Dropping the future cancels the work.
    async fn outcome(mut self) -> Result<Json, RpcError> {
        let Some(task) = &mut self.0 else {
            return Err(lost());
        };
        let outcome = task.await;
        self.0 = None;
        outcome.unwrap_or_else(|_| Err(lost()))
    }
}

fn lost() -> RpcError {
    RpcError::new(
        RpcError::INTERNAL_ERROR,
        "the call was lost; it may have run",
    )
}

/// The members with which a client repeats its request.
pub(crate) struct Retry {
    state: String,
    responses: Option<Json>,
}

impl Retry {
    /// Reads them; `None` if the request is a new one.
    pub(crate) fn of(params: &Json) -> Option<Self> {
        Some(Self {
            state: params.field("requestState")?,
            responses: params.get("inputResponses"),
        })
    }
}

/// Identifies a request by its method and params, without the members of a retry.
pub(crate) fn same_request(method: &'static str, params: &Json) -> (&'static str, String) {
    let mut text = String::new();
    params.members(|key, value| {
        if !matches!(key, "_meta" | "requestState" | "inputResponses") {
            text.push_str(key);
            text.push('\0');
            text.push_str(value.as_str());
            text.push('\0');
        }
    });
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    (method, hex(digest.as_ref()))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns text that nobody can guess.
fn unguessable() -> Result<String, RpcError> {
    let mut bytes = [0; 32];
    let random = ring::rand::SystemRandom::new();
    random
        .fill(&mut bytes)
        .map_err(|_| RpcError::new(RpcError::INTERNAL_ERROR, "no random numbers"))?;
    Ok(hex(&bytes))
}

impl ClientSession {
    /// Parks a call and returns the result that asks the client.
    pub(crate) fn park(
        self: &Arc<Self>,
        request: (&'static str, String),
        call: Arc<OpenCall>,
        work: Work,
        requests: &Json,
    ) -> Result<Json, RpcError> {
        let state = unguessable()?;
        let mut parked = self.lock_parked();
        if self.is_closed() {
            return Err(RpcError::new(
                RpcError::INTERNAL_ERROR,
                "the session has ended",
            ));
        }
        if parked.len() >= MAX_PARKED {
            let message = format!("{MAX_PARKED} calls of this client wait for its answers");
            return Err(RpcError::new(RpcError::INTERNAL_ERROR, message));
        }
        let (session, key) = (Arc::downgrade(self), state.clone());
        let expiry = tokio::spawn(async move {
            tokio::time::sleep(PARKED_FOR).await;
            if let Some(session) = session.upgrade() {
                let expired = session.lock_parked().remove(&key);
                drop(expired);
            }
        });
        let entry = Parked {
            call,
            request,
            work: RunningWork(Some(tokio::spawn(work))),
            expiry: expiry.abort_handle(),
        };
        parked.insert(state.clone(), entry);
        Ok(translate::input_required(requests, &state))
    }

    /// Continues a parked call with the client's answers.
    pub(crate) async fn resume(
        self: Arc<Self>,
        method: &'static str,
        caller: &Caller,
        params: &Json,
        retry: &Retry,
        reply: Arc<dyn ClientLink>,
    ) -> Result<Json, RpcError> {
        let request = same_request(method, params);
        let mut parked = {
            let mut all = self.lock_parked();
            let known = all
                .get(&retry.state)
                .map(|parked| parked.request == request);
            match known {
                Some(true) => all.remove(&retry.state),
                Some(false) => {
                    return Err(invalid_params(
                        "the requestState belongs to another request",
                    ));
                }
                None => None,
            }
        }
        .ok_or_else(|| {
            invalid_params(
                "the requestState is unknown or has expired; repeat the request without it",
            )
        })?;
        let call = Arc::clone(&parked.call);
        call.continue_with(caller, reply);
        call.answer(retry.responses.as_ref());
        let work = RunningWork(parked.work.0.take());
        drop(parked);
        self.drive(method, params, call, Box::pin(work.outcome()))
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_is_the_same_request_whatever_it_carries_besides() {
        let of = |text: &str| same_request("tools/call", &Json::parse(text.to_owned()).unwrap());
        let first = of(r#"{"name":"a","arguments":{"x":1},"_meta":{"progressToken":1}}"#);
        let retry =
            of(r#"{"name":"a","arguments":{"x":1},"requestState":"s","inputResponses":{}}"#);
        assert_eq!(first, retry);
        assert_ne!(first, of(r#"{"name":"a","arguments":{"x":2}}"#));
        assert_ne!(first, of(r#"{"name":"b","arguments":{"x":1}}"#));
    }

    #[test]
    fn a_state_cannot_be_guessed() {
        let (one, other) = (unguessable().unwrap(), unguessable().unwrap());
        assert!(one.len() == 64 && one != other);
    }
}
