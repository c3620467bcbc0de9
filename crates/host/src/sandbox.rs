//! How servers are started in a sandbox (SEC-5).

use std::path::{Path, PathBuf};

use trunkline_config::{Layout, ServerEntry};
use trunkline_sandbox::{Places, Rules};

/// The user's files of configuration and credentials, which no server sees.
const OWN_FILES: [&str; 5] = [
    ".claude",
    ".claude.json",
    ".config/trunkline",
    ".local/share/trunkline",
    ".local/state/trunkline",
];

/// How a host starts servers in a sandbox.
#[derive(Clone, Debug, Default)]
pub(crate) struct SandboxSetup {
    /// The program that confines itself and becomes the server.
    pub(crate) launcher: Option<PathBuf>,
    /// Where the caches of servers are.
    pub(crate) cache: Option<PathBuf>,
    /// Paths that no server sees.
    pub(crate) hidden: Vec<PathBuf>,
}

impl SandboxSetup {
    /// Hides the files of the configuration, wherever they are.
    pub(crate) fn hide_configuration(&mut self, layout: &Layout) {
        self.hidden.push(layout.global_file.clone());
        self.hidden.push(layout.config_dir.clone());
        self.hidden.push(layout.managed_dir.clone());
    }

    /// The rules of a server; `None` without a sandbox. An error means that it must not start.
    pub(crate) fn rules(
        &self,
        entry: &ServerEntry,
        project: Option<&Path>,
    ) -> Result<Option<Rules>, String> {
        let Some(sandbox) = entry.confined()? else {
            return Ok(None);
        };
        let home = std::env::home_dir().filter(|home| home.is_absolute());
        let home = home.ok_or("there is no home directory; set HOME")?;
        sandbox
            .resolve(&self.places(&home, entry, project))
            .map(Some)
    }

    fn places(&self, home: &Path, entry: &ServerEntry, project: Option<&Path>) -> Places {
        let mut places = Places::new(home);
        if let Some(project) = project {
            places = places.project(project);
        }
        if let Some(cache) = &self.cache {
            // Another server, or another command, has another cache: no server can plant code there
            // that another one runs.
            places = places.cache(cache.join(entry.hash()));
        }
        let own = OWN_FILES.iter().map(|file| home.join(file));
        for hidden in own.chain(self.hidden.iter().cloned()) {
            places = places.hide(hidden);
        }
        places
    }
}
