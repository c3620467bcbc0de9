//! Synonyms for search queries. They widen queries only, so the index stays small.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::words::stem;

const GROUPS: &[&[&str]] = &[
    &["add", "create", "new", "insert", "make", "append"],
    &["alert", "dialog", "popup", "modal", "confirm", "prompt"],
    &["archive", "zip", "gzip", "compress"],
    &["ask", "question", "elicitation"],
    &["assert", "verify", "check", "ensure", "sure", "test"],
    &["browser", "page", "website", "webpage", "site", "web"],
    &[
        "change", "edit", "update", "modify", "set", "patch", "rewrite",
    ],
    &["choose", "select", "pick"],
    &["click", "press", "tap", "push"],
    &["clock", "time", "date", "today"],
    &["cluster", "kubernetes", "k8s", "kubectl"],
    &["comment", "reply", "remark"],
    &["connect", "attach", "join", "link"],
    &["container", "pod"],
    &["content", "text", "body"],
    &["convert", "transform", "translate"],
    &["copy", "cp", "duplicate", "clone"],
    &["cursor", "mouse", "pointer"],
    &["data", "information", "info", "details"],
    &["database", "db", "sql", "table", "sqlite"],
    &[
        "delete", "remove", "rm", "erase", "drop", "destroy", "clear", "purge", "forget", "unlink",
    ],
    &["describe", "details", "explain"],
    &["diff", "difference", "differ", "compare", "changes"],
    &["directory", "folder", "dir", "mkdir"],
    &["dismiss", "accept", "handle", "decline"],
    &["document", "doc", "page", "note"],
    &["download", "fetch", "retrieve", "get"],
    &["dropdown", "select", "option", "combobox"],
    &["env", "environment", "variable"],
    &["error", "bug", "failure", "problem", "exception", "warning"],
    &[
        "execute", "run", "evaluate", "eval", "invoke", "exec", "shell",
    ],
    &["fact", "observation"],
    &["field", "input", "box", "element"],
    &["fill", "enter", "type", "write", "put"],
    &[
        "find", "search", "query", "lookup", "locate", "look", "grep",
    ],
    &[
        "get", "read", "retrieve", "show", "view", "fetch", "see", "display", "open", "print",
        "cat", "load", "dump",
    ],
    &["graph", "memory", "knowledge", "remember", "recall", "know"],
    &["history", "log", "past", "recent"],
    &["image", "picture", "photo", "png", "jpeg"],
    &["issue", "ticket", "bug"],
    &["javascript", "js", "script", "code"],
    &["keyboard", "key", "keystroke"],
    &["large", "big", "size", "bigger"],
    &["link", "url", "href", "address"],
    &[
        "list",
        "ls",
        "show",
        "enumerate",
        "display",
        "browse",
        "see",
    ],
    &["mail", "email"],
    &["merge", "combine", "unite"],
    &["message", "notification", "chat"],
    &["metadata", "info", "properties", "attributes", "details"],
    &["move", "mv", "relocate", "rename", "transfer"],
    &["multiple", "several", "many", "bulk"],
    &["navigate", "go", "visit", "open", "goto", "browse"],
    &[
        "person", "user", "people", "member", "account", "entity", "entities",
    ],
    &["picture", "screenshot", "capture", "snapshot", "screen"],
    &["quit", "close", "exit", "end", "stop", "kill", "terminate"],
    &["relation", "relationship", "edge", "connection", "link"],
    &["repeat", "echo", "say"],
    &["repository", "repo", "git"],
    &["request", "network", "http", "traffic"],
    &["resize", "size", "dimension", "viewport", "window"],
    &["restart", "reload", "refresh", "rollout"],
    &["revert", "undo", "reset", "rollback", "unstage"],
    &["save", "store", "write", "commit", "persist", "remember"],
    &["scale", "replica", "grow", "shrink"],
    &["schema", "structure", "column", "describe"],
    &["send", "post", "publish", "submit"],
    &["small", "tiny", "little"],
    &["start", "begin", "launch", "create", "open"],
    &["status", "state", "clean", "modified"],
    &["sum", "total", "addition", "plus", "calculate"],
    &["switch", "checkout", "change", "toggle"],
    &["think", "reason", "reflect", "plan", "thought"],
    &["timezone", "zone", "time"],
    &["tree", "structure", "hierarchy", "recursive"],
    &["upload", "attach", "send"],
    &["visible", "shown", "displayed", "appear"],
    &["wait", "pause", "sleep", "delay", "until"],
    &["workspace", "team", "organization", "users"],
];

/// Synonyms by stem.
static BY_STEM: LazyLock<HashMap<String, Vec<String>>> = LazyLock::new(|| {
    let mut by_stem: HashMap<String, Vec<String>> = HashMap::new();
    for group in GROUPS {
        let stems: Vec<_> = group.iter().map(|word| stem(word).to_owned()).collect();
        for one in &stems {
            let others = stems.iter().filter(|other| *other != one).cloned();
            by_stem.entry(one.clone()).or_default().extend(others);
        }
    }
    for others in by_stem.values_mut() {
        others.sort();
        others.dedup();
    }
    by_stem
});

/// Returns the stems of a stem's synonyms.
pub(super) fn synonyms(stem: &str) -> &'static [String] {
    BY_STEM.get(stem).map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synonyms_are_symmetric() {
        let (folder, directory) = (stem("folder").to_owned(), stem("directory").to_owned());
        assert!(synonyms(&folder).contains(&directory));
        assert!(synonyms(&directory).contains(&folder));
        assert!(synonyms("xyzzy").is_empty());
    }
}
