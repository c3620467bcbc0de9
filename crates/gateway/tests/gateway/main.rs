//! A gateway with real server processes, seen by clients of both eras.

mod eras;
mod isolation;
mod model;
mod profiles;
mod questions;
mod support;
