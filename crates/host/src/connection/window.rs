//! How many servers start at once (LIF-2).

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

/// How long a slow local starter keeps others waiting.
const PATIENCE: Duration = Duration::from_millis(250);

/// The two groups of places: starting processes is heavy, connecting over a network is not.
pub(crate) struct Window {
    local: Semaphore,
    remote: Semaphore,
}

impl Window {
    pub(crate) fn new(local: usize, remote: usize) -> Self {
        Self {
            local: Semaphore::new(local),
            remote: Semaphore::new(remote),
        }
    }

    /// Waits for a place.
    pub(crate) async fn enter(&self, local: bool) -> Place<'_> {
        let places = if local { &self.local } else { &self.remote };
        Place {
            local,
            // The semaphore is never closed; if it were, starting anyway would be right.
            permit: places.acquire().await.ok(),
        }
    }
}

/// A place in the window.
pub(crate) struct Place<'a> {
    local: bool,
    permit: Option<SemaphorePermit<'a>>,
}

impl Place<'_> {
    /// Runs `start` in this place. A local one that is not done soon gives its place to the next and goes on, so that slow
    /// starters overlap.
    pub(crate) async fn run<T>(self, start: impl Future<Output = T>) -> T {
        let mut start = pin!(start);
        if self.local {
            tokio::select! {
                biased;
                outcome = &mut start => return outcome,
                () = tokio::time::sleep(PATIENCE) => drop(self.permit),
            }
        }
        start.await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn slow_local_starters_overlap_and_quick_ones_stay_within_the_window() {
        let window = Arc::new(Window::new(3, 20));
        let started = Instant::now();
        let slow: Vec<_> = (0..12)
            .map(|_| {
                let window = Arc::clone(&window);
                tokio::spawn(async move {
                    let place = window.enter(true).await;
                    place.run(tokio::time::sleep(Duration::from_secs(1))).await;
                })
            })
            .collect();
        for task in slow {
            task.await.unwrap();
        }
        // Four groups of three, 250 ms apart, each taking a second; one after the other would take four.
        assert_eq!(started.elapsed().as_millis() / 10, 175);

        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let quick: Vec<_> = (0..30)
            .map(|_| {
                let (window, now, most) =
                    (Arc::clone(&window), Arc::clone(&now), Arc::clone(&most));
                tokio::spawn(async move {
                    let work = async {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        tokio::time::sleep(Duration::from_millis(10)).await;
                        now.fetch_sub(1, Ordering::SeqCst);
                    };
                    window.enter(true).await.run(work).await;
                })
            })
            .collect();
        for task in quick {
            task.await.unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), 3);
    }
}
