//! A server in this process, over a linked pair.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use trunkline::server::Era;
use trunkline::{Builtin, HostBuilder};
use trunkline_testkit::Scratch;

use crate::lab::{self, Lab};

/// The tools of the script, as far as they apply here.
pub(crate) struct InProcess {
    scratch: Scratch,
    /// Number of pending calls of `wait`.
    waiting: Arc<AtomicUsize>,
}

impl Lab for InProcess {
    const ERA: Era = Era::Modern;
    const SLOW: &'static str = "drip";
    const COUNTED: bool = false;

    fn start() -> Self {
        Self {
            scratch: Scratch::new(),
            waiting: Arc::default(),
        }
    }

    fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    fn builder(&self) -> HostBuilder {
        let any = json!({"type": "object"});
        let (waiting, dir) = (Arc::clone(&self.waiting), self.scratch.path().to_owned());
        let builtin = Builtin::new("s")
            .tool("drip", "Answers late", &any, |call| async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                Ok(call.arguments.as_str().into())
            })
            .tool("echo", "Echoes", &any, |call| async move {
                Ok(call.arguments.as_str().into())
            })
            .tool("panic", "Panics", &any, |_| async move {
                panic!("as it was asked to")
            })
            .tool("steps", "Takes five steps", &any, |call| async move {
                for step in 1..=5 {
                    call.progress(step.into(), Some(5.0), "").await;
                }
                Ok("done".into())
            })
            .tool("wait", "Waits for a file", &any, move |call| {
                let here = Here::new(&waiting, dir.clone());
                async move {
                    while !here.dir.join("go").exists() {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                    here.done();
                    Ok(call.arguments.as_str().into())
                }
            });
        lab::builder().builtin(builtin)
    }

    fn tools() -> Vec<&'static str> {
        vec!["drip", "echo", "panic", "steps", "wait"]
    }

    fn crash(&self) {
        unreachable!("it ends with this process")
    }

    fn stall(&self) {
        unreachable!("there is nothing between the two")
    }

    fn resume(&self) {}

    fn connections(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }
}

/// A call of `wait`, which counts as cancelled when dropped early.
struct Here {
    dir: PathBuf,
    waiting: Arc<AtomicUsize>,
    done: bool,
}

/// Serializes reports of the number of waiting calls.
static TURN: Mutex<()> = Mutex::new(());

impl Here {
    fn new(waiting: &Arc<AtomicUsize>, dir: PathBuf) -> Self {
        // In order, so the last number stays.
        let _turn = TURN.lock().unwrap();
        let number = waiting.fetch_add(1, Ordering::SeqCst) + 1;
        std::fs::write(dir.join("waiting"), number.to_string()).unwrap();
        Self {
            dir,
            waiting: Arc::clone(waiting),
            done: false,
        }
    }

    fn done(mut self) {
        self.done = true;
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        if !self.done {
            std::fs::write(self.dir.join("cancelled"), "1\n").unwrap();
        }
    }
}
