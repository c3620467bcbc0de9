//! Results as documents: blocks of text, media and links, or why a call failed.

use serde_json::Value;
use trunkline::context::{PromptOutput, ResourceBody, ResourceContents};
use trunkline::result::Content;
use trunkline::{CallError, CallOutput};

use super::doc::{DocLine, Tone};
use super::{picture, text};
use crate::output::inline;

/// The most lines of a result.
const MAX_LINES: usize = 20_000;

/// Renders the result of a tool.
pub(super) fn output(output: &CallOutput) -> Vec<DocLine> {
    let mut lines = Vec::new();
    if output.is_error {
        lines.push(DocLine::own("the tool reported an error").tone(Tone::Bad));
    }
    let mut texts = Vec::new();
    for content in output.content() {
        if let Content::Text(block) = &content {
            texts.push(block.text().into_owned());
        }
        push_content(&content, &mut lines);
    }
    let structured = output.structured_content.as_ref();
    if let Some(structured) = structured.and_then(|json| json.to_value().ok()) {
        let same =
            |text: &String| serde_json::from_str::<Value>(text).ok().as_ref() == Some(&structured);
        if !texts.iter().any(same) {
            lines.push(DocLine::own(""));
            lines.push(DocLine::heading("Structured content"));
            push_json(&structured, &mut lines);
        }
    }
    for file in &output.files {
        let path = text::line(&file.path.display().to_string());
        let size = text::size(usize::try_from(file.size).unwrap_or(usize::MAX));
        let line = format!("{path} ({}, {size})", text::line(&file.mime_type));
        if file.mime_type.starts_with("image/") {
            push_picture(picture::of_file(&file.path), &mut lines);
        }
        lines.push(DocLine::field("saved", line).tone(Tone::Hint));
    }
    for warning in &output.warnings {
        lines.push(DocLine::field("warning", inline(warning)).tone(Tone::Warn));
    }
    bounded(lines)
}

/// Renders the contents of a resource.
pub(super) fn resource(read: &ResourceContents) -> Vec<DocLine> {
    let mut lines = Vec::new();
    for content in &read.contents {
        if read.contents.len() > 1 {
            lines.push(DocLine::heading(text::line(&content.uri)));
        }
        match &content.body {
            ResourceBody::Text(body) => push_text(body, &mut lines),
            ResourceBody::Blob(body) => {
                let mime = content.mime_type.as_deref().unwrap_or("binary");
                let size = text::size(body.len() / 4 * 3);
                if mime.starts_with("image/") {
                    push_picture(picture::of_base64(body), &mut lines);
                }
                lines.push(DocLine::own(format!("[{}, {size}]", text::line(mime))).tone(Tone::Dim));
            }
        }
    }
    for warning in &read.warnings {
        lines.push(DocLine::field("warning", inline(warning)).tone(Tone::Warn));
    }
    bounded(lines)
}

/// Renders the messages of a prompt.
pub(super) fn prompt(output: &PromptOutput) -> Vec<DocLine> {
    let mut lines = Vec::new();
    if let Some(about) = &output.description {
        lines.extend(DocLine::foreign(about));
        lines.push(DocLine::own(""));
    }
    for message in &output.messages {
        lines.push(DocLine::heading(text::line(&message.role)));
        push_content(&Content::from(&message.content), &mut lines);
    }
    bounded(lines)
}

/// Explains why a call failed.
pub(super) fn error(error: &CallError) -> Vec<DocLine> {
    let mut lines = vec![DocLine::field("error", inline(&error.to_string())).tone(Tone::Bad)];
    for problem in error.problems() {
        lines.push(DocLine::field("problem", inline(problem)));
    }
    if let Some(hint) = error.hint() {
        lines.push(DocLine::field("hint", text::line(&hint)).tone(Tone::Hint));
    }
    if let Some(change) = error.change() {
        lines.push(DocLine::own(""));
        lines.push(DocLine::heading("The tool has changed"));
        lines.extend(diff(&change.diff()));
    }
    let stderr = error.stderr();
    if !stderr.is_empty() {
        lines.push(DocLine::own(""));
        lines.push(DocLine::heading("Standard error"));
        for line in stderr {
            lines.extend(DocLine::foreign(&inline(line)));
        }
    }
    lines
}

/// Renders a diff.
pub(super) fn diff(text: &str) -> impl Iterator<Item = DocLine> + '_ {
    DocLine::foreign(text).map(|line| {
        let tone = match line.text.trim_start().chars().next() {
            Some('-') => Tone::Bad,
            Some('+') => Tone::Good,
            _ => Tone::Plain,
        };
        line.tone(tone)
    })
}

fn push_content(content: &Content, lines: &mut Vec<DocLine>) {
    let note = |text: String| DocLine::own(text).tone(Tone::Dim);
    let media = |kind: &str, mime: Option<String>, base64: Option<String>| {
        let mime = text::line(&mime.unwrap_or_default());
        let size = text::size(base64.map_or(0, |data| data.len() / 4 * 3));
        note(format!("[{kind} {mime}, {size}]"))
    };
    match content {
        Content::Text(block) => push_text(&block.text(), lines),
        Content::Image(block) => {
            let data = block.base64();
            push_picture(
                picture::of_base64(data.as_deref().unwrap_or_default()),
                lines,
            );
            lines.push(media("image", block.mime_type(), data));
        }
        Content::Audio(block) => lines.push(media("audio", block.mime_type(), block.base64())),
        Content::Resource(block) => {
            let uri = text::line(&block.uri().unwrap_or_default());
            lines.push(note(format!("[resource {uri}]")));
            if let Some(body) = block.text() {
                push_text(&body, lines);
            }
        }
        Content::ResourceLink(block) => {
            let uri = text::line(&block.uri().unwrap_or_default());
            let about = block.description().or_else(|| block.name());
            let about = about.map(|about| format!(": {}", text::line(&about)));
            lines.push(note(format!("[link {uri}{}]", about.unwrap_or_default())));
        }
        other => {
            let raw = other.raw();
            push_text(raw.as_str(), lines);
        }
    }
}

fn push_picture(rows: Vec<picture::PictureRow>, lines: &mut Vec<DocLine>) {
    lines.extend(rows.into_iter().map(DocLine::picture));
}

/// Adds foreign text; JSON is indented.
fn push_text(body: &str, lines: &mut Vec<DocLine>) {
    let trimmed = body.trim_start();
    if trimmed.starts_with(['{', '['])
        && let Ok(value) = serde_json::from_str::<Value>(trimmed)
    {
        return push_json(&value, lines);
    }
    lines.extend(markdown(DocLine::foreign(body)));
}

/// Marks headings and code of Markdown; the text itself stays as it is.
fn markdown(lines: impl Iterator<Item = DocLine>) -> impl Iterator<Item = DocLine> {
    let mut in_code = false;
    lines.map(move |line| {
        let is_fence = line.text.trim_start().starts_with("```");
        in_code ^= is_fence;
        let hashes = line.text.trim_start_matches('#');
        let depth = line.text.len() - hashes.len();
        if is_fence {
            line.tone(Tone::Dim)
        } else if in_code {
            line.tone(Tone::Hint)
        } else if (1..=6).contains(&depth) && hashes.starts_with(' ') {
            line.tone(Tone::Bold)
        } else {
            line
        }
    })
}

fn push_json(value: &Value, lines: &mut Vec<DocLine>) {
    let pretty = serde_json::to_string_pretty(value).unwrap_or_default();
    lines.extend(DocLine::foreign(&pretty));
}

fn bounded(mut lines: Vec<DocLine>) -> Vec<DocLine> {
    if lines.len() > MAX_LINES {
        let more = lines.len() - MAX_LINES;
        lines.truncate(MAX_LINES);
        lines.push(DocLine::own(format!("… ({more} more lines)")).tone(Tone::Dim));
    }
    if lines.is_empty() {
        lines.push(DocLine::own("the result is empty").tone(Tone::Dim));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_is_marked() {
        let lines = output(&CallOutput::of_text("# A\n#b\n```\n# code\n```\nend"));
        let tones: Vec<_> = lines.iter().map(|line| line.tone).collect();
        let (dim, code) = (Tone::Dim, Tone::Hint);
        assert_eq!(
            tones,
            [Tone::Bold, Tone::Plain, dim, code, dim, Tone::Plain]
        );
    }

    #[test]
    fn text_stays_and_json_is_indented() {
        let lines = output(&CallOutput::of_text("plain\n\u{1b}[2J"));
        let texts: Vec<_> = lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["plain", "\\u{1b}[2J"]);
        let lines = output(&CallOutput::of_text("{\"a\":1}"));
        assert_eq!(lines[1].text, "  \"a\": 1");
        let lines = output(&CallOutput::failure("no"));
        assert_eq!(lines[0].text, "the tool reported an error");
        let long = "x\n".repeat(MAX_LINES + 5);
        assert_eq!(output(&CallOutput::of_text(long)).len(), MAX_LINES + 1);
    }
}
