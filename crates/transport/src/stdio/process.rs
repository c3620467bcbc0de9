//! A child process and its group, from birth to reaping.

use std::process::ExitStatus;
use std::time::Duration;

use tokio::process::Child;
use tokio::sync::{oneshot, watch};
use trunkline_wire::transport::CloseReason;

#[cfg(unix)]
use super::proc_fs;

/// How long a server may take to end once its stdin is closed.
pub const STDIN_GRACE: Duration = Duration::from_millis(400);
/// How long it may take after SIGINT.
pub const INTERRUPT_GRACE: Duration = Duration::from_millis(300);
/// How long it may take after SIGTERM.
pub const TERMINATE_GRACE: Duration = Duration::from_millis(700);
/// How long the kernel may take after SIGKILL.
pub const KILL_GRACE: Duration = Duration::from_secs(2);

/// What a group is sent in turn when it is to end, and how long all of it may take after each.
type Stages = &'static [(Option<Signal>, Duration)];

/// We want it to end: its stdin has just been closed.
const ASKED: Stages = &[
    (None, STDIN_GRACE),
    (Some(Signal::Interrupt), INTERRUPT_GRACE),
    (Some(Signal::Terminate), TERMINATE_GRACE),
];

/// Its leader has died by itself; whatever that left behind may still put things in order.
const LEFT_BEHIND: Stages = &[(Some(Signal::Terminate), TERMINATE_GRACE)];

/// Nobody is left to wait for it.
const ABANDONED: Stages = &[];

/// How often a group without its leader is looked at: at first, and at the most.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LAST_LOOK: Duration = Duration::from_millis(10);

/// The handle of the watcher that owns a child. Dropping it kills the child and its group.
pub(super) struct Process {
    order: oneshot::Sender<ShutDown>,
    life: watch::Receiver<Life>,
}

/// The order to end the child in good order.
struct ShutDown;

/// How much of a server is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Life {
    /// The child runs.
    Running,
    /// The child is dead and reaped; others of its group may live.
    LeaderDead,
    /// Nothing is left.
    Gone,
}

/// The news of a child's death.
pub(super) struct Exit {
    news: oneshot::Receiver<CloseReason>,
    status: Option<CloseReason>,
}

impl Process {
    /// Puts `child` under watch.
    pub(super) fn watch(child: Child) -> (Self, Exit) {
        let (order, orders) = oneshot::channel();
        let (life, lives) = watch::channel(Life::Running);
        let (news, exit) = oneshot::channel();
        let watcher = Watcher {
            group: Group::of(&child),
            child,
            news: Some(news),
            life,
        };
        tokio::spawn(watcher.run(orders));
        let exit = Exit {
            news: exit,
            status: None,
        };
        (Self { order, life: lives }, exit)
    }

    /// How much of it is left.
    pub(super) fn life(&self) -> watch::Receiver<Life> {
        self.life.clone()
    }

    /// Waits until the child is dead and reaped, whatever is left of its group.
    pub(super) async fn died(&mut self) {
        let _ = self.life.wait_for(|life| *life >= Life::LeaderDead).await;
    }

    /// Ends the child, whose stdin has just been closed, and its group; returns when nothing is left.
    pub(super) async fn shut_down(self) {
        let Self { order, mut life } = self;
        let _ = order.send(ShutDown);
        let _ = life.wait_for(|life| *life == Life::Gone).await;
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
            self.status = Some(status.unwrap_or(CloseReason::ByPeer));
        }
        self.status.get_or_insert(CloseReason::ByPeer)
    }
}

/// Owns a child and its group. Whatever happens to its task, dropping it leaves no process behind.
struct Watcher {
    /// Dropped first: once the child is reaped, its number may not be its own any more.
    group: Group,
    child: Child,
    /// Taken when the news of the child's death is told.
    news: Option<oneshot::Sender<CloseReason>>,
    life: watch::Sender<Life>,
}

impl Watcher {
    /// Waits for the child's death, or sees to it, and to its group's.
    async fn run(mut self, orders: oneshot::Receiver<ShutDown>) {
        let stages = tokio::select! {
            biased;
            () = self.group.leader_ended(&mut self.child) => {
                // Where there is a pidfd it is not reaped yet, so its number still names this group.
                LEFT_BEHIND
            }
            order = orders => if order.is_ok() { ASKED } else { ABANDONED },
        };
        if !self.end(stages).await {
            self.group.signal(Signal::Kill);
            let _ = self.child.start_kill();
            let _ = tokio::time::timeout(KILL_GRACE, self.emptied()).await;
        }
        // Not even SIGKILL ends what the kernel does not let go of.
        self.tell(None);
        self.group.forget();
        self.life.send_replace(Life::Gone);
    }

    /// Goes through the stages until nothing is left; `false` if something is.
    async fn end(&mut self, stages: Stages) -> bool {
        for (signal, grace) in stages {
            if let Some(signal) = signal
                && !self.is_empty()
            {
                self.group.signal(*signal);
            }
            if tokio::time::timeout(*grace, self.emptied()).await.is_ok() {
                return true;
            }
        }
        false
    }

    /// Waits for the child's death, reaps it, tells of it, and waits until its group is empty. Safe to drop while it waits.
    async fn emptied(&mut self) {
        if self.news.is_some() {
            self.group.leader_ended(&mut self.child).await;
            let status = self.child.wait().await.ok();
            self.tell(status);
        }
        // Its number stays taken while a process is in the group, and is not given out again so soon that
        // these looks could miss it.
        let mut pause = FIRST_LOOK;
        while !self.group.is_empty() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_LOOK);
        }
    }

    /// Whether the child is reaped and nothing else is left.
    fn is_empty(&mut self) -> bool {
        self.news.is_none() && self.group.is_empty()
    }

    fn tell(&mut self, status: Option<ExitStatus>) {
        if let Some(news) = self.news.take() {
            let _ = news.send(describe(status));
            self.life.send_replace(Life::LeaderDead);
        }
    }
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

/// A process group that we made and may signal until it is empty.
#[cfg(unix)]
struct Group {
    leader: Option<rustix::process::Pid>,
    /// The process that was last seen alive in it, beside the leader.
    member: Option<u32>,
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
            member: None,
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

    /// Whether no process is left in it, once its leader is reaped.
    fn is_empty(&mut self) -> bool {
        let Some(leader) = self.leader else {
            return true;
        };
        // One that may not be signalled is there, too.
        if let Err(rustix::io::Errno::SRCH) = rustix::process::test_kill_process_group(leader) {
            return true;
        }
        if !proc_fs::is_available() {
            return false;
        }
        // What is left may be zombies that nobody will ever reap.
        let number = u32::try_from(leader.as_raw_nonzero().get()).unwrap_or_default();
        self.member = proc_fs::live_member(number, self.member);
        self.member.is_none()
    }

    /// Once it is empty, the number may come to mean something else.
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

    fn is_empty(&mut self) -> bool {
        true
    }

    fn forget(&mut self) {}

    async fn leader_ended(&self, child: &mut Child) {
        let _ = child.wait().await;
    }
}
