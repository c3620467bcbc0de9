//! Draws a terminal's text with escape sequences as an SVG.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar;

/// The size of a character cell and the margin, in pixels.
const CELL: (usize, usize) = (8, 18);
const MARGIN: usize = 16;

const FOREGROUND: &str = "#c9d1d9";
const BACKGROUND: &str = "#161b22";

/// The ANSI colours, without those that a theme may make invisible.
const COLOURS: [&str; 8] = [
    "#484f58", "#ff7b72", "#7ee787", "#e3b341", "#79c0ff", "#d2a8ff", "#76e3ea", "#f0f6fc",
];

/// The look of a piece of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Look {
    colour: Option<usize>,
    is_bold: bool,
    is_dim: bool,
    is_italic: bool,
    is_underlined: bool,
    is_reversed: bool,
}

impl Look {
    /// Applies the parameters of an SGR sequence. Colours beyond the 16 are ignored.
    fn apply(&mut self, parameters: &str) {
        let mut codes = parameters
            .split([';', ':'])
            .map(|code| code.parse().unwrap_or(0));
        while let Some(code) = codes.next() {
            match code {
                0 => *self = Self::default(),
                1 => self.is_bold = true,
                2 => self.is_dim = true,
                3 => self.is_italic = true,
                4 => self.is_underlined = true,
                7 => self.is_reversed = true,
                22 => (self.is_bold, self.is_dim) = (false, false),
                23 => self.is_italic = false,
                24 => self.is_underlined = false,
                27 => self.is_reversed = false,
                colour @ 30..=37 => self.colour = Some(colour - 30),
                39 => self.colour = None,
                colour @ 90..=97 => self.colour = Some(colour - 90),
                // `38;5;N` is a colour by number, `38;2;R;G;B` one by its parts; 48 likewise.
                target @ (38 | 48) => match codes.next() {
                    Some(5) => {
                        let number = codes.next().filter(|number| *number < 16);
                        if let (38, Some(number)) = (target, number) {
                            self.colour = Some(number % 8);
                        }
                    }
                    Some(2) => _ = codes.by_ref().take(3).count(),
                    _ => {}
                },
                _ => {}
            }
        }
    }

    fn attributes(self) -> String {
        let colour = self.colour.map_or(FOREGROUND, |index| COLOURS[index]);
        let fill = if self.is_reversed { BACKGROUND } else { colour };
        let mut text = format!("fill=\"{fill}\"");
        for (is_so, attribute) in [
            (self.is_bold, " font-weight=\"bold\""),
            (self.is_dim, " opacity=\"0.6\""),
            (self.is_italic, " font-style=\"italic\""),
            (self.is_underlined, " text-decoration=\"underline\""),
        ] {
            if is_so {
                text.push_str(attribute);
            }
        }
        text
    }
}

/// A piece of a row in one look, from a column on.
#[derive(Debug, PartialEq, Eq)]
struct Piece {
    column: usize,
    width: usize,
    text: String,
    look: Look,
}

/// Draws a screen of so many columns.
pub(super) fn draw(text: &str, columns: usize) -> String {
    let rows: Vec<&str> = text.trim_end().lines().collect();
    let width = columns * CELL.0 + 2 * MARGIN;
    let height = rows.len() * CELL.1 + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" \
         font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n"
    );
    let mut look = Look::default();
    for (index, row) in rows.iter().enumerate() {
        let top = MARGIN + index * CELL.1;
        for piece in pieces(row, &mut look) {
            draw_piece(&mut svg, &piece, top);
        }
    }
    svg + "</svg>\n"
}

fn draw_piece(svg: &mut String, piece: &Piece, top: usize) {
    let x = MARGIN + piece.column * CELL.0;
    let width = piece.width * CELL.0;
    if piece.look.is_reversed {
        let colour = piece.look.colour.map_or(FOREGROUND, |index| COLOURS[index]);
        let height = CELL.1;
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" fill=\"{colour}\"/>"
        );
    }
    if !piece.text.trim().is_empty() {
        let y = top + CELL.1 - 5;
        let attributes = piece.look.attributes();
        let text = escape(&piece.text);
        // The length keeps columns aligned in whatever font the reader has.
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"{y}\" textLength=\"{width}\" {attributes} \
             xml:space=\"preserve\">{text}</text>"
        );
    }
}

/// Splits a row where its look changes. tmux carries the look over from row to row.
fn pieces(row: &str, look: &mut Look) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut column = 0;
    let mut rest = row;
    while let Some(first) = rest.chars().next() {
        if let Some(sequence) = rest.strip_prefix("\u{1b}[") {
            let end = sequence.find(|c: char| c.is_ascii_alphabetic());
            let end = end.unwrap_or(sequence.len());
            if sequence[end..].starts_with('m') {
                look.apply(&sequence[..end]);
            }
            rest = sequence.get(end + 1..).unwrap_or_default();
            continue;
        }
        rest = &rest[first.len_utf8()..];
        // tmux also marks where another character set begins and ends.
        if first.is_control() {
            continue;
        }
        let width = first.width().unwrap_or(0);
        match pieces.last_mut() {
            Some(piece) if piece.look == *look => {
                piece.text.push(first);
                piece.width += width;
            }
            _ => pieces.push(Piece {
                column,
                width,
                text: first.to_string(),
                look: *look,
            }),
        }
        column += width;
    }
    pieces
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_split_where_its_look_changes() {
        let mut look = Look::default();
        let row = "a\u{1b}[1;32m✓日\u{1b}[0m b";
        let found: Vec<_> = pieces(row, &mut look)
            .into_iter()
            .map(|piece| (piece.column, piece.width, piece.text, piece.look.colour))
            .collect();
        assert_eq!(
            found,
            [
                (0, 1, "a".to_owned(), None),
                (1, 3, "✓日".to_owned(), Some(2)),
                (4, 2, " b".to_owned(), None),
            ]
        );
    }

    #[test]
    fn colours_by_number_are_no_other_attributes() {
        let mut look = Look::default();
        look.apply("38;5;2");
        let green = Look {
            colour: Some(2),
            ..Look::default()
        };
        assert_eq!(look, green);
        look.apply("48;5;3;38;2;1;2;3");
        assert_eq!(look, green);
        look.apply("1;39");
        assert!(look.is_bold && look.colour.is_none());
    }

    #[test]
    fn text_is_escaped_and_rows_become_elements() {
        let svg = draw("a <b> & c\n\n\u{1b}[7mx\u{1b}[0m\n\n", 20);
        assert!(svg.contains("a &lt;b&gt; &amp; c"), "{svg}");
        assert_eq!(svg.matches("<text").count(), 2, "{svg}");
        assert_eq!(svg.matches("<rect").count(), 2, "{svg}");
    }
}
