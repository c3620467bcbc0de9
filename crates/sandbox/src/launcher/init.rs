//! Process 1 of the sandbox: builds it, starts the server, and ends with it.

use std::fs::File;
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::process::{WaitOptions, set_parent_process_death_signal, wait};

use super::control::{self, Event, Go, Start};
use super::mounts::Own;
use super::seccomp::Memory;
use super::{because, landlock, limits, mounts, net, privileges, seccomp};
use crate::profile::Network;

/// The time that other processes of the server get to exit after it; as long as the host gives
/// them.
const GRACE: Duration = Duration::from_millis(700);
const POLL: Duration = Duration::from_millis(5);

pub(super) fn run() -> Result<ExitCode, String> {
    end_with_parent()?;
    let control = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)
        .map_err(because("the control socket is missing"))?;
    let control = UnixStream::from(control);
    let received = control::receive::<Start>(&control).map_err(because("the rules"))?;
    // The supervisor is gone.
    let Some((start, Some(stdin))) = received else {
        return Ok(ExitCode::SUCCESS);
    };
    let event = match confine_and_spawn(&start, stdin, &control) {
        Ok(server) => wait_for(server),
        Err(reason) => Event::Failed(reason),
    };
    let _ = control::send(&control, &event, None);
    Ok(ExitCode::SUCCESS)
}

/// Ends this process when its parent ends.
pub(super) fn end_with_parent() -> Result<(), String> {
    set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(because("the sandbox could outlive its supervisor"))
}

/// Builds the sandbox and starts the server in it; returns its process id.
fn confine_and_spawn(start: &Start, stdin: OwnedFd, control: &UnixStream) -> Result<i32, String> {
    let Start { launch, plan } = start;
    let rules = &launch.rules;
    privileges::close_other_files(&[stdin.as_raw_fd(), control.as_raw_fd()])?;
    unshare(
        CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWIPC
            | CloneFlags::CLONE_NEWUTS
            | CloneFlags::CLONE_NEWNET
            | CloneFlags::CLONE_NEWCGROUP,
    )
    .map_err(|error| {
        format!(
            "no namespaces inside: {error}; {}",
            super::namespaces::hint()
        )
    })?;
    rustix::system::sethostname(b"sandbox").map_err(because("the host name"))?;
    let listener = network(&rules.network)?;
    let memory = memory(rules.own_execute.tmp);
    let own = Own::of(rules);
    mounts::build(&plan.mounts, own)?;
    limits::apply(&rules.limits)?;
    privileges::drop_capabilities()?;
    privileges::no_new_privileges()?;
    landlock::restrict(&plan.mounts, own)?;

    let mut command = Command::new(&plan.program);
    command
        .args(&launch.args)
        .env_clear()
        .envs(&launch.env)
        .current_dir(&plan.cwd)
        .stdin(Stdio::from(stdin));
    if let (Some(listener), Network::Hosts(hosts)) = (&listener, &rules.network) {
        let address = listener.local_addr().map_err(because("the proxy"))?;
        for (name, value) in net::proxy_variables(address.port(), hosts) {
            if !launch.env.contains_key(name) {
                command.env(name, value);
            }
        }
    }
    let listener = listener.map(OwnedFd::from);
    control::send(
        control,
        &Event::Confined,
        listener.as_ref().map(AsFd::as_fd),
    )
    .map_err(because("the supervisor is gone"))?;
    drop(listener);
    let go = control::receive::<Go>(control).map_err(because("the supervisor is gone"))?;
    go.ok_or("the supervisor is gone")?;
    seccomp::restrict(memory)?;
    let child = command.spawn().map_err(|error| {
        let hint = "is everything it needs in \"read\"?";
        format!(
            "{} could not be started in the sandbox: {error}; {hint}",
            launch.command
        )
    })?;
    detach()?;
    i32::try_from(child.id()).map_err(because("the process id"))
}

/// Decides about files in memory, from which programs could be started.
fn memory(execute: bool) -> Memory {
    if execute {
        return Memory::Any;
    }
    // Of this process namespace: a file that does not ask for it is not executable. Linux 6.3.
    match std::fs::write("/proc/sys/vm/memfd_noexec", "1") {
        Ok(()) => Memory::NotExecutable,
        Err(_) => Memory::Sealed,
    }
}

/// The server's pipes are the server's.
fn detach() -> Result<(), String> {
    let null = || {
        File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .map_err(because("/dev/null"))
    };
    rustix::stdio::dup2_stdin(null()?).map_err(because("stdin"))?;
    rustix::stdio::dup2_stdout(null()?).map_err(because("stdout"))?;
    rustix::stdio::dup2_stderr(null()?).map_err(because("stderr"))
}

/// Prepares the network of the sandbox; returns the listener of the proxy.
fn network(network: &Network) -> Result<Option<TcpListener>, String> {
    match network {
        Network::None => Ok(None),
        Network::Loopback => net::enable_loopback().map(|()| None),
        Network::Hosts(_) => {
            net::enable_loopback()?;
            let listener = TcpListener::bind(("127.0.0.1", 0));
            listener.map(Some).map_err(because("the proxy"))
        }
    }
}

/// Waits for the server, and gives its other processes time to exit.
fn wait_for(server: i32) -> Event {
    let event = loop {
        // Orphans become children of process 1.
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() == server => {
                match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => break Event::Exited(code),
                    (_, Some(signal)) => break Event::Signaled(signal),
                    _ => {}
                }
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => break Event::Failed(format!("the server was lost: {error}")),
        }
    };
    // All but process 1.
    if kill(Pid::from_raw(-1), Signal::SIGTERM).is_ok() {
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => std::thread::sleep(POLL),
                Err(_) => break,
            }
        }
    }
    event
}
