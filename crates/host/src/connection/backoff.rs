//! Reconnection delays (LIF-10).

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Number of reconnection attempts.
pub(super) const MAX_ATTEMPTS: u32 = 5;

/// A connection that lasted this long resets the attempt count.
pub(super) const STABLE: Duration = Duration::from_mins(1);

const LONGEST: Duration = Duration::from_secs(30);

/// Returns the delay before `attempt`, counted from 1: `first`, doubled for each attempt, with up
/// to 25 % jitter so that servers lost together do not return together.
pub(super) fn delay(first: Duration, attempt: u32) -> Duration {
    jittered(first, attempt, RandomState::new().build_hasher().finish())
}

fn jittered(first: Duration, attempt: u32, chance: u64) -> Duration {
    let doubled = first.saturating_mul(1 << attempt.saturating_sub(1).min(10));
    let percent = 75 + u32::try_from(chance % 51).unwrap_or(0);
    (doubled.min(LONGEST) * percent / 100).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_limit_with_jitter() {
        let first = Duration::from_secs(1);
        for (attempt, least, most) in [
            (1, 750, 1250),
            (2, 1500, 2500),
            (5, 12_000, 20_000),
            (9, 22_500, 30_000),
        ] {
            assert_eq!(jittered(first, attempt, 0).as_millis(), least);
            assert_eq!(jittered(first, attempt, 50).as_millis(), most);
        }
    }
}
