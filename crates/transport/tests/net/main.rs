//! Real sockets: how servers are reached, and what is said when they are not.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "test code"
)]

#[path = "../lab/mod.rs"]
mod lab;

mod echo;
mod identity;
mod proxies;
mod socks;
mod tcp;
mod trust;
