//! Options of calls and reads.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use trunkline_wire::Json;
use trunkline_wire::peer::Progress;

type OnProgress<'a> = Box<dyn FnMut(Progress) + Send + 'a>;
type Cancel<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Options for a single call.
///
/// Closures may borrow from the caller:
///
/// ```
/// use std::time::Duration;
/// use trunkline::permission::AllowAll;
/// use trunkline::{Builtin, CallOptions, Host};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), trunkline::CallError> {
/// # let schema = serde_json::json!({"type": "object"});
/// # let clock = Builtin::new("clock").tool("now", "", &schema, |_| async { Ok("noon".into()) });
/// # let host = Host::builder().builtin(clock).permit(AllowAll).start();
/// let mut steps = Vec::new();
/// let options = CallOptions::new()
///     .timeout(Duration::from_secs(10))
///     .on_progress(|step| steps.push(step.progress));
/// let output = host.call("mcp__clock__now", serde_json::json!({}), options).await?;
/// println!("{} after {} steps", output.text(), steps.len());
/// # host.shutdown().await;
/// # Ok(()) }
/// ```
#[derive(Default)]
#[non_exhaustive]
pub struct CallOptions<'a> {
    pub(crate) timeout: Option<Duration>,
    pub(crate) on_progress: Option<OnProgress<'a>>,
    pub(crate) cancel: Option<Cancel<'a>>,
    pub(crate) meta: Option<Json>,
    pub(crate) client: Option<Arc<str>>,
    pub(crate) unchecked: bool,
    pub(crate) raw: bool,
    pub(crate) forward_url_elicitation: bool,
}

/// The options that calls and reads have in common.
macro_rules! common_options {
    ($options:ident) => {
        impl<'a> $options<'a> {
            /// Creates options with the host's defaults.
            pub fn new() -> Self {
                Self::default()
            }

            /// Sets the time limit. Without one, that of the server's entry or of the settings
            /// applies. The time in which a person is asked for permission or input does not count.
            #[must_use]
            pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
                self.timeout = timeout.into();
                self
            }

            /// Calls `on_progress` with each progress notification, in order, before the result is
            /// returned.
            #[must_use]
            pub fn on_progress(mut self, on_progress: impl FnMut(Progress) + Send + 'a) -> Self {
                self.on_progress = Some(Box::new(on_progress));
                self
            }

            /// Names the client on whose behalf the request is made, for a program that serves
            /// several: [`Elicitation::client`](crate::elicit::Elicitation::client) repeats it.
            #[must_use]
            pub fn client(mut self, client: impl Into<Arc<str>>) -> Self {
                self.client = Some(client.into());
                self
            }

            /// Adds the members of an object to the request's `_meta`.
            #[must_use]
            pub fn meta(mut self, meta: impl Into<Json>) -> Self {
                self.meta = Some(meta.into());
                self
            }

            /// Returns error -32042, with which a server demands a visit to a page, instead of
            /// asking the user: for programs that forward it.
            #[must_use]
            pub fn forward_url_elicitation(mut self, forward: bool) -> Self {
                self.forward_url_elicitation = forward;
                self
            }
        }
    };
}

common_options!(CallOptions);
common_options!(ReadOptions);

impl<'a> CallOptions<'a> {
    /// Cancels the call when `cancelled` completes: a token's `cancelled()`, a channel, a timer.
    /// The call fails with [`CallErrorKind::Cancelled`](super::CallErrorKind::Cancelled) and the
    /// server is notified. Dropping the call's future cancels it too.
    ///
    /// ```
    /// use trunkline::permission::AllowAll;
    /// use trunkline::{Builtin, CallOptions, Host};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let schema = serde_json::json!({"type": "object"});
    /// # let slow = Builtin::new("slow").tool("wait", "", &schema, |_| std::future::pending());
    /// # let host = Host::builder().builtin(slow).permit(AllowAll).start();
    /// # host.ready().await;
    /// let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    /// let options = CallOptions::new().cancel(async { _ = stopped.await });
    /// let call = host.call("mcp__slow__wait", serde_json::json!({}), options);
    /// drop(stop);
    /// assert!(call.await.unwrap_err().is_cancelled());
    /// # host.shutdown().await;
    /// # }
    /// ```
    #[must_use]
    pub fn cancel(mut self, cancelled: impl Future<Output = ()> + Send + 'a) -> Self {
        self.cancel = Some(Box::pin(cancelled));
        self
    }

    /// Sends the arguments without validating them: the server decides.
    #[must_use]
    pub fn unchecked(mut self, unchecked: bool) -> Self {
        self.unchecked = unchecked;
        self
    }

    /// Returns the server's result as it was sent, of any size: for programs that forward it.
    #[must_use]
    pub fn raw(mut self, raw: bool) -> Self {
        self.raw = raw;
        self
    }
}

impl fmt::Debug for CallOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("CallOptions")
            .field("timeout", &self.timeout)
            .field("on_progress", &self.on_progress.is_some())
            .field("cancel", &self.cancel.is_some())
            .field("meta", &self.meta)
            .field("client", &self.client)
            .field("unchecked", &self.unchecked)
            .field("raw", &self.raw)
            .finish()
    }
}

/// Options for reading a resource, a prompt or a skill. To cancel, drop the future.
#[derive(Default)]
#[non_exhaustive]
pub struct ReadOptions<'a> {
    pub(crate) timeout: Option<Duration>,
    pub(crate) on_progress: Option<OnProgress<'a>>,
    pub(crate) client: Option<Arc<str>>,
    pub(crate) meta: Option<Json>,
    pub(crate) forward_url_elicitation: bool,
}

impl fmt::Debug for ReadOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("ReadOptions")
            .field("timeout", &self.timeout)
            .field("on_progress", &self.on_progress.is_some())
            .field("client", &self.client)
            .finish()
    }
}
