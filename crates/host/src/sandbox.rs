//! How servers are started in a sandbox (SEC-5).

use std::path::{Path, PathBuf};

use trunkline_config::{Layout, ServerEntry, env_vars};
use trunkline_sandbox::Places;
use trunkline_transport::StdioServer;

pub use trunkline_sandbox::{
    FileUse, LAUNCHER_ARG, Launch, Needs, Observations, Rules, Surroundings, explain,
};

use crate::connection::plain_server;

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

    /// A server in its sandbox; `None` without one. An error means that it must not start.
    pub(crate) fn launch(
        &self,
        entry: &ServerEntry,
        project: Option<&PathBuf>,
    ) -> Result<Option<Launch>, String> {
        let (Some(sandbox), Some(stdio)) = (entry.confined()?, entry.transport.stdio()) else {
            return Ok(None);
        };
        let home = std::env::home_dir().filter(|home| home.is_absolute());
        let home = home.ok_or("there is no home directory; set HOME")?;
        let rules = sandbox.resolve(&self.places(&home, entry, project.map(PathBuf::as_path)))?;
        let plain = plain_server(project, entry, stdio);
        let inherited = |name: &str| {
            let is_withheld = env_vars::secrets().any(|secret| secret == name);
            std::env::var(name).ok().filter(|_| !is_withheld)
        };
        let mut launch = Launch::new(rules, plain.command, plain.args, plain.env, inherited);
        launch.cwd_optional = stdio.cwd.is_none();
        launch.cwd = plain.cwd.or_else(|| std::env::current_dir().ok());
        Ok(Some(launch))
    }

    /// The process that starts a server in its sandbox.
    pub(crate) fn server(&self, launch: &Launch) -> Result<StdioServer, String> {
        if !cfg!(target_os = "linux") {
            let reason = "sandboxes exist on Linux only; remove \"sandbox\" from its entry to run \
                          it without";
            return Err(reason.to_owned());
        }
        let launcher = self.launcher.as_deref().and_then(Path::to_str);
        let launcher = launcher.ok_or(
            "this program names no launcher (HostBuilder::sandbox_launcher), and starts no \
             server that needs one",
        )?;
        Ok(StdioServer {
            command: launcher.to_owned(),
            args: vec![LAUNCHER_ARG.to_owned()],
            env: launch.to_variables().into_iter().collect(),
            // Nothing of the entry may act on the launcher itself.
            env_clear: true,
            ..StdioServer::default()
        })
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
