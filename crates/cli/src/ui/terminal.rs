//! The terminal: one guard enters its modes and undoes each of them exactly once, however the
//! interface ends: by return, panic, signal or suspension.

use std::io::{self, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
};
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute, queue, style};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use tokio::sync::Notify;

use super::model::Model;
use super::run::Surface;
use super::view::{self, Theme};

/// Whether the terminal is in our modes.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// Notified when a panic has given the terminal back. If the panic was that of a task, tokio has
/// caught it, and the loop must take the terminal again.
pub(super) static LEFT: Notify = Notify::const_new();

/// Whether the mouse is captured, to be undone with the rest.
static MOUSE: AtomicBool = AtomicBool::new(false);

/// The longest text that is copied: terminals drop longer ones.
const MAX_COPIED: usize = 74_000;

/// Wheel turns arrive as arrow keys on the alternate screen, so that selecting text still works.
const ALTERNATE_SCROLL_ON: &str = "\x1b[?1007h";
const ALTERNATE_SCROLL_OFF: &str = "\x1b[?1007l";

/// Restores the terminal when it is dropped.
struct Modes;

impl Modes {
    fn enter() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let previous = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                leave();
                previous(panic);
                LEFT.notify_one();
            }));
        });
        enter()?;
        Ok(Self)
    }
}

impl Drop for Modes {
    fn drop(&mut self) {
        leave();
    }
}

fn enter() -> io::Result<()> {
    if ENTERED.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    let entered = enable_raw_mode().and_then(|()| {
        execute!(
            io::stdout(),
            EnterAlternateScreen,
            EnableBracketedPaste,
            style::Print(ALTERNATE_SCROLL_ON),
            cursor::Hide
        )
    });
    if entered.is_err() {
        leave();
    }
    entered
}

/// Undoes all modes, once.
fn leave() {
    if !ENTERED.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut out = io::stdout();
    // A terminal that has gone away takes none of this; there is nobody to tell.
    if MOUSE.swap(false, Ordering::SeqCst) {
        let _ = queue!(out, DisableMouseCapture);
    }
    let _ = execute!(
        out,
        EndSynchronizedUpdate,
        style::Print(ALTERNATE_SCROLL_OFF),
        DisableBracketedPaste,
        LeaveAlternateScreen,
        cursor::Show
    );
    let _ = disable_raw_mode();
}

type Backend = CrosstermBackend<io::BufWriter<io::Stdout>>;

/// The user's terminal.
pub(super) struct Tui {
    terminal: Terminal<Backend>,
    theme: Theme,
    _modes: Modes,
}

impl Tui {
    /// Enters the modes of the interface.
    pub(super) fn open(theme: Theme) -> io::Result<Self> {
        // With NO_COLOR, crossterm 0.29 replaces colours by resets, which also undo the
        // attributes that show the selection. The theme has no colours then.
        style::force_color_output(true);
        let modes = Modes::enter()?;
        let out = io::BufWriter::with_capacity(64 * 1024, io::stdout());
        let terminal = Terminal::new(CrosstermBackend::new(out))?;
        Ok(Self {
            terminal,
            theme,
            _modes: modes,
        })
    }

    /// Clears the screen, so that the next frame draws everything. `Terminal::clear` would ask the
    /// terminal for its cursor, and the answer would go to the thread that reads keys.
    fn clear(&mut self) -> io::Result<()> {
        let (width, height) = self.size()?;
        self.terminal.resize(Rect::new(0, 0, width, height))
    }

    pub(super) fn size(&self) -> io::Result<(u16, u16)> {
        let size = self.terminal.size()?;
        Ok((size.width, size.height))
    }
}

impl Surface for Tui {
    fn draw(&mut self, model: &Model) -> io::Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        let theme = self.theme;
        self.terminal
            .draw(|frame| view::draw(model, theme, frame))?;
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate)
    }

    fn copy(&mut self, text: &str) -> io::Result<bool> {
        if text.len() > MAX_COPIED {
            return Ok(false);
        }
        // OSC 52: the terminal puts it on the user's clipboard, also over SSH.
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        let out = self.terminal.backend_mut();
        write!(out, "\x1b]52;c;{encoded}\x07")?;
        out.flush()?;
        Ok(true)
    }

    fn set_mouse(&mut self, on: bool) -> io::Result<()> {
        MOUSE.store(on, Ordering::SeqCst);
        if on {
            execute!(self.terminal.backend_mut(), EnableMouseCapture)
        } else {
            execute!(self.terminal.backend_mut(), DisableMouseCapture)
        }
    }

    fn redraw(&mut self) -> io::Result<()> {
        self.clear()
    }

    fn suspend(&mut self) -> io::Result<()> {
        let mouse = MOUSE.load(Ordering::SeqCst);
        leave();
        stop();
        enter()?;
        self.clear()?;
        if mouse {
            self.set_mouse(true)?;
        }
        Ok(())
    }

    fn resume(&mut self) -> io::Result<()> {
        // The shell has changed the modes behind our back.
        let mouse = MOUSE.load(Ordering::SeqCst);
        leave();
        enter()?;
        if mouse {
            self.set_mouse(true)?;
        }
        self.clear()
    }
}

/// Stops this process and its job until the user continues it.
#[cfg(unix)]
fn stop() {
    use rustix::process::{Signal, kill_current_process_group};

    let _ = kill_current_process_group(Signal::STOP);
}

#[cfg(not(unix))]
fn stop() {}
