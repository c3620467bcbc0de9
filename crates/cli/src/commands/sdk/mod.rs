//! `trunkline sdk`: serves the program that started this one, over standard input and output (TRN-1, sdk). `docs/sdk.md`
//! describes what is spoken. Nothing but that goes to standard output.

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
use trunkline::elicit::Elicit;
use trunkline::transport::sdk::{Inquiries, Inquiry, Refusal, SdkBridge, codes};
use trunkline::{Host, HostBuilder, Json};

use crate::args::ConfigArgs;
use crate::exit::Exit;
use crate::interrupt::interrupted;
use crate::output;
use crate::session;

/// How many lines that are of no use are told; a program that prints where it should not may print a lot.
const TOLD: usize = 20;

/// How much of such a line is shown, in bytes.
const SHOWN: usize = 200;

/// How long the last answers may take to be read.
const LAST_WORDS: Duration = Duration::from_secs(1);

pub(crate) async fn run(config: ConfigArgs) -> Exit {
    if std::io::stdin().is_terminal() {
        output::note("this is for programs: it waits for JSON on standard input; Ctrl-D ends it");
    }
    let (bridge, mut inquiries) =
        SdkBridge::start(tokio::io::stdin(), tokio::io::stdout(), reporter());
    let begun = tokio::select! {
        begun = begin(&config, &bridge, &mut inquiries) => begun,
        () = interrupted() => return Exit::Interrupted,
    };
    let Some((inquiry, builder, notes)) = begun else {
        // It has gone without wanting anything.
        return Exit::Done;
    };
    let exit = session::with_host(builder, |host| {
        serve(host, &bridge, inquiries, inquiry, notes)
    });
    let exit = exit.await;
    let _ = tokio::time::timeout(LAST_WORDS, bridge.flush()).await;
    exit
}

/// Tells of lines that are of no use.
fn reporter() -> impl Fn(&str, &[u8]) + Send + Sync + 'static {
    let told = AtomicUsize::new(0);
    move |what, line| match told.fetch_add(1, Ordering::Relaxed) {
        count if count < TOLD => {
            let line = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]).into_owned();
            output::warning(&format!("standard input: {what}: {line:?}"));
        }
        TOLD => output::warning("standard input: more such lines are not shown"),
        _ => {}
    }
}

/// What `initialize` says.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialize {
    /// The servers that live in the embedding program, by name.
    #[serde(default)]
    sdk_mcp_servers: Option<Vec<String>>,
    /// Whether it answers `can_use_tool`.
    #[serde(default)]
    can_use_tool: Option<bool>,
}

/// Waits for `initialize` and puts the host together. `None` when the embedding program went first.
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

/// A host with the servers that are configured and those of the embedding program, and what there is to say about them.
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
        // They are taken as if they stood on the command line, so that policy and switches apply to them as to all others.
        config
            .mcp_config
            .push(json!({"mcpServers": entries}).to_string());
    }
    let configured = session::configuration(&config).map_err(|_| {
        let error = "the configuration cannot be used; standard error says why";
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
    let elicit = Asker(bridge.clone());
    let permit = permit::Embedder {
        bridge: bridge.clone(),
        can_be_asked: can_use_tool.unwrap_or_default(),
    };
    let mut builder = configured
        .host()
        .watch(true)
        .sdk(bridge.clone())
        .permit(permit)
        .elicit(elicit);
    if let Some(connectors) = connectors {
        builder = builder.connectors(connectors);
    }
    Ok((builder, notes))
}

/// Answers until the embedding program is gone.
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

/// Answers one request, or drops the work on it when the answer is no longer wanted.
async fn answer(host: Host, bridge: SdkBridge, inquiry: Inquiry) {
    let outcome = tokio::select! {
        outcome = requests::answer(&host, &bridge, &inquiry) => outcome,
        () = inquiry.withdrawn() => return,
    };
    inquiry.answer(outcome).await;
}

/// Has the embedding program ask its user (ELI-1).
struct Asker(SdkBridge);

impl Elicit for Asker {
    fn elicit(&self, server: &str, params: Json) -> Pin<Box<dyn Future<Output = Json> + Send>> {
        let bridge = self.0.clone();
        let request = requests::elicitation(server, &params);
        Box::pin(async move {
            let answer = match request {
                Ok(request) => bridge.request(&request).await.ok(),
                Err(_) => None,
            };
            let usable = |answer: &Json| answer.field::<String>("action").is_some();
            let cancelled = || Json::from(json!({"action": "cancel"}));
            answer.filter(usable).unwrap_or_else(cancelled)
        })
    }
}
