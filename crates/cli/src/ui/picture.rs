//! Pictures in the cells of the screen: two pixels in each, which every terminal with colours can
//! show, and which are scrolled and cut like text.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::RgbaImage;

use crate::output::{Stream, is_utf8};
use crate::pixels;

/// The greatest size: a screen of 80 columns shows most of it at once.
const COLUMNS: u32 = 76;
const ROWS: u32 = 30;

/// Pixels below this opacity show what is behind them.
const VISIBLE: u8 = 128;

/// Larger data are not decoded.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// A pixel; `None` where a picture is transparent.
pub(super) type Pixel = Option<[u8; 3]>;

/// A row of cells, each with its upper and lower pixel; empty without a picture.
pub(super) type PictureRow = Arc<[(Pixel, Pixel)]>;

/// The colours of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colours {
    /// All 16 million.
    All,
    /// A palette of 256.
    Few,
}

impl Colours {
    /// Returns the colours of this terminal; `None` if pictures cannot be shown.
    pub(super) fn of_terminal() -> Option<Self> {
        if !is_utf8() || !Stream::Out.is_coloured() {
            return None;
        }
        Self::named(|name| std::env::var(name).ok())
    }

    fn named(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let is_true = |value: String| value == "truecolor" || value == "24bit";
        if variable("COLORTERM").is_some_and(is_true) {
            return Some(Self::All);
        }
        let terminal = variable("TERM").unwrap_or_default();
        if terminal.ends_with("-direct") || terminal == "xterm-kitty" || terminal == "xterm-ghostty"
        {
            return Some(Self::All);
        }
        let has_palette = terminal.contains("256color") || terminal == "alacritty";
        has_palette.then_some(Self::Few)
    }
}

/// Decodes a picture in Base64.
pub(super) fn of_base64(data: &str) -> Vec<PictureRow> {
    if data.len() > MAX_BYTES {
        return Vec::new();
    }
    let bytes = STANDARD.decode(data.trim_ascii()).unwrap_or_default();
    of_bytes(&bytes)
}

/// Decodes the picture in a file.
pub(super) fn of_file(file: &Path) -> Vec<PictureRow> {
    let mut bytes = Vec::new();
    let most = u64::try_from(MAX_BYTES + 1).unwrap_or(u64::MAX);
    let read = File::open(file).and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.map(|_| of_bytes(&bytes)).unwrap_or_default()
}

/// Decodes a picture; empty if it cannot be shown.
pub(super) fn of_bytes(bytes: &[u8]) -> Vec<PictureRow> {
    if bytes.len() > MAX_BYTES || Colours::of_terminal().is_none() {
        return Vec::new();
    }
    let image = pixels::decode(bytes).map(|image| pixels::fit(image, COLUMNS, 2 * ROWS));
    image.map(|image| rows(&image)).unwrap_or_default()
}

fn rows(image: &RgbaImage) -> Vec<PictureRow> {
    let pixel = |x: u32, y: u32| {
        let [red, green, blue, alpha] = image.get_pixel_checked(x, y)?.0;
        (alpha >= VISIBLE).then_some([red, green, blue])
    };
    let row = |y: u32| (0..image.width()).map(move |x| (pixel(x, y), pixel(x, y + 1)));
    (0..image.height())
        .step_by(2)
        .map(|y| row(y).collect())
        .collect()
}

/// Returns the nearest colour of the palette of 256: of its cube, or of its greys.
pub(super) fn indexed(colour: [u8; 3]) -> u8 {
    const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let nearest = |part: u8| {
        let level = |at: &usize| LEVELS[*at].abs_diff(part);
        (0..LEVELS.len()).min_by_key(level).unwrap_or(0)
    };
    let cube = colour.map(nearest);
    let mean = colour.iter().map(|part| u32::from(*part)).sum::<u32>() / 3;
    let grey = (mean.saturating_sub(3) / 10).min(23);
    let level = u8::try_from(8 + 10 * grey).unwrap_or(u8::MAX);
    let distance = |other: [u8; 3]| {
        let parts = colour.iter().zip(other);
        let squares = parts.map(|(one, other)| u32::from(one.abs_diff(other)).pow(2));
        squares.sum::<u32>()
    };
    let number = if distance([level; 3]) < distance(cube.map(|at| LEVELS[at])) {
        232 + usize::try_from(grey).unwrap_or(0)
    } else {
        16 + 36 * cube[0] + 6 * cube[1] + cube[2]
    };
    u8::try_from(number).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use image::Rgba;

    use super::*;

    #[test]
    fn terminals_name_their_colours() {
        for (term, colorterm, colours) in [
            ("xterm-256color", "truecolor", Some(Colours::All)),
            ("xterm", "24bit", Some(Colours::All)),
            ("xterm-kitty", "", Some(Colours::All)),
            ("xterm-256color", "", Some(Colours::Few)),
            ("screen-256color", "1", Some(Colours::Few)),
            ("xterm", "", None),
            ("linux", "", None),
        ] {
            let variable = |name: &str| match name {
                "TERM" => Some(term.to_owned()),
                _ => Some(colorterm.to_owned()),
            };
            assert_eq!(Colours::named(variable), colours, "{term} {colorterm}");
        }
    }

    #[test]
    fn two_pixels_share_a_cell() {
        let mut image = RgbaImage::from_pixel(2, 3, Rgba([1, 2, 3, 255]));
        image.put_pixel(1, 0, Rgba([9, 9, 9, 0]));
        image.put_pixel(1, 1, Rgba([4, 5, 6, 255]));
        let of = Some([1, 2, 3]);
        let rows = rows(&image);
        let rows: Vec<_> = rows.iter().map(|row| row.to_vec()).collect();
        assert_eq!(
            rows,
            [
                vec![(of, of), (None, Some([4, 5, 6]))],
                vec![(of, None), (of, None)]
            ]
        );
    }

    #[test]
    fn the_palette_of_256_has_a_near_colour() {
        for (colour, number) in [
            ([0, 0, 0], 16),
            ([255, 255, 255], 231),
            ([255, 0, 0], 196),
            ([95, 135, 175], 67),
            ([128, 128, 128], 244),
            ([8, 8, 8], 232),
        ] {
            assert_eq!(indexed(colour), number, "{colour:?}");
        }
    }
}
