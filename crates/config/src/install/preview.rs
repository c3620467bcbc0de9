//! Shows an edit as a diff without the values of the rest of the file, which may be secrets
//! (SEC-1).

use crate::edit::text_edit::TextEdit;

use super::client::Format;

/// The number of unchanged lines around a change.
const CONTEXT: usize = 2;

/// The maximum length of a shown line, in characters.
const MAX_LINE: usize = 300;

/// A line of a diff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiffLine {
    /// A line that stays.
    Context(String),
    /// A line that is removed.
    Removed(String),
    /// A line that is added.
    Added(String),
}

/// The diff of edits. What they insert is shown as it is, and the rest with masked values. A line
/// of TOML is replaced as a whole, with the neighbours in it.
pub(super) fn of_edits(old: &str, edits: &[TextEdit], format: Format) -> Vec<DiffLine> {
    let (mut before, mut after) = (String::new(), String::new());
    let mut at = 0;
    for edit in edits {
        let kept = masked(old.get(at..edit.at).unwrap_or_default(), format);
        let end = edit.at + edit.removed;
        before.push_str(&kept);
        before.push_str(&masked(old.get(edit.at..end).unwrap_or_default(), format));
        after.push_str(&kept);
        if matches!(format, Format::Toml) && edit.removed > 0 {
            after.push_str(&masked(&edit.inserted, format));
        } else {
            after.push_str(&edit.inserted);
        }
        at = end;
    }
    let rest = masked(old.get(at..).unwrap_or_default(), format);
    before.push_str(&rest);
    after.push_str(&rest);
    diff(&before, &after)
}

/// The diff of two texts with masked values.
pub(super) fn of_texts(old: &str, new: &str, format: Format) -> Vec<DiffLine> {
    diff(&masked(old, format), &masked(new, format))
}

fn diff(old: &str, new: &str) -> Vec<DiffLine> {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let before = old.iter().zip(&new).take_while(same).count();
    let (olds, news) = (&old[before..], &new[before..]);
    let after = olds
        .iter()
        .rev()
        .zip(news.iter().rev())
        .take_while(same)
        .count();
    let (olds, news) = (&olds[..olds.len() - after], &news[..news.len() - after]);
    let context = |lines: &[&str]| -> Vec<DiffLine> {
        lines
            .iter()
            .map(|line| DiffLine::Context(cut(line)))
            .collect()
    };
    let mut lines = context(&old[before.saturating_sub(CONTEXT)..before]);
    lines.extend(olds.iter().map(|line| DiffLine::Removed(cut(line))));
    lines.extend(news.iter().map(|line| DiffLine::Added(cut(line))));
    let rest = &old[old.len() - after..];
    lines.extend(context(&rest[..rest.len().min(CONTEXT)]));
    lines
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

fn masked(text: &str, format: Format) -> String {
    match format {
        Format::Json(_) => masked_json(text),
        Format::Toml => masked_toml(text),
    }
}

/// Masks strings that are not keys, and comments.
fn masked_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (length, shown) = if first == '"' {
            let end = string_end(rest);
            let is_key = rest[end..].trim_start().starts_with(':');
            (end, if is_key { &rest[..end] } else { "\"…\"" })
        } else if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), "// …")
        } else if rest.starts_with("/*") {
            let end = rest.get(2..).and_then(|rest| rest.find("*/"));
            (end.map_or(rest.len(), |end| end + 4), "/* … */")
        } else {
            let end = first.len_utf8();
            (end, &rest[..end])
        };
        out.push_str(shown);
        rest = &rest[length..];
    }
    out
}

/// The end of the string that begins `text`.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Masks everything but headers and the keys of lines.
fn masked_toml(text: &str) -> String {
    let lines = text.split_inclusive('\n').map(|line| {
        let body = line.trim_end();
        let end = &line[body.len()..];
        let trimmed = body.trim_start();
        let shown = match trimmed.split_once('=') {
            _ if trimmed.is_empty() => String::new(),
            _ if is_header(trimmed) => trimmed.to_owned(),
            Some((key, _)) if is_key(key.trim()) => format!("{} = …", key.trim()),
            _ => "…".to_owned(),
        };
        shown + end
    });
    lines.collect()
}

fn is_header(line: &str) -> bool {
    line.starts_with('[') && line.ends_with(']') && !line.contains(['"', '\'', ',', '='])
}

fn is_key(key: &str) -> bool {
    let is_bare = |char: char| char.is_ascii_alphanumeric() || "_-.".contains(char);
    !key.is_empty() && key.chars().all(is_bare)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::jsonc::Dialect;

    fn shown(lines: &[DiffLine]) -> String {
        let line = |line: &DiffLine| match line {
            DiffLine::Context(text) => format!("  {text}\n"),
            DiffLine::Removed(text) => format!("- {text}\n"),
            DiffLine::Added(text) => format!("+ {text}\n"),
        };
        lines.iter().map(line).collect()
    }

    #[test]
    fn only_the_new_text_shows_values() {
        let old = "{\n  \"m\": {\n    \"a\": {\"env\": {\"T\": \"hunter2\", \"q\": \"\\\"hunter2\"}} // hunter2\n  }\n}\n";
        let at = old.find("}} //").unwrap() + 2;
        let comment = old.find("hunter2\n").unwrap() + "hunter2".len();
        let edits = [
            TextEdit::insert(at, ","),
            TextEdit::insert(comment, "\n    \"b\": \"new\""),
        ];
        let lines = of_edits(old, &edits, Format::Json(Dialect::Jsonc));
        assert_eq!(
            shown(&lines),
            "  {\n    \"m\": {\n-     \"a\": {\"env\": {\"T\": \"…\", \"q\": \"…\"}} // …\n\
             +     \"a\": {\"env\": {\"T\": \"…\", \"q\": \"…\"}}, // …\n+     \"b\": \"new\"\n    }\n  }\n"
        );
    }

    #[test]
    fn a_replaced_line_of_toml_does_not_show_its_neighbours() {
        let old = "mcp_servers = { a = { env = { T = \"hunter2\" } } }\n";
        let new = old.replace(" } }", " }, b = { command = \"new\" } }");
        let edit = TextEdit {
            at: 0,
            removed: old.len(),
            inserted: new,
        };
        let lines = shown(&of_edits(old, &[edit], Format::Toml));
        assert!(!lines.contains("hunter2"), "{lines}");
    }

    #[test]
    fn values_of_toml_are_masked_wherever_they_are() {
        let text =
            "[a.b]\nk = 'hunter2'\nlong = \"\"\"\nhunter2\n\"\"\"\n[\"hunter2\"]\n# hunter2\n";
        let masked = masked_toml(text);
        assert_eq!(masked, "[a.b]\nk = …\nlong = …\n…\n…\n…\n…\n");
    }
}
