//! Runs the program on a pseudo-terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use trunkline_testkit::wait_for;

const SOON: Duration = Duration::from_secs(30);

/// Opens a terminal: our end and the program's.
pub(crate) fn open() -> (File, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options()
        .read(true)
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap();
    (File::from(master), slave)
}

/// Opens a terminal of a size.
pub(crate) fn open_sized(columns: u16, rows: u16) -> (File, File) {
    let (master, slave) = open();
    let size = rustix::termios::Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(&master, size).unwrap();
    (master, slave)
}

/// A run of the program on a terminal.
pub(crate) struct Session {
    child: Child,
    keyboard: File,
    seen: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Session {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::start_on(open(), command)
    }

    /// As [`Session::start`], on a terminal of a size.
    pub(crate) fn start_sized(command: &mut Command, columns: u16, rows: u16) -> Self {
        Self::start_on(open_sized(columns, rows), command)
    }

    fn start_on((master, slave): (File, File), command: &mut Command) -> Self {
        let end = || slave.as_fd().try_clone_to_owned().unwrap();
        let child = command
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        // The command holds its own copies, without which the end of the output would never come.
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        drop(slave);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (mut screen, record) = (master.try_clone().unwrap(), Arc::clone(&seen));
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A terminal whose last writer has gone ends with an error, not with an end.
            while let Ok(read @ 1..) = screen.read(&mut bytes) {
                record.lock().unwrap().extend_from_slice(&bytes[..read]);
            }
        });
        Self {
            child,
            keyboard: master,
            seen,
            reader,
        }
    }

    /// Waits for a prompt, then answers it.
    #[track_caller]
    pub(crate) fn answer(&mut self, question: &str, answer: &str) {
        self.type_after(question, &format!("{answer}\n"));
    }

    /// Waits for a prompt, then types these keys.
    #[track_caller]
    pub(crate) fn type_after(&mut self, question: &str, keys: &str) {
        let begun = Instant::now();
        wait_for(SOON, question, || {
            let text = text(&self.seen);
            let there = text.contains(question);
            assert!(
                there || begun.elapsed() < SOON / 2,
                "\"{question}\" is not in {text}"
            );
            there.then_some(())
        });
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for a text, and returns the output so far.
    pub(crate) fn wait_for_text(&self, part: &str) -> String {
        wait_for(SOON, part, || {
            let text = text(&self.seen);
            text.contains(part).then_some(text)
        })
    }

    /// Types these keys.
    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until a text was shown this many times.
    pub(crate) fn wait_for_count(&self, part: &str, count: usize) {
        wait_for(SOON, part, || {
            (text(&self.seen).matches(part).count() >= count).then_some(())
        });
    }

    /// Returns the process ID of the program.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the terminal no longer echoes.
    pub(crate) fn wait_for_no_echo(&self) {
        wait_for(SOON, "the end of the echo", || {
            self.has("-echo").then_some(())
        });
    }

    /// Sends a signal to the program.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits until the terminal echoes and edits lines, as before the program.
    pub(crate) fn wait_for_echo(&self) {
        let is_restored = || self.has("echo") && self.has("icanon");
        wait_for(SOON, "the echo", || is_restored().then_some(()));
    }

    /// Returns whether the terminal has a setting.
    fn has(&self, setting: &str) -> bool {
        let mut stty = Command::new("stty");
        stty.arg("-a").stdin(self.keyboard.try_clone().unwrap());
        let output = stty.output().unwrap();
        let settings = String::from_utf8_lossy(&output.stdout);
        settings.split_whitespace().any(|found| found == setting)
    }

    /// Waits for the program, and returns its exit code and output.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let status = wait_for(SOON, "the program's end", || self.child.try_wait().unwrap());
        self.reader.join().unwrap();
        (status.code(), text(&self.seen))
    }
}

/// The output so far.
fn text(seen: &Mutex<Vec<u8>>) -> String {
    String::from_utf8_lossy(&seen.lock().unwrap()).replace("\r\n", "\n")
}
