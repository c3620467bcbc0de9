//! When a token is due for a refresh.

use super::Tokens;

/// The earliest refresh before the expiry, in seconds.
const MAX_MARGIN: u64 = 300;

/// The part of the lifetime in which a token is refreshed early.
const MARGIN_PART: u64 = 5;

/// The moments of a token, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefreshTiming {
    /// From here on the token is refreshed before use.
    pub(crate) refresh_at: u64,
    /// From here on the token is useless.
    pub(crate) expires_at: u64,
}

/// Returns when a token is refreshed: a fifth of its lifetime before it expires, at most five
/// minutes. `jitter`, from 0 to 1, moves it within the second half of that margin, so that
/// processes with the same token do not all come at once. `None` if the token does not expire.
pub(crate) fn refresh_time(tokens: &Tokens, jitter: f64) -> Option<RefreshTiming> {
    let expires_at = tokens.expires_at?;
    let lifetime = expires_at.saturating_sub(tokens.obtained_at);
    let margin = (lifetime / MARGIN_PART).min(MAX_MARGIN);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a few hundred seconds"
    )]
    let moved = (jitter.clamp(0.0, 1.0) * (margin / 2) as f64) as u64;
    Some(RefreshTiming {
        refresh_at: expires_at - margin + moved,
        expires_at,
    })
}

/// Whether a token is due at `now`. A clock that was set back (the token comes from the future)
/// does not make it due: the server decides.
pub(crate) fn is_due(timing: Option<RefreshTiming>, now: u64) -> bool {
    timing.is_some_and(|timing| now >= timing.refresh_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    fn tokens(obtained_at: u64, expires_at: Option<u64>) -> Tokens {
        Tokens {
            access: Secret::new("a"),
            refresh: None,
            id: None,
            dpop_key: None,
            refresh_key: None,
            obtained_at,
            expires_at,
            scopes: Vec::new(),
        }
    }

    #[test]
    fn tokens_are_refreshed_early() {
        // lifetime, jitter, seconds before the expiry
        let cases = [
            (3600, 0.0, 300),
            (3600, 1.0, 150),
            (3600, 0.5, 225),
            (600, 0.0, 120),
            (10, 0.0, 2),
            (1, 0.0, 0),
            (0, 0.0, 0),
            (31_536_000, 0.0, 300),
        ];
        for (lifetime, jitter, early) in cases {
            let timing = refresh_time(&tokens(1000, Some(1000 + lifetime)), jitter).unwrap();
            assert_eq!(
                timing.expires_at - timing.refresh_at,
                early,
                "{lifetime} {jitter}"
            );
        }
        assert_eq!(refresh_time(&tokens(1000, None), 0.0), None);
        // An expiry before the start is no reason to overflow.
        assert!(refresh_time(&tokens(1000, Some(10)), 0.0).is_some());
    }

    #[test]
    fn a_token_is_due_by_the_clock_of_this_machine() {
        let timing = refresh_time(&tokens(10_000, Some(13_600)), 0.0);
        let cases = [
            (10_000, false),
            (13_299, false),
            (13_300, true),
            (13_600, true),
            (20_000, true),
            // The clock was set back by hours.
            (100, false),
        ];
        for (now, due) in cases {
            assert_eq!(is_due(timing, now), due, "{now}");
        }
        assert!(!is_due(None, u64::MAX));
    }
}
