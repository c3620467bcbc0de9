//! The looks of the terminal: colours or none, Unicode or ASCII.
//!
//! Views draw with colours and Unicode. One pass over the finished frame takes away what the
//! terminal cannot show, so no view can forget it.

use ratatui::buffer::Buffer;
use ratatui::style::Color;

use crate::output::{Stream, is_utf8};
use crate::ui::picture::{Colours, indexed};

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ui) struct Theme {
    pub(in crate::ui) colour: bool,
    pub(in crate::ui) unicode: bool,
    /// The colours of pictures; `None` where pictures cannot be shown.
    pub(in crate::ui) pictures: Option<Colours>,
}

impl Theme {
    /// Decides as the command line does: `--color`, `NO_COLOR` and the locale.
    pub(in crate::ui) fn from_env() -> Self {
        Self {
            colour: Stream::Out.is_coloured(),
            unicode: is_utf8(),
            pictures: Colours::of_terminal(),
        }
    }

    /// Takes away what the terminal cannot show.
    pub(super) fn apply(self, buffer: &mut Buffer) {
        let has_all = self.pictures == Some(Colours::All);
        if self.colour && self.unicode && has_all {
            return;
        }
        for cell in &mut buffer.content {
            if !has_all {
                cell.fg = fewer(cell.fg);
                cell.bg = fewer(cell.bg);
            }
            if !self.colour {
                cell.fg = Color::Reset;
                cell.bg = Color::Reset;
            }
            if !self.unicode && !cell.symbol().is_ascii() {
                let c = cell.symbol().chars().next().unwrap_or(' ');
                cell.set_char(ascii(c));
            }
        }
    }
}

/// Returns the colour of the palette of 256 that is near one of a picture.
fn fewer(colour: Color) -> Color {
    let Color::Rgb(red, green, blue) = colour else {
        return colour;
    };
    Color::Indexed(indexed([red, green, blue]))
}

/// Returns the ASCII sign for one of our signs, or `?` for other text.
fn ascii(c: char) -> char {
    match c {
        '✓' | '┌' | '┐' | '└' | '┘' => '+',
        '✗' => 'x',
        '◌' => '~',
        '▸' | '→' | '›' => '>',
        '←' | '‹' => '<',
        '…' | '·' => '.',
        '•' | '█' | '⠋' | '⠙' | '⠹' | '⠸' | '⠼' | '⠴' | '⠦' | '⠧' => '*',
        '○' | '─' | '—' | '–' | '░' => '-',
        '│' | '▏' => '|',
        '↑' => '^',
        '↓' => 'v',
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;
    use ratatui::style::{Modifier, Style};

    use super::*;

    #[test]
    fn pictures_get_the_colours_that_the_terminal_has() {
        let painted = |pictures| {
            let mut buffer = Buffer::empty(Rect::new(0, 0, 1, 1));
            let style = Style::new().fg(Color::Rgb(255, 0, 0)).bg(Color::Blue);
            buffer.set_string(0, 0, "▀", style);
            let theme = Theme {
                colour: true,
                unicode: true,
                pictures,
            };
            theme.apply(&mut buffer);
            (buffer.content[0].fg, buffer.content[0].bg)
        };
        let red = Color::Rgb(255, 0, 0);
        assert_eq!(painted(Some(Colours::All)), (red, Color::Blue));
        let red = Color::Indexed(196);
        assert_eq!(painted(Some(Colours::Few)), (red, Color::Blue));
    }

    #[test]
    fn a_plain_terminal_gets_neither_colours_nor_unicode() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 10, 1));
        let style = Style::new().fg(Color::Red).add_modifier(Modifier::REVERSED);
        buffer.set_string(0, 0, "✗ a宽é…", style);
        Theme {
            colour: false,
            unicode: false,
            pictures: None,
        }
        .apply(&mut buffer);
        let cells = buffer.content.iter();
        let text: String = cells.map(ratatui::buffer::Cell::symbol).collect();
        assert_eq!(text, "x a? ?.   ");
        assert!(buffer.content.iter().all(|cell| cell.fg == Color::Reset));
        assert!(buffer.content[0].modifier.contains(Modifier::REVERSED));
    }
}
