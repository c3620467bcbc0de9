//! `trunkline serve`: all servers as one MCP server (GW-1). On stdio, nothing but messages goes to
//! stdout.

mod http;
mod permit;
#[cfg(unix)]
mod socket;
mod stdio;
mod token;

use trunkline::HostBuilder;
use trunkline_config::GatewayProfile;
use trunkline_gateway::{ClientInfo, Gateway, GatewayOptions};

use crate::args::ConfigArgs;
use crate::exit::Exit;
use crate::interrupt::interrupted;
use crate::output;
use crate::session;

/// Options of `serve`.
#[derive(clap::Args)]
#[command(after_help = SERVE_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,

    /// Show `ToolSearch` and `CallTool` instead of every tool
    #[arg(long)]
    pub(crate) search: bool,

    /// Listen on a Unix socket instead [default path: gateway.sock in the runtime directory]
    #[cfg(unix)]
    #[arg(long, value_name = "PATH", num_args = 0..=1)]
    #[allow(clippy::option_option, reason = "an option whose value is optional")]
    pub(crate) socket: Option<Option<std::path::PathBuf>>,

    /// Restrict the client to this profile of the settings
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,

    #[command(flatten)]
    pub(crate) http: http::HttpArgs,

    #[command(subcommand)]
    command: Option<ServeCommand>,
}

#[derive(clap::Subcommand)]
enum ServeCommand {
    /// Manage the bearer tokens of HTTP clients
    Token {
        #[command(subcommand)]
        command: token::TokenCommand,
    },
}

const SERVE_HELP: &str = "\
Examples:
  trunkline serve                            speak MCP on stdin and stdout
  trunkline serve --search                   with a search instead of all tools
  trunkline serve --profile review           with the servers and tools of a profile
  trunkline serve --http 8080                on http://127.0.0.1:8080/mcp, for many clients
  trunkline serve token create laptop        a bearer token for a client over HTTP

A client starts this command as it starts any MCP server, and sees the tools, resources and prompts
of all your servers. See docs/gateway.md.";

pub(crate) async fn run(config: ConfigArgs, serve: ServeArgs, as_json: bool) -> Exit {
    if let Some(ServeCommand::Token { command }) = serve.command {
        return token::run(command, as_json).await;
    }
    let config = config.and(serve.config.clone());
    let builder = match host(&config) {
        Ok(builder) => builder,
        Err(exit) => return exit,
    };
    let options = match options(&serve) {
        Ok(options) => options,
        Err(exit) => return exit,
    };
    let gateway = Gateway::start(builder, options);
    #[cfg(unix)]
    if let Some(path) = serve.socket {
        let exit = socket::serve(&gateway, path).await;
        gateway.shutdown().await;
        return exit;
    }
    if let Some(address) = serve.http.http {
        let profile = serve.profile.as_deref();
        let exit = http::serve(&gateway, &serve.http, address, profile, as_json).await;
        return run_gateway(&gateway, std::future::ready(exit)).await;
    }
    let work = stdio::serve(&gateway, ClientInfo::new("stdio").profile(serve.profile));
    run_gateway(&gateway, work).await
}

/// Returns the options of the gateway. An `Err` has been reported.
pub(crate) fn options(serve: &ServeArgs) -> Result<GatewayOptions, Exit> {
    let profiles = GatewayProfile::load(&session::layout()).map_err(|problem| {
        output::error(&problem, None);
        Exit::Usage
    })?;
    if let Some(name) = serve.profile.as_ref()
        && !profiles.contains_key(name)
    {
        let known: Vec<_> = profiles.keys().map(String::as_str).collect();
        let hint = match &known[..] {
            [] => "define it under \"gatewayProfiles\" in your settings".to_owned(),
            known => format!("profiles: {}", known.join(", ")),
        };
        output::error(&format!("there is no profile \"{name}\""), Some(&hint));
        return Err(Exit::Usage);
    }
    let mut options = GatewayOptions::default();
    options.search = serve.search;
    options.profile.clone_from(&serve.profile);
    options.profiles = profiles;
    Ok(options)
}

/// Returns a builder for the host behind a gateway. An `Err` has been reported.
pub(crate) fn host(config: &ConfigArgs) -> Result<HostBuilder, Exit> {
    let configured = session::configuration(config)?;
    configured.warn();
    for own in configured.set.own_gateways() {
        output::warning(&own.to_string());
    }
    let connectors = session::connectors(configured.loader.layout());
    let mut builder = configured
        .host_with_daemon()
        .sign_in_tools(true)
        .watch(true)
        .permit(permit::ClientCalls);
    if let Some(connectors) = connectors {
        builder = builder.connectors(connectors);
    }
    Ok(builder)
}

/// Runs `work`, then shuts the gateway down, interrupted or not.
pub(crate) async fn run_gateway(gateway: &Gateway, work: impl Future<Output = Exit>) -> Exit {
    let exit = tokio::select! {
        biased;
        () = interrupted() => Exit::Interrupted,
        exit = work => exit,
    };
    tokio::select! {
        () = gateway.shutdown() => {}
        // A second interrupt: dropping the runtime kills the remaining servers.
        () = interrupted() => {}
    }
    for problem in gateway.host().recording_problems() {
        output::warning(&problem);
    }
    exit
}
