//! UTC timestamps of fixed width in milliseconds, which sort as text.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

/// Length of a timestamp.
pub(super) const STAMP_LEN: usize = "2026-11-16T02:03:04.567Z".len();

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// Formats a time per RFC 3339. Times before 1970 become 1970.
pub(crate) fn stamp(time: SystemTime) -> String {
    thread_local! {
        /// The last second, as text.
        static LAST: RefCell<(u64, String)> = const { RefCell::new((u64::MAX, String::new())) };
    }
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    LAST.with_borrow_mut(|(second, text)| {
        if *second != since.as_secs() {
            *text = seconds_stamp(since.as_secs());
            *second = since.as_secs();
        }
        format!("{text}.{:03}Z", since.subsec_millis())
    })
}

/// The time without its fraction.
fn seconds_stamp(since: u64) -> String {
    let (mut days, seconds) = (since / SECONDS_PER_DAY, since % SECONDS_PER_DAY);
    let mut year = 1970;
    while days >= days_in_year(year) {
        days -= days_in_year(year);
        year += 1;
    }
    let february = days_in_year(year) - 337;
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!(
        "{year:04}-{month:02}-{:02}T{:02}:{:02}:{:02}",
        days + 1,
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

fn days_in_year(year: u64) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    365 + u64::from(leap)
}

/// Returns whether a text has the form of a timestamp.
pub(super) fn is_stamp(text: &str) -> bool {
    let shape = b"0000-00-00T00:00:00.000Z";
    let text = text.as_bytes();
    text.len() == STAMP_LEN
        && text.iter().zip(shape).all(|(found, wanted)| {
            found == wanted || (found.is_ascii_digit() && wanted.is_ascii_digit())
        })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn timestamps_are_utc() {
        for (milliseconds, written) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_735_689_599_000, "2024-12-31T23:59:59.000Z"),
            (1_794_794_584_567, "2026-11-16T02:03:04.567Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            let time = UNIX_EPOCH + Duration::from_millis(milliseconds);
            assert_eq!(stamp(time), written);
            assert!(is_stamp(written));
        }
        assert!(!is_stamp("2026-11-16 02:03:04.567Z"));
        assert!(!is_stamp("2026-11-16T02:03:04Z"));
    }
}
