//! One file per command, or per few that belong together.

pub(crate) mod add;
pub(crate) mod approve;
pub(crate) mod call;
pub(crate) mod completions;
pub(crate) mod context;
pub(crate) mod demo;
pub(crate) mod enable;
pub(crate) mod get;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod prompt;
pub(crate) mod prompts;
pub(crate) mod read;
pub(crate) mod remove;
pub(crate) mod resources;
pub(crate) mod result;
pub(crate) mod sdk;
pub(crate) mod search;
pub(crate) mod status;
pub(crate) mod tool;
pub(crate) mod tool_json;
pub(crate) mod tools;
pub(crate) mod wanted;
