//! Puts a host together.

use std::path::PathBuf;
use std::sync::Arc;

use trunkline_config::ServerEntry;

use crate::builtin::Builtin;
use crate::connection::{Elicit, Source};
use crate::eras::EraMemory;
use crate::host::Host;
use crate::settings::Settings;

/// Puts a host together; see [`Host::builder`].
#[derive(Default)]
pub struct HostBuilder {
    pub(crate) sources: Vec<Source>,
    pub(crate) settings: Settings,
    pub(crate) eras: EraMemory,
    pub(crate) elicit: Option<Arc<dyn Elicit>>,
}

impl HostBuilder {
    /// Adds a server. A later one with the same name replaces an earlier one.
    #[must_use]
    pub fn server(mut self, entry: ServerEntry) -> Self {
        self.sources.push(Source::Entry(entry));
        self
    }

    /// Adds several servers.
    #[must_use]
    pub fn servers(self, entries: impl IntoIterator<Item = ServerEntry>) -> Self {
        entries.into_iter().fold(self, Self::server)
    }

    /// Adds a server that lives in this process.
    #[must_use]
    pub fn builtin(mut self, builtin: Builtin) -> Self {
        self.sources.push(Source::Builtin(Arc::new(builtin)));
        self
    }

    /// The numbers to work by.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// The project directory: what servers are told as their root.
    #[must_use]
    pub fn project_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.settings.project_dir = Some(dir.into());
        self
    }

    /// Where to remember each server's protocol era, so that finding it out is paid once.
    #[must_use]
    pub fn eras(mut self, eras: EraMemory) -> Self {
        self.eras = eras;
        self
    }

    /// Who asks the user what a server wants to know. Without it, every such question is answered with "cancel".
    #[must_use]
    pub fn elicit(mut self, elicit: impl Elicit) -> Self {
        self.elicit = Some(Arc::new(elicit));
        self
    }

    /// Starts the host on the current Tokio runtime and returns at once; servers connect in the background.
    pub fn start(self) -> Host {
        Host::start(self)
    }
}
