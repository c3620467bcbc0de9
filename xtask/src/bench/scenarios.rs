//! What is measured, and the targets each figure is held to.

use super::clients::{EARLIER, OURS, POOLED};
use super::real;

/// What a client program is asked to do: the first word of its command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Sequential,
    /// The same with the token of a stored sign-in.
    SignedIn,
    Inflight,
    List,
    Connect,
    Oneshot,
    /// The program's own `list`, as a whole process, against others that only connect.
    Servers,
    /// Loading configuration in the process, from all scopes but the enterprise's.
    Load,
    /// Loading configuration in the process, from the enterprise's file.
    LoadEnterprise,
    /// Connecting to many servers, of which some are dead and some hang; until the others are usable.
    Mixed,
    /// The same servers without the dead and the hanging.
    MixedHealthy,
    /// To a pool with all tools from the catalogs of an earlier run.
    Warm,
    /// The first call after that, which starts the server.
    WarmCall,
    /// From raw tool lists to a pool, in the process.
    Pool,
    /// Another list of one server, into the same pool.
    PoolChange,
    /// A search among the tools of that pool.
    Search,
    /// Reading those lists, without making a pool.
    Decode,
    /// Sanitising what is in them.
    Sanitize,
    /// A large text from a server to its file.
    Save,
    /// The same by `cat`, run by our client so that it is the same pipe.
    Cat,
    /// A large image, made to fit.
    Fit,
}

/// What a server is reached over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    /// Its pipes: each client starts its own.
    Stdio,
    /// Streamable HTTP on loopback.
    Http,
    /// A WebSocket on loopback.
    Ws,
}

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    /// `testkit-echo`.
    Echo,
    /// server-everything on Node, which takes as long to start as real servers do.
    Everything,
    /// Servers from the registries, each another.
    Real,
}

/// One row of the benchmark.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) kind: Kind,
    pub(super) wire: Wire,
    pub(super) server: Server,
    /// Calls to measure (`sequential`, `inflight`), tools to list, or servers to load.
    pub(super) n: usize,
    /// Bytes of text in a call.
    pub(super) payload: usize,
    pub(super) servers: usize,
    /// Runs of each client in a round; slow clients get at most two.
    pub(super) samples: usize,
    pub(super) targets: &'static [Target],
}

/// What a figure, pinned, must reach.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target {
    /// At least this many times as fast as the client.
    Faster(&'static str, f64),
    /// At most this many times the client's time.
    Within(&'static str, f64),
    /// Our peak memory in MB.
    PeakMb(f64),
    /// Our time in milliseconds.
    Ms(f64),
    /// For each of `n`, at most this many times what the other scenario, of so many, takes for each.
    Linear(&'static str, usize, f64),
    /// At least this many times our calls a second, or at most this many times our time, in the other scenario.
    Beside(&'static str, f64),
    /// At most so many TCP connections of ours.
    Connections(f64),
}

impl Target {
    /// The client in whose row it is shown.
    pub(super) fn client(self) -> &'static str {
        match self {
            Self::Faster(client, _) | Self::Within(client, _) => client,
            Self::PeakMb(_)
            | Self::Ms(_)
            | Self::Linear(..)
            | Self::Beside(..)
            | Self::Connections(_) => OURS,
        }
    }
}

impl Kind {
    /// The word on the command line.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::SignedIn => "signed-in",
            Self::Inflight => "inflight",
            Self::List => "list",
            Self::Connect | Self::Servers => "connect",
            Self::Oneshot => "oneshot",
            Self::Load => "load",
            Self::LoadEnterprise => "load-enterprise",
            Self::Mixed => "mixed",
            Self::MixedHealthy => "mixed-healthy",
            Self::Warm => "warm",
            Self::WarmCall => "warm-call",
            Self::Pool => "pool",
            Self::PoolChange => "pool-change",
            Self::Search => "search",
            Self::Decode => "decode",
            Self::Sanitize => "sanitize",
            Self::Save => "save",
            Self::Cat => "cat",
            Self::Fit => "fit",
        }
    }

    /// Whether the figure is calls a second (more is better) or milliseconds (less is better).
    pub(super) fn is_rate(self) -> bool {
        matches!(self, Self::Sequential | Self::SignedIn | Self::Inflight)
    }

    /// Whether nobody but we can do it.
    pub(super) fn is_ours_alone(self) -> bool {
        matches!(
            self,
            Self::SignedIn
                | Self::Load
                | Self::LoadEnterprise
                | Self::Mixed
                | Self::MixedHealthy
                | Self::Warm
                | Self::WarmCall
                | Self::Pool
                | Self::PoolChange
                | Self::Search
                | Self::Decode
                | Self::Sanitize
                | Self::Save
                | Self::Cat
                | Self::Fit
        )
    }

    /// Whether the client gets a command to start and the URL of a running server as well.
    pub(super) fn is_mixed(self) -> bool {
        matches!(self, Self::Mixed | Self::MixedHealthy)
    }

    pub(super) fn unit(self) -> &'static str {
        if self.is_rate() { "calls/s" } else { "ms" }
    }
}

/// Calls kept in flight.
pub(super) const INFLIGHT: usize = 64;

const BASE: Scenario = Scenario {
    name: "",
    title: "",
    kind: Kind::Sequential,
    wire: Wire::Stdio,
    server: Server::Echo,
    n: 1,
    payload: 100,
    servers: 1,
    samples: 1,
    targets: &[],
};

const LOAD: Scenario = Scenario {
    kind: Kind::Load,
    samples: 3,
    ..BASE
};

const HTTP: Scenario = Scenario {
    wire: Wire::Http,
    ..BASE
};

const WS: Scenario = Scenario {
    wire: Wire::Ws,
    ..BASE
};

const EVERYTHING: Scenario = Scenario {
    server: Server::Everything,
    kind: Kind::Connect,
    ..BASE
};

/// As many tools as nobody has, from as many servers as some have.
const TOOLS: Scenario = Scenario {
    n: 10_000,
    servers: 50,
    samples: 3,
    ..BASE
};

/// How much more a server may cost among many than among few: caches are smaller than two thousand servers.
const LINEAR: f64 = 1.25;

/// Servers of all fates; 15 % of them are not healthy.
const MIXED: usize = 200;

/// Text that is too much for any model.
const LARGE: Scenario = Scenario {
    payload: 50_000_000,
    samples: 2,
    ..BASE
};

const ALL: [Scenario; 35] = [
    Scenario {
        name: "sequential-100",
        title: "stdio sequential, 100 B",
        n: 20_000,
        targets: &[Target::Faster("rmcp", 1.8), Target::Faster("ts1", 2.8)],
        ..BASE
    },
    Scenario {
        name: "sequential-100k",
        title: "stdio sequential, 100 KB",
        n: 2_000,
        payload: 100_000,
        targets: &[Target::Faster("rmcp", 1.5), Target::Faster("ts1", 1.5)],
        ..BASE
    },
    Scenario {
        name: "inflight-64",
        title: "stdio, 64 in flight, 100 B",
        kind: Kind::Inflight,
        n: 64_000,
        targets: &[Target::Faster("rmcp", 3.5), Target::Faster("ts1", 6.0)],
        ..BASE
    },
    Scenario {
        name: "list-10000",
        title: "connect and list 10,000 tools, first time",
        kind: Kind::List,
        n: 10_000,
        samples: 2,
        targets: &[
            Target::Faster("rmcp", 3.0),
            Target::Faster("ts1", 6.0),
            Target::PeakMb(60.0),
        ],
        ..BASE
    },
    Scenario {
        name: "connect-1",
        title: "connect and list 1 server",
        kind: Kind::Connect,
        samples: 5,
        ..BASE
    },
    Scenario {
        name: "connect-10",
        title: "connect and list 10 servers",
        kind: Kind::Connect,
        servers: 10,
        samples: 3,
        ..BASE
    },
    Scenario {
        name: "connect-50",
        title: "connect and list 50 servers",
        kind: Kind::Connect,
        servers: 50,
        samples: 3,
        targets: &[Target::Within("limit", 1.1), Target::PeakMb(8.0)],
        ..BASE
    },
    Scenario {
        name: "oneshot",
        title: "one-shot call, whole process",
        kind: Kind::Oneshot,
        samples: 10,
        targets: &[
            Target::Within("rmcp", 2.0),
            Target::Faster("mcporter", 40.0),
        ],
        ..BASE
    },
    Scenario {
        name: "servers-30",
        title: "`trunkline list` of 30 servers, whole process; others only connect",
        kind: Kind::Servers,
        servers: 30,
        samples: 5,
        targets: &[Target::Faster(EARLIER, 5.0)],
        ..BASE
    },
    Scenario {
        name: "load-250",
        title: "load 250 servers",
        n: 250,
        ..LOAD
    },
    Scenario {
        name: "load-500",
        title: "load 500 servers",
        n: 500,
        targets: &[Target::Linear("load-250", 250, LINEAR)],
        ..LOAD
    },
    Scenario {
        name: "load-1000",
        title: "load 1,000 servers, 6 scopes, 100 rules",
        n: 1_000,
        targets: &[Target::Ms(10.0), Target::Linear("load-250", 250, LINEAR)],
        ..LOAD
    },
    Scenario {
        name: "load-2000",
        title: "load 2,000 servers",
        n: 2_000,
        targets: &[Target::Linear("load-250", 250, LINEAR)],
        ..LOAD
    },
    Scenario {
        name: "load-enterprise-1000",
        title: "load 1,000 servers of the enterprise scope",
        n: 1_000,
        kind: Kind::LoadEnterprise,
        targets: &[Target::Ms(10.0)],
        ..LOAD
    },
    Scenario {
        name: "http-sequential-100b",
        title: "Streamable HTTP sequential, 100 B",
        n: 10_000,
        targets: &[Target::Connections(1.0), Target::Faster(POOLED, 1.8)],
        ..HTTP
    },
    Scenario {
        name: "http-signed-in-100b",
        title: "Streamable HTTP sequential with a token, 100 B",
        kind: Kind::SignedIn,
        n: 10_000,
        targets: &[Target::Beside("http-sequential-100b", 0.95)],
        ..HTTP
    },
    Scenario {
        name: "http-sequential-100kb",
        title: "Streamable HTTP sequential, 100 KB",
        n: 1_000,
        payload: 100_000,
        targets: &[Target::Connections(1.0)],
        ..HTTP
    },
    Scenario {
        name: "http-inflight-64",
        title: "Streamable HTTP, 64 in flight, 100 B",
        kind: Kind::Inflight,
        n: 32_000,
        targets: &[Target::Faster(POOLED, 2.0), Target::Faster("ts1", 15.0)],
        ..HTTP
    },
    Scenario {
        name: "ws-sequential-100b",
        title: "WebSocket sequential, 100 B",
        n: 10_000,
        targets: &[Target::Beside("http-sequential-100b", 1.0)],
        ..WS
    },
    Scenario {
        name: "ws-inflight-64",
        title: "WebSocket, 64 in flight, 100 B",
        kind: Kind::Inflight,
        n: 64_000,
        targets: &[Target::Beside("http-inflight-64", 1.0)],
        ..WS
    },
    Scenario {
        name: "mixed-170",
        title: "170 healthy servers, half of them HTTP",
        kind: Kind::MixedHealthy,
        servers: MIXED,
        samples: 3,
        ..BASE
    },
    Scenario {
        name: "mixed-200",
        title: "the same 170 among 20 dead and 10 hanging ones",
        kind: Kind::Mixed,
        servers: MIXED,
        samples: 3,
        targets: &[Target::Beside("mixed-170", 1.2)],
        ..BASE
    },
    Scenario {
        name: "everything-1",
        title: "connect and list 1 server-everything",
        samples: 2,
        ..EVERYTHING
    },
    Scenario {
        name: "everything-10",
        title: "connect and list 10 server-everything",
        servers: 10,
        ..EVERYTHING
    },
    Scenario {
        name: "real-24",
        title: "connect and list 24 real servers; the limit is three at a time or all at once",
        kind: Kind::Connect,
        server: Server::Real,
        servers: real::COUNT,
        targets: &[Target::Within("limit", 1.05)],
        ..BASE
    },
    Scenario {
        name: "warm-10",
        title: "tools of 10 server-everything from the last run",
        kind: Kind::Warm,
        servers: 10,
        samples: 2,
        targets: &[Target::Ms(20.0)],
        ..EVERYTHING
    },
    Scenario {
        name: "warm-10-call",
        title: "the first call then",
        kind: Kind::WarmCall,
        servers: 10,
        samples: 2,
        targets: &[Target::Beside("everything-1", 1.2)],
        ..EVERYTHING
    },
    Scenario {
        name: "pool-10000",
        title: "10,000 tools of 50 servers, from raw lists to the pool",
        kind: Kind::Pool,
        targets: &[Target::Ms(60.0), Target::PeakMb(60.0)],
        ..TOOLS
    },
    Scenario {
        name: "pool-change",
        title: "another list of 200 of them into that pool",
        kind: Kind::PoolChange,
        targets: &[Target::Ms(2.0)],
        ..TOOLS
    },
    Scenario {
        name: "search-10000",
        title: "a search among them",
        kind: Kind::Search,
        targets: &[Target::Ms(2.0)],
        ..TOOLS
    },
    Scenario {
        name: "decode-10000",
        title: "reading their lists",
        kind: Kind::Decode,
        ..TOOLS
    },
    Scenario {
        name: "sanitize",
        title: "sanitising what is in them, all plain ASCII",
        kind: Kind::Sanitize,
        targets: &[Target::Beside("decode-10000", 0.15)],
        ..TOOLS
    },
    Scenario {
        name: "large-cat",
        title: "50 MB of text from a server's pipe to a file, by cat",
        kind: Kind::Cat,
        ..LARGE
    },
    Scenario {
        name: "large-text",
        title: "the same as a result, through the host",
        kind: Kind::Save,
        targets: &[Target::Beside("large-cat", 2.0)],
        ..LARGE
    },
    Scenario {
        name: "image-12mp",
        title: "a PNG of 12 megapixels, made to fit",
        kind: Kind::Fit,
        samples: 2,
        targets: &[Target::Ms(400.0)],
        ..BASE
    },
];

/// The scenarios of this run.
pub(super) fn selected(quick: bool, only: &[String]) -> Vec<Scenario> {
    let starts = |scenario: &Scenario| only.iter().any(|only| scenario.name.starts_with(only));
    let wanted = |scenario: &Scenario| only.is_empty() || starts(scenario);
    let shorten = |mut scenario: Scenario| {
        if quick {
            scenario.samples = scenario.samples.min(3);
            if scenario.kind.is_rate() {
                scenario.n /= 10;
            }
        }
        scenario
    };
    ALL.into_iter().filter(wanted).map(shorten).collect()
}

/// The names there are, for messages.
pub(super) fn names() -> String {
    ALL.iter()
        .map(|scenario| scenario.name)
        .collect::<Vec<_>>()
        .join(", ")
}
