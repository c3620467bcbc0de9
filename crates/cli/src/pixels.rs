//! Decodes images of servers for terminals. Decoding is bounded, and a damaged image is none.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageReader, Limits, Rgba, RgbaImage};

/// The memory of one decoded image.
const MAX_DECODED: u64 = 128 * 1024 * 1024;

/// Decodes an image in the orientation in which it is displayed.
pub(crate) fn decode(bytes: &[u8]) -> Option<RgbaImage> {
    let work = AssertUnwindSafe(|| {
        let mut reader = ImageReader::new(Cursor::new(bytes))
            .with_guessed_format()
            .ok()?;
        let mut limits = Limits::default();
        limits.max_alloc = Some(MAX_DECODED);
        reader.limits(limits);
        let mut decoder = reader.into_decoder().ok()?;
        let (width, height) = decoder.dimensions();
        let channels = 4 * u64::from(width) * u64::from(height);
        if channels == 0 || channels.max(decoder.total_bytes()) > MAX_DECODED {
            return None;
        }
        let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
        let mut image = DynamicImage::from_decoder(decoder).ok()?;
        image.apply_orientation(orientation);
        Some(image.into_rgba8())
    });
    // A panic in a decoder costs only its image.
    catch_unwind(work).unwrap_or_default()
}

/// Scales an image down to fit a width and height; a smaller one stays as it is.
pub(crate) fn fit(image: RgbaImage, width: u32, height: u32) -> RgbaImage {
    let (from_width, from_height) = image.dimensions();
    if from_width <= width && from_height <= height {
        return image;
    }
    let scale = |length: u32, by: u32, of: u32| {
        let scaled = u64::from(length) * u64::from(by) / u64::from(of).max(1);
        u32::try_from(scaled).unwrap_or(by).max(1)
    };
    // The side that is too long by the larger factor decides.
    let by_width =
        u64::from(from_width) * u64::from(height) >= u64::from(from_height) * u64::from(width);
    if by_width {
        shrink(&image, width, scale(from_height, width, from_width))
    } else {
        shrink(&image, scale(from_width, height, from_height), height)
    }
}

/// Averages the pixels below each new one, weighted by their opacity: a transparent pixel has a
/// colour that nobody sees.
fn shrink(image: &RgbaImage, width: u32, height: u32) -> RgbaImage {
    let (width, height) = (width.max(1), height.max(1));
    let span = |at: u32, to: u32, from: u32| {
        let start = u64::from(at) * u64::from(from) / u64::from(to);
        let end = (u64::from(at) + 1) * u64::from(from) / u64::from(to);
        let start = u32::try_from(start).unwrap_or(0);
        let end = u32::try_from(end).unwrap_or(from);
        start..end.max(start + 1).min(from)
    };
    RgbaImage::from_fn(width, height, |x, y| {
        let (mut sums, mut opacity, mut count) = ([0_u64; 3], 0_u64, 0_u64);
        for below in span(y, height, image.height()) {
            for beside in span(x, width, image.width()) {
                let [red, green, blue, alpha] = image.get_pixel(beside, below).0.map(u64::from);
                for (sum, part) in sums.iter_mut().zip([red, green, blue]) {
                    *sum += part * alpha;
                }
                opacity += alpha;
                count += 1;
            }
        }
        let byte = |sum: u64, by: u64| {
            let value = sum.checked_div(by).unwrap_or(0);
            u8::try_from(value).unwrap_or(u8::MAX)
        };
        let [red, green, blue] = sums.map(|sum| byte(sum, opacity));
        Rgba([red, green, blue, byte(opacity, count)])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(image: &RgbaImage) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        image.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
        bytes.into_inner()
    }

    #[test]
    fn an_image_is_decoded_or_none() {
        let image = RgbaImage::from_pixel(3, 2, Rgba([1, 2, 3, 255]));
        let bytes = png(&image);
        assert_eq!(decode(&bytes), Some(image));
        assert_eq!(decode(&bytes[..bytes.len() / 2]), None);
        assert_eq!(decode(b"<svg>"), None);
        let mut claims = bytes;
        claims[16..24].copy_from_slice(&[0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
        assert_eq!(decode(&claims), None, "a few bytes claim 16 GB");
    }

    #[test]
    fn an_image_shrinks_to_fit_and_never_grows() {
        for (size, room, fitted) in [
            ((10, 10), (20, 20), (10, 10)),
            ((100, 50), (20, 20), (20, 10)),
            ((50, 100), (20, 20), (10, 20)),
            ((1000, 1), (10, 10), (10, 1)),
            ((30, 30), (0, 5), (1, 1)),
        ] {
            let image = RgbaImage::new(size.0, size.1);
            assert_eq!(fit(image, room.0, room.1).dimensions(), fitted, "{size:?}");
        }
    }

    #[test]
    fn invisible_colours_do_not_darken_an_edge() {
        let mut image = RgbaImage::from_pixel(2, 1, Rgba([200, 100, 50, 255]));
        image.put_pixel(1, 0, Rgba([0, 0, 0, 0]));
        assert_eq!(fit(image, 1, 1).get_pixel(0, 0).0, [200, 100, 50, 127]);
    }
}
