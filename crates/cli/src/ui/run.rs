//! The event loop: it runs the effects of the model and owns the terminal. It takes all messages
//! that have arrived, draws at most once a frame and only if something changed, and sleeps
//! otherwise.

use std::io;
use std::time::{Duration, Instant};

use crossterm::event::Event;
use tokio::sync::mpsc;
use trunkline::Host;
use trunkline::event::Events;

use super::effects::Effects;
use super::feed::Feed;
use super::model::{Model, Screen, Tab, update};
use super::msg::{Effect, Msg};
use super::overview;
use super::snapshot::Reader;
use super::terminal::LEFT;
use crate::exit::Exit;

/// The time between two frames: 60 a second.
pub(super) const FRAME: Duration = Duration::from_millis(16);

/// The time between two readings of a server's stderr for its overview.
const REREAD: Duration = Duration::from_millis(250);

/// Something to draw on.
pub(super) trait Surface {
    fn draw(&mut self, model: &Model) -> io::Result<()>;
    /// Copies a text; returns whether the terminal takes one of this length.
    fn copy(&mut self, text: &str) -> io::Result<bool>;
    fn set_mouse(&mut self, on: bool) -> io::Result<()>;
    /// Draws everything anew with the next frame.
    fn redraw(&mut self) -> io::Result<()>;
    /// Gives the terminal back, stops, and takes the terminal again.
    fn suspend(&mut self) -> io::Result<()>;
    /// Takes the terminal again after somebody else stopped us.
    fn resume(&mut self) -> io::Result<()>;
    /// The loop waits, until this moment at the latest.
    fn waits(&mut self, _until: Option<Instant>) {}
    /// A key of this age has been answered by a frame.
    fn answered(&mut self, _after: Duration) {}
}

/// An event of the terminal and the moment of its arrival.
pub(super) struct Input {
    pub(super) at: Instant,
    pub(super) event: Event,
}

/// What the loop listens to.
pub(super) struct Sources {
    pub(super) input: mpsc::UnboundedReceiver<Input>,
    pub(super) inbox: mpsc::UnboundedReceiver<Msg>,
    pub(super) events: Events,
    pub(super) feed: Feed,
}

/// The state of the loop.
struct Loop<'a, S> {
    model: Model,
    host: Host,
    effects: Effects,
    surface: &'a mut S,
    reader: Reader,
    /// Whether the screen differs from the model.
    dirty: bool,
    /// Whether the host differs from the snapshot.
    stale: bool,
    /// Whether the overview must be read again.
    stale_detail: bool,
    detail_read: Instant,
    drawn: Instant,
    /// The oldest key that no frame has answered.
    unanswered: Option<Instant>,
    /// Whether we have stopped ourselves, and a SIGCONT follows.
    has_stopped: bool,
    ended: bool,
}

/// Runs until the user quits or the terminal is gone.
pub(super) async fn run<S: Surface>(
    model: Model,
    host: Host,
    effects: Effects,
    surface: &mut S,
    mut sources: Sources,
) -> io::Result<Exit> {
    let now = Instant::now();
    let past = now.checked_sub(REREAD).unwrap_or(now);
    let mut state = Loop {
        model,
        host,
        effects,
        surface,
        reader: Reader::default(),
        dirty: true,
        stale: true,
        stale_detail: true,
        detail_read: past,
        drawn: past,
        unanswered: None,
        has_stopped: false,
        ended: false,
    };
    let mut signals = Signals::new();
    loop {
        let wake = state.next_wake();
        state.surface.waits(wake);
        let wait = async {
            match wake {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            signal = signals.next() => match signal {
                Signal::Stop => state.suspend()?,
                // After our own stop, the terminal is ours already.
                Signal::Continue if std::mem::take(&mut state.has_stopped) => {}
                Signal::Continue => state.resume()?,
            },
            // A panic of a task has given the terminal back, and we go on.
            () = LEFT.notified() => state.resume()?,
            input = sources.input.recv() => match input {
                Some(input) => state.input(input)?,
                // The terminal is gone.
                None => return Ok(Exit::Done),
            },
            Some(msg) = sources.inbox.recv() => state.handle(msg)?,
            changes = sources.events.next() => match changes {
                Some(_) => state.changed(),
                None => return Ok(Exit::Done),
            },
            () = sources.feed.arrived() => state.take_feed(&sources.feed)?,
            () = wait => {
                if !state.dirty {
                    state.handle(Msg::Tick)?;
                }
            }
        }
        // Everything that has arrived is taken before a frame is drawn.
        while let Ok(input) = sources.input.try_recv() {
            state.input(input)?;
        }
        while let Ok(msg) = sources.inbox.try_recv() {
            state.handle(msg)?;
        }
        if state.ended {
            return Ok(Exit::Done);
        }
        if state.dirty && state.drawn.elapsed() >= FRAME {
            state.draw()?;
        }
    }
}

impl<S: Surface> Loop<'_, S> {
    /// Returns when something is to be done without a message; `None` sleeps.
    fn next_wake(&self) -> Option<Instant> {
        if self.dirty {
            return Some(self.drawn + FRAME);
        }
        let tick = self.model.next_tick(Instant::now());
        let is_shown = self.stale_detail && self.model.wanted_detail().is_some();
        let reread = is_shown.then(|| self.detail_read + REREAD);
        tick.into_iter().chain(reread).min()
    }

    fn input(&mut self, input: Input) -> io::Result<()> {
        let msg = match input.event {
            Event::Key(key) => {
                self.unanswered.get_or_insert(input.at);
                Msg::Key(key)
            }
            Event::Paste(text) => Msg::Paste(text),
            Event::Mouse(mouse) => Msg::Mouse(mouse),
            Event::Resize(width, height) => Msg::Resize(width, height),
            Event::FocusGained | Event::FocusLost => return Ok(()),
        };
        self.handle(msg)
    }

    fn handle(&mut self, msg: Msg) -> io::Result<()> {
        self.dirty = true;
        let effects = update(&mut self.model, Instant::now(), msg);
        for effect in effects {
            match effect {
                Effect::Quit => self.ended = true,
                Effect::Copy { task, text, notice } => {
                    let outcome = if self.surface.copy(&text)? {
                        Ok(notice)
                    } else {
                        Err("not copied: it is too long for the terminal".to_owned())
                    };
                    self.handle(Msg::ActionDone(task, outcome))?;
                }
                Effect::Mouse(on) => self.surface.set_mouse(on)?,
                Effect::Redraw => self.surface.redraw()?,
                Effect::Suspend => self.suspend()?,
                effect => self.effects.run(effect),
            }
        }
        Ok(())
    }

    fn suspend(&mut self) -> io::Result<()> {
        self.has_stopped = true;
        self.surface.suspend()?;
        self.dirty = true;
        Ok(())
    }

    fn resume(&mut self) -> io::Result<()> {
        self.surface.resume()?;
        if self.model.mouse {
            self.surface.set_mouse(true)?;
        }
        self.dirty = true;
        Ok(())
    }

    fn changed(&mut self) {
        self.stale = true;
        self.stale_detail = true;
        self.dirty = true;
    }

    fn take_feed(&mut self, feed: &Feed) -> io::Result<()> {
        let batch = feed.take();
        let was_dirty = self.dirty;
        let tab = match self.model.screens.last() {
            Some(Screen::Detail(detail)) => Some(detail.tab),
            _ => None,
        };
        let has_logs = !batch.logs.is_empty();
        self.handle(Msg::Messages(batch.messages, batch.lost))?;
        self.handle(Msg::Logs(batch.logs))?;
        self.stale_detail |= has_logs;
        // A frame is drawn only if these are on the screen.
        let is_shown = match tab {
            Some(Tab::Log | Tab::Protocol) => true,
            Some(Tab::Overview) => has_logs,
            _ => has_logs && self.model.is_wide(),
        };
        self.dirty = was_dirty || is_shown;
        Ok(())
    }

    fn draw(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.stale) {
            let snapshot = self.reader.read(&self.host);
            self.handle(Msg::Snapshot(Box::new(snapshot)))?;
        }
        self.read_detail()?;
        self.surface.draw(&self.model)?;
        self.drawn = Instant::now();
        self.dirty = false;
        if let Some(at) = self.unanswered.take() {
            self.surface.answered(at.elapsed());
        }
        Ok(())
    }

    /// Reads the overview that is on the screen: at once for another server, and not too often for
    /// one that keeps changing.
    fn read_detail(&mut self) -> io::Result<()> {
        let Some(wanted) = self.model.wanted_detail() else {
            return Ok(());
        };
        let is_other = self
            .model
            .detail
            .as_ref()
            .is_none_or(|(key, _)| *key != wanted);
        let is_due = self.stale_detail && self.detail_read.elapsed() >= REREAD;
        if !is_other && !is_due {
            return Ok(());
        }
        self.stale_detail = false;
        self.detail_read = Instant::now();
        if let Some(detail) = overview::read(&self.host, &self.model.snapshot, &wanted) {
            self.handle(Msg::Detail(Box::new(detail)))?;
        }
        Ok(())
    }
}

/// A signal of job control.
enum Signal {
    Stop,
    Continue,
}

/// Signals of job control; those that end the program are handled by the session.
#[cfg(unix)]
struct Signals {
    stop: Option<tokio::signal::unix::Signal>,
    go: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    fn new() -> Self {
        use rustix::process::Signal;
        use tokio::signal::unix::{SignalKind, signal};

        let listen = |of: Signal| signal(SignalKind::from_raw(of.as_raw())).ok();
        Self {
            stop: listen(Signal::TSTP),
            go: listen(Signal::CONT),
        }
    }

    async fn next(&mut self) -> Signal {
        async fn wait(signal: &mut Option<tokio::signal::unix::Signal>) {
            match signal {
                Some(signal) => {
                    signal.recv().await;
                }
                None => std::future::pending().await,
            }
        }
        tokio::select! {
            () = wait(&mut self.stop) => Signal::Stop,
            () = wait(&mut self.go) => Signal::Continue,
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> Self {
        Self
    }

    async fn next(&mut self) -> Signal {
        std::future::pending().await
    }
}
