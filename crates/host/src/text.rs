//! Text written by servers, made safe to show to a model or in a terminal.

pub use crate::harmless::{harmless, harmless_with, is_harmful};
pub use crate::sanitize::{
    MAX_SHOWN, Removed, one_line, sanitize, sanitize_json, sanitize_value, shown,
};
pub use trunkline_config::nearest;
