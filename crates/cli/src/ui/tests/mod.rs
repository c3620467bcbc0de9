//! Tests of the interface as a whole.
