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

mod http_results {
    pub(crate) use crate::http::start_results as start;
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
        stdio => junk long_junk blank notifications logs list_changed pings unknown_answers unknown_progress batches stderr
            medium_notifications large_notifications large_nested large_escapes large_logs large_progress large_updates
            large_batches large_elicitations large_answers large_junk
            medium_results large_results structured_results block_results many_tools large_tools;
        http => junk blank notifications list_changed pings unknown_answers comments retries tiny_events
            byte_chunks gzip_comments gzip_events gzip_empty large_notifications large_batches large_junk;
        http_results => large_results structured_results block_results;
        http_post => junk notifications comments byte_chunks gzip_events;
        sse => junk notifications pings comments byte_chunks gzip_events;
        ws => junk notifications list_changed pings unknown_answers ws_pings ws_empty ws_fragments large_notifications large_batches;
        sdk => junk blank notifications pings large_notifications large_batches;
    }
}
