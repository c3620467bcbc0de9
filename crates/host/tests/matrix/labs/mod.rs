//! One lab for each transport.

pub(crate) mod connector;
pub(crate) mod http;
pub(crate) mod in_process;
pub(crate) mod net;
pub(crate) mod sdk;
pub(crate) mod sse;
pub(crate) mod stdio;
pub(crate) mod ws;
