//! A queue of elicitations for a user interface (ELI-5).

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use tokio::sync::{mpsc, oneshot};

use super::{Elicit, ElicitAnswer, Elicitation};

/// The most requests that wait for the user. Further ones are cancelled.
const MAX_PENDING: usize = 100;

/// Queues elicitations for a user interface, which shows one after the other.
///
/// ```
/// use trunkline::Host;
/// use trunkline::elicit::{ElicitAnswer, ElicitQueue};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let (queue, mut pending) = ElicitQueue::new();
/// let host = Host::builder().elicit(queue).start();
/// let dialogs = async {
///     while let Some(mut request) = pending.next().await {
///         println!("{} asks: {}", request.elicitation().server, request.elicitation().message);
///         tokio::select! {
///             // The call ended, or the server changed its mind: close the dialog.
///             () = request.withdrawn() => continue,
///             // A real program shows a form here.
///             answer = async { ElicitAnswer::Decline } => request.answer(answer),
///         }
///     }
/// };
/// # drop(dialogs);
/// # host.shutdown().await;
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ElicitQueue(mpsc::Sender<PendingElicitation>);

/// The requests of an [`ElicitQueue`], in the order of their arrival.
#[derive(Debug)]
pub struct PendingElicitations(mpsc::Receiver<PendingElicitation>);

/// A request that waits for the user.
pub struct PendingElicitation {
    elicitation: Elicitation,
    reply: oneshot::Sender<ElicitAnswer>,
}

impl ElicitQueue {
    /// Creates a queue, and the end at which a user interface takes requests from it.
    pub fn new() -> (Self, PendingElicitations) {
        let (sender, receiver) = mpsc::channel(MAX_PENDING);
        (Self(sender), PendingElicitations(receiver))
    }
}

impl Elicit for ElicitQueue {
    fn elicit(
        &self,
        elicitation: Elicitation,
    ) -> Pin<Box<dyn Future<Output = ElicitAnswer> + Send>> {
        let (reply, answer) = oneshot::channel();
        let request = PendingElicitation { elicitation, reply };
        let queued = self.0.try_send(request).is_ok();
        Box::pin(async move {
            if !queued {
                return ElicitAnswer::Pass;
            }
            // A user interface that drops the request or ends does not answer it.
            answer.await.unwrap_or(ElicitAnswer::Cancel)
        })
    }
}

impl PendingElicitations {
    /// Waits for the next request that has not been withdrawn. `None` once the host is gone.
    pub async fn next(&mut self) -> Option<PendingElicitation> {
        loop {
            let request = self.0.recv().await?;
            if !request.is_withdrawn() {
                return Some(request);
            }
        }
    }

    /// Returns the next request that has not been withdrawn, if there is one now.
    pub fn try_next(&mut self) -> Option<PendingElicitation> {
        loop {
            let request = self.0.try_recv().ok()?;
            if !request.is_withdrawn() {
                return Some(request);
            }
        }
    }
}

impl PendingElicitation {
    /// Returns the request.
    pub fn elicitation(&self) -> &Elicitation {
        &self.elicitation
    }

    /// Answers the request. Dropping it instead cancels it.
    pub fn answer(self, answer: ElicitAnswer) {
        // A request that was withdrawn needs no answer.
        let _ = self.reply.send(answer);
    }

    /// Returns whether the answer is no longer wanted: the call has ended, or the server has
    /// withdrawn the request or confirmed that the user has visited the page.
    pub fn is_withdrawn(&self) -> bool {
        self.reply.is_closed()
    }

    /// Waits until the answer is no longer wanted.
    pub async fn withdrawn(&mut self) {
        self.reply.closed().await;
    }
}

impl fmt::Debug for PendingElicitation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_tuple("PendingElicitation")
            .field(&self.elicitation)
            .finish()
    }
}
