//! Servers in a sandbox (SEC-5): a hostile one tries every way out, and an ordinary one works.

mod escapes;
mod holes;
#[cfg(target_arch = "x86_64")]
mod learn;
mod ordinary;
mod settings;
