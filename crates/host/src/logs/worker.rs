//! A thread that writes, so that nobody else waits for a disk.
//!
//! Whoever has something to write asks a [`Budget`] for room first. Where there is none, what was to be written is counted
//! and forgotten: a disk that cannot keep up costs lines, never memory and never time.

use std::mem;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

/// What the thread does.
pub(super) trait Work<J>: Send + 'static {
    /// Does these jobs, in order.
    fn work(&mut self, jobs: Vec<J>);

    /// Somebody waits for everything to be written: nothing is kept back.
    fn finish(&mut self);
}

/// A thread with a queue, started by the first job. When it is dropped, the thread does what is left and ends.
pub(super) struct Worker<J: Send + 'static> {
    name: &'static str,
    desk: Arc<Desk<J>>,
}

struct Desk<J> {
    queue: Mutex<Queue<J>>,
    bell: Condvar,
}

struct Queue<J> {
    jobs: Vec<J>,
    flushes: Vec<oneshot::Sender<()>>,
    /// Who will do the jobs; gone once the thread runs.
    work: Option<Box<dyn Work<J>>>,
    /// There is no thread: none could be started.
    broken: bool,
    ended: bool,
}

impl<J: Send + 'static> Worker<J> {
    pub(super) fn new(name: &'static str, work: impl Work<J>) -> Self {
        let queue = Queue {
            jobs: Vec::new(),
            flushes: Vec::new(),
            work: Some(Box::new(work)),
            broken: false,
            ended: false,
        };
        let desk = Desk {
            queue: Mutex::new(queue),
            bell: Condvar::new(),
        };
        Self {
            name,
            desk: Arc::new(desk),
        }
    }

    /// Queues a job, for which there must be room in its budget.
    pub(super) fn push(&self, job: J) {
        let mut queue = self.desk.lock();
        if let Some(work) = queue.work.take() {
            let desk = Arc::clone(&self.desk);
            let thread = std::thread::Builder::new().name(self.name.to_owned());
            queue.broken = thread.spawn(move || desk.run(work)).is_err();
        }
        if queue.broken {
            return;
        }
        queue.jobs.push(job);
        if queue.jobs.len() == 1 {
            self.desk.bell.notify_one();
        }
    }

    /// Waits until everything queued so far is written, but not longer than `limit`.
    pub(super) async fn flush(&self, limit: Duration) {
        let (done, written) = oneshot::channel();
        {
            let mut queue = self.desk.lock();
            if queue.work.is_some() || queue.broken {
                return;
            }
            queue.flushes.push(done);
            self.desk.bell.notify_one();
        }
        let _ = tokio::time::timeout(limit, written).await;
    }
}

impl<J: Send + 'static> Drop for Worker<J> {
    fn drop(&mut self) {
        self.desk.lock().ended = true;
        self.desk.bell.notify_one();
    }
}

impl<J: 'static> Desk<J> {
    fn lock(&self) -> MutexGuard<'_, Queue<J>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut work: Box<dyn Work<J>>) {
        loop {
            let (jobs, flushes, ended) = {
                let mut queue = self.lock();
                while queue.jobs.is_empty() && queue.flushes.is_empty() && !queue.ended {
                    queue = self
                        .bell
                        .wait(queue)
                        .unwrap_or_else(PoisonError::into_inner);
                }
                (
                    mem::take(&mut queue.jobs),
                    mem::take(&mut queue.flushes),
                    queue.ended,
                )
            };
            work.work(jobs);
            if ended || !flushes.is_empty() {
                work.finish();
            }
            for flush in flushes {
                let _ = flush.send(());
            }
            if ended {
                return;
            }
        }
    }
}

/// How many bytes may be queued, and how much was not.
pub(super) struct Budget {
    limit: usize,
    used: AtomicUsize,
    lost: AtomicU64,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            used: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
        }
    }

    /// Takes room for that many bytes. Something larger than the whole goes while there is nothing else.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let took = self
            .used
            .try_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                let after = used.saturating_add(bytes);
                (used == 0 || after <= self.limit).then_some(after)
            });
        took.is_ok()
    }

    /// Takes room that there is not.
    pub(super) fn overdraw(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives room back.
    pub(super) fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts what there was no room for.
    pub(super) fn lose(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
    }

    /// What was lost since this was last asked.
    pub(super) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Notes(Arc<Mutex<Vec<String>>>);

    impl Work<u32> for Notes {
        fn work(&mut self, jobs: Vec<u32>) {
            let mut notes = self.0.lock().unwrap();
            notes.extend(jobs.iter().map(u32::to_string));
        }

        fn finish(&mut self) {
            self.0.lock().unwrap().push("finished".to_owned());
        }
    }

    #[tokio::test]
    async fn a_flush_waits_for_everything_before_it() {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let worker = Worker::new("notes", Notes(Arc::clone(&notes)));
        // Nothing was ever pushed: there is no thread to wait for.
        worker.flush(Duration::from_secs(20)).await;
        for number in 0..3 {
            worker.push(number);
        }
        worker.flush(Duration::from_secs(20)).await;
        assert_eq!(*notes.lock().unwrap(), ["0", "1", "2", "finished"]);
    }

    struct Stuck(std::sync::mpsc::Receiver<()>);

    impl Work<u32> for Stuck {
        fn work(&mut self, _: Vec<u32>) {
            let _ = self.0.recv();
        }

        fn finish(&mut self) {}
    }

    #[tokio::test(start_paused = true)]
    async fn a_flush_of_a_disk_that_hangs_comes_to_an_end() {
        let (release, held) = std::sync::mpsc::channel();
        let worker = Worker::new("stuck", Stuck(held));
        worker.push(1);
        let begun = tokio::time::Instant::now();
        worker.flush(Duration::from_secs(2)).await;
        assert_eq!(begun.elapsed().as_secs(), 2);
        drop(release);
    }

    #[test]
    fn a_budget_takes_one_thing_that_is_too_large_and_no_second() {
        let budget = Budget::new(10);
        assert!(budget.take(4) && budget.take(6) && !budget.take(1));
        budget.give(10);
        assert!(budget.take(100) && !budget.take(1));
        budget.lose(2);
        budget.lose(1);
        assert_eq!((budget.take_lost(), budget.take_lost()), (3, 0));
    }
}
