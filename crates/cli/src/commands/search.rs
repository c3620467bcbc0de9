//! `trunkline search`: finds tools by what they are for, as a model does with `ToolSearch`.

use super::tools::{found_document, table, with_servers};
use crate::args::ConfigArgs;
use crate::exit::Exit;
use crate::output;

pub(crate) async fn run(
    config: &ConfigArgs,
    words: &[String],
    limit: usize,
    as_json: bool,
) -> Exit {
    let query = words.join(" ");
    with_servers(config, None, async |host| {
        let pool = host.pool();
        let found = pool.search(&query, limit);
        if as_json {
            output::json(&found_document(&found));
        } else {
            output::result(&table(found.iter().map(|found| &*found.tool)));
        }
        if found.is_empty() && !pool.tools().is_empty() {
            output::note(&format!(
                "no tool fits; {} were searched\n",
                pool.offered().count()
            ));
        }
    })
    .await
}
