//! The `dynamic` scope: the files and JSON texts of `--mcp-config`.

use std::collections::HashMap;
use std::path::Path;

use super::{Scope, file_servers};
use crate::diagnostic::Diagnostic;
use crate::document::Document;
use crate::entry::ServerEntry;
use crate::load::LoadState;

/// The source of entries given as JSON on the command line.
const FLAG: &str = "--mcp-config";

/// Loads the servers of every `--mcp-config`. Of entries with the same name the last counts.
pub(crate) fn entries(state: &mut LoadState, arguments: &[String], cwd: &Path) {
    let first = state.entries.len();
    for argument in arguments {
        cwd.clone_into(&mut state.base);
        if argument.trim_start().starts_with(['{', '[']) {
            read(state, argument, FLAG);
            continue;
        }
        if argument.is_empty() {
            let problem = Diagnostic::error(FLAG, "the name of the file is empty");
            state.diagnostics.push(problem);
            continue;
        }
        let path = cwd.join(argument);
        if let Some(text) = state.read_named(&path, argument) {
            state.relative_to_file(&path);
            read(state, &text, argument);
        }
    }
    latest_first(state, first);
}

fn read(state: &mut LoadState, text: &str, source: &str) {
    let document = Document::new(source, text);
    match document.root() {
        Ok(root) => file_servers(state, &document, &root, Scope::Dynamic),
        Err(problem) => state.diagnostics.push(problem),
    }
}

/// Reverses the entries, because the first of a scope is the strongest, and reports duplicates.
fn latest_first(state: &mut LoadState, first: usize) {
    state.entries[first..].reverse();
    let mut seen = HashMap::new();
    for entry in &state.entries[first..] {
        if let Some(later) = seen.insert(entry.name.as_str(), entry) {
            let message = format!("it replaces an earlier entry from {}", entry.source);
            let later: &ServerEntry = later;
            let problem = Diagnostic::warning(&later.source, message).about(&entry.name);
            state.diagnostics.push(problem);
        }
    }
}
