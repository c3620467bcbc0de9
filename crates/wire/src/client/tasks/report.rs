//! Reports how a task goes while it is being driven.

use std::pin::pin;

use futures_util::FutureExt;
use tokio::sync::mpsc;

use crate::mcp::CallResult;
use crate::peer::{Following, Progress, RequestError};

/// Does the work and meanwhile reports how it goes, in order and before its outcome: progress, or else what the task says it is doing.
pub(super) async fn report<W: Future<Output = Result<CallResult, RequestError>>>(
    following: &Following,
    mut on_progress: Option<&mut (dyn FnMut(Progress) + Send)>,
    work: impl FnOnce(mpsc::UnboundedSender<String>) -> W,
) -> Result<CallResult, RequestError> {
    let (sender, mut statuses) = mpsc::unbounded_channel();
    let mut work = pin!(work(sender));
    let mut tell = |progress: Progress| {
        if let Some(on_progress) = &mut on_progress {
            on_progress(progress);
        }
    };
    let mut numbered = false;
    let mut told = 0_u32;
    let mut tell_status = |message: String, numbered: bool, tell: &mut dyn FnMut(Progress)| {
        // Two ways of counting would contradict each other.
        if !numbered {
            told += 1;
            tell(Progress {
                progress: f64::from(told),
                total: None,
                message: Some(message),
            });
        }
    };
    let outcome = loop {
        tokio::select! {
            biased;
            progress = following.next() => {
                numbered = true;
                tell(progress);
            }
            Some(message) = statuses.recv() => tell_status(message, numbered, &mut tell),
            outcome = &mut work => break outcome,
        }
    };
    while let Some(progress) = following.next().now_or_never() {
        numbered = true;
        tell(progress);
    }
    while let Ok(message) = statuses.try_recv() {
        tell_status(message, numbered, &mut tell);
    }
    outcome
}
