//! The host seen as one MCP server: stdio, HTTP and a socket (SPEC chapter 12, GW).
//!
//! Nothing is here yet. What belongs here: the server side of MCP, one client's isolation from another, and
//! the mapping of request ids. What does not: deciding whether a tool may be called, which happens in
//! `trunkline::Host::call` for every caller alike.
