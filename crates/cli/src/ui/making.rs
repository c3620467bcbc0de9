//! Makes a call, a read or a prompt, and renders its outcome.

use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use trunkline::context::{ReadOptions, expand_template};
use trunkline::{CallError, CallOptions, Host};

use super::doc::DocLine;
use super::msg::{CallOutcome, Msg, Progress, Request, Subject};
use super::rendering;
use super::text;
use crate::output::inline;

/// Makes a call, and returns its outcome as a document.
pub(super) async fn make(
    host: &Host,
    id: u64,
    request: Request,
    inbox: &mpsc::UnboundedSender<Msg>,
    cancelled: oneshot::Receiver<()>,
) -> CallOutcome {
    let Request {
        server,
        subject,
        arguments,
        secrets: _,
    } = request;
    let progress = {
        let inbox = inbox.clone();
        move |progress: trunkline::call::Progress| {
            let shown = Progress {
                done: progress.progress,
                total: progress.total,
                message: text::line(&progress.message.unwrap_or_default()),
            };
            let _ = inbox.send(Msg::Progress(id, shown));
        }
    };
    let outcome = match subject {
        Subject::Tool(tool) => {
            let options = CallOptions::new().on_progress(progress).cancel(async {
                let _ = cancelled.await;
            });
            let made = host
                .call_on(&server, &tool, Value::Object(arguments), options)
                .await;
            match made {
                Ok(output) => {
                    let is_error = output.is_error;
                    Ok((is_error, rendered(move || rendering::output(&output)).await))
                }
                Err(error) => Err(Some(error)),
            }
        }
        Subject::Resource(uri) => {
            let options = ReadOptions::new().on_progress(progress);
            let read = host.read_resource(&server, &uri, options);
            match until(cancelled, read).await {
                Ok(read) => Ok((false, rendered(move || rendering::resource(&read)).await)),
                Err(error) => Err(error),
            }
        }
        Subject::Template(template) => {
            let uri = match expand_template(&template, &words(&arguments)) {
                Ok(uri) => uri,
                Err(problem) => return failed(vec![DocLine::field("error", inline(&problem))]),
            };
            let options = ReadOptions::new().on_progress(progress);
            let read = host.read_resource(&server, &uri, options);
            match until(cancelled, read).await {
                Ok(read) => Ok((false, rendered(move || rendering::resource(&read)).await)),
                Err(error) => Err(error),
            }
        }
        Subject::Prompt(prompt) => match host.prompt_of(&server, &prompt) {
            Ok(command) => {
                let words = words(&arguments);
                let options = ReadOptions::new().on_progress(progress);
                let got = host.prompt_with(&command, &words, options);
                match until(cancelled, got).await {
                    Ok(got) => Ok((false, rendered(move || rendering::prompt(&got)).await)),
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(Some(error)),
        },
    };
    match outcome {
        Ok((is_error, lines)) => CallOutcome {
            is_error,
            cancelled: false,
            lines,
        },
        Err(error) => {
            let cancelled = error.as_ref().is_none_or(CallError::is_cancelled);
            let lines = match &error {
                Some(error) => rendering::error(error),
                None => vec![DocLine::own("you cancelled it")],
            };
            CallOutcome {
                is_error: !cancelled,
                cancelled,
                lines,
            }
        }
    }
}

/// Renders a result outside of the loop: decoding a picture takes many frames.
async fn rendered(render: impl FnOnce() -> Vec<DocLine> + Send + 'static) -> Vec<DocLine> {
    tokio::task::spawn_blocking(render)
        .await
        .unwrap_or_default()
}

/// Waits for a read, which is dropped when the user cancels it.
async fn until<T>(
    cancelled: oneshot::Receiver<()>,
    work: impl Future<Output = Result<T, CallError>>,
) -> Result<T, Option<CallError>> {
    tokio::select! {
        outcome = work => outcome.map_err(Some),
        _ = cancelled => Err(None),
    }
}

fn failed(lines: Vec<DocLine>) -> CallOutcome {
    CallOutcome {
        is_error: true,
        cancelled: false,
        lines,
    }
}

/// Returns arguments as text, for prompts and templates.
fn words(arguments: &Map<String, Value>) -> Vec<(String, String)> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let words = arguments.iter();
    words
        .map(|(name, value)| (name.clone(), text(value)))
        .collect()
}
