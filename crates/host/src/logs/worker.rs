//! A thread that writes, so callers never wait for the disk.
//!
//! Callers reserve space in a [`Budget`] first. Records that do not fit are counted and dropped: a
//! slow disk loses lines but costs neither memory nor time.

use std::mem;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

/// Writes batches of records on the thread.
pub(crate) trait BatchWriter<T>: Send + 'static {
    /// Writes records in order.
    fn write_batch(&mut self, records: Vec<T>);

    /// Writes everything that is buffered.
    fn flush(&mut self);
}

/// A thread with a queue, started by the first record. When dropped, the thread writes the
/// remaining records and ends.
pub(crate) struct Worker<T: Send + 'static> {
    name: &'static str,
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    queue: Mutex<Queue<T>>,
    wakeup: Condvar,
}

struct Queue<T> {
    records: Vec<T>,
    flushes: Vec<oneshot::Sender<()>>,
    /// The writer, until the thread starts.
    writer: Option<Box<dyn BatchWriter<T>>>,
    /// Whether the thread could not be started.
    spawn_failed: bool,
    closed: bool,
}

impl<T: Send + 'static> Worker<T> {
    pub(crate) fn new(name: &'static str, writer: impl BatchWriter<T>) -> Self {
        let queue = Queue {
            records: Vec::new(),
            flushes: Vec::new(),
            writer: Some(Box::new(writer)),
            spawn_failed: false,
            closed: false,
        };
        let shared = Shared {
            queue: Mutex::new(queue),
            wakeup: Condvar::new(),
        };
        Self {
            name,
            shared: Arc::new(shared),
        }
    }

    /// Queues a record, whose size must be reserved in its budget.
    pub(crate) fn push(&self, record: T) {
        let mut queue = self.shared.lock();
        if let Some(writer) = queue.writer.take() {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name(self.name.to_owned());
            queue.spawn_failed = thread.spawn(move || shared.run(writer)).is_err();
        }
        if queue.spawn_failed {
            return;
        }
        queue.records.push(record);
        if queue.records.len() == 1 {
            self.shared.wakeup.notify_one();
        }
    }

    /// Waits until all queued records are written, at most for `limit`.
    pub(crate) async fn flush(&self, limit: Duration) {
        let (done, flushed) = oneshot::channel();
        {
            let mut queue = self.shared.lock();
            if queue.writer.is_some() || queue.spawn_failed {
                return;
            }
            queue.flushes.push(done);
            self.shared.wakeup.notify_one();
        }
        let _ = tokio::time::timeout(limit, flushed).await;
    }
}

impl<T: Send + 'static> Drop for Worker<T> {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.wakeup.notify_one();
    }
}

impl<T: 'static> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut writer: Box<dyn BatchWriter<T>>) {
        loop {
            let (records, flushes, closed) = {
                let mut queue = self.lock();
                while queue.records.is_empty() && queue.flushes.is_empty() && !queue.closed {
                    queue = self
                        .wakeup
                        .wait(queue)
                        .unwrap_or_else(PoisonError::into_inner);
                }
                (
                    mem::take(&mut queue.records),
                    mem::take(&mut queue.flushes),
                    queue.closed,
                )
            };
            writer.write_batch(records);
            if closed || !flushes.is_empty() {
                writer.flush();
            }
            for flush in flushes {
                let _ = flush.send(());
            }
            if closed {
                return;
            }
        }
    }
}

/// Bounds the queued bytes and counts dropped records.
pub(crate) struct Budget {
    limit: usize,
    used: AtomicUsize,
    lost: AtomicU64,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            used: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
        }
    }

    /// Reserves bytes. An oversized record is admitted if nothing else is queued.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let took = self
            .used
            .try_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                let after = used.saturating_add(bytes);
                (used == 0 || after <= self.limit).then_some(after)
            });
        took.is_ok()
    }

    /// Reserves bytes beyond the limit.
    pub(crate) fn overdraw(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Releases bytes.
    pub(crate) fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts dropped records.
    pub(crate) fn count_lost(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns the number of dropped records since the last call.
    pub(crate) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct RecordingWriter(Arc<Mutex<Vec<String>>>);

    impl BatchWriter<u32> for RecordingWriter {
        fn write_batch(&mut self, records: Vec<u32>) {
            let mut written = self.0.lock().unwrap();
            written.extend(records.iter().map(u32::to_string));
        }

        fn flush(&mut self) {
            self.0.lock().unwrap().push("finished".to_owned());
        }
    }

    #[tokio::test]
    async fn flush_waits_for_earlier_records() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let worker = Worker::new("written", RecordingWriter(Arc::clone(&written)));
        // Without records there is no thread to wait for.
        worker.flush(Duration::from_secs(20)).await;
        for number in 0..3 {
            worker.push(number);
        }
        worker.flush(Duration::from_secs(20)).await;
        assert_eq!(*written.lock().unwrap(), ["0", "1", "2", "finished"]);
    }

    struct BlockedWriter(std::sync::mpsc::Receiver<()>);

    impl BatchWriter<u32> for BlockedWriter {
        fn write_batch(&mut self, _: Vec<u32>) {
            let _ = self.0.recv();
        }

        fn flush(&mut self) {}
    }

    #[tokio::test(start_paused = true)]
    async fn flush_times_out_when_the_disk_hangs() {
        let (release, held) = std::sync::mpsc::channel();
        let worker = Worker::new("stuck", BlockedWriter(held));
        worker.push(1);
        let begun = tokio::time::Instant::now();
        worker.flush(Duration::from_secs(2)).await;
        assert_eq!(begun.elapsed().as_secs(), 2);
        drop(release);
    }

    #[test]
    fn budget_admits_one_oversized_record() {
        let budget = Budget::new(10);
        assert!(budget.take(4) && budget.take(6) && !budget.take(1));
        budget.release(10);
        assert!(budget.take(100) && !budget.take(1));
        budget.count_lost(2);
        budget.count_lost(1);
        assert_eq!((budget.take_lost(), budget.take_lost()), (3, 0));
    }
}
