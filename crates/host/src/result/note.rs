//! Notes for the model in place of omitted content. All their wording is here; text from servers is
//! sanitized.

use std::fmt::Write as _;

use crate::text::harmless;

use super::SavedFile;
use super::size::Size;

/// A part was saved.
pub(super) fn saved(what: &str, file: &SavedFile) -> String {
    format!(
        "[{} saved to {} ({}, {} bytes)]",
        harmless(what),
        file.path.display(),
        file.mime_type,
        grouped(file.size)
    )
}

/// A part was omitted.
pub(super) fn left_out(what: &str, why: &str) -> String {
    format!("[{} left out: {}]", harmless(what), harmless(why))
}

/// The number of blocks without a note.
pub(super) fn unsaid(count: usize) -> String {
    format!(
        "[{} more blocks left out: there are too many]",
        grouped(count as u64)
    )
}

/// The source of an image that came in another block.
pub(super) fn image_of(what: &str) -> String {
    format!("[{}:]", harmless(what))
}

/// An image was scaled: coordinates change with it.
pub(super) fn scaled(before: (u32, u32), after: (u32, u32)) -> String {
    let factor = f64::from(before.0.max(before.1)) / f64::from(after.0.max(after.1).max(1));
    format!(
        "[the image above is {} × {} pixels, shown at {} × {}; multiply coordinates by {factor:.2}]",
        before.0, before.1, after.0, after.1
    )
}

/// A large text that was saved.
pub(super) struct Large<'a> {
    /// The subject: "the result", …
    pub(super) what: &'a str,
    pub(super) file: &'a SavedFile,
    pub(super) size: &'a Size,
    /// The description of JSON, and whether it covers only the beginning.
    pub(super) shape: Option<(&'a str, bool)>,
}

impl Large<'_> {
    pub(super) fn text(&self) -> String {
        let Self {
            what,
            file,
            size,
            shape,
        } = self;
        let mut text = format!(
            "[{what} is too large to show: {}. All of it was saved to {} ({}, {} bytes, {}).\n",
            measure(size),
            file.path.display(),
            file.mime_type,
            grouped(file.size),
            lines(size),
        );
        if let Some((shape, partly)) = shape {
            let begins = if *partly { "It begins with" } else { "It has" };
            let _ = writeln!(text, "{begins} this shape: {shape}");
        }
        let how = match (shape.is_some(), has_short_lines(size)) {
            (true, false) => "ask for parts of it with a tool for JSON such as jq",
            (true, true) => {
                "ask for parts of it with a tool for JSON such as jq, search in it, or read some lines at a time"
            }
            (false, true) => "search in it, or read some lines at a time",
            (false, false) => {
                "search in it, or read it in parts by byte offset: its lines are long"
            }
        };
        let _ = write!(text, "To use it, {how}; do not read all of it at once.]");
        text
    }
}

/// A text was truncated, with the reason why it is in no file.
pub(super) fn truncated(shown: &Size, whole: &Size, why: &str) -> String {
    format!(
        "[truncated: only the first {} of {} are shown; {}. Ask for less at a time, if the tool can do that.]",
        grouped(shown.chars),
        measure(whole),
        harmless(why)
    )
}

fn measure(size: &Size) -> String {
    format!(
        "{} characters (about {} tokens)",
        grouped(size.chars),
        grouped(size.tokens())
    )
}

fn lines(size: &Size) -> String {
    match size.lines + 1 {
        1 => "1 line".to_owned(),
        lines => format!("{} lines", grouped(lines)),
    }
}

/// True if reading by lines is useful.
fn has_short_lines(size: &Size) -> bool {
    const SHORT: u64 = 2000;
    size.chars / (size.lines + 1) < SHORT
}

/// Formats a number with separators.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (123_456, "123,456"),
            (12_345_678, "12,345,678"),
        ];
        for (number, text) in cases {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn what_a_server_says_in_a_note_is_harmless() {
        assert_eq!(
            left_out("resource \u{202e}x\u{1b}[2J", "y\n"),
            "[resource \\u{202e}x\\u{1b}[2J left out: y\\u{a}]"
        );
    }

    #[test]
    fn how_to_read_a_file_depends_on_what_it_is() {
        let file = SavedFile {
            path: "/r/f.txt".into(),
            mime_type: "text/plain".to_owned(),
            size: 200_000,
        };
        let told = |text: &str, shape| {
            let size = &Size::of(text);
            let what = "the result";
            let file = &file;
            Large {
                what,
                file,
                size,
                shape,
            }
            .text()
        };
        let (lines, line) = ("a line\n".repeat(30_000), "x".repeat(200_000));
        assert_eq!(
            told(&lines, None),
            "[the result is too large to show: 210,000 characters (about 52,500 tokens). All of it was saved to /r/f.txt \
             (text/plain, 200,000 bytes, 30,001 lines).\n\
             To use it, search in it, or read some lines at a time; do not read all of it at once.]"
        );
        assert!(
            told(&line, None).contains("1 line)") && told(&line, None).contains("by byte offset")
        );
        let json = told(&line, Some(("{a: number}", false)));
        assert!(json.contains("\nIt has this shape: {a: number}\nTo use it, ask for parts of it with a tool for JSON"), "{json}");
        assert!(
            told(&lines, Some(("[string]", true)))
                .contains("\nIt begins with this shape: [string]\n")
        );
    }
}
