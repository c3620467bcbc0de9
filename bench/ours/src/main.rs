//! Trunkline's public API as a benchmark client: the whole `Host::call` path, not a bare peer.
#![forbid(unsafe_code)]

mod large;
mod load;
mod mixed;
mod server;
mod signed_in;
mod tools;
mod warm;

use std::error::Error;
use std::time::Instant;

use bench_client::{Args, Report, Scenario};
use serde_json::json;
use tokio::task::JoinSet;
use trunkline::permission::AllowAll;
use trunkline::result::{ContentBlock, Results};
use trunkline::{CallOptions, Host, HostBuilder};

type Failure = Box<dyn Error + Send + Sync>;

/// What the first server's `echo` is called in the pool.
const ECHO: &str = "mcp__echo__echo";

fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some(large::SERVE) {
        return large::serve(words);
    }
    let args = Args::from_env()?;
    let mut runtime = if args.multi {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    // On a task of its own, as in a program: the future given to `block_on` costs one more poll of the driver each time.
    let work = async move {
        match args.scenario {
            Scenario::Sequential => sequential(&args, ready(&args, 1).await).await,
            Scenario::SignedIn => sequential(&args, signed_in::ready(&args).await?).await,
            Scenario::Inflight => inflight(&args).await,
            Scenario::List => list(&args).await,
            Scenario::Connect => connect(&args).await,
            Scenario::Oneshot => oneshot(&args).await,
            Scenario::Load => load::all_scopes(&args),
            Scenario::LoadEnterprise => load::enterprise(&args),
            Scenario::Mixed => mixed::run(&args, false).await,
            Scenario::MixedHealthy => mixed::run(&args, true).await,
            Scenario::WarmFill => warm::fill(&args).await,
            Scenario::Warm | Scenario::WarmCall => warm::run(&args).await,
            Scenario::Pool => tools::pool(&args),
            Scenario::PoolChange => tools::change(&args),
            Scenario::Search => tools::search(&args),
            Scenario::Decode => tools::decode(&args),
            Scenario::Sanitize => tools::sanitize(&args),
            Scenario::Save => large::save(&args).await,
            Scenario::Cat => large::cat(&args),
            Scenario::Fit => large::fit().await,
        }
    };
    runtime
        .enable_all()
        .build()?
        .block_on(async { tokio::spawn(work).await? })
}

/// A host with `count` servers, all of them connected and listed: `echo`, `echo1`, `echo2`, …
async fn ready(args: &Args, count: usize) -> Host {
    let entry = |index| server::entry(args, index);
    let host = builder().servers((0..count).map(entry)).start();
    host.ready().await;
    host
}

fn builder() -> HostBuilder {
    // The other clients give back what came, whatever its size.
    let results = Results::unsaved().max_chars(None).max_tokens(None);
    Host::builder().permit(AllowAll).results(results)
}

async fn call(host: &Host, text: &str) -> Result<(), Failure> {
    let result = host
        .call(ECHO, json!({ "text": text }), CallOptions::new())
        .await?;
    match result.content.first().and_then(ContentBlock::text) {
        Some(echo) if echo.len() == text.len() => Ok(()),
        _ => Err("the echo is not what was sent".into()),
    }
}

async fn sequential(args: &Args, host: Host) -> Result<(), Failure> {
    let text = args.text();
    for _ in 0..args.warm_up() {
        call(&host, &text).await?;
    }
    let start = Instant::now();
    for _ in 0..args.n {
        call(&host, &text).await?;
    }
    Report::since(start, args.n).print();
    host.shutdown().await;
    Ok(())
}

async fn inflight(args: &Args) -> Result<(), Failure> {
    let host = ready(args, 1).await;
    workers(&host, args, args.warm_up()).await?;
    let start = Instant::now();
    let calls = workers(&host, args, args.n).await?;
    Report::since(start, calls).print();
    host.shutdown().await;
    Ok(())
}

/// `args.inflight` tasks, each calling again as soon as its answer is there.
async fn workers(host: &Host, args: &Args, total: usize) -> Result<usize, Failure> {
    let each = total.div_ceil(args.inflight);
    let mut tasks = JoinSet::new();
    for _ in 0..args.inflight {
        let (host, text) = (host.clone(), args.text());
        tasks.spawn(async move {
            for _ in 0..each {
                call(&host, &text).await?;
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(each * args.inflight)
}

/// To a ready pool, the server's start included, as for every client.
async fn list(args: &Args) -> Result<(), Failure> {
    let start = Instant::now();
    let host = ready(args, 1).await;
    let tools = host.pool().tools().len();
    let report = Report::since(start, 1);
    if tools != args.n {
        return Err(format!("expected {} tools, got {tools}", args.n).into());
    }
    report.print();
    host.shutdown().await;
    Ok(())
}

async fn connect(args: &Args) -> Result<(), Failure> {
    let start = Instant::now();
    let host = ready(args, args.servers).await;
    let tools = host.pool().tools().len();
    let report = Report::since(start, args.servers);
    let servers = host.servers();
    let failed = servers
        .iter()
        .find_map(|server| Some((&server.name, server.state.failure()?)));
    if let Some((name, failure)) = failed {
        return Err(format!("{name} is not connected: {failure}").into());
    }
    if tools < args.servers * args.n {
        return Err(format!(
            "expected {} tools or more, got {tools}",
            args.servers * args.n
        )
        .into());
    }
    report.print();
    host.shutdown().await;
    Ok(())
}

async fn oneshot(args: &Args) -> Result<(), Failure> {
    let start = Instant::now();
    let host = ready(args, 1).await;
    call(&host, &args.text()).await?;
    host.shutdown().await;
    Report::since(start, 1).print();
    Ok(())
}
