//! The official Rust SDK as a benchmark client.
//!
//! The default lifecycle (`initialize`): fewer bytes a call than the modern era's `_meta`.
#![forbid(unsafe_code)]

use std::error::Error;
use std::time::Instant;

use bench_client::{Args, Report, Scenario};
use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, JsonObject};
use rmcp::service::{Peer, RoleClient, RunningService};
use rmcp::transport::{
    StreamableHttpClientTransport, TokioChildProcess,
    streamable_http_client::StreamableHttpClientTransportConfig,
};
use tokio::process::Command;
use tokio::task::JoinSet;

type Failure = Box<dyn Error + Send + Sync>;
type Client = RunningService<RoleClient, ()>;

fn main() -> Result<(), Failure> {
    let args = Args::from_env()?;
    let mut runtime = if args.multi {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    // On a task of its own, as in a program: the future given to `block_on` costs one more poll of the driver each time.
    let work = async move {
        match args.scenario {
            Scenario::Sequential => sequential(&args).await,
            Scenario::Inflight => inflight(&args).await,
            Scenario::List => list(&args).await,
            Scenario::Connect => connect_all(&args).await,
            Scenario::Oneshot => oneshot(&args).await,
            _ => Err("only trunkline does this".into()),
        }
    };
    runtime
        .enable_all()
        .build()?
        .block_on(async { tokio::spawn(work).await? })
}

/// Over HTTP if the server is a URL, with the SDK's own client or, if `pooled`, with one that keeps connections.
async fn connect(args: &Args) -> Result<Client, Failure> {
    let (command, arguments) = &args.server;
    if command.starts_with("http://") {
        let mut config = StreamableHttpClientTransportConfig::with_uri(command.as_str());
        if !args.pooled {
            return Ok(().serve(StreamableHttpClientTransport::from_config(config)).await?);
        }
        // The default, 16, is slower with 64 calls in flight.
        config = config.max_concurrent_requests(args.inflight);
        let client = reqwest::Client::builder().build()?;
        let transport = StreamableHttpClientTransport::with_client(client, config);
        return Ok(().serve(transport).await?);
    }
    let mut command = Command::new(command);
    command.args(arguments);
    Ok(().serve(TokioChildProcess::new(command)?).await?)
}

async fn call(peer: &Peer<RoleClient>, text: &str) -> Result<(), Failure> {
    let mut arguments = JsonObject::new();
    arguments.insert("text".to_owned(), text.into());
    let result = peer
        .call_tool(CallToolRequestParams::new("echo").with_arguments(arguments))
        .await?;
    match result.content.first().and_then(|content| content.as_text()) {
        Some(content) if content.text.len() == text.len() => Ok(()),
        _ => Err("the echo is not what was sent".into()),
    }
}

async fn sequential(args: &Args) -> Result<(), Failure> {
    let client = connect(args).await?;
    let text = args.text();
    for _ in 0..args.warm_up() {
        call(&client, &text).await?;
    }
    let start = Instant::now();
    for _ in 0..args.n {
        call(&client, &text).await?;
    }
    Report::since(start, args.n).print();
    client.cancel().await?;
    Ok(())
}

async fn inflight(args: &Args) -> Result<(), Failure> {
    let client = connect(args).await?;
    workers(&client, args, args.warm_up()).await?;
    let start = Instant::now();
    let calls = workers(&client, args, args.n).await?;
    Report::since(start, calls).print();
    client.cancel().await?;
    Ok(())
}

/// `args.inflight` tasks, each calling again as soon as its answer is there.
async fn workers(client: &Client, args: &Args, total: usize) -> Result<usize, Failure> {
    let each = total.div_ceil(args.inflight);
    let mut tasks = JoinSet::new();
    for _ in 0..args.inflight {
        let (peer, text) = (client.peer().clone(), args.text());
        tasks.spawn(async move {
            for _ in 0..each {
                call(&peer, &text).await?;
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(each * args.inflight)
}

async fn list(args: &Args) -> Result<(), Failure> {
    let start = Instant::now();
    let client = connect(args).await?;
    let connected = start.elapsed().as_secs_f64();
    let tools = client.list_all_tools().await?;
    let report = Report::since(start, 1).connected_in(connected);
    if tools.len() != args.n {
        return Err(format!("expected {} tools, got {}", args.n, tools.len()).into());
    }
    report.print();
    client.cancel().await?;
    Ok(())
}

async fn connect_all(args: &Args) -> Result<(), Failure> {
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..args.servers {
        let args = args.clone();
        tasks.spawn(async move {
            let client = connect(&args).await?;
            let tools = client.list_all_tools().await?;
            Ok::<_, Failure>((client, tools))
        });
    }
    let mut clients = Vec::with_capacity(args.servers);
    while let Some(done) = tasks.join_next().await {
        clients.push(done??);
    }
    Report::since(start, args.servers).print();
    for (client, _) in clients {
        client.cancel().await?;
    }
    Ok(())
}

async fn oneshot(args: &Args) -> Result<(), Failure> {
    let start = Instant::now();
    let client = connect(args).await?;
    call(&client, &args.text()).await?;
    client.cancel().await?;
    Report::since(start, 1).print();
    Ok(())
}
