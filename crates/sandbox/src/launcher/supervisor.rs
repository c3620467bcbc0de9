//! The stage outside of the sandbox.

use std::fs::File;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

use super::cgroup::Cgroup;
use super::control::{self, Event, Go, Start};
use super::plan::Plan;
use super::{ENTER, FAILED, INIT, because, limits, namespaces, privileges, proxy, report, trace};
use crate::launch::{LAUNCHER_ARG, Launch};
use crate::profile::Network;

/// How the server ended.
pub(super) enum Ending {
    Code(i32),
    Signal(i32),
}

pub(super) fn run() -> Result<ExitCode, String> {
    ignore_requests_to_end()?;
    let launch = Launch::from_variables(|name| std::env::var(name).ok())?;
    privileges::close_other_files(&[])?;
    limits::no_core_dumps()?;
    let plan = Plan::of(&launch)?;
    let cgroup = Cgroup::create(&launch.rules.limits)?;

    let (ours, theirs) = UnixStream::pair().map_err(because("no socket for the sandbox"))?;
    let observe = launch.observe.clone();
    // Following events beside the traced server needs a thread, too.
    let has_proxy = matches!(launch.rules.network, Network::Hosts(_)) || observe.is_some();
    // Threads and new process namespaces exclude each other.
    let mut child = if has_proxy {
        spawn(ENTER, theirs.into())?
    } else {
        namespaces::enter()?;
        spawn(INIT, theirs.into())?
    };
    let hosts = match &launch.rules.network {
        Network::Hosts(hosts) => hosts.clone(),
        _ => Vec::new(),
    };
    let start = Start { launch, plan };
    let stdin = rustix::stdio::stdin();
    let tracer = match &observe {
        Some(_) => Some(trace::Tracer::attach(child.id())?),
        None => None,
    };
    let join = || {
        cgroup
            .as_ref()
            .map_or(Ok(()), |group| group.add(child.id()))
    };
    // Entering the group takes the kernel milliseconds: `init` builds the sandbox meanwhile. A
    // child of `enter` would be outside of the group, so that one waits.
    let sent = if has_proxy {
        join()?;
        control::send(&ours, &Go, None).and_then(|()| control::send(&ours, &start, Some(stdin)))
    } else {
        let sent = control::send(&ours, &start, Some(stdin));
        join()?;
        sent
    };
    let sent = sent.and_then(|()| control::send(&ours, &Go, None));
    drop(start);
    let ending = sent.map_err(|_| ()).and_then(|()| {
        let _ = detach();
        match &observe {
            None => follow(&ours, hosts, None),
            Some(file) => trace::follow(tracer, file, move |asked| {
                follow(&ours, hosts, Some(&asked))
            }),
        }
    });
    let status = match &observe {
        None => child.wait().map_err(because("the sandbox was lost"))?,
        // The tracer has seen its end.
        Some(_) => ExitStatus::default(),
    };
    drop(cgroup);
    Ok(match ending {
        Ok(Ending::Code(code)) => exit_code(code),
        Ok(Ending::Signal(signal)) => end_by(signal),
        Err(()) => as_child(status),
    })
}

/// The host ends a server by signals to the group, and waits for this process: the server decides.
pub(super) fn ignore_requests_to_end() -> Result<(), String> {
    let mut signals = SigSet::empty();
    for signal in [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
    ] {
        signals.add(signal);
    }
    // Children start with an empty mask.
    signals
        .thread_block()
        .map_err(because("signals cannot be blocked"))
}

/// Starts another stage, whose stdin is the control socket.
pub(super) fn spawn(stage: &str, control: OwnedFd) -> Result<Child, String> {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("trunkline-sandbox")
        .args([LAUNCHER_ARG, stage])
        .env_clear()
        .stdin(Stdio::from(control));
    command
        .spawn()
        .map_err(because("the sandbox could not be started"))
}

/// The server's pipes are the server's: it sees their ends, and the host sees its.
fn detach() -> Result<(), String> {
    let failed = "/dev/null cannot be opened";
    let read = File::open("/dev/null").map_err(because(failed))?;
    let write = File::options()
        .write(true)
        .open("/dev/null")
        .map_err(because(failed))?;
    rustix::stdio::dup2_stdin(read).map_err(because(failed))?;
    rustix::stdio::dup2_stdout(write).map_err(because(failed))
}

/// Follows the events of `init` to the end of the server.
fn follow(
    control: &UnixStream,
    hosts: Vec<crate::HostRule>,
    asked: Option<&proxy::Asked>,
) -> Result<Ending, ()> {
    let mut hosts = Some(hosts);
    loop {
        match control::receive::<Event>(control) {
            Ok(Some((Event::Confined, listener))) => {
                if let (Some(listener), Some(hosts)) = (listener, hosts.take()) {
                    proxy::start(TcpListener::from(listener), hosts, asked.cloned());
                }
            }
            Ok(Some((Event::Failed(reason), _))) => {
                report(&reason);
                return Ok(Ending::Code(FAILED.into()));
            }
            Ok(Some((Event::Exited(code), _))) => return Ok(Ending::Code(code)),
            Ok(Some((Event::Signaled(signal), _))) => return Ok(Ending::Signal(signal)),
            Ok(None) | Err(_) => return Err(()),
        }
    }
}

/// `init` ended without a word.
fn as_child(status: ExitStatus) -> ExitCode {
    match (status.signal(), status.code()) {
        (Some(signal), _) => end_by(signal),
        (_, Some(0)) => ExitCode::from(FAILED),
        (_, code) => exit_code(code.unwrap_or_default()),
    }
}

fn exit_code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code & 0xff).unwrap_or(FAILED))
}

/// Ends as the server did, so that the host sees the same.
fn end_by(signal: i32) -> ExitCode {
    if let Ok(signal) = Signal::try_from(signal) {
        let _ = SigSet::empty().thread_set_mask();
        let _ = kill(Pid::this(), signal);
    }
    exit_code(128 + signal)
}
