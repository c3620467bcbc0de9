//! A process that outlives a server.

use std::{
    io::Read,
    process::{self, Command, Stdio},
    thread,
};

use rustix::process::Signal;

use super::{LINGER, environment};
use crate::{Grandchild, bin};

/// Starts a grandchild and waits until it is ready.
#[expect(
    clippy::zombie_processes,
    reason = "a child that nobody waits for is the point"
)]
pub(super) fn spawn(settings: &Grandchild) {
    let here = std::env::current_exe().expect("the path of this program");
    let program = if here
        .file_stem()
        .is_some_and(|stem| stem == "testkit-server")
    {
        here
    } else {
        bin("testkit-server")
    };
    let settings_json = serde_json::to_string(settings).expect("settings serialise");
    let mut child = Command::new(program)
        .args(["--grandchild", &settings_json])
        .stdin(Stdio::null())
        .stdout(if settings.hold_stdout {
            Stdio::inherit()
        } else {
            Stdio::null()
        })
        .stderr(Stdio::piped())
        .spawn()
        .expect("a grandchild");
    let mut ready = [0];
    child
        .stderr
        .take()
        .expect("piped")
        .read_exact(&mut ready)
        .expect("a grandchild that sets itself up");
}

/// The main function of the grandchild; `settings` is the JSON of a [`Grandchild`].
pub fn run(settings: &str) -> ! {
    let settings: Grandchild =
        serde_json::from_str(settings).expect("the settings of a grandchild");
    if settings.ignore_term {
        [Signal::INT, Signal::TERM, Signal::HUP]
            .into_iter()
            .for_each(environment::ignore);
    }
    if settings.new_session {
        rustix::process::setsid().expect("a new session");
    }
    if let Some(path) = &settings.pid_file {
        environment::write_whole(path, &process::id().to_string());
    }
    eprint!("r");
    thread::sleep(LINGER);
    process::exit(0)
}
