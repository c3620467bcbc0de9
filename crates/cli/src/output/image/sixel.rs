//! Encodes images as sixels: bands of six rows, one colour after the other.

use std::io::{self, Write};

use image::RgbaImage;

use super::palette::{Indexed, reduce};

/// The rows of a band.
const BAND: usize = 6;

/// Runs at least this long are abbreviated.
const RUN: usize = 4;

/// Encodes an image with at most this many colours.
pub(super) fn encode(image: &RgbaImage, colours: usize) -> Vec<u8> {
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = write(&mut text, image, &reduce(image, colours));
    text
}

fn write(text: &mut Vec<u8>, image: &RgbaImage, indexed: &Indexed) -> io::Result<()> {
    let (width, height) = image.dimensions();
    // Pixels that are not drawn keep their colour.
    write!(text, "\x1bP0;1;0q\"1;1;{width};{height}")?;
    for (number, [red, green, blue]) in indexed.palette.iter().enumerate() {
        let percent = |part: &u8| (u32::from(*part) * 100 + 127) / 255;
        let (red, green, blue) = (percent(red), percent(green), percent(blue));
        write!(text, "#{number};2;{red};{green};{blue}")?;
    }
    let width = usize::try_from(width).unwrap_or(0).max(1);
    let mut is_first = true;
    for band in indexed.pixels.chunks(width * BAND) {
        if !std::mem::take(&mut is_first) {
            text.push(b'-');
        }
        write_band(text, band, width)?;
    }
    text.extend_from_slice(b"\x1b\\");
    Ok(())
}

/// Writes one band. Each colour that occurs in it paints its own pixels and returns to the start.
fn write_band(text: &mut Vec<u8>, band: &[Option<u8>], width: usize) -> io::Result<()> {
    let mut columns: Vec<Vec<u8>> = vec![Vec::new(); 256];
    for (at, number) in band.iter().enumerate() {
        if let Some(number) = number {
            let of = &mut columns[usize::from(*number)];
            if of.is_empty() {
                of.resize(width, 0);
            }
            of[at % width] |= 1 << (at / width);
        }
    }
    let mut is_first = true;
    for (number, columns) in columns.iter().enumerate() {
        if columns.is_empty() {
            continue;
        }
        if !std::mem::take(&mut is_first) {
            text.push(b'$');
        }
        write!(text, "#{number}")?;
        let mut runs = columns.chunk_by(|one, next| one == next).peekable();
        while let Some(run) = runs.next() {
            let bits = run.first().copied().unwrap_or(0);
            // The rest of the band is empty.
            if bits == 0 && runs.peek().is_none() {
                break;
            }
            let sixel = b'?' + bits;
            if run.len() >= RUN {
                write!(text, "!{}", run.len())?;
                text.push(sixel);
            } else {
                text.resize(text.len() + run.len(), sixel);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use image::Rgba;

    use super::*;

    /// Decodes sixels independently: the colours in percent, row by row.
    fn decode(text: &[u8]) -> Vec<Vec<Option<[u32; 3]>>> {
        let text = std::str::from_utf8(text).unwrap();
        let body = text.strip_prefix("\x1bP0;1;0q\"1;1;").unwrap();
        let body = body.strip_suffix("\x1b\\").unwrap();
        let (size, body) = body.split_at(body.find('#').unwrap_or(body.len()));
        let (width, height) = size.split_once(';').unwrap();
        let (width, height) = (width.parse().unwrap(), height.parse().unwrap());
        let mut rows = vec![vec![None; width]; height];
        let mut palette = std::collections::HashMap::new();
        let (mut colour, mut x, mut top) = (0, 0, 0);
        let mut rest = body.chars().peekable();
        let number = |rest: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            let mut digits = String::new();
            while let Some(digit) = rest.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            digits.parse::<u32>().unwrap()
        };
        while let Some(c) = rest.next() {
            let mut count = 1;
            let mut sixel = c;
            match c {
                '#' => {
                    colour = number(&mut rest);
                    if rest.next_if_eq(&';').is_some() {
                        let mut next = || {
                            let part = number(&mut rest);
                            rest.next_if_eq(&';');
                            part
                        };
                        assert_eq!(next(), 2);
                        palette.insert(colour, [next(), next(), next()]);
                    }
                    continue;
                }
                '$' => {
                    x = 0;
                    continue;
                }
                '-' => {
                    (x, top) = (0, top + BAND);
                    continue;
                }
                '!' => {
                    count = number(&mut rest);
                    sixel = rest.next().unwrap();
                }
                _ => {}
            }
            let bits = u32::from(sixel) - u32::from('?');
            assert!(bits < 64, "{sixel:?}");
            for _ in 0..count {
                for y in 0..BAND {
                    if bits & (1 << y) != 0 {
                        let pixel = &mut rows[top + y][x];
                        assert_eq!(*pixel, None, "painted twice");
                        *pixel = Some(palette[&colour]);
                    }
                }
                x += 1;
            }
        }
        rows
    }

    #[test]
    fn every_pixel_has_its_colour_and_transparent_ones_have_none() {
        for (width, height) in [(1, 1), (5, 6), (13, 7), (40, 20)] {
            let image = RgbaImage::from_fn(width, height, |x, y| match (x + 2 * y) % 5 {
                0 => Rgba([255, 0, 0, 255]),
                1 | 2 => Rgba([0, 255, 0, 255]),
                3 => Rgba([0, 0, 0, 0]),
                _ => Rgba([51, 102, 204, 255]),
            });
            let rows = decode(&encode(&image, 256));
            for (x, y, pixel) in image.enumerate_pixels() {
                let [red, green, blue, alpha] = pixel.0;
                let expected = [red, green, blue].map(|part| u32::from(part) * 100 / 255);
                let shown = rows[usize::try_from(y).unwrap()][usize::try_from(x).unwrap()];
                assert_eq!(shown, (alpha > 0).then_some(expected), "{x}, {y}");
            }
        }
    }

    #[test]
    fn runs_are_short_and_nothing_in_a_picture_ends_the_sequence() {
        let image = RgbaImage::from_pixel(300, 12, Rgba([255, 255, 255, 255]));
        let text = String::from_utf8(encode(&image, 256)).unwrap();
        assert_eq!(
            text,
            "\x1bP0;1;0q\"1;1;300;12#0;2;100;100;100#0!300~-#0!300~\x1b\\"
        );
        let noise = RgbaImage::from_fn(64, 64, |x, y| {
            let byte = |n: u32| u8::try_from(n % 256).unwrap();
            Rgba([byte(x * 37 + y), byte(y * 91), byte(x * y), 255])
        });
        let text = encode(&noise, 16);
        let body = &text[1..text.len() - 2];
        assert!(body.iter().all(|byte| (0x20..0x7f).contains(byte)));
    }
}
