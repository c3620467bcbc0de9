//! Shows images in terminals that can: the protocols of kitty and iTerm2, and sixels.

mod palette;
mod query;
mod sixel;

use std::io::{Cursor, Read, Write as _};
use std::path::Path;
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::{ImageFormat, RgbaImage};

use super::style::Stream;
use super::{result_bytes, width};
use crate::pixels;

/// Larger files are not sent to the terminal.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// The longest piece of an image in kitty's protocol.
const CHUNK: usize = 4096;

/// The presumed width of a cell where the terminal does not tell.
const CELL_PIXELS: u32 = 8;

/// The greatest height of an image that is drawn pixel by pixel: about two screens.
const MAX_HEIGHT: u32 = 1600;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// A protocol for images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Kitty,
    Iterm,
    /// With this many colours at once.
    Sixel {
        colours: usize,
    },
}

/// The room for an image.
#[derive(Clone, Copy, Debug)]
struct Room {
    columns: usize,
    /// The width of a column.
    cell: u32,
}

impl Room {
    fn of_terminal() -> Self {
        let size = crossterm::terminal::window_size().ok();
        // Many terminals do not know, or say 0.
        let cell = size.and_then(|size| size.width.checked_div(size.columns));
        Self {
            columns: width(Stream::Out).unwrap_or(80),
            cell: cell.map_or(0, u32::from).max(CELL_PIXELS),
        }
    }

    fn pixels(self) -> u32 {
        u32::try_from(self.columns).map_or(u32::MAX, |columns| columns.saturating_mul(self.cell))
    }
}

/// Shows an image file on the terminal; false if the terminal cannot.
pub(crate) fn show_image(file: &Path) -> bool {
    if !Stream::Out.is_terminal() {
        return false;
    }
    // Nobody is asked for an image that cannot be read.
    let Some(bytes) = read(file) else {
        return false;
    };
    let Some(protocol) = protocol() else {
        return false;
    };
    let Some(text) = protocol.encode(&bytes, Room::of_terminal()) else {
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

/// Returns the terminal's protocol. Terminals that no variable names are asked, once.
fn protocol() -> Option<Protocol> {
    static FOUND: OnceLock<Option<Protocol>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let variable = |name: &str| std::env::var(name).ok();
        let is_dumb = variable("TERM").is_none_or(|terminal| terminal == "dumb");
        detect(variable).or_else(|| if is_dumb { None } else { query::sixel() })
    })
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
    /// Encodes an image; `None` if it cannot be decoded. The payload is Base64 or sixels, so
    /// nothing in it can end the sequence.
    fn encode(self, image: &[u8], room: Room) -> Option<Vec<u8>> {
        let mut text = match self {
            Self::Kitty if image.starts_with(PNG) => kitty(image, room)?,
            Self::Kitty => kitty(&converted(image, room)?, room)?,
            Self::Iterm => {
                let is_known = image.starts_with(PNG)
                    || image.starts_with(b"\xff\xd8\xff")
                    || image.starts_with(b"GIF8");
                if is_known {
                    iterm(image, room)?
                } else {
                    iterm(&converted(image, room)?, room)?
                }
            }
            Self::Sixel { colours } => sixel::encode(&fitting(image, room)?, colours),
        };
        text.push(b'\n');
        Some(text)
    }
}

/// Decodes an image and scales it down to the room.
fn fitting(image: &[u8], room: Room) -> Option<RgbaImage> {
    Some(pixels::fit(
        pixels::decode(image)?,
        room.pixels(),
        MAX_HEIGHT,
    ))
}

/// Converts an image to PNG.
fn converted(image: &[u8], room: Room) -> Option<Vec<u8>> {
    let mut bytes = Cursor::new(Vec::new());
    let image = fitting(image, room)?;
    image.write_to(&mut bytes, ImageFormat::Png).ok()?;
    Some(bytes.into_inner())
}

fn kitty(png: &[u8], room: Room) -> Option<Vec<u8>> {
    let data = STANDARD.encode(png);
    let mut text = Vec::with_capacity(data.len() + 256);
    let size = if png_width(png)? > room.pixels() {
        format!(",c={}", room.columns)
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
    Some(text)
}

fn iterm(image: &[u8], room: Room) -> Option<Vec<u8>> {
    let data = STANDARD.encode(image);
    let mut text = Vec::with_capacity(data.len() + 256);
    let is_too_wide = png_width(image).is_some_and(|width| width > room.pixels());
    let size = if is_too_wide { "100%" } else { "auto" };
    let length = image.len();
    write!(
        text,
        "\x1b]1337;File=inline=1;size={length};width={size};preserveAspectRatio=1:{data}\x07"
    )
    .ok()?;
    Some(text)
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
        let room = |columns| Room { columns, cell: 8 };
        let kitty = Protocol::Kitty.encode(&image, room(80)).unwrap();
        let kitty = String::from_utf8(kitty).unwrap();
        assert!(
            kitty.starts_with("\x1b_Ga=T,f=100,c=80,m=1;iVBOR"),
            "{kitty}"
        );
        assert!(kitty.contains("\x1b\\\x1b_Gm=0;"), "{kitty}");
        assert!(kitty.ends_with("\x1b\\\n"));
        let iterm = Protocol::Iterm.encode(&image, room(300)).unwrap();
        let iterm = String::from_utf8(iterm).unwrap();
        assert!(
            iterm.starts_with("\x1b]1337;File=inline=1;size=5020;width=auto;"),
            "{iterm}"
        );
        for protocol in [Protocol::Kitty, Protocol::Sixel { colours: 16 }] {
            assert_eq!(protocol.encode(b"\xff\xd8\xffjpeg", room(80)), None);
        }
        assert_eq!(Protocol::Iterm.encode(b"<svg>", room(80)), None);
    }

    #[test]
    fn other_formats_are_converted_and_wide_images_fit() {
        let mut gif = Cursor::new(Vec::new());
        let image = RgbaImage::from_pixel(400, 10, image::Rgba([255, 0, 0, 255]));
        image.write_to(&mut gif, ImageFormat::Gif).unwrap();
        let room = Room {
            columns: 20,
            cell: 10,
        };
        let encode = |protocol: Protocol| {
            let text = protocol.encode(gif.get_ref(), room).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert!(encode(Protocol::Kitty).starts_with("\x1b_Ga=T,f=100,m=0;iVBOR"));
        assert!(encode(Protocol::Iterm).contains(":R0lGOD"));
        assert_eq!(
            encode(Protocol::Sixel { colours: 256 }),
            "\x1bP0;1;0q\"1;1;200;5#0;2;100;0;0#0!200^\x1b\\\n"
        );
    }
}
