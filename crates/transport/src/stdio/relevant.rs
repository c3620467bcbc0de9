//! The lines of a server's stderr that explain its failure.

/// The most lines to show.
pub(super) const MAX_LINES: usize = 20;

/// First and last lines that are always shown.
const FIRST: usize = 4;
const LAST: usize = 6;

/// Marks omitted lines.
const GAP_MARK: &str = "…";

/// Words of lines that look like errors.
const ERROR_WORDS: [&str; 24] = [
    "cannot",
    "could not",
    "couldn't",
    "denied",
    "enoent",
    "error",
    "exception",
    "expected",
    "fail",
    "fatal",
    "invalid",
    "is not defined",
    "missing",
    "must be",
    "must set",
    "no such",
    "not found",
    "not set",
    "panic",
    "refused",
    "required",
    "unable",
    "unauthorized",
    "unknown",
];

/// Returns the first lines, the last lines, and those between that look like errors, each once,
/// with `…` for omitted ones. Short output is returned whole.
pub(super) fn relevant_lines(lines: &[&str]) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    let is_new: Vec<bool> = lines.iter().map(|line| seen.insert(line.trim())).collect();
    let new = |at: &usize| is_new[*at];
    let count = is_new.iter().filter(|is_new| **is_new).count();
    if count <= MAX_LINES {
        let shown = (0..lines.len()).filter(new);
        return shown.map(|at| lines[at].to_owned()).collect();
    }
    let is_useful = |at: &usize| new(at) && !is_stack_frame(lines[*at]);
    let first = (0..lines.len()).filter(new).take(FIRST);
    let last = (0..lines.len()).rev().filter(is_useful).take(LAST);
    let ends: Vec<usize> = first.chain(last).collect();
    let errors: Vec<usize> = (0..lines.len())
        .filter(|at| is_useful(at) && looks_like_error(lines[*at]) && !ends.contains(at))
        .take(MAX_LINES - FIRST - LAST)
        .collect();
    // The gap marks count as lines.
    let mut kept = errors.len();
    loop {
        let mut picked = [&ends[..], &errors[..kept]].concat();
        picked.sort_unstable();
        picked.dedup();
        let shown = with_gaps(lines, &picked, &is_new);
        if shown.len() <= MAX_LINES || kept == 0 {
            return shown;
        }
        kept -= 1;
    }
}

/// The picked lines with marks for gaps. A repeated line is not a gap.
fn with_gaps(lines: &[&str], picked: &[usize], is_new: &[bool]) -> Vec<String> {
    let mut shown = Vec::with_capacity(MAX_LINES);
    let mut next = 0;
    for &at in picked {
        if is_new[next..at].contains(&true) {
            shown.push(GAP_MARK.to_owned());
        }
        shown.push(lines[at].to_owned());
        next = at + 1;
    }
    shown
}

/// Whether a line looks like an error.
fn looks_like_error(line: &str) -> bool {
    let line = line.to_lowercase();
    ERROR_WORDS.iter().any(|word| line.contains(word))
}

/// Whether a line is a frame of a stack trace.
fn is_stack_frame(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("at ") || line.starts_with("File \"") || line.starts_with("node:internal")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &[String], expected: &[&str]) {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(relevant_lines(&lines), expected);
    }

    fn numbered(what: &str, count: usize) -> Vec<String> {
        (0..count)
            .map(|number| format!("{what} {number}"))
            .collect()
    }

    #[test]
    fn few_lines_are_shown_whole_without_repeats() {
        check(&[], &[]);
        let lines = ["a", "b", "a", "c"].map(str::to_owned);
        check(&lines, &["a", "b", "c"]);
        let twenty = numbered("line", 20);
        let expected: Vec<&str> = twenty.iter().map(String::as_str).collect();
        check(&twenty, &expected);
    }

    #[test]
    fn the_cause_is_shown_before_usage_text() {
        let mut lines = vec!["Error: SENTRY_ACCESS_TOKEN is not set".to_owned()];
        lines.extend(numbered("  --flag", 40));
        let expected = [
            "Error: SENTRY_ACCESS_TOKEN is not set",
            "  --flag 0",
            "  --flag 1",
            "  --flag 2",
            "…",
            "  --flag 34",
            "  --flag 35",
            "  --flag 36",
            "  --flag 37",
            "  --flag 38",
            "  --flag 39",
        ];
        check(&lines, &expected);
    }

    #[test]
    fn the_cause_is_shown_between_startup_and_stack_trace() {
        let mut lines = numbered("loading", 10);
        lines.push("TypeError: x is undefined".to_owned());
        lines.extend(numbered("    at f (index.js)", 30));
        lines.push("Node.js v22".to_owned());
        let expected = [
            "loading 0",
            "loading 1",
            "loading 2",
            "loading 3",
            "…",
            "loading 6",
            "loading 7",
            "loading 8",
            "loading 9",
            "TypeError: x is undefined",
            "…",
            "Node.js v22",
        ];
        check(&lines, &expected);
    }

    #[test]
    fn a_flood_of_errors_is_bounded_and_keeps_the_first_ones() {
        let lines = numbered("error", 1000);
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let shown = relevant_lines(&lines);
        assert!(shown.len() <= MAX_LINES, "{shown:?}");
        assert_eq!((&*shown[0], &*shown[5]), ("error 0", "error 5"));
        assert_eq!(shown.last().unwrap(), "error 999");
        let scattered: Vec<String> = (0..1000)
            .map(|line| match line % 3 {
                0 => format!("error {line}"),
                _ => format!("note {line}"),
            })
            .collect();
        let lines: Vec<&str> = scattered.iter().map(String::as_str).collect();
        let shown = relevant_lines(&lines);
        assert!(
            shown.len() <= MAX_LINES && shown.iter().any(|line| line == "error 6"),
            "{shown:?}"
        );
    }
}
