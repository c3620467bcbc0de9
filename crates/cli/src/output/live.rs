//! Text on a terminal that the next one replaces: a status line, and rows that change in place.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::line::Line;
use super::lines::{Lines, inline};
use super::style::{Status, Stream, Style, is_utf8};
use super::{is_json, result_bytes, width, write_raw_err};

/// A wait becomes visible after this time.
const DELAY: Duration = Duration::from_millis(500);

/// The time between two frames.
const FRAME: Duration = Duration::from_millis(100);

/// The width of a progress bar, in cells.
const BAR: usize = 12;

static VERBOSE: AtomicBool = AtomicBool::new(false);

/// Announces that logs go to stderr, where nothing may move.
pub(crate) fn use_verbose() {
    VERBOSE.store(true, Ordering::Relaxed);
}

/// Returns whether text may move on a terminal: not in CI, on a dumb terminal or between logs.
pub(crate) fn is_animated(stream: Stream) -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    stream.is_terminal() && !is_ci() && !dumb && !VERBOSE.load(Ordering::Relaxed)
}

/// Returns whether the program runs in CI.
pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// The number of prompts that have the terminal to themselves.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Whether a status line is on the terminal.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Erases the status line, so that another text can take its row. The next frame comes below.
pub(super) fn erase_status_line() {
    if SHOWN.swap(false, Ordering::SeqCst) {
        write_raw_err("\r\u{1b}[K");
    }
}

/// Keeps status lines off the terminal while it lives.
#[must_use]
pub(crate) struct Hold(());

/// Erases the status line and keeps it away, for a prompt.
pub(crate) fn hold_status_lines() -> Hold {
    HELD.fetch_add(1, Ordering::SeqCst);
    erase_status_line();
    Hold(())
}

impl Drop for Hold {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Rows on stdout that are redrawn in place.
pub(crate) struct Live {
    /// The number of rows on the screen.
    drawn: usize,
}

impl Live {
    pub(crate) fn new() -> Self {
        Self { drawn: 0 }
    }

    /// Replaces the rows.
    pub(crate) fn draw(&mut self, lines: &Lines) {
        let rows = lines.rows(width(Stream::Out));
        let mut text = match self.drawn {
            0 => String::new(),
            rows => format!("\r\u{1b}[{rows}A"),
        };
        for row in &rows {
            row.render(Stream::Out.is_coloured(), &mut text);
            // Erase the rest of the old row, not the whole of it first, which would flicker.
            text.push_str("\u{1b}[K\r\n");
        }
        text.push_str("\u{1b}[J");
        self.drawn = rows.len();
        result_bytes(text.as_bytes());
    }

    /// Removes the rows, so that the final ones can take their place.
    pub(crate) fn clear(&mut self) {
        if self.drawn > 0 {
            // Row by row: some terminals keep a screen that is erased as a whole.
            let rows = std::mem::take(&mut self.drawn);
            let up = format!("\r\u{1b}[{rows}A");
            let text = format!("{up}{}{up}", "\u{1b}[K\r\n".repeat(rows));
            result_bytes(text.as_bytes());
        }
    }
}

/// A line on stderr that the next one replaces. Shows nothing without a terminal.
///
/// A line [about](Self::about) something moves: it appears after half a second and shows the time.
pub(crate) struct StatusLine {
    shared: Arc<Shared>,
    ticker: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<LineState>,
    ended: Condvar,
}

struct LineState {
    /// What is being waited for; foreign text.
    subject: String,
    text: String,
    /// The done part of a known total.
    fraction: Option<f64>,
    started: Instant,
    frame: usize,
    has_ended: bool,
}

impl StatusLine {
    pub(crate) fn new() -> Self {
        let state = LineState {
            subject: String::new(),
            text: String::new(),
            fraction: None,
            started: Instant::now(),
            frame: 0,
            has_ended: false,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            ended: Condvar::new(),
        });
        Self {
            shared,
            ticker: None,
        }
    }

    /// Creates a line that shows for how long something has taken.
    pub(crate) fn about(subject: &str) -> Self {
        let mut line = Self::new();
        subject.clone_into(&mut line.shared.lock().subject);
        if is_animated(Stream::Err) && !is_json() {
            let shared = Arc::clone(&line.shared);
            line.ticker = std::thread::Builder::new()
                .name("status-line".to_owned())
                .spawn(move || shared.tick())
                .ok();
        }
        line
    }

    /// Shows a text, at once or with the next frame.
    pub(crate) fn show(&mut self, text: &str) {
        self.progress(text, None);
    }

    /// Shows a text, with a bar if a part of the whole is known.
    pub(crate) fn progress(&mut self, text: &str, fraction: Option<f64>) {
        let mut state = self.shared.lock();
        text.clone_into(&mut state.text);
        state.fraction = fraction.or(state.fraction);
        if state.subject.is_empty() && is_animated(Stream::Err) {
            state.draw();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, LineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Redraws the line until it ends.
    fn tick(&self) {
        let mut state = self.lock();
        let mut pause = DELAY;
        while !state.has_ended {
            let waited = self.ended.wait_timeout(state, pause);
            let (next, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = next;
            if timeout.timed_out() && !state.has_ended {
                state.frame += 1;
                state.draw();
                pause = FRAME;
            }
        }
    }
}

impl LineState {
    fn draw(&mut self) {
        if HELD.load(Ordering::SeqCst) > 0 {
            return;
        }
        SHOWN.store(true, Ordering::SeqCst);
        // A wrapped line could not be erased.
        let shown = self.line().cut(width(Stream::Err).unwrap_or(80));
        let mut text = String::from("\r\u{1b}[K");
        shown.render(Stream::Err.is_coloured(), &mut text);
        write_raw_err(&text);
    }

    fn line(&self) -> Line {
        let text = inline(&self.text);
        if self.subject.is_empty() {
            return Line::plain(text);
        }
        let seconds = self.started.elapsed().as_secs();
        let mut line = Line::of(Status::Busy.style(), spinner(self.frame))
            .and(Style::Plain, " ")
            .and(Style::Name, inline(&self.subject))
            .and(Style::Dim, format_args!("  {seconds} s"));
        if let Some(fraction) = self.fraction {
            let (done, rest) = bar(fraction);
            line.push(Style::Plain, "  ");
            line.push(Style::Done, done);
            line.push(Style::Dim, rest);
        }
        if !text.is_empty() {
            line.push(Style::Plain, format_args!("  {text}"));
        }
        line
    }
}

/// Returns a frame of the spinner.
fn spinner(frame: usize) -> &'static str {
    let frames: &[&str] = if is_utf8() {
        &["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"]
    } else {
        &["|", "/", "-", "\\"]
    };
    frames[frame % frames.len()]
}

/// Returns the two parts of a bar.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the fraction is clamped, and the bar is short"
)]
fn bar(fraction: f64) -> (String, String) {
    let done = (fraction.clamp(0.0, 1.0) * BAR as f64) as usize;
    let (full, empty) = if is_utf8() {
        ("━", "─")
    } else {
        ("#", "-")
    };
    (full.repeat(done), empty.repeat(BAR - done.min(BAR)))
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.shared.lock().has_ended = true;
        self.shared.ended.notify_all();
        if let Some(ticker) = self.ticker.take() {
            let _ = ticker.join();
        }
        erase_status_line();
    }
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;

    #[test]
    fn a_bar_is_as_wide_as_it_should_be() {
        for (fraction, done) in [
            (f64::NAN, 0),
            (-1.0, 0),
            (0.5, BAR / 2),
            (1.0, BAR),
            (7.0, BAR),
        ] {
            let (full, empty) = bar(fraction);
            assert_eq!(full.width(), done, "{fraction}");
            assert_eq!(full.width() + empty.width(), BAR, "{fraction}");
        }
    }
}
