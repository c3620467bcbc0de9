//! A child process and its process group.

use std::process::ExitStatus;
use std::time::Duration;

use tokio::process::Child;
use tokio::sync::{oneshot, watch};
use trunkline_wire::transport::CloseReason;

#[cfg(unix)]
use super::proc_fs;

/// Time to exit after stdin is closed.
pub const STDIN_GRACE: Duration = Duration::from_millis(400);
/// Time to exit after SIGINT.
pub const INTERRUPT_GRACE: Duration = Duration::from_millis(300);
/// Time to exit after SIGTERM.
pub const TERMINATE_GRACE: Duration = Duration::from_millis(700);
/// Time to exit after SIGKILL.
pub const KILL_GRACE: Duration = Duration::from_secs(2);

/// The signals that a group gets in turn, and the time to exit after each.
type ShutdownSteps = &'static [(Option<Signal>, Duration)];

/// A requested shutdown: stdin has just been closed.
const REQUESTED: ShutdownSteps = &[
    (None, STDIN_GRACE),
    (Some(Signal::Interrupt), INTERRUPT_GRACE),
    (Some(Signal::Terminate), TERMINATE_GRACE),
];

/// The leader has exited by itself; the rest of the group may clean up.
const ORPHANED: ShutdownSteps = &[(Some(Signal::Terminate), TERMINATE_GRACE)];

/// The handle was dropped: kill immediately.
const ABANDONED: ShutdownSteps = &[];

/// Poll intervals for a group without its leader.
const MIN_POLL: Duration = Duration::from_millis(1);
const MAX_POLL: Duration = Duration::from_millis(10);

/// The handle of a supervised child. Dropping it kills the child and its group.
pub(super) struct ProcessHandle {
    shutdown: oneshot::Sender<ShutdownRequest>,
    state: watch::Receiver<ProcessState>,
}

/// The request to end the child gracefully.
struct ShutdownRequest;

/// The state of a child and its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProcessState {
    /// The child is running.
    Running,
    /// The child is reaped; others of its group may be running.
    LeaderExited,
    /// No process is left.
    Gone,
}

/// The exit of a child.
pub(super) struct ExitWatch {
    exit_sender: oneshot::Receiver<CloseReason>,
    status: Option<CloseReason>,
}

impl ProcessHandle {
    /// Supervises `child`.
    pub(super) fn watch(child: Child) -> (Self, ExitWatch) {
        let (shutdown, shutdowns) = oneshot::channel();
        let (state, states) = watch::channel(ProcessState::Running);
        let (exit_sender, exit) = oneshot::channel();
        let supervisor = Supervisor {
            group: ProcessGroup::of(&child),
            child,
            exit_sender: Some(exit_sender),
            state,
        };
        tokio::spawn(supervisor.run(shutdowns));
        let exit = ExitWatch {
            exit_sender: exit,
            status: None,
        };
        (
            Self {
                shutdown,
                state: states,
            },
            exit,
        )
    }

    /// Its state.
    pub(super) fn state(&self) -> watch::Receiver<ProcessState> {
        self.state.clone()
    }

    /// Waits until the child is reaped, whatever is left of its group.
    pub(super) async fn exited(&mut self) {
        let _ = self
            .state
            .wait_for(|state| *state >= ProcessState::LeaderExited)
            .await;
    }

    /// Ends the child, whose stdin has just been closed, and its group; returns when no process is
    /// left.
    pub(super) async fn shut_down(self) {
        let Self {
            shutdown,
            mut state,
        } = self;
        let _ = shutdown.send(ShutdownRequest);
        let _ = state.wait_for(|state| *state == ProcessState::Gone).await;
    }
}

impl ExitWatch {
    /// Whether the child has exited.
    pub(super) fn has_exited(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.exit_sender.try_recv().ok();
        }
        self.status.is_some()
    }

    /// Waits for the exit. Cancel safe.
    pub(super) async fn status(&mut self) -> &CloseReason {
        if self.status.is_none() {
            let status = (&mut self.exit_sender).await;
            self.status = Some(status.unwrap_or(CloseReason::ByPeer));
        }
        self.status.get_or_insert(CloseReason::ByPeer)
    }
}

/// Owns a child and its group. Dropping it leaves no process behind.
struct Supervisor {
    /// Dropped first: once the child is reaped, its id may be reused.
    group: ProcessGroup,
    child: Child,
    /// Taken when the exit is reported.
    exit_sender: Option<oneshot::Sender<CloseReason>>,
    state: watch::Sender<ProcessState>,
}

impl Supervisor {
    /// Waits for the exit, or causes it, and the end of the group.
    async fn run(mut self, shutdowns: oneshot::Receiver<ShutdownRequest>) {
        let stages = tokio::select! {
            biased;
            () = self.group.leader_exited(&mut self.child) => {
                // With a pidfd it is not reaped yet, so its id still names this group.
                ORPHANED
            }
            shutdown = shutdowns => if shutdown.is_ok() { REQUESTED } else { ABANDONED },
        };
        if !self.end(stages).await {
            self.group.signal(Signal::Kill);
            let _ = self.child.start_kill();
            let _ = tokio::time::timeout(KILL_GRACE, self.wait_until_empty()).await;
        }
        // Even SIGKILL does not end a process that is stuck in the kernel.
        self.report_exit(None);
        self.group.disarm();
        self.state.send_replace(ProcessState::Gone);
    }

    /// Performs the steps until no process is left; `false` if one is.
    async fn end(&mut self, stages: ShutdownSteps) -> bool {
        for (signal, grace) in stages {
            if let Some(signal) = signal
                && !self.is_empty()
            {
                self.group.signal(*signal);
            }
            if tokio::time::timeout(*grace, self.wait_until_empty())
                .await
                .is_ok()
            {
                return true;
            }
        }
        false
    }

    /// Waits for the exit, reaps the child, reports it, and waits until the group is empty. Cancel
    /// safe.
    async fn wait_until_empty(&mut self) {
        if self.exit_sender.is_some() {
            self.group.leader_exited(&mut self.child).await;
            let status = self.child.wait().await.ok();
            self.report_exit(status);
        }
        // The id stays in use while a process is in the group, and is not reused so soon that this
        // loop could miss it.
        let mut pause = MIN_POLL;
        while !self.group.is_empty() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_POLL);
        }
    }

    /// Whether the child is reaped and the group empty.
    fn is_empty(&mut self) -> bool {
        self.exit_sender.is_none() && self.group.is_empty()
    }

    fn report_exit(&mut self, status: Option<ExitStatus>) {
        if let Some(exit_sender) = self.exit_sender.take() {
            let _ = exit_sender.send(describe(status));
            self.state.send_replace(ProcessState::LeaderExited);
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

/// A process group of ours, which we may signal until it is empty.
#[cfg(unix)]
struct ProcessGroup {
    leader: Option<rustix::process::Pid>,
    /// The process last seen running in it, besides the leader.
    member: Option<u32>,
    /// Becomes readable when the leader exits, without reaping it.
    #[cfg(target_os = "linux")]
    exit_fd: Option<tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>>,
}

#[cfg(unix)]
impl ProcessGroup {
    fn of(child: &Child) -> Self {
        let number = child.id().and_then(|id| i32::try_from(id).ok());
        let leader = number.and_then(rustix::process::Pid::from_raw);
        Self {
            leader,
            member: None,
            #[cfg(target_os = "linux")]
            exit_fd: leader.and_then(watch_exit),
        }
    }

    fn signal(&self, signal: Signal) {
        let signal = match signal {
            Signal::Interrupt => rustix::process::Signal::INT,
            Signal::Terminate => rustix::process::Signal::TERM,
            Signal::Kill => rustix::process::Signal::KILL,
        };
        if let Some(leader) = self.leader {
            // It may have exited already.
            let _ = rustix::process::kill_process_group(leader, signal);
        }
    }

    /// Whether no process is left, once the leader is reaped.
    fn is_empty(&mut self) -> bool {
        let Some(leader) = self.leader else {
            return true;
        };
        // EPERM means that there is one.
        if let Err(rustix::io::Errno::SRCH) = rustix::process::test_kill_process_group(leader) {
            return true;
        }
        if !proc_fs::is_available() {
            return false;
        }
        // The rest may be zombies that are never reaped.
        let number = u32::try_from(leader.as_raw_nonzero().get()).unwrap_or_default();
        self.member = proc_fs::live_member(number, self.member);
        self.member.is_none()
    }

    /// An empty group's id may be reused.
    fn disarm(&mut self) {
        self.leader = None;
    }

    /// Waits for the leader's exit, without reaping it where possible.
    async fn leader_exited(&self, child: &mut Child) {
        #[cfg(target_os = "linux")]
        if let Some(exit_fd) = &self.exit_fd {
            let _ = exit_fd.readable().await;
            return;
        }
        let _ = child.wait().await;
    }
}

#[cfg(target_os = "linux")]
fn watch_exit(
    leader: rustix::process::Pid,
) -> Option<tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>> {
    use rustix::process::{PidfdFlags, pidfd_open};
    let fd = pidfd_open(leader, PidfdFlags::NONBLOCK).ok()?;
    #[expect(
        deprecated,
        reason = "its successor is unsafe to call; an OwnedFd keeps what that asks for"
    )]
    let exit_fd = tokio::io::unix::AsyncFd::with_interest(fd, tokio::io::Interest::READABLE);
    exit_fd.ok()
}

#[cfg(unix)]
impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::Kill);
    }
}

/// Without process groups, only the child is ended.
#[cfg(not(unix))]
struct ProcessGroup;

#[cfg(not(unix))]
impl ProcessGroup {
    fn of(_: &Child) -> Self {
        Self
    }

    fn signal(&self, _: Signal) {}

    fn is_empty(&mut self) -> bool {
        true
    }

    fn disarm(&mut self) {}

    async fn leader_exited(&self, child: &mut Child) {
        let _ = child.wait().await;
    }
}
