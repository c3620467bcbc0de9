//! What the example agents share: a user at a terminal, and the way to a model. The agents
//! themselves are in `src/bin`.
#![allow(
    clippy::print_stderr,
    reason = "programs for a terminal talk to their user"
)]

mod model;
mod terminal;

pub use model::{Events, Model, Result, variable};
pub use terminal::Terminal;
