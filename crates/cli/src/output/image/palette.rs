//! Reduces the colours of an image to those that a terminal has registers for.

use std::collections::HashMap;

use image::RgbaImage;

/// Pixels below this opacity are not drawn.
const VISIBLE: u8 = 128;

/// The bits of a channel that decide about the palette of an image with many colours.
const BITS: usize = 5;

pub(super) type Rgb = [u8; 3];

/// An image by the numbers of its colours.
pub(super) struct Indexed {
    pub(super) palette: Vec<Rgb>,
    /// The colour of each pixel, row by row; `None` where the image is transparent.
    pub(super) pixels: Vec<Option<u8>>,
}

/// Reduces an image to at most this many colours, 256 or fewer. Few colours stay exact, as those
/// of charts and screenshots often are.
pub(super) fn reduce(image: &RgbaImage, most: usize) -> Indexed {
    let most = most.clamp(2, 256);
    exact(image, most).unwrap_or_else(|| median_cut(image, most))
}

/// Returns the visible colour of each pixel.
fn colours(image: &RgbaImage) -> impl Iterator<Item = Option<Rgb>> + '_ {
    image.pixels().map(|pixel| {
        let [red, green, blue, alpha] = pixel.0;
        (alpha >= VISIBLE).then_some([red, green, blue])
    })
}

fn exact(image: &RgbaImage, most: usize) -> Option<Indexed> {
    let mut numbers = HashMap::new();
    let mut palette = Vec::new();
    let mut pixels = Vec::new();
    for colour in colours(image) {
        let Some(colour) = colour else {
            pixels.push(None);
            continue;
        };
        let next = palette.len();
        let number = *numbers.entry(colour).or_insert(next);
        if number == next {
            palette.push(colour);
        }
        if palette.len() > most {
            return None;
        }
        pixels.push(u8::try_from(number).ok());
    }
    Some(Indexed { palette, pixels })
}

/// The pixels whose colours share their upper bits.
#[derive(Clone, Copy, Default)]
struct Bin {
    count: u64,
    sums: [u64; 3],
}

/// Splits the space of colours into boxes with similar numbers of pixels, along their longest
/// sides.
fn median_cut(image: &RgbaImage, most: usize) -> Indexed {
    let mut bins = vec![Bin::default(); 1 << (3 * BITS)];
    for colour in colours(image).flatten() {
        let bin = &mut bins[bin_of(colour)];
        bin.count += 1;
        for (sum, part) in bin.sums.iter_mut().zip(colour) {
            *sum += u64::from(part);
        }
    }
    let used = (0..bins.len()).filter(|at| bins[*at].count > 0);
    let mut boxes = vec![used.collect::<Vec<usize>>()];
    while boxes.len() < most {
        let weight = |of: &Vec<usize>| {
            let count: u64 = of.iter().map(|at| bins[*at].count).sum();
            count * longest_side(of).1 as u64
        };
        let Some(at) = (0..boxes.len()).max_by_key(|at| weight(&boxes[*at])) else {
            break;
        };
        if boxes[at].len() < 2 {
            break;
        }
        let mut whole = boxes.swap_remove(at);
        let (channel, _) = longest_side(&whole);
        whole.sort_unstable_by_key(|at| part(*at, channel));
        let total: u64 = whole.iter().map(|at| bins[*at].count).sum();
        let mut before = 0;
        let middle = whole.iter().position(|at| {
            before += bins[*at].count;
            before * 2 >= total
        });
        // Both halves have a bin.
        let middle = (middle.unwrap_or(0) + 1).min(whole.len() - 1);
        let upper = whole.split_off(middle);
        boxes.push(whole);
        boxes.push(upper);
    }
    let mut palette = Vec::with_capacity(boxes.len());
    let mut numbers = vec![0_u8; bins.len()];
    for of in boxes.iter().filter(|of| !of.is_empty()) {
        let number = u8::try_from(palette.len()).unwrap_or(u8::MAX);
        let count: u64 = of.iter().map(|at| bins[*at].count).sum();
        palette.push([0, 1, 2].map(|channel| {
            let sum: u64 = of.iter().map(|at| bins[*at].sums[channel]).sum();
            u8::try_from(sum / count.max(1)).unwrap_or(u8::MAX)
        }));
        for at in of {
            numbers[*at] = number;
        }
    }
    let numbered = |colour: Option<Rgb>| colour.map(|colour| numbers[bin_of(colour)]);
    let pixels = colours(image).map(numbered).collect();
    Indexed { palette, pixels }
}

fn bin_of([red, green, blue]: Rgb) -> usize {
    let upper = |part: u8| usize::from(part) >> (8 - BITS);
    (upper(red) << (2 * BITS)) | (upper(green) << BITS) | upper(blue)
}

/// Returns the upper bits of a channel of a bin.
fn part(bin: usize, channel: usize) -> usize {
    (bin >> (BITS * (2 - channel))) & ((1 << BITS) - 1)
}

/// Returns the channel in which the bins differ most, and by how much.
fn longest_side(bins: &[usize]) -> (usize, usize) {
    let side = |channel: usize| {
        let parts = || bins.iter().map(|bin| part(*bin, channel));
        parts().max().unwrap_or(0) - parts().min().unwrap_or(0)
    };
    let sides = (0..3).map(|channel| (channel, side(channel)));
    sides.max_by_key(|(_, side)| *side).unwrap_or((0, 0))
}

#[cfg(test)]
mod tests {
    use image::Rgba;

    use super::*;

    #[test]
    fn few_colours_stay_exact_and_transparency_stays() {
        let mut image = RgbaImage::from_pixel(2, 2, Rgba([9, 8, 7, 255]));
        image.put_pixel(1, 0, Rgba([9, 8, 8, 200]));
        image.put_pixel(0, 1, Rgba([1, 1, 1, 20]));
        let reduced = reduce(&image, 256);
        assert_eq!(reduced.palette, [[9, 8, 7], [9, 8, 8]]);
        assert_eq!(reduced.pixels, [Some(0), Some(1), None, Some(0)]);
    }

    #[test]
    fn many_colours_become_few_that_are_near() {
        let image = RgbaImage::from_fn(128, 128, |x, y| {
            let byte = |n: u32| u8::try_from(n).unwrap();
            Rgba([byte(x * 2), byte(y * 2), byte(x.midpoint(y)), 255])
        });
        for (most, near) in [(256, 24), (16, 90)] {
            let reduced = reduce(&image, most);
            assert!(reduced.palette.len() <= most);
            assert!(
                reduced.palette.len() > most / 2,
                "{}",
                reduced.palette.len()
            );
            for (pixel, number) in image.pixels().zip(&reduced.pixels) {
                let shown = reduced.palette[usize::from(number.unwrap())];
                for (is, was) in shown.iter().zip(pixel.0) {
                    assert!(is.abs_diff(was) <= near, "{shown:?} for {pixel:?}");
                }
            }
        }
    }
}
