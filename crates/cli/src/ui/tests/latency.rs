//! The loop answers a key within a frame, whatever the servers do, and sleeps when nothing happens.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::json;
use tokio::sync::{Notify, mpsc};
use trunkline::{Builtin, Host};
use trunkline_config::Layout;

use super::empty;
use crate::exit::Exit;
use crate::ui::asker::Asker;
use crate::ui::effects::Effects;
use crate::ui::feed::Feed;
use crate::ui::model::Model;
use crate::ui::run::{Input, Sources, Surface, run};
use crate::ui::terminal::LEFT;
use crate::ui::view::{self, Theme};

/// The ages of answered keys, and the number of frames.
#[derive(Default)]
struct Record {
    answered: Vec<Duration>,
    frames: usize,
    text: String,
    /// Whether the loop waits for messages only.
    sleeps: bool,
    resumed: usize,
}

/// What the loop did, and a signal whenever it does something.
#[derive(Default)]
struct Watch {
    record: Mutex<Record>,
    changed: Notify,
}

impl Watch {
    fn update(&self, change: impl FnOnce(&mut Record)) {
        change(&mut self.record.lock().unwrap());
        self.changed.notify_one();
    }

    /// Waits until the record fits.
    async fn until(&self, fits: impl Fn(&Record) -> bool) {
        while !fits(&self.record.lock().unwrap()) {
            self.changed.notified().await;
        }
    }
}

/// A terminal in memory.
struct Memory {
    terminal: Terminal<TestBackend>,
    watch: Arc<Watch>,
}

impl Surface for Memory {
    fn draw(&mut self, model: &Model) -> io::Result<()> {
        let theme = Theme {
            colour: true,
            unicode: true,
            pictures: None,
        };
        let drawn = self.terminal.draw(|frame| view::draw(model, theme, frame));
        drawn.map_err(io::Error::other)?;
        let cells = self.terminal.backend().buffer().content.iter();
        let text = cells.map(ratatui::buffer::Cell::symbol).collect();
        self.watch.update(|record| {
            record.frames += 1;
            record.text = text;
        });
        Ok(())
    }

    fn copy(&mut self, text: &str) -> io::Result<bool> {
        Ok(text.len() < 100)
    }

    fn set_mouse(&mut self, _on: bool) -> io::Result<()> {
        Ok(())
    }

    fn redraw(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn suspend(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn resume(&mut self) -> io::Result<()> {
        self.watch.update(|record| record.resumed += 1);
        Ok(())
    }

    fn waits(&mut self, until: Option<Instant>) {
        self.watch.update(|record| record.sleeps = until.is_none());
    }

    fn answered(&mut self, after: Duration) {
        self.watch.update(|record| record.answered.push(after));
    }
}

fn key(code: KeyCode) -> Input {
    Input {
        at: Instant::now(),
        event: Event::Key(KeyEvent::from(code)),
    }
}

/// Runs the loop with a host while `drive` sends keys; the loop must end with it.
async fn with_loop<F: Future<Output = ()>>(
    host: &Host,
    feed: Feed,
    drive: impl FnOnce(mpsc::UnboundedSender<Input>, Arc<Watch>) -> F,
) -> Arc<Watch> {
    let watch = Arc::<Watch>::default();
    let mut surface = Memory {
        terminal: Terminal::new(TestBackend::new(120, 40)).unwrap(),
        watch: Arc::clone(&watch),
    };
    let (keyboard, input) = mpsc::unbounded_channel();
    let (sender, inbox) = mpsc::unbounded_channel();
    let asker = Asker::new(sender.clone());
    let place = (Layout::under("/nonexistent"), "/nonexistent".into());
    let effects = Effects::new(host.clone(), sender, asker, place, None);
    let sources = Sources {
        input,
        inbox,
        events: host.events(),
        feed,
    };
    let running = run(empty(120, 40), host.clone(), effects, &mut surface, sources);
    let (exit, ()) = tokio::join!(running, drive(keyboard, Arc::clone(&watch)));
    assert_eq!(exit.unwrap(), Exit::Done);
    watch
}

#[tokio::test]
#[allow(clippy::print_stderr, reason = "the distribution is of interest")]
async fn keys_are_answered_while_servers_flap() {
    let feed = Feed::default();
    let messages = feed.clone();
    let mut builder = Host::builder().on_message(move |message| messages.message(message));
    for number in 0..50 {
        let mut builtin = Builtin::new(format!("server-{number}"));
        for tool in 0..20 {
            let schema = json!({"type": "object"});
            builtin = builtin.tool(&format!("tool_{tool}"), "Does it", &schema, |_| async {
                Ok("done".into())
            });
        }
        builder = builder.builtin(builtin);
    }
    let host = builder.start();
    let flapping = {
        let host = host.clone();
        tokio::spawn(async move {
            // Each reconnects as soon as it is connected again.
            for round in 0_u64.. {
                let _ = host.reconnect(&format!("server-{}", round % 10)).await;
                tokio::task::yield_now().await;
            }
        })
    };
    let watch = with_loop(&host, feed, |keyboard, watch| async move {
        for number in 0..400_u32 {
            let code = match number % 40 {
                0 => KeyCode::Enter,
                1 => KeyCode::Char('6'),
                20 => KeyCode::Esc,
                n if n % 2 == 0 => KeyCode::Down,
                _ => KeyCode::Up,
            };
            let drawn = watch.record.lock().unwrap().answered.len();
            keyboard.send(key(code)).unwrap();
            // A person sees the answer to a key before the next one.
            watch.until(|record| record.answered.len() > drawn).await;
        }
        for code in [KeyCode::Esc, KeyCode::Esc, KeyCode::Char('q')] {
            keyboard.send(key(code)).unwrap();
        }
        // The loop ends before its terminal does.
        std::future::ready(()).await;
        keyboard.closed().await;
    })
    .await;
    flapping.abort();
    host.shutdown().await;
    let mut answered = std::mem::take(&mut watch.record.lock().unwrap().answered);
    answered.sort();
    let at = |percent: usize| answered[(answered.len() - 1) * percent / 100];
    let shown = format!(
        "{} frames: {:?} {:?} {:?}",
        answered.len(),
        at(50),
        at(90),
        at(99)
    );
    eprintln!("{shown}");
    assert!(answered.len() >= 50, "{shown}");
    // A frame lasts 16 ms. The limit finds a loop that starves, not a busy machine.
    assert!(at(50) <= Duration::from_secs(1), "{shown}");
}

#[tokio::test]
async fn nothing_is_drawn_when_nothing_happens() {
    let host = Host::builder().builtin(Builtin::new("one")).start();
    host.ready().await;
    let watch = with_loop(&host, Feed::default(), |keyboard, watch| async move {
        let is_idle = |record: &Record| record.text.contains("0 tools") && record.sleeps;
        watch.until(is_idle).await;
        // A task has panicked: the loop takes the terminal again.
        LEFT.notify_one();
        watch
            .until(|record| record.resumed > 0 && is_idle(record))
            .await;
        keyboard.send(key(KeyCode::Char('q'))).unwrap();
        keyboard.closed().await;
    })
    .await;
    assert!(watch.record.lock().unwrap().frames >= 1);
    host.shutdown().await;
}
