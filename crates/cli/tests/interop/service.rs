//! A foreign server on the network: started on a port of its own, ended with everything it has
//! started.

use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use trunkline_testkit::wait_until;

use crate::servers::installed;

/// How long a server may take until it listens.
const LISTENS_WITHIN: Duration = Duration::from_mins(1);

/// A running foreign server.
pub(crate) struct Service {
    child: Child,
    port: u16,
}

impl Service {
    /// server-everything in one of its network modes.
    pub(crate) fn everything(mode: &str) -> Self {
        Self::start(|port| {
            let mut command = node("@modelcontextprotocol/server-everything/dist/index.js");
            command.arg(mode).env("PORT", port.to_string());
            command
        })
    }

    /// supergateway, in front of server-everything on stdio.
    pub(crate) fn supergateway(output: &str) -> Self {
        Self::start(|port| {
            let modules = installed().join("node_modules");
            let node_program = modules.join("node/bin/node");
            let everything = modules.join("@modelcontextprotocol/server-everything/dist/index.js");
            let mut command = node("supergateway/dist/index.js");
            command
                .arg("--stdio")
                .arg(format!(
                    "{} {} stdio",
                    node_program.display(),
                    everything.display()
                ))
                .args(["--outputTransport", output, "--port", &port.to_string()])
                .args(["--logLevel", "none"]);
            command
        })
    }

    /// An example server of the TypeScript SDK.
    pub(crate) fn sdk_example(name: &str) -> Self {
        Self::start(|port| {
            let mut command = node(&format!(
                "@modelcontextprotocol/sdk/dist/esm/examples/server/{name}.js"
            ));
            command
                .env("MCP_PORT", port.to_string())
                .env("PORT", port.to_string());
            command
        })
    }

    /// The TypeScript SDK's server that is protected by its own authorization server.
    pub(crate) fn sdk_example_with_oauth(auth_port: u16) -> Self {
        Self::start(|port| {
            let mut command =
                node("@modelcontextprotocol/sdk/dist/esm/examples/server/simpleStreamableHttp.js");
            command
                .args(["--oauth", "--oauth-strict"])
                .env("MCP_PORT", port.to_string())
                .env("MCP_AUTH_PORT", auth_port.to_string());
            command
        })
    }

    /// `oidc-provider`, and an MCP server that it protects.
    pub(crate) fn oidc_provider(auth_port: u16) -> Self {
        Self::start(|port| {
            let mut command = node_program(&fixture("oidc_provider.mjs"));
            command
                .arg(installed().join("node_modules"))
                .args([port, auth_port].map(|port| port.to_string()));
            command
        })
    }

    /// A program of ours for a foreign Python library, run in one of the environments.
    pub(crate) fn python(environment: &str, program: &str) -> Self {
        Self::start(|port| {
            let mut command = Command::new(installed().join(environment).join("bin/python"));
            command.arg(fixture(program)).arg(port.to_string());
            command
        })
    }

    /// A web site that is a folder.
    pub(crate) fn files(folder: &Path) -> Self {
        Self::start(|port| {
            let mut command = Command::new(installed().join("venv/bin/python"));
            command
                .args(["-m", "http.server", "--bind", "127.0.0.1", "--directory"])
                .arg(folder)
                .arg(port.to_string());
            command
        })
    }

    /// Any other program that listens on a port.
    pub(crate) fn start(command: impl FnOnce(u16) -> Command) -> Self {
        let port = free_port();
        let mut command = command(port);
        let child = command
            .process_group(0)
            .env("HOME", std::env::temp_dir())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut service = Self { child, port };
        wait_until(LISTENS_WITHIN, || {
            let ended = service.child.try_wait().unwrap();
            assert!(ended.is_none(), "{command:?} ended: {ended:?}");
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        service
    }

    pub(crate) fn url(&self, scheme: &str, path: &str) -> String {
        format!("{scheme}://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(group) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// A port that is free now; whoever starts at the same time gets another.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn node(script: &str) -> Command {
    node_program(&installed().join("node_modules").join(script))
}

fn node_program(script: &Path) -> Command {
    let mut command = Command::new(installed().join("node_modules/node/bin/node"));
    command.arg(script);
    command
}

/// A program of ours for a foreign library.
fn fixture(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/interop");
    folder.join(name)
}
