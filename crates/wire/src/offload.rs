//! Runs work on long messages outside the threads of the runtime (CALL-7).

use std::sync::LazyLock;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;

/// Work on more bytes than this leaves the runtime: it would delay every other task.
pub const LONG: usize = 128 * 1024;

/// Leaves cores to the runtime, however many servers send long messages.
static THREADS: LazyLock<Semaphore> = LazyLock::new(|| {
    let cores = available_parallelism().map_or(2, usize::from);
    Semaphore::new((cores / 2).max(1))
});

/// The work panicked, or the runtime is shutting down.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the message could not be processed")]
pub struct OffloadError;

/// Runs `work` on `bytes` bytes of a message: at once if they are few, and otherwise on the
/// blocking pool.
pub async fn offload<T, F>(bytes: usize, work: F) -> Result<T, OffloadError>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    if bytes <= LONG {
        return Ok(work());
    }
    // On the heap: most messages are short.
    Box::pin(run_on_blocking_pool(work)).await
}

async fn run_on_blocking_pool<T, F>(work: F) -> Result<T, OffloadError>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let permit = THREADS.acquire().await.map_err(|_| OffloadError)?;
    let work = move || {
        // Held to the end of the work, even if nobody waits for it any more.
        let _permit = permit;
        work()
    };
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| OffloadError)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn only_long_messages_leave_the_thread() {
        let here = thread::current().id();
        let on = |bytes| offload(bytes, || thread::current().id());
        assert_eq!(on(LONG).await.unwrap(), here);
        assert_ne!(on(LONG + 1).await.unwrap(), here);
    }

    #[tokio::test]
    async fn the_number_of_threads_is_bounded() {
        let limit = THREADS.available_permits();
        let (running, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let jobs = (0..8 * limit).map(|_| {
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            offload(LONG + 1, move || {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                thread::yield_now();
                running.fetch_sub(1, Ordering::SeqCst);
            })
        });
        for outcome in futures_util::future::join_all(jobs).await {
            outcome.unwrap();
        }
        assert!((1..=limit).contains(&most.load(Ordering::SeqCst)));
    }

    #[tokio::test]
    async fn a_panic_is_an_error() {
        assert!(offload(LONG + 1, || panic!("as planned")).await.is_err());
        assert_eq!(offload(LONG + 1, || 7).await.unwrap(), 7);
    }
}
