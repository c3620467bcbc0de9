//! Servers in a sandbox (SEC-5): a hostile one tries every way out, and an ordinary one works.

mod escapes;
mod holes;
mod ordinary;
mod settings;
