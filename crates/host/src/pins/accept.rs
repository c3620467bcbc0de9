//! Lists changed tools and accepts a change.

use super::ToolChange;
use crate::call::CallError;
use crate::host::Host;

impl Host {
    /// Returns the tools that changed since their first approved call (TOOL-11), and problems with
    /// reading pins.
    pub async fn changed_tools(&self) -> (Vec<ToolChange>, Vec<String>) {
        let (mut changed, mut problems) = (Vec::new(), Vec::new());
        for status in self.servers() {
            let Some(connection) = self.connection(&status.name) else {
                continue;
            };
            let instructions = status.catalog.raw_instructions();
            let key = connection.source().pin_key();
            let tools = status.catalog.tools();
            let pins = self.guard().pins();
            match pins.changed(&key, tools, instructions).await {
                Ok(found) => changed.extend(found),
                Err(problem) => problems.push(problem),
            }
        }
        (changed, problems)
    }

    /// Pins a tool as it is now, until it changes again.
    pub async fn accept_change(&self, name: &str) -> Result<(), CallError> {
        let pool = self.pool();
        let found = pool
            .get(name)
            .and_then(|tool| Some((tool, self.connection(&tool.server)?)));
        let Some((tool, connection)) = found else {
            return Err(self.unknown_tool(name, &pool));
        };
        let status = connection.status();
        let instructions = status.catalog.raw_instructions();
        let key = connection.source().pin_key();
        let pinned = self.guard().pins().pin(&key, tool, instructions).await;
        pinned.map_err(|reason| CallError::pins_unreadable(tool, reason))
    }
}
