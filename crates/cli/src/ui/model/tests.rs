//! Update tables.
