//! How many servers start at once (LIF-2).

use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// How long a slow local starter keeps others waiting.
const PATIENCE: Duration = Duration::from_millis(250);

/// How long it keeps them waiting at least: below that, it may just not have had its turn on a processor.
const LEAST_PATIENCE: Duration = Duration::from_millis(10);

/// How many must have answered before it is known how long answering takes.
const ENOUGH: usize = 3;

/// For each local place but one, how many starters may have given theirs up before their time. It bounds how many processes start at
/// once should those that answered first have been the quick ones; and who wants them one by one gets them so.
const EARLY: usize = 3;

/// The two groups of places: starting processes is heavy, connecting over a network is not.
pub(crate) struct Window {
    local: Semaphore,
    remote: Semaphore,
    early: Semaphore,
    pace: Mutex<Pace>,
    answered: Notify,
}

/// How long local servers took to answer.
#[derive(Default)]
struct Pace {
    answers: usize,
    slowest: Duration,
}

impl Pace {
    /// How long one more may take before it counts as slow: twice as long as any before it.
    fn patience(&self) -> Duration {
        if self.answers < ENOUGH {
            return PATIENCE;
        }
        (self.slowest * 2).clamp(LEAST_PATIENCE, PATIENCE)
    }
}

impl Window {
    pub(crate) fn new(local: usize, remote: usize) -> Self {
        let early = local.saturating_sub(1).saturating_mul(EARLY);
        Self {
            local: Semaphore::new(local),
            remote: Semaphore::new(remote),
            early: Semaphore::new(early.min(Semaphore::MAX_PERMITS)),
            pace: Mutex::default(),
            answered: Notify::new(),
        }
    }

    /// Waits for a place.
    pub(crate) async fn enter(&self, local: bool) -> Place<'_> {
        let places = if local { &self.local } else { &self.remote };
        Place {
            window: local.then_some(self),
            // The semaphore is never closed; if it were, starting anyway would be right.
            permit: places.acquire().await.ok(),
        }
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answered_after(&self, time: Duration) {
        let mut pace = self.pace();
        pace.answers = pace.answers.saturating_add(1);
        pace.slowest = pace.slowest.max(time.min(PATIENCE));
        drop(pace);
        self.answered.notify_waiters();
    }

    /// Returns when one that started at `since` is slow, beside those that have answered by then.
    async fn slow(&self, since: Instant) {
        loop {
            let answered = self.answered.notified();
            let until = since + self.pace().patience();
            tokio::select! {
                () = tokio::time::sleep_until(until) => return,
                () = answered => {}
            }
        }
    }
}

/// A place in the window.
pub(crate) struct Place<'a> {
    /// Where one that starts slowly may be left to go on alone.
    window: Option<&'a Window>,
    permit: Option<SemaphorePermit<'a>>,
}

impl Place<'_> {
    /// Runs `start` in this place. A local one that is not done soon gives its place to the next and goes on, so that slow
    /// starters overlap.
    pub(crate) async fn run<T, E>(self, start: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let Some(window) = self.window else {
            return start.await;
        };
        let since = Instant::now();
        let give_up = async {
            window.slow(since).await;
            // Beyond that many it takes the full time.
            let early = tokio::select! {
                biased;
                early = window.early.acquire() => early.ok(),
                () = tokio::time::sleep_until(since + PATIENCE) => None,
            };
            drop(self.permit);
            tokio::time::sleep_until(since + PATIENCE).await;
            drop(early);
            std::future::pending().await
        };
        let outcome = {
            let (mut start, give_up) = (pin!(start), pin!(give_up));
            tokio::select! {
                biased;
                outcome = &mut start => outcome,
                never = give_up => never,
            }
        };
        if outcome.is_ok() {
            window.answered_after(since.elapsed());
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::Instant;

    use super::*;

    async fn takes(milliseconds: u64) -> Result<(), ()> {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        Ok(())
    }

    /// When each of the servers that take so many milliseconds has answered, in milliseconds from the start.
    async fn answers(window: &Window, take: &[u64]) -> Vec<u128> {
        let started = Instant::now();
        let starts = take.iter().map(|&take| async move {
            let _ = window.enter(true).await.run(takes(take)).await;
            started.elapsed().as_millis()
        });
        futures_util::future::join_all(starts).await
    }

    #[tokio::test(start_paused = true)]
    async fn where_others_are_quick_a_slow_one_gives_its_place_up_sooner() {
        const HANGS: u64 = 60_000;
        let mut take = [5; 100];
        for index in (7..100).step_by(20) {
            take[index] = HANGS;
        }
        let quick = answers(&Window::new(3, 20), &[5; 95]).await;
        let mixed = answers(&Window::new(3, 20), &take).await;
        let last = mixed.iter().filter(|&&at| at < 1_000).max().unwrap();
        assert!(last * 10 <= quick.iter().max().unwrap() * 12, "{mixed:?}");

        // The first three say how long it takes here: those that follow find a place at once, but not all of them.
        let mut take = vec![5; 3];
        take.extend([2_000; 20]);
        let window = Window::new(3, 20);
        let at = answers(&window, &take).await;
        let began = |index: usize| at[index] - 2_000;
        assert!(began(3 + 8) < 50, "{at:?}");
        assert!(began(3 + 9) >= 250, "{at:?}");
        // Now it is known that some here take longer.
        let at = answers(&window, &[2_000; 4]).await;
        assert_eq!(at[3] / 10, 225);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_local_starters_overlap_and_quick_ones_stay_within_the_window() {
        let window = Arc::new(Window::new(3, 20));
        let started = Instant::now();
        let slow: Vec<_> = (0..12)
            .map(|_| {
                let window = Arc::clone(&window);
                tokio::spawn(async move {
                    let place = window.enter(true).await;
                    place.run(takes(1_000)).await.unwrap();
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
                        Ok::<_, ()>(())
                    };
                    window.enter(true).await.run(work).await.unwrap();
                })
            })
            .collect();
        for task in quick {
            task.await.unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), 3);
    }
}
