//! State that a host keeps on disk, if the program asks for it.

pub use crate::catalog::CatalogStore;
pub use crate::eras::EraMemory;
pub use crate::leftovers::{KeptFiles, Leftover, LeftoverKind, leftovers};
pub use crate::pins::PinStore;
