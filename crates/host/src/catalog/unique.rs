//! Sorts tools and makes their names unique (TOOL-1, TOOL-8).

use std::collections::HashSet;
use std::sync::Arc;

use super::names::with_suffix;
use super::tool::PoolTool;
use crate::host_tool::HostTool;

/// Sorts by name. Among tools with the same name the first keeps it; the others, and any tool named
/// like a host tool, are renamed. The order depends only on the original names, so a server that
/// reorders its list does not rename tools.
pub(super) fn sorted_and_unique(
    mut tools: Vec<Arc<PoolTool>>,
    host_tools: &[HostTool],
) -> (Vec<Arc<PoolTool>>, Vec<String>) {
    let mut diagnostics = Vec::new();
    // The sort is stable: the tool listed first comes first.
    tools.sort_by(by_name);
    tools.dedup_by(|later, first| {
        let same = later.name == first.name
            && later.server == first.server
            && later.tool.name == first.tool.name;
        if same {
            diagnostics.push(format!(
                "tool \"{}\" is listed twice; using the first",
                later.tool.name
            ));
        }
        same
    });
    let taken: HashSet<&str> = host_tools.iter().map(|tool| tool.name.as_str()).collect();
    let is_taken = |at: usize| {
        let name = &tools[at].name;
        taken.contains(name.as_str()) || (at > 0 && tools[at - 1].name == *name)
    };
    let to_rename: Vec<usize> = (0..tools.len()).filter(|at| is_taken(*at)).collect();
    if to_rename.is_empty() {
        return (tools, diagnostics);
    }
    let mut taken: HashSet<String> = taken.into_iter().map(str::to_owned).collect();
    taken.extend(tools.iter().map(|tool| tool.name.clone()));
    for at in to_rename {
        let later = &tools[at];
        let name = free_name(later, &taken);
        diagnostics.push(format!(
            "tool \"{}\" of \"{}\" is named {name} because its name is taken",
            later.tool.name, later.server
        ));
        taken.insert(name.clone());
        tools[at] = Arc::new(PoolTool {
            name,
            ..(**later).clone()
        });
    }
    tools.sort_by(by_name);
    (tools, diagnostics)
}

fn by_name(a: &Arc<PoolTool>, b: &Arc<PoolTool>) -> std::cmp::Ordering {
    let originals = || (&a.server, &*a.tool.name).cmp(&(&b.server, &*b.tool.name));
    a.name.cmp(&b.name).then_with(originals)
}

/// Returns the prefixed name if it is free, else a suffixed one.
fn free_name(tool: &PoolTool, taken: &HashSet<String>) -> String {
    let full = tool.full_name();
    if taken.contains(&full) {
        unique_name(&full, &tool.server, &tool.tool.name, taken)
    } else {
        full
    }
}

/// Returns a free name: `name` with a suffix that depends on the original names.
pub(crate) fn unique_name(
    name: &str,
    server: &str,
    original: &str,
    taken: &HashSet<String>,
) -> String {
    let mut attempt = 0;
    loop {
        let name = with_suffix(name, server, original, attempt);
        if !taken.contains(&name) {
            return name;
        }
        attempt += 1;
    }
}
