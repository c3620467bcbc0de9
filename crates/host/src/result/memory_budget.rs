//! A memory budget shared by threads.

use std::sync::{Condvar, Mutex, PoisonError};

/// A number of bytes that threads reserve and release.
pub(super) struct MemoryBudget {
    all: u64,
    free: Mutex<u64>,
    freed: Condvar,
    /// Held by the next in line, so that small requests do not overtake large ones.
    next: Mutex<()>,
}

/// Reserved bytes, released on drop.
pub(super) struct ReservedBytes<'r> {
    room: &'r MemoryBudget,
    bytes: u64,
}

impl MemoryBudget {
    pub(super) const fn new(all: u64) -> Self {
        Self {
            all,
            free: Mutex::new(all),
            freed: Condvar::new(),
            next: Mutex::new(()),
        }
    }

    /// Waits until so many bytes are free. A request beyond the budget waits until all are free.
    pub(super) fn take(&self, bytes: u64) -> ReservedBytes<'_> {
        let bytes = bytes.min(self.all);
        let _next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self
            .freed
            .wait_while(free, |free| *free < bytes)
            .unwrap_or_else(PoisonError::into_inner);
        *free -= bytes;
        ReservedBytes { room: self, bytes }
    }
}

impl Drop for ReservedBytes<'_> {
    fn drop(&mut self) {
        let mut free = self
            .room
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *free += self.bytes;
        self.room.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn all_together_never_take_more_than_there_is() {
        static BUDGET: MemoryBudget = MemoryBudget::new(10);
        let taken = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for bytes in [1, 4, 7, 10, 25, 3, 10, 2] {
                let taken = &taken;
                scope.spawn(move || {
                    for _ in 0..100 {
                        let _room = BUDGET.take(bytes);
                        let bytes = bytes.min(10);
                        assert!(taken.fetch_add(bytes, Ordering::SeqCst) + bytes <= 10);
                        std::thread::yield_now();
                        taken.fetch_sub(bytes, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(*BUDGET.free.lock().unwrap(), 10);
    }
}
