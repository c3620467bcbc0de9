//! The `dynamic` scope: what `--mcp-config` names, a file or the JSON itself.

use std::collections::HashMap;
use std::path::Path;

use super::{Scope, file_servers};
use crate::diagnostic::Diagnostic;
use crate::document::Document;
use crate::entry::ServerEntry;
use crate::load_state::LoadState;

/// The source of entries that stand on the command line.
const FLAG: &str = "--mcp-config";

/// Loads what each `--mcp-config` names. Of two entries with one name the later counts.
pub(crate) fn entries(gather: &mut LoadState, arguments: &[String], cwd: &Path) {
    let first = gather.entries.len();
    for argument in arguments {
        cwd.clone_into(&mut gather.base);
        if argument.trim_start().starts_with(['{', '[']) {
            read(gather, argument, FLAG);
            continue;
        }
        if argument.is_empty() {
            let problem = Diagnostic::error(FLAG, "the name of the file is empty");
            gather.diagnostics.push(problem);
            continue;
        }
        let path = cwd.join(argument);
        if let Some(text) = gather.read_named(&path, argument) {
            gather.relative_to_file(&path);
            read(gather, &text, argument);
        }
    }
    latest_first(gather, first);
}

fn read(gather: &mut LoadState, text: &str, source: &str) {
    let document = Document::new(source, text);
    match document.root() {
        Ok(root) => file_servers(gather, &document, &root, Scope::Dynamic),
        Err(problem) => gather.diagnostics.push(problem),
    }
}

/// Puts later entries before earlier ones, as the first of a scope is its strongest, and says where two have one name.
fn latest_first(gather: &mut LoadState, first: usize) {
    gather.entries[first..].reverse();
    let mut seen = HashMap::new();
    for entry in &gather.entries[first..] {
        if let Some(later) = seen.insert(entry.name.as_str(), entry) {
            let message = format!("it replaces an earlier entry from {}", entry.source);
            let later: &ServerEntry = later;
            let problem = Diagnostic::warning(&later.source, message).about(&entry.name);
            gather.diagnostics.push(problem);
        }
    }
}
