//! `trunkline status`: everything about all servers at once (AGT-3).

use std::fmt::Write as _;

use trunkline::{Host, State};

use crate::args::ConfigArgs;
use crate::exit::Exit;
use crate::output::{self, harmless};
use crate::session;

pub(crate) async fn run(config: &ConfigArgs, as_json: bool) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    configured.warn();
    let connectors = session::connectors(configured.loader.layout());
    let mut builder = configured.host();
    if let Some(connectors) = connectors {
        builder = builder.connectors(connectors);
    }
    session::with_host(builder, |host| async move {
        session::ready(&host).await;
        if as_json {
            output::json(&host.export().await);
        } else {
            output::result(&summary(&host).await);
        }
        Exit::Done
    })
    .await
}

/// The state in a few lines; `list` and `tools` say more.
async fn summary(host: &Host) -> String {
    let servers = host.servers();
    let mut text = String::new();
    if servers.is_empty() {
        text += "no servers run; `trunkline list` says why, `trunkline add` adds one\n";
    }
    for state in ["connected", "needs-auth", "pending", "failed", "disabled"] {
        let names: Vec<_> = servers
            .iter()
            .filter(|server| server.state.name() == state)
            .map(|server| harmless(&server.name))
            .collect();
        if !names.is_empty() {
            let _ = writeln!(text, "{state}: {} ({})", names.len(), names.join(", "));
        }
    }
    let pool = host.pool();
    let of = |count: for<'s> fn(&'s trunkline::Catalog) -> usize| {
        servers
            .iter()
            .map(|server| count(&server.catalog))
            .sum::<usize>()
    };
    let _ = writeln!(
        text,
        "tools: {}, resources: {}, resource templates: {}, prompts: {}",
        pool.tools().len(),
        of(|catalog| catalog.resources.len()),
        of(|catalog| catalog.templates.len()),
        of(|catalog| catalog.prompts.len()),
    );
    for server in &servers {
        if let (State::Failed(failure), name) = (&server.state, harmless(&server.name)) {
            let reason = failure.to_string();
            let _ = writeln!(text, "{name}: {}", output::harmless_lines(&reason));
        }
    }
    let (changed, problems) = host.changed_tools().await;
    for change in changed {
        let _ = writeln!(text, "{}", harmless(&change.to_string()));
    }
    for problem in problems.iter().chain(pool.diagnostics()) {
        let _ = writeln!(text, "{}", harmless(problem));
    }
    text
}
