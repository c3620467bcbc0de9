//! One file a command.

pub(crate) mod call;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod list;
pub(crate) mod tools;
