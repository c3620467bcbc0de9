//! Many servers at once, of which some are dead and some never answer: what do the others wait for?

use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use bench_client::{Args, Report};
use trunkline::server::State;
use trunkline::{Host, ServerEntry};

use crate::Failure;

/// How often the servers are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What becomes of a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Healthy,
    Dead,
    Hanging,
}

impl Fate {
    /// Of twenty servers two are dead and one hangs, and they are not the last.
    fn of(index: usize) -> Self {
        match index % 20 {
            3 | 12 => Self::Dead,
            7 => Self::Hanging,
            _ => Self::Healthy,
        }
    }
}

/// Half of `args.servers` are commands, half are URLs below that of the command line's last argument. The time is that until all
/// healthy ones are connected; with `only_healthy` there are no others.
pub(crate) async fn run(args: &Args, only_healthy: bool) -> Result<(), Failure> {
    let (command, arguments) = &args.server;
    let [url] = &arguments[..] else {
        return Err("needs a command and a URL".into());
    };
    let url = url.trim_end_matches("/mcp");
    // A port at which nobody listens any more.
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let half = args.servers / 2;
    let local = (0..half).map(|index| {
        let name = format!("local{index}");
        let entry = match Fate::of(index) {
            Fate::Healthy => ServerEntry::stdio(name, command, Vec::<String>::new()),
            Fate::Dead => ServerEntry::stdio(name, "/nowhere/no-such-server", Vec::<String>::new()),
            Fate::Hanging => ServerEntry::stdio(name, command, ["--hang"]),
        };
        (Fate::of(index), entry)
    });
    let remote = (0..half).map(|index| {
        let at = match Fate::of(index) {
            Fate::Healthy => format!("{url}/mcp/{index}"),
            Fate::Dead => format!("http://{closed}/mcp/{index}"),
            Fate::Hanging => format!("{url}/hang/{index}"),
        };
        let name = format!("remote{index}");
        (Fate::of(index), ServerEntry::http(name, at))
    });
    let servers: Vec<_> = local
        .chain(remote)
        .filter(|(fate, _)| !only_healthy || *fate == Fate::Healthy)
        .collect();
    let healthy = servers
        .iter()
        .filter(|(fate, _)| *fate == Fate::Healthy)
        .count();

    let start = Instant::now();
    let entries = servers.into_iter().map(|(_, entry)| entry);
    let host = Host::builder().permit(trunkline::permission::AllowAll).servers(entries).start();
    let connected = || {
        let servers = host.servers();
        let connected = |state: &State| matches!(state, State::Connected(_));
        servers
            .iter()
            .filter(|status| connected(&status.state))
            .count()
    };
    while connected() < healthy {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let report = Report::since(start, healthy);
    let tools = host.pool().tools().len();
    if tools != healthy {
        return Err(format!("expected {healthy} tools, got {tools}").into());
    }
    report.print();
    host.shutdown().await;
    Ok(())
}
