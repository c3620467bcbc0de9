//! State that a host keeps on disk, if the program asks for it.
//!
//! [`HostBuilder::state_under`](crate::HostBuilder::state_under) keeps all of it below one
//! directory; each store can also be given by itself.

pub use crate::catalog::CatalogStore;
pub use crate::eras::EraMemory;
pub use crate::leftovers::{KeptFiles, Leftover, LeftoverKind, leftovers};
pub use crate::pins::PinStore;
