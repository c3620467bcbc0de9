//! The looks of the terminal: colours or none, Unicode or ASCII.
//!
//! Views draw with colours and Unicode. One pass over the finished frame takes away what the
//! terminal cannot show, so no view can forget it.

use ratatui::buffer::Buffer;
use ratatui::style::Color;
use trunkline_config::env_vars;

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ui) struct Theme {
    pub(in crate::ui) colour: bool,
    pub(in crate::ui) unicode: bool,
}

impl Theme {
    /// Reads `NO_COLOR` and the locale.
    pub(in crate::ui) fn from_env() -> Self {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        Self {
            colour: set(env_vars::NO_COLOR).is_none(),
            unicode: is_utf8(locale.as_deref()),
        }
    }

    /// Takes away what the terminal cannot show.
    pub(super) fn apply(self, buffer: &mut Buffer) {
        if self.colour && self.unicode {
            return;
        }
        for cell in &mut buffer.content {
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

/// Returns whether a locale is UTF-8. macOS and Windows are, whatever they say.
fn is_utf8(locale: Option<&str>) -> bool {
    if cfg!(any(windows, target_os = "macos")) {
        return true;
    }
    let locale = locale.unwrap_or_default().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Returns the ASCII sign for one of our signs, or `?` for other text.
fn ascii(c: char) -> char {
    match c {
        '✓' => '+',
        '✗' => 'x',
        '◌' => '~',
        '○' => '-',
        '▸' | '→' => '>',
        '←' => '<',
        '…' | '·' => '.',
        '•' | '█' => '*',
        '─' | '—' | '–' | '░' => '-',
        '│' | '▏' => '|',
        '┌' | '┐' | '└' | '┘' | '├' | '┤' => '+',
        '↑' => '^',
        '↓' => 'v',
        '‹' => '<',
        '›' => '>',
        '⠋' | '⠙' | '⠹' | '⠸' | '⠼' | '⠴' | '⠦' | '⠧' => '*',
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;
    use ratatui::style::{Modifier, Style};

    use super::*;

    #[test]
    fn a_plain_terminal_gets_neither_colours_nor_unicode() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 10, 1));
        let style = Style::new().fg(Color::Red).add_modifier(Modifier::REVERSED);
        buffer.set_string(0, 0, "✗ a宽é…", style);
        Theme {
            colour: false,
            unicode: false,
        }
        .apply(&mut buffer);
        let text: String = buffer.content.iter().map(|cell| cell.symbol()).collect();
        assert_eq!(text, "x a? ?.   ");
        assert!(buffer.content.iter().all(|cell| cell.fg == Color::Reset));
        assert!(buffer.content[0].modifier.contains(Modifier::REVERSED));
    }

    #[test]
    fn the_locale_decides() {
        for (locale, expected) in [
            (Some("en_US.UTF-8"), true),
            (Some("C.utf8"), true),
            (Some("C"), false),
            (Some("de_DE.ISO-8859-1"), false),
            (None, false),
        ] {
            if cfg!(target_os = "linux") {
                assert_eq!(is_utf8(locale), expected, "{locale:?}");
            }
        }
    }
}
