//! Whatever a server sends, and however fast, calls to its neighbours stay quick and deadlines hold
//! (CALL-7).
//!
//! One test per transport, flood and runtime. Quiet calls are timed right before and after the
//! flooded ones, so a slow machine slows down both.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unnecessary_wraps,
    reason = "a test's helpers fail the test by panicking and print figures; all transports begin in one way"
)]

mod bench;
mod http;
mod sdk;
mod stdio;
mod text;
mod ws;

mod http_post {
    pub(crate) use crate::http::start_post as start;
}

mod sse {
    pub(crate) use crate::http::start_sse as start;
}

use bench::{Runtime, check};

/// Generates two tests per flood and transport, one per runtime.
macro_rules! floods {
    ($($transport:ident => $($kind:ident)*;)*) => {
        $(mod $transport {
            $(mod $kind {
                #[test]
                fn on_one_thread() {
                    crate::check(crate::$transport::start, crate::text::$kind, crate::Runtime::OneThread);
                }

                #[test]
                fn on_two_threads() {
                    crate::check(crate::$transport::start, crate::text::$kind, crate::Runtime::TwoThreads);
                }
            })*
        })*
    };
}

mod over {
    //! The table.
    floods! {
        stdio => junk long_junk blank notifications logs list_changed pings unknown_answers unknown_progress batches stderr;
        http => junk blank notifications list_changed pings unknown_answers comments retries tiny_events
            byte_chunks gzip_comments gzip_events gzip_empty;
        http_post => junk notifications comments byte_chunks gzip_events;
        sse => junk notifications pings comments byte_chunks gzip_events;
        ws => junk notifications list_changed pings unknown_answers ws_pings ws_empty ws_fragments;
        sdk => junk blank notifications pings;
    }
}
