//! `cargo xtask bench`: Trunkline against other MCP clients, as ratios in one interleaved run.
//!
//! Every client is a program with one common command line (`bench/client/src/lib.rs` documents it; the sources are under
//! `bench/`), so the same harness runs them all, pinned to one core and free. Absolute figures depend on the machine;
//! the ratios of one run judge. A client that cannot be installed, built or run is shown with the reason and
//! never ends the run.
//!
//! - [`roster`] says who takes part and how each [`clients::Client`] is called; [`install`] brings them into `target/bench`.
//! - [`scenarios`] lists what is measured, with the targets; [`measure`] runs it; [`process`] runs one program,
//!   [`served`] the server it talks to over a socket, [`real`] those of others.
//! - [`noise`] notices other work on the machine; [`callgrind`] counts instructions, which does not mind it.
//! - [`verdict`] judges; [`table`] and [`results`] show and store.

mod callgrind;
mod clients;
mod install;
mod measure;
mod noise;
mod process;
mod real;
mod results;
mod roster;
mod scenarios;
mod served;
mod table;
mod verdict;

use std::path::PathBuf;

use anyhow::Context as _;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Fewer rounds and calls: a look in about a minute, not a judgement
    #[arg(long)]
    quick: bool,
    /// Only scenarios whose name starts with one of these (sequential, inflight, list, connect, oneshot, servers, load, http, ws, mixed, everything, real, warm, pool, search, decode, sanitize, large, image, callgrind)
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    only: Vec<String>,
    /// Use the peers that are there; download nothing
    #[arg(long)]
    no_install: bool,
    /// Only these peers (rmcp, rmcp-pooled, ts1, ts2, python, limit, mcporter, inspector, claude-code); trunkline always runs
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    peers: Vec<String>,
}

/// The folders of a run.
struct Layout {
    /// The workspace.
    root: PathBuf,
    /// `target/bench`: everything the benchmark installs, builds and writes.
    out: PathBuf,
}

impl Layout {
    fn new() -> anyhow::Result<Self> {
        let root = crate::sh::root();
        let out = root.join("target/bench");
        for folder in ["home", "tmp", "logs"] {
            std::fs::create_dir_all(out.join(folder))
                .with_context(|| format!("cannot create a folder in {}", out.display()))?;
        }
        Ok(Self { root, out })
    }

    /// The source folder of a client.
    fn source(&self, name: &str) -> PathBuf {
        self.root.join("bench").join(name)
    }
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let layout = Layout::new()?;
    let scenarios = scenarios::selected(options.quick, &options.only);
    let instructions = callgrind::selected(&options.only);
    anyhow::ensure!(
        !scenarios.is_empty() || instructions,
        "no scenario starts with {:?}; there are {} and callgrind",
        options.only.join(","),
        scenarios::names(),
    );
    clients::check_names(&options.peers)?;

    let bench = roster::assemble(&layout, options, &scenarios)?;
    let outcome = measure::all(
        &layout,
        &bench,
        &scenarios,
        if options.quick { 2 } else { 5 },
    );
    let counts = if instructions {
        callgrind::all(&layout, &bench, options.quick)
    } else {
        Vec::new()
    };

    table::print(&bench, &scenarios, &outcome, &counts);
    let path = results::write(&layout, options, &bench, &scenarios, &outcome, &counts)?;
    println!("\nall samples: {}", path.display());
    Ok(())
}
