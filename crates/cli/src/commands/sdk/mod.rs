//! `trunkline sdk`: serves an embedding program over stdin and stdout (TRN-1). `docs/sdk.md`
//! describes the protocol. Nothing else goes to stdout.

mod offers;
mod permit;
mod requests;

use std::future::Future;
use std::io::IsTerminal;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinSet;
use trunkline::elicit::{Elicit, ElicitAnswer, Elicitation};
use trunkline::transport::sdk::{Inquiries, Inquiry, Refusal, SdkBridge, codes};
use trunkline::{Host, HostBuilder, Json};

use crate::args::ConfigArgs;
use crate::exit::Exit;
use crate::interrupt::interrupted;
use crate::output;
use crate::session;

/// The maximum number of bad lines to report.
const MAX_REPORTED: usize = 20;

/// The maximum length of a reported line, in bytes.
const MAX_REPORTED_BYTES: usize = 200;

/// How long flushing the last responses may take.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) async fn run(config: ConfigArgs) -> Exit {
    if std::io::stdin().is_terminal() {
        output::note("waiting for JSON from an embedding program on stdin; press Ctrl-D to end");
    }
    let (bridge, mut inquiries) =
        SdkBridge::start(tokio::io::stdin(), tokio::io::stdout(), reporter());
    let begun = tokio::select! {
        begun = begin(&config, &bridge, &mut inquiries) => begun,
        () = interrupted() => return Exit::Interrupted,
    };
    let Some((inquiry, builder, notes)) = begun else {
        // The program left without initializing.
        return Exit::Done;
    };
    let exit = session::with_host(builder, |host| {
        serve(host, &bridge, inquiries, inquiry, notes)
    });
    let exit = exit.await;
    let _ = tokio::time::timeout(FLUSH_TIMEOUT, bridge.flush()).await;
    exit
}

/// Returns a callback that reports bad lines.
fn reporter() -> impl Fn(&str, &[u8]) + Send + Sync + 'static {
    let reported = AtomicUsize::new(0);
    move |what, line| match reported.fetch_add(1, Ordering::Relaxed) {
        count if count < MAX_REPORTED => {
            let line =
                String::from_utf8_lossy(&line[..line.len().min(MAX_REPORTED_BYTES)]).into_owned();
            output::warning(&format!("stdin: {what}: {line:?}"));
        }
        MAX_REPORTED => output::warning("stdin: further bad lines are not reported"),
        _ => {}
    }
}

/// The `initialize` request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialize {
    /// The names of the embedding program's servers.
    #[serde(default)]
    sdk_mcp_servers: Option<Vec<String>>,
    /// Whether the program answers `can_use_tool`.
    #[serde(default)]
    can_use_tool: Option<bool>,
}

/// Waits for `initialize` and configures the host. `None` if the program leaves before.
async fn begin(
    config: &ConfigArgs,
    bridge: &SdkBridge,
    inquiries: &mut Inquiries,
) -> Option<(Inquiry, HostBuilder, Vec<String>)> {
    loop {
        let inquiry = inquiries.next().await?;
        if inquiry.subtype() != "initialize" {
            let refusal = Refusal::new(codes::NOT_INITIALIZED, "\"initialize\" must come first");
            inquiry.answer(Err(refusal)).await;
            continue;
        }
        match configure(config, bridge, inquiry.request()) {
            Ok((builder, notes)) => return Some((inquiry, builder, notes)),
            Err(refusal) => inquiry.answer(Err(refusal)).await,
        }
    }
}

/// Returns a builder for a host with all configured servers and those of the embedding program,
/// and the diagnostics.
fn configure(
    config: &ConfigArgs,
    bridge: &SdkBridge,
    request: &Json,
) -> Result<(HostBuilder, Vec<String>), Refusal> {
    let Initialize {
        sdk_mcp_servers,
        can_use_tool,
    } = requests::read(request)?;
    let announced = sdk_mcp_servers.unwrap_or_default();
    let mut config = config.clone();
    if !announced.is_empty() {
        let entries = announced
            .iter()
            .map(|name| (name.clone(), json!({"type": "sdk"})));
        let entries: serde_json::Map<_, _> = entries.collect();
        // Load them as if by --mcp-config, so that policy and `disable` apply.
        config
            .mcp_config
            .push(json!({"mcpServers": entries}).to_string());
    }
    let configured = session::configuration(&config).map_err(|_| {
        let error = "the configuration is invalid; see stderr";
        Refusal::new(codes::BAD_REQUEST, error)
    })?;
    configured.warn();
    let mut notes: Vec<String> = configured
        .diagnostics()
        .iter()
        .map(ToString::to_string)
        .collect();
    if let (false, Some(file)) = (announced.is_empty(), &configured.set.exclusive) {
        let note = format!(
            "the enterprise configuration has exclusive control; your servers are not used ({})",
            file.display()
        );
        output::warning(&note);
        notes.push(note);
    }
    let connectors = session::connectors(configured.loader.layout());
    let elicit = BridgeElicit(bridge.clone());
    let permit = permit::BridgePermit {
        bridge: bridge.clone(),
        can_be_asked: can_use_tool.unwrap_or_default(),
    };
    let mut builder = configured
        .host()
        .sign_in_tools(true)
        .watch(true)
        .sdk(bridge.clone())
        .permit(permit)
        .elicit(elicit);
    if let Some(connectors) = connectors {
        builder = builder.connectors(connectors);
    }
    Ok((builder, notes))
}

/// Answers requests until the embedding program leaves.
async fn serve(
    host: Host,
    bridge: &SdkBridge,
    mut inquiries: Inquiries,
    initialize: Inquiry,
    notes: Vec<String>,
) -> Exit {
    let mut hello = requests::status(&host);
    hello["version"] = json!(env!("CARGO_PKG_VERSION"));
    hello["diagnostics"] = json!(notes);
    initialize.answer(Ok(Json::from(hello))).await;
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            inquiry = inquiries.next() => match inquiry {
                Some(inquiry) => _ = tasks.spawn(answer(host.clone(), bridge.clone(), inquiry)),
                None => return Exit::Done,
            },
            Some(_) = tasks.join_next() => {}
        }
    }
}

/// Answers a request, or drops it when withdrawn.
async fn answer(host: Host, bridge: SdkBridge, inquiry: Inquiry) {
    let outcome = tokio::select! {
        outcome = requests::answer(&host, &bridge, &inquiry) => outcome,
        () = inquiry.withdrawn() => return,
    };
    inquiry.answer(outcome).await;
}

/// Forwards elicitation requests to the embedding program (ELI-1).
struct BridgeElicit(SdkBridge);

impl Elicit for BridgeElicit {
    fn elicit(
        &self,
        elicitation: Elicitation,
    ) -> Pin<Box<dyn Future<Output = ElicitAnswer> + Send>> {
        let bridge = self.0.clone();
        let request = requests::elicitation(&elicitation.server, &elicitation.raw);
        Box::pin(async move {
            let answer = match request {
                Ok(request) => bridge.request(&request).await.ok(),
                Err(_) => None,
            };
            let usable = |answer: &Json| answer.field::<String>("action").is_some();
            let answer = answer.filter(usable);
            answer.map_or(ElicitAnswer::Cancel, ElicitAnswer::Forward)
        })
    }
}
