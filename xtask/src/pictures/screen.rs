//! A terminal made by tmux.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// How often the screen is looked at.
const INTERVAL: Duration = Duration::from_millis(100);

/// How long a screen must not change to count as still.
const STILL: Duration = Duration::from_secs(1);

/// A terminal with one program in it. Dropping it ends both.
pub(super) struct Screen {
    /// The name of tmux's own socket, so that the user's sessions are not touched.
    socket: String,
}

impl Screen {
    /// Opens a terminal and runs a command in it.
    pub(super) fn open(size: (usize, usize), command: &[String]) -> Result<Self> {
        let socket = format!("trunkline-pictures-{}", std::process::id());
        let screen = Self { socket };
        let (columns, rows) = (size.0.to_string(), size.1.to_string());
        let mut words = vec![
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &columns,
            "-y",
            &rows,
        ];
        words.extend(command.iter().map(String::as_str));
        screen.tmux(&words)?;
        screen.tmux(&["set", "-g", "status", "off"])?;
        screen.tmux(&["resize-window", "-x", &columns, "-y", &rows])?;
        Ok(screen)
    }

    /// Types a line and presses Enter.
    pub(super) fn type_line(&self, text: &str) -> Result<()> {
        self.tmux(&["send-keys", "-l", text])?;
        self.press("Enter")
    }

    /// Presses a key, by tmux's name of it.
    pub(super) fn press(&self, key: &str) -> Result<()> {
        self.tmux(&["send-keys", key]).map(drop)
    }

    /// Returns the text with its colours as escape sequences.
    pub(super) fn colours(&self) -> Result<String> {
        self.tmux(&["capture-pane", "-e", "-p"])
    }

    /// Waits until the text on screen is as wanted.
    pub(super) fn wait_for(
        &self,
        limit: Duration,
        what: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let start = Instant::now();
        loop {
            let text = self.tmux(&["capture-pane", "-p"])?;
            if is_wanted(&text) {
                return Ok(());
            }
            if start.elapsed() > limit {
                bail!("no sign of `{what}` on the screen:\n{text}");
            }
            std::thread::sleep(INTERVAL);
        }
    }

    /// Waits until the screen has not changed for a while.
    pub(super) fn wait_until_still(&self, limit: Duration) -> Result<()> {
        let start = Instant::now();
        let mut last = (self.colours()?, Instant::now());
        while last.1.elapsed() < STILL {
            ensure!(start.elapsed() < limit, "the screen keeps changing");
            std::thread::sleep(INTERVAL);
            let now = self.colours()?;
            if now != last.0 {
                last = (now, Instant::now());
            }
        }
        Ok(())
    }

    fn tmux(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new("tmux");
        let output = command.args(["-L", &self.socket]).args(words).output();
        let output = output.context("could not run tmux; install it")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "tmux {words:?} failed: {stderr}");
        Ok(String::from_utf8(output.stdout)?)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A server that has ended already is as good.
        let _ = self.tmux(&["kill-server"]);
    }
}
