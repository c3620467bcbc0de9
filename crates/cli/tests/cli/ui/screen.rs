//! A terminal with the interface in it: keys in, a parsed screen out.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{Winsize, tcsetwinsize};
use trunkline_testkit::wait_for;

use crate::lab::{Lab, SOON};
use crate::pty;

/// How long after the end no process may be left.
const GONE: Duration = Duration::from_secs(2);

/// The screen, and all bytes that made it.
struct Seen {
    parser: vt100::Parser,
    bytes: Vec<u8>,
}

/// A run of the interface.
pub(crate) struct Tui<'a> {
    lab: &'a Lab,
    child: Child,
    keyboard: File,
    seen: Arc<Mutex<Seen>>,
    reader: JoinHandle<()>,
}

/// The end of a run.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) bytes: String,
    pub(crate) alternate_screen: bool,
    pub(crate) hidden_cursor: bool,
    pub(crate) bracketed_paste: bool,
    pub(crate) mouse: bool,
}

impl Ended {
    /// Checks the exit code, and that the terminal is as it was.
    #[track_caller]
    pub(crate) fn is(&self, code: i32) {
        assert_eq!(self.code, Some(code), "{}", self.bytes);
        let modes = [
            self.alternate_screen,
            self.hidden_cursor,
            self.bracketed_paste,
            self.mouse,
        ];
        assert_eq!(modes, [false; 4], "{}", self.bytes);
        let left = self.bytes.matches("\u{1b}[?1049l").count();
        let entered = self.bytes.matches("\u{1b}[?1049h").count();
        assert_eq!(left, entered, "every mode is undone once");
    }
}

fn size(file: &File, columns: u16, rows: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(file, size).unwrap();
}

impl<'a> Tui<'a> {
    /// Starts the interface with the test's configuration on a terminal of 80×24.
    pub(crate) fn start(lab: &'a Lab) -> Self {
        Self::run(lab, &["--mcp-config", ".mcp-config.json"], (80, 24), |_| ())
    }

    /// Starts the program with these arguments.
    pub(crate) fn run(
        lab: &'a Lab,
        arguments: &[&str],
        (columns, rows): (u16, u16),
        change: impl FnOnce(&mut Command),
    ) -> Self {
        let (master, slave) = pty::open();
        size(&master, columns, rows);
        // The terminal controls the program, as a shell's does: resizing reaches it.
        let mut command = lab.started_by(&["setsid", "-c"], arguments);
        command
            .env("TERM", "xterm-256color")
            .env("LANG", "C.UTF-8")
            .env("BROWSER", "/bin/false");
        change(&mut command);
        let end = || slave.as_fd().try_clone_to_owned().unwrap();
        let child = command
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        drop(command);
        drop(slave);
        let seen = Arc::new(Mutex::new(Seen {
            parser: vt100::Parser::new(rows, columns, 0),
            bytes: Vec::new(),
        }));
        let (mut screen, record) = (master.try_clone().unwrap(), Arc::clone(&seen));
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut bytes) {
                let mut seen = record.lock().unwrap();
                seen.parser.process(&bytes[..read]);
                seen.bytes.extend_from_slice(&bytes[..read]);
            }
        });
        Self {
            lab,
            child,
            keyboard: master,
            seen,
            reader,
        }
    }

    /// The screen as text.
    pub(crate) fn text(&self) -> String {
        self.seen.lock().unwrap().parser.screen().contents()
    }

    /// Waits until the screen fits; it is shown if it never does.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        wait_for(2 * SOON, what, || {
            let text = self.text();
            let there = fits(&text);
            assert!(there || begun.elapsed() < SOON, "no \"{what}\" in\n{text}");
            there.then_some(text)
        })
    }

    /// Waits for a text on the screen.
    #[track_caller]
    pub(crate) fn sees(&self, part: &str) -> String {
        self.until(part, |text| text.contains(part))
    }

    /// Waits until a text is off the screen.
    #[track_caller]
    pub(crate) fn sees_no(&self, part: &str) -> String {
        self.until(&format!("not {part}"), |text| !text.contains(part))
    }

    /// Types keys.
    pub(crate) fn keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Types keys once the screen shows a text.
    #[track_caller]
    pub(crate) fn at(&mut self, part: &str, keys: &str) {
        self.sees(part);
        self.keys(keys);
    }

    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        let mut seen = self.seen.lock().unwrap();
        seen.parser.screen_mut().set_size(rows, columns);
        drop(seen);
        size(&self.keyboard, columns, rows);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed()).unwrap()
    }

    /// All bytes so far.
    pub(crate) fn bytes(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap().bytes).into_owned()
    }

    /// Whether the interface is on the screen.
    pub(crate) fn is_open(&self) -> bool {
        self.seen.lock().unwrap().parser.screen().alternate_screen()
    }

    /// Leaves by the given keys; no process may be left.
    pub(crate) fn quit(mut self, keys: &str) -> Ended {
        self.keys(keys);
        self.end()
    }

    /// Waits for the end; no process may be left.
    pub(crate) fn end(mut self) -> Ended {
        let begun = Instant::now();
        let status = wait_for(2 * SOON, "the program's end", || {
            let status = self.child.try_wait().unwrap();
            let text = self.text();
            assert!(
                status.is_some() || begun.elapsed() < SOON,
                "still runs:\n{text}"
            );
            status
        });
        self.reader.join().unwrap();
        self.lab.scratch.assert_no_processes(GONE);
        let seen = self.seen.lock().unwrap();
        let screen = seen.parser.screen();
        Ended {
            code: status.code(),
            bytes: String::from_utf8_lossy(&seen.bytes).into_owned(),
            alternate_screen: screen.alternate_screen(),
            hidden_cursor: screen.hide_cursor(),
            bracketed_paste: screen.bracketed_paste(),
            mouse: screen.mouse_protocol_mode() != vt100::MouseProtocolMode::None,
        }
    }
}
