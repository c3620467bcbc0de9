//! Real children: what they say arrives, what they do is noticed, and nothing of them is left.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "test code"
)]

mod dying;
mod ending;
mod lab;
mod messages;
mod starting;
mod stderr;
