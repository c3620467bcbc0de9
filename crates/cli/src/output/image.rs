//! Shows images in terminals that can: the protocols of kitty and iTerm2.

use std::io::{Read, Write as _};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::style::Stream;
use super::{result_bytes, width};

/// Larger files are not sent to the terminal.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// The longest piece of an image in kitty's protocol.
const CHUNK: usize = 4096;

/// The presumed width of a cell, to tell which images are too wide.
const CELL_PIXELS: u32 = 8;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// A protocol for images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// PNG only.
    Kitty,
    Iterm,
}

/// Shows an image file on the terminal; false if the terminal cannot.
pub(crate) fn show_image(file: &Path) -> bool {
    let Some(protocol) = protocol() else {
        return false;
    };
    let Some(bytes) = read(file) else {
        return false;
    };
    let columns = width(Stream::Out).unwrap_or(80);
    let Some(text) = protocol.encode(&bytes, columns) else {
        return false;
    };
    result_bytes(&text);
    true
}

fn read(file: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(file).ok()?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
    let fits = u64::try_from(bytes.len()).is_ok_and(|length| length <= MAX_BYTES);
    fits.then_some(bytes)
}

fn protocol() -> Option<Protocol> {
    if !Stream::Out.is_terminal() {
        return None;
    }
    detect(|name| std::env::var(name).ok())
}

/// Detects the protocol by the variables that terminals set. Multiplexers pass neither on.
fn detect(variable: impl Fn(&str) -> Option<String>) -> Option<Protocol> {
    let is = |name: &str, values: &[&str]| {
        variable(name).is_some_and(|value| values.contains(&value.as_str()))
    };
    let terminal = variable("TERM").unwrap_or_default();
    if variable("TMUX").is_some() || terminal.starts_with("screen") || terminal.starts_with("tmux")
    {
        return None;
    }
    let is_kitty = terminal == "xterm-kitty" || terminal == "xterm-ghostty";
    if is_kitty || variable("KITTY_WINDOW_ID").is_some() || is("TERM_PROGRAM", &["ghostty"]) {
        return Some(Protocol::Kitty);
    }
    let is_iterm = is("TERM_PROGRAM", &["iTerm.app", "WezTerm"]) || is("LC_TERMINAL", &["iTerm2"]);
    is_iterm.then_some(Protocol::Iterm)
}

impl Protocol {
    /// Encodes an image; `None` if the protocol does not know its format. The payload is Base64, so
    /// nothing in it can end the sequence.
    fn encode(self, image: &[u8], columns: usize) -> Option<Vec<u8>> {
        let data = STANDARD.encode(image);
        let mut text = Vec::with_capacity(data.len() + 256);
        match self {
            Self::Kitty => {
                let wide = png_width(image)?.div_ceil(CELL_PIXELS);
                let is_too_wide = usize::try_from(wide).map_or(true, |wide| wide > columns);
                let size = if is_too_wide {
                    format!(",c={columns}")
                } else {
                    String::new()
                };
                let mut chunks = data.as_bytes().chunks(CHUNK).peekable();
                let mut control = format!("a=T,f=100{size},");
                while let Some(chunk) = chunks.next() {
                    let more = u8::from(chunks.peek().is_some());
                    write!(text, "\x1b_G{control}m={more};").ok()?;
                    text.extend_from_slice(chunk);
                    text.extend_from_slice(b"\x1b\\");
                    control.clear();
                }
            }
            Self::Iterm => {
                let is_known = image.starts_with(PNG)
                    || image.starts_with(b"\xff\xd8\xff")
                    || image.starts_with(b"GIF8");
                if !is_known {
                    return None;
                }
                let wide = png_width(image).map(|wide| wide.div_ceil(CELL_PIXELS));
                let is_too_wide = wide.and_then(|wide| usize::try_from(wide).ok()) > Some(columns);
                let size = if is_too_wide { "100%" } else { "auto" };
                let length = image.len();
                write!(
                    text,
                    "\x1b]1337;File=inline=1;size={length};width={size};preserveAspectRatio=1:{data}\x07"
                )
                .ok()?;
            }
        }
        text.push(b'\n');
        Some(text)
    }
}

/// Returns the width of a PNG image.
fn png_width(image: &[u8]) -> Option<u32> {
    let rest = image.strip_prefix(PNG)?;
    let width = rest.get(8..12)?;
    Some(u32::from_be_bytes(width.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminal_is_detected_by_its_variables() {
        for (variables, protocol) in [
            (&[("TERM", "xterm-256color")][..], None),
            (&[("TERM", "xterm-kitty")], Some(Protocol::Kitty)),
            (&[("KITTY_WINDOW_ID", "1")], Some(Protocol::Kitty)),
            (&[("TERM_PROGRAM", "ghostty")], Some(Protocol::Kitty)),
            (&[("TERM_PROGRAM", "WezTerm")], Some(Protocol::Iterm)),
            (&[("LC_TERMINAL", "iTerm2")], Some(Protocol::Iterm)),
            (&[("TERM_PROGRAM", "iTerm.app"), ("TMUX", "x")], None),
            (&[("TERM", "screen"), ("LC_TERMINAL", "iTerm2")], None),
        ] {
            let find = |name: &str| {
                let mut all = variables.iter();
                all.find(|(set, _)| *set == name)
                    .map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(detect(find), protocol, "{variables:?}");
        }
    }

    #[test]
    fn an_image_is_one_sequence_or_several_chunks() {
        let mut image = PNG.to_vec();
        image.extend_from_slice(b"\0\0\0\x0dIHDR");
        image.extend_from_slice(&2000_u32.to_be_bytes());
        image.extend_from_slice(&[7; 5000]);
        let kitty = Protocol::Kitty.encode(&image, 80).unwrap();
        let kitty = String::from_utf8(kitty).unwrap();
        assert!(
            kitty.starts_with("\x1b_Ga=T,f=100,c=80,m=1;iVBOR"),
            "{kitty}"
        );
        assert!(kitty.contains("\x1b\\\x1b_Gm=0;"), "{kitty}");
        assert!(kitty.ends_with("\x1b\\\n"));
        let iterm = Protocol::Iterm.encode(&image, 300).unwrap();
        let iterm = String::from_utf8(iterm).unwrap();
        assert!(
            iterm.starts_with("\x1b]1337;File=inline=1;size=5020;width=auto;"),
            "{iterm}"
        );
        assert_eq!(Protocol::Kitty.encode(b"\xff\xd8\xffjpeg", 80), None);
        assert_eq!(Protocol::Iterm.encode(b"<svg>", 80), None);
    }
}
