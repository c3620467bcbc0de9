//! Progress updates of a task.

use std::pin::pin;

use futures_util::FutureExt;
use tokio::sync::mpsc;

use crate::mcp::CallToolResult;
use crate::peer::{Progress, ProgressStream, RequestError};

/// Runs `work` and reports progress updates, or status messages if there are none, in order and
/// before the outcome.
pub(super) async fn with_progress<W: Future<Output = Result<CallToolResult, RequestError>>>(
    updates: &ProgressStream,
    mut on_progress: Option<&mut (dyn FnMut(Progress) + Send)>,
    work: impl FnOnce(mpsc::UnboundedSender<String>) -> W,
) -> Result<CallToolResult, RequestError> {
    let (sender, mut statuses) = mpsc::unbounded_channel();
    let mut work = pin!(work(sender));
    let mut emit = |progress: Progress| {
        if let Some(on_progress) = &mut on_progress {
            on_progress(progress);
        }
    };
    let mut numbered = false;
    let mut count = 0_u32;
    let mut emit_status = |message: String, numbered: bool, emit: &mut dyn FnMut(Progress)| {
        // Progress values and status counts must not be mixed.
        if !numbered {
            count += 1;
            emit(Progress {
                progress: f64::from(count),
                total: None,
                message: Some(message),
            });
        }
    };
    let outcome = loop {
        tokio::select! {
            biased;
            progress = updates.next() => {
                numbered = true;
                emit(progress);
            }
            Some(message) = statuses.recv() => emit_status(message, numbered, &mut emit),
            outcome = &mut work => break outcome,
        }
    };
    while let Some(progress) = updates.next().now_or_never() {
        numbered = true;
        emit(progress);
    }
    while let Ok(message) = statuses.try_recv() {
        emit_status(message, numbered, &mut emit);
    }
    outcome
}
