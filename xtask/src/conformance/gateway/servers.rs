//! The processes: two servers, and the gateway in front of them.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::sh;

/// The time to print an address.
const START_LIMIT: Duration = Duration::from_secs(30);

const POLL: Duration = Duration::from_millis(20);

/// A server that listens on loopback. It exits when its stdin ends.
pub(super) struct Server {
    pub(super) name: &'static str,
    pub(super) url: String,
    child: Child,
}

/// Copies the servers to where Node finds their packages.
pub(super) fn copy(folder: &Path) -> Result<()> {
    let from = sh::root().join("crates/conformance/server");
    let entries =
        fs::read_dir(&from).with_context(|| format!("could not read {}", from.display()))?;
    for entry in entries.flatten() {
        fs::copy(entry.path(), folder.join(entry.file_name()))
            .with_context(|| format!("could not copy {}", entry.path().display()))?;
    }
    Ok(())
}

impl Server {
    pub(super) fn start(folder: &Path, name: &'static str) -> Result<Self> {
        let mut command = Command::new(folder.join("node_modules/.bin/node"));
        command.arg(folder.join(format!("{name}.mjs")));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("could not start the server {name}"))?;
        let mut url = String::new();
        // It prints its address, or ends.
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut url)?;
        }
        let server = Self {
            name,
            url: url.trim().to_owned(),
            child,
        };
        if server.url.is_empty() {
            bail!("the server {name} did not start");
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// `trunkline serve --http` in front of the servers.
pub(super) struct Gateway {
    pub(super) url: String,
    child: Child,
}

impl Gateway {
    pub(super) fn start(program: &Path, place: &Path, servers: &[Server]) -> Result<Self> {
        let entries: serde_json::Map<String, serde_json::Value> = servers
            .iter()
            .map(|server| {
                let entry = serde_json::json!({"type": "http", "url": server.url});
                (server.name.to_owned(), entry)
            })
            .collect();
        let (config, log, home) = (
            place.join("mcp.json"),
            place.join("gateway.log"),
            place.join("home"),
        );
        fs::write(
            &config,
            serde_json::json!({"mcpServers": entries}).to_string(),
        )
        .context("could not write the gateway's configuration")?;
        fs::create_dir_all(&home).context("could not create the gateway's home")?;
        let mut command = Command::new(program);
        command
            .arg("--mcp-config")
            .arg(&config)
            .args(["--strict-mcp-config", "--no-daemon", "serve"])
            .args(["--http", "127.0.0.1:0"])
            .current_dir(&home)
            .env_clear()
            .env("HOME", &home)
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).context("could not create the gateway's log")?);
        let child = command.spawn().context("could not start the gateway")?;
        let mut gateway = Self {
            url: String::new(),
            child,
        };
        let start = Instant::now();
        while start.elapsed() < START_LIMIT {
            let said = fs::read_to_string(&log).unwrap_or_default();
            let mut words = said.split_whitespace();
            if let Some(url) = words.find(|word| word.starts_with("http://")) {
                url.clone_into(&mut gateway.url);
                return Ok(gateway);
            }
            if gateway.child.try_wait()?.is_some() {
                bail!("the gateway ended: {said}");
            }
            std::thread::sleep(POLL);
        }
        bail!("the gateway does not listen; see {}", log.display())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Its servers are remote: nothing is left.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
