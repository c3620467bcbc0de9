//! `trunkline search`: searches tools as a model does with `ToolSearch`.

use super::tool_json::found_document;
use super::tools::{in_order, with_servers};
use crate::args::ConfigArgs;
use crate::exit::Exit;
use crate::output::{self, Lines};
use crate::stored::Catalogs;

pub(crate) async fn run(
    config: &ConfigArgs,
    words: &[String],
    limit: usize,
    catalogs: Catalogs,
    as_json: bool,
) -> Exit {
    let query = words.join(" ");
    if query.trim().is_empty() {
        let hint = "describe it, for example `trunkline search read a file`; `trunkline tools` lists all tools";
        output::error("the search is empty", Some(hint));
        return Exit::Usage;
    }
    with_servers(config, None, catalogs, async |host| {
        let pool = host.pool();
        let mut found = pool.search(&query, pool.tools().len());
        let count = found.len();
        found.truncate(limit);
        if as_json {
            output::json(&found_document(host, &found));
        } else {
            let tools = found.iter().map(|found| &*found.tool);
            output::paged(in_order(tools, |tool| host.denial(&tool.name).is_some()));
        }
        if found.is_empty() && !pool.tools().is_empty() {
            let searched = pool.offered().count();
            output::note(Lines::one(format!("no matches among {searched} tools")));
        }
        if count > found.len() {
            let shown = found.len();
            output::note(Lines::one(format!(
                "{shown} of {count} matches; show all with -n {count}"
            )));
        }
    })
    .await
}
