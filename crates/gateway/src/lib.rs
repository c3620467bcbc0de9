//! The host seen as one MCP server: stdio, HTTP and a socket (SPEC chapter 12, GW).
//!
//! The crate is empty so far. It is for the server side of MCP, the isolation of clients from each
//! other, and the mapping of request ids. Whether a tool may be called is decided in
//! `trunkline::Host::call`, for every caller alike.
