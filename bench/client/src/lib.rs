//! What the Rust benchmark programs share: the command line, the clock and the report line.
//!
//! Every client, in whatever language, is a program
//! `<client> [--pooled] <scenario> --n N [--payload BYTES] [--inflight K] [--servers S] -- <server> [args…]`
//! (`<server>` is a command, or the URL of one that runs already)
//! that prints one JSON line (see [`Report`]). Nothing here may cost time inside a measured loop.
#![forbid(unsafe_code)]

use std::time::Instant;

/// What a program is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// One call after another.
    Sequential,
    /// The same with the token of a stored sign-in; ours alone.
    SignedIn,
    /// `inflight` calls at any time.
    Inflight,
    /// Connect and fetch a long tool list.
    List,
    /// Connect to and list `servers` servers at once.
    Connect,
    /// Connect, call once, leave; the harness times the whole process.
    Oneshot,
    /// Load a tree of configuration files with `n` servers in all scopes but the enterprise's; ours alone.
    Load,
    /// Load the enterprise's file with `n` servers; ours alone.
    LoadEnterprise,
    /// Connect to `servers` servers at once, of which some are dead and some hang; ours alone.
    Mixed,
    /// The same without those; ours alone.
    MixedHealthy,
    /// Leave catalogs of `servers` servers on disk; ours alone.
    WarmFill,
    /// To a pool with the tools of `servers` servers, from catalogs on disk; ours alone.
    Warm,
    /// The first call after that; ours alone.
    WarmCall,
    /// From the raw lists of `servers` servers to a pool of `n` tools; ours alone.
    Pool,
    /// One of those servers has another list; ours alone.
    PoolChange,
    /// A search among those tools; ours alone.
    Search,
    /// Reading those lists, and nothing more; ours alone.
    Decode,
    /// Sanitising what is in them; ours alone.
    Sanitize,
    /// A text of `payload` bytes from the server to a file; ours alone.
    Save,
    /// The same by `cat`.
    Cat,
    /// An image of twelve megapixels, made to fit; ours alone.
    Fit,
}

/// The parsed command line.
#[derive(Debug, Clone)]
pub struct Args {
    pub scenario: Scenario,
    /// Calls to measure; for `list` the number of tools to expect, for `connect` the least that each server has.
    pub n: usize,
    /// Bytes of text sent and expected back.
    pub payload: usize,
    pub inflight: usize,
    pub servers: usize,
    /// Use a multi-threaded runtime.
    pub multi: bool,
    /// Keep connections open, where the program has the choice.
    pub pooled: bool,
    /// The server's command and its arguments, or its URL alone.
    pub server: (String, Vec<String>),
}

impl Args {
    /// Reads the process's arguments.
    ///
    /// # Errors
    /// Says which argument is missing or wrong.
    pub fn from_env() -> Result<Self, String> {
        let mut args = std::env::args().skip(1).peekable();
        let pooled = args.next_if(|first| first == "--pooled").is_some();
        let scenario = match args.next().as_deref() {
            Some("sequential") => Scenario::Sequential,
            Some("signed-in") => Scenario::SignedIn,
            Some("inflight") => Scenario::Inflight,
            Some("list") => Scenario::List,
            Some("connect") => Scenario::Connect,
            Some("oneshot") => Scenario::Oneshot,
            Some("load") => Scenario::Load,
            Some("load-enterprise") => Scenario::LoadEnterprise,
            Some("mixed") => Scenario::Mixed,
            Some("mixed-healthy") => Scenario::MixedHealthy,
            Some("warm-fill") => Scenario::WarmFill,
            Some("warm") => Scenario::Warm,
            Some("warm-call") => Scenario::WarmCall,
            Some("pool") => Scenario::Pool,
            Some("pool-change") => Scenario::PoolChange,
            Some("search") => Scenario::Search,
            Some("decode") => Scenario::Decode,
            Some("sanitize") => Scenario::Sanitize,
            Some("save") => Scenario::Save,
            Some("cat") => Scenario::Cat,
            Some("fit") => Scenario::Fit,
            other => return Err(format!("unknown scenario {other:?}")),
        };
        let (mut n, mut payload, mut inflight, mut servers, mut multi) = (1, 100, 64, 1, false);
        loop {
            let flag = args
                .next()
                .ok_or("no server command: end with `-- <server> [args…]`")?;
            let target = match flag.as_str() {
                "--" => break,
                "--multi" => {
                    multi = true;
                    continue;
                }
                "--n" => &mut n,
                "--payload" => &mut payload,
                "--inflight" => &mut inflight,
                "--servers" => &mut servers,
                other => return Err(format!("unknown flag {other}")),
            };
            let value = args.next().ok_or(format!("{flag} needs a value"))?;
            *target = value
                .parse()
                .map_err(|_| format!("{flag}: {value:?} is not a number"))?;
        }
        let command = args.next().ok_or("no server command after `--`")?;
        Ok(Self {
            scenario,
            n,
            payload,
            inflight,
            servers,
            multi,
            pooled,
            server: (command, args.collect()),
        })
    }

    /// Calls made before the clock starts, so that caches, pipes and (elsewhere) the JIT are warm.
    #[must_use]
    pub fn warm_up(&self) -> usize {
        (self.n / 5).max(1)
    }

    /// The text every call sends.
    #[must_use]
    pub fn text(&self) -> String {
        "x".repeat(self.payload)
    }
}

/// The one line a program prints.
#[derive(Debug, Default)]
pub struct Report {
    /// What the scenario measures.
    pub seconds: f64,
    /// Operations in that time.
    pub calls: usize,
    /// Time to a finished handshake, where the program can tell it apart.
    pub connect_seconds: Option<f64>,
}

impl Report {
    /// `calls` operations since `start`.
    #[must_use]
    pub fn since(start: Instant, calls: usize) -> Self {
        Self {
            seconds: start.elapsed().as_secs_f64(),
            calls,
            connect_seconds: None,
        }
    }

    /// Adds the time of the handshake.
    #[must_use]
    pub fn connected_in(mut self, seconds: f64) -> Self {
        self.connect_seconds = Some(seconds);
        self
    }

    /// Prints the line, with the process's peak memory so far.
    pub fn print(&self) {
        let connect = self
            .connect_seconds
            .map_or_else(|| "null".to_owned(), |s| s.to_string());
        println!(
            r#"{{"seconds":{},"calls":{},"connectSeconds":{connect},"peakRssKb":{}}}"#,
            self.seconds,
            self.calls,
            peak_rss_kb().map_or_else(|| "null".to_owned(), |kb| kb.to_string()),
        );
    }
}

/// `VmHWM` of this process; children are not counted.
fn peak_rss_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
