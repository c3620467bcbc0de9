//! A start with the catalogs of an earlier run (LIF-13), which another process has made.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use bench_client::{Args, Report, Scenario};
use serde_json::json;
use trunkline::storage::CatalogStore;
use trunkline::{CallOptions, Host};

use crate::{Failure, server};

/// How often the pool is looked at.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// Leaves catalogs of all servers in a folder of this process's own, whose name is its last line of output.
pub(crate) async fn fill(args: &Args) -> Result<(), Failure> {
    let folder = std::env::temp_dir().join(format!("trunkline-bench-{}", std::process::id()));
    let host = start(args, &folder, false);
    host.ready().await;
    let servers = host.servers();
    let unready = servers
        .iter()
        .find(|status| status.catalog.tools().is_empty());
    if let Some(unready) = unready {
        return Err(format!("{} is not connected: {:?}", unready.name, unready.state).into());
    }
    println!("{}", host.pool().tools().len());
    host.shutdown().await;
    println!("{}", folder.display());
    Ok(())
}

/// The time to a pool with all tools; for `WarmCall`, that of the first call then, of one server.
pub(crate) async fn run(args: &Args) -> Result<(), Failure> {
    let (tools, folder) = filled(args)?;
    let begin = Instant::now();
    let host = start(args, &folder, true);
    while host.pool().tools().len() < tools {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let mut report = Report::since(begin, 1);
    if args.scenario == Scenario::WarmCall {
        let begin = Instant::now();
        let arguments = json!({ "message": "hello" });
        let output = host
            .call("mcp__echo__echo", arguments, CallOptions::new())
            .await?;
        report = Report::since(begin, 1);
        if !output.text().contains("hello") {
            return Err("the echo is not what was sent".into());
        }
    }
    report.print();
    host.shutdown().await;
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

fn start(args: &Args, folder: &PathBuf, lazy: bool) -> Host {
    Host::builder().permit(trunkline::permission::AllowAll)
        .catalogs(CatalogStore::at(folder))
        .lazy(lazy)
        .servers((0..args.servers).map(|index| server::entry(args, index)))
        .start()
}

/// Has another process fill a folder: this one is to start as cold as any program but for that.
fn filled(args: &Args) -> Result<(usize, PathBuf), Failure> {
    let (command, arguments) = &args.server;
    let output = Command::new(std::env::current_exe()?)
        .args(["warm-fill", "--servers", &args.servers.to_string(), "--"])
        .arg(command)
        .args(arguments)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let text = String::from_utf8(output.stdout)?;
    let (tools, folder) = text.trim().split_once('\n').ok_or("no folder")?;
    Ok((tools.parse()?, folder.into()))
}
