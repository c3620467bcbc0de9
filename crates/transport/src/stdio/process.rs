//! A child process and its group, from birth to reaping.

use std::process::ExitStatus;
use std::time::Duration;

use tokio::process::Child;
use tokio::sync::{oneshot, watch};
use trunkline_wire::transport::CloseReason;

/// How long a server may take to end once its stdin is closed.
pub const STDIN_GRACE: Duration = Duration::from_millis(400);
/// How long it may take after SIGINT.
pub const INTERRUPT_GRACE: Duration = Duration::from_millis(300);
/// How long it may take after SIGTERM.
pub const TERMINATE_GRACE: Duration = Duration::from_millis(700);
/// How long the kernel may take after SIGKILL.
pub const KILL_GRACE: Duration = Duration::from_secs(2);

/// The handle of the watcher that owns a child. Dropping it kills the child and its group.
pub(super) struct Process {
    order: oneshot::Sender<ShutDown>,
    reaped: watch::Receiver<bool>,
}

/// The order to end the child in good order.
struct ShutDown;

/// The news of a child's death.
pub(super) struct Exit {
    news: oneshot::Receiver<CloseReason>,
    status: Option<CloseReason>,
}

impl Process {
    /// Puts `child` under watch.
    pub(super) fn watch(child: Child) -> (Self, Exit) {
        let (order, orders) = oneshot::channel();
        let (done, reaped) = watch::channel(false);
        let (news, exit) = oneshot::channel();
        let group = Group::of(&child);
        tokio::spawn(async move {
            let status = look_after(child, group, orders).await;
            let _ = news.send(describe(status));
            done.send_replace(true);
        });
        let exit = Exit {
            news: exit,
            status: None,
        };
        (Self { order, reaped }, exit)
    }

    /// Becomes true when the child is dead and reaped.
    pub(super) fn reaped_watch(&self) -> watch::Receiver<bool> {
        self.reaped.clone()
    }

    /// Waits until the child is dead and reaped, and its group with it.
    pub(super) async fn reaped(&mut self) {
        let _ = self.reaped.wait_for(|reaped| *reaped).await;
    }

    /// Ends the child, whose stdin has just been closed, and what is left of its group.
    pub(super) async fn shut_down(self) {
        let Self { order, mut reaped } = self;
        let _ = order.send(ShutDown);
        let _ = reaped.wait_for(|reaped| *reaped).await;
    }
}

impl Exit {
    /// Whether the child is known to be dead.
    pub(super) fn has_happened(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.news.try_recv().ok();
        }
        self.status.is_some()
    }

    /// Waits for the child's death; how it died stays known. Safe to drop while it waits.
    pub(super) async fn status(&mut self) -> &CloseReason {
        if self.status.is_none() {
            let status = (&mut self.news).await;
            self.status = Some(status.unwrap_or(CloseReason::Ended));
        }
        self.status.get_or_insert(CloseReason::Ended)
    }
}

/// Waits for the child's death or sees to it. Whatever happens to this task, dropping `child` and `group` leaves no
/// process behind.
async fn look_after(
    mut child: Child,
    mut group: Group,
    orders: oneshot::Receiver<ShutDown>,
) -> Option<ExitStatus> {
    let end = async {
        // An error means that the handle was dropped: then there is no time to lose.
        if orders.await.is_ok() {
            tokio::time::sleep(STDIN_GRACE).await;
            group.signal(Signal::Interrupt);
            tokio::time::sleep(INTERRUPT_GRACE).await;
            group.signal(Signal::Terminate);
            tokio::time::sleep(TERMINATE_GRACE).await;
        }
    };
    tokio::select! {
        biased;
        () = group.leader_ended(&mut child) => {}
        () = end => {}
    }
    // A leader that is dead is not reaped yet, so its number still names this group and no other: whatever the server
    // left running in it goes now, too.
    group.signal(Signal::Kill);
    let _ = child.start_kill();
    let status = tokio::time::timeout(KILL_GRACE, child.wait()).await;
    group.forget();
    status.ok().and_then(Result::ok)
}

fn describe(status: Option<ExitStatus>) -> CloseReason {
    let code = status.and_then(|status| status.code());
    #[cfg(unix)]
    let signal = {
        use std::os::unix::process::ExitStatusExt;
        status.and_then(|status| status.signal()).map(signal_name)
    };
    #[cfg(not(unix))]
    let signal = None;
    CloseReason::Exited { code, signal }
}

#[cfg(unix)]
fn signal_name(number: i32) -> String {
    let known = [
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (3, "SIGQUIT"),
        (4, "SIGILL"),
        (6, "SIGABRT"),
        (7, "SIGBUS"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (11, "SIGSEGV"),
        (13, "SIGPIPE"),
        (15, "SIGTERM"),
    ];
    let name = known.iter().find(|(known, _)| *known == number);
    name.map_or_else(
        || format!("signal {number}"),
        |(_, name)| (*name).to_owned(),
    )
}

#[derive(Clone, Copy)]
enum Signal {
    Interrupt,
    Terminate,
    Kill,
}

/// A process group that we made and may signal until its leader is reaped.
#[cfg(unix)]
struct Group {
    leader: Option<rustix::process::Pid>,
    /// Becomes readable when the leader dies, without reaping it.
    #[cfg(target_os = "linux")]
    death: Option<tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>>,
}

#[cfg(unix)]
impl Group {
    fn of(child: &Child) -> Self {
        let number = child.id().and_then(|id| i32::try_from(id).ok());
        let leader = number.and_then(rustix::process::Pid::from_raw);
        Self {
            leader,
            #[cfg(target_os = "linux")]
            death: leader.and_then(watch_for_death),
        }
    }

    fn signal(&self, signal: Signal) {
        let signal = match signal {
            Signal::Interrupt => rustix::process::Signal::INT,
            Signal::Terminate => rustix::process::Signal::TERM,
            Signal::Kill => rustix::process::Signal::KILL,
        };
        if let Some(leader) = self.leader {
            // It may be gone already.
            let _ = rustix::process::kill_process_group(leader, signal);
        }
    }

    /// After reaping, the number may come to mean something else.
    fn forget(&mut self) {
        self.leader = None;
    }

    /// Waits for the leader's death, without reaping it where the system allows that.
    async fn leader_ended(&self, child: &mut Child) {
        #[cfg(target_os = "linux")]
        if let Some(death) = &self.death {
            let _ = death.readable().await;
            return;
        }
        let _ = child.wait().await;
    }
}

#[cfg(target_os = "linux")]
fn watch_for_death(
    leader: rustix::process::Pid,
) -> Option<tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>> {
    use rustix::process::{PidfdFlags, pidfd_open};
    let fd = pidfd_open(leader, PidfdFlags::NONBLOCK).ok()?;
    #[expect(
        deprecated,
        reason = "its successor is unsafe to call; an OwnedFd keeps what that asks for"
    )]
    let death = tokio::io::unix::AsyncFd::with_interest(fd, tokio::io::Interest::READABLE);
    death.ok()
}

#[cfg(unix)]
impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::Kill);
    }
}

/// Where there are no process groups, the child alone is ended.
#[cfg(not(unix))]
struct Group;

#[cfg(not(unix))]
impl Group {
    fn of(_: &Child) -> Self {
        Self
    }

    fn signal(&self, _: Signal) {}

    fn forget(&mut self) {}

    async fn leader_ended(&self, child: &mut Child) {
        let _ = child.wait().await;
    }
}
