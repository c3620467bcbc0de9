//! The usual causes of failures: pure functions from evidence to a [`Diagnosis`].
//!
//! [`Diagnosis`]: super::diagnosis::Diagnosis

pub(super) mod auth;
pub(super) mod dial;
pub(super) mod http;
mod node;
mod package;
pub(super) mod process;
pub(super) mod program;
