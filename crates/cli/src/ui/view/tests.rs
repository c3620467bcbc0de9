//! Snapshots of screens.
