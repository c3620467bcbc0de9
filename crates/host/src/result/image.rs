//! Fits images to the limits of models (RES-2).
//!
//! A valid image within the limits keeps its bytes. Nothing is decoded before the header has told
//! the size.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8x4;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::{CompressionType, FilterType as PngFilter, PngEncoder};
use image::metadata::Orientation;
use image::{
    ColorType, DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits, Rgb,
    RgbaImage,
};

use super::base64::encoded_len;
use super::memory_budget::MemoryBudget;

/// The longest side that models see (RES-2).
pub(super) const LONGEST_SIDE: u32 = 1568;

/// The maximum length in Base64 (RES-2): 5 MB.
pub(super) const MAX_BASE64: usize = 5_000_000;

/// The number of pixels of all images of one result. A few bytes can claim any number.
pub(super) const MAX_PIXELS: u64 = 200_000_000;

/// The memory of one decoded image.
const MAX_DECODED: u64 = 512 * 1024 * 1024;

/// The memory of all images that are being decoded or converted, of all results together.
static DECODED: MemoryBudget = MemoryBudget::new(MAX_DECODED);

/// Opaque images from this size on are also tried as JPEG.
const LARGE: usize = 1_000_000;

/// Images are not scaled below this side.
const SMALLEST_SIDE: u32 = 64;

/// The limits of an image.
#[derive(Clone, Copy, Debug)]
pub(super) struct ImageLimits {
    pub(super) longest_side: u32,
    pub(super) max_base64: usize,
}

impl Default for ImageLimits {
    fn default() -> Self {
        Self {
            longest_side: LONGEST_SIDE,
            max_base64: MAX_BASE64,
        }
    }
}

/// The outcome of fitting an image.
#[derive(Debug)]
pub(super) enum Fitted {
    /// It fits unchanged.
    AsItIs,
    /// It was scaled or converted.
    Anew {
        data: Vec<u8>,
        mime: &'static str,
        /// The sizes before and after.
        before: (u32, u32),
        after: (u32, u32),
    },
}

/// A format that models take.
pub(super) type Format = ImageFormat;

/// Returns the format of an image type that models take.
pub(super) fn format(mime: &str) -> Option<Format> {
    match mime {
        "image/png" => Some(ImageFormat::Png),
        "image/jpeg" => Some(ImageFormat::Jpeg),
        "image/gif" => Some(ImageFormat::Gif),
        "image/webp" => Some(ImageFormat::WebP),
        _ => None,
    }
}

/// Fits an image; `pixels` is the number that may still be decoded.
pub(super) fn fit(
    data: &[u8],
    format: ImageFormat,
    limits: &ImageLimits,
    pixels: &mut u64,
) -> Result<Fitted, String> {
    let work = AssertUnwindSafe(|| fit_or_panic(data, format, limits, pixels));
    // A panic in a decoder costs only its image.
    catch_unwind(work).unwrap_or_else(|_| Err("it could not be read".to_owned()))
}

fn fit_or_panic(
    data: &[u8],
    format: ImageFormat,
    limits: &ImageLimits,
    pixels: &mut u64,
) -> Result<Fitted, String> {
    let mut decoder = reader(data, format)
        .into_decoder()
        .map_err(|error| broken(&error))?;
    let before @ (width, height) = decoder.dimensions();
    if width == 0 || height == 0 {
        return Err("it has no pixels".to_owned());
    }
    let count = u64::from(width) * u64::from(height);
    if count > *pixels || decoder.total_bytes() > MAX_DECODED {
        return Err(format!(
            "it would be {width} × {height} pixels, which is too large"
        ));
    }
    *pixels -= count;
    let fits =
        width.max(height) <= limits.longest_side && encoded_len(data.len()) <= limits.max_base64;
    // An image that is resized is converted to four channels first.
    let converted = if fits { 0 } else { 4 * count };
    let _room = DECODED.take(decoder.total_bytes() + converted);
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let read = DynamicImage::from_decoder(decoder);
    if fits {
        return match read {
            // Others may be able to read it.
            Ok(_) | Err(ImageError::Unsupported(_)) => Ok(Fitted::AsItIs),
            Err(error) => Err(broken(&error)),
        };
    }
    let whole = read.map_err(|error| broken(&error))?;
    let color = whole.color();
    let whole = whole.into_rgba8();
    let lossy = format == ImageFormat::Jpeg;
    let mut side = limits.longest_side.min(width.max(height));
    while side >= SMALLEST_SIDE.min(limits.longest_side) {
        let mut image = resized(&whole, color, side)?;
        image.apply_orientation(orientation);
        if let Some((data, mime)) = encoded(&image, lossy, limits.max_base64)? {
            let after = (image.width(), image.height());
            return Ok(Fitted::Anew {
                data,
                mime,
                before: oriented(before, orientation),
                after,
            });
        }
        side = side / 4 * 3;
    }
    Err("it cannot be made small enough".to_owned())
}

/// Validates an image. One that is too large or too new to decode counts as valid.
pub(super) fn is_whole(data: &[u8], format: ImageFormat, pixels: &mut u64) -> Result<(), String> {
    let unread =
        |error: &ImageError| matches!(error, ImageError::Unsupported(_) | ImageError::Limits(_));
    let verdict = |error: ImageError| {
        if unread(&error) {
            Ok(())
        } else {
            Err(broken(&error))
        }
    };
    let look = AssertUnwindSafe(|| {
        let decoder = match reader(data, format).into_decoder() {
            Ok(decoder) => decoder,
            Err(error) => return verdict(error),
        };
        let (width, height) = decoder.dimensions();
        let count = u64::from(width) * u64::from(height);
        if count > *pixels || decoder.total_bytes() > MAX_DECODED {
            return Ok(());
        }
        *pixels -= count;
        let _room = DECODED.take(decoder.total_bytes());
        DynamicImage::from_decoder(decoder)
            .map(drop)
            .or_else(verdict)
    });
    catch_unwind(look).unwrap_or(Ok(()))
}

fn reader(data: &[u8], format: ImageFormat) -> ImageReader<Cursor<&[u8]>> {
    let mut reader = ImageReader::with_format(Cursor::new(data), format);
    let mut allowed = Limits::default();
    allowed.max_alloc = Some(MAX_DECODED);
    reader.limits(allowed);
    reader
}

/// Returns the size as displayed.
fn oriented((width, height): (u32, u32), orientation: Orientation) -> (u32, u32) {
    match orientation {
        Orientation::Rotate90
        | Orientation::Rotate270
        | Orientation::Rotate90FlipH
        | Orientation::Rotate270FlipH => (height, width),
        _ => (width, height),
    }
}

/// Scales an image so that its longest side is `side`, and drops the channels that `color`, the
/// colour type of the original, lacks. Only four-channel code is compiled into the program.
fn resized(image: &RgbaImage, color: ColorType, side: u32) -> Result<DynamicImage, String> {
    let (width, height) = image.dimensions();
    let longest = width.max(height);
    let scaled = |length: u32| {
        let exact = u64::from(length) * u64::from(side) / u64::from(longest);
        u32::try_from(exact).unwrap_or(side).max(1)
    };
    let smaller = if side >= longest {
        image.clone()
    } else {
        scale(image, scaled(width), scaled(height), color.has_alpha())
            .ok_or_else(|| "it could not be made smaller".to_owned())?
    };
    let smaller = DynamicImage::ImageRgba8(smaller);
    Ok(match (color.has_alpha(), color.has_color()) {
        (true, _) => smaller,
        (false, true) => DynamicImage::ImageRgb8(smaller.into_rgb8()),
        (false, false) => DynamicImage::ImageLuma8(smaller.into_luma8()),
    })
}

fn scale(image: &RgbaImage, width: u32, height: u32, has_alpha: bool) -> Option<RgbaImage> {
    let source = TypedImageRef::<U8x4>::from_buffer(image.width(), image.height(), image).ok()?;
    let mut scaled = RgbaImage::new(width, height);
    let mut target = TypedImage::<U8x4>::from_buffer(width, height, &mut scaled).ok()?;
    let options = ResizeOptions::new()
        .resize_alg(ResizeAlg::Convolution(FilterType::CatmullRom))
        .use_alpha(has_alpha);
    Resizer::new()
        .resize_typed(&source, &mut target, &options)
        .ok()?;
    Some(scaled)
}

/// Encodes in a suitable format, if one is small enough.
fn encoded(
    image: &DynamicImage,
    lossy: bool,
    max_base64: usize,
) -> Result<Option<(Vec<u8>, &'static str)>, String> {
    let failed = |error: ImageError| format!("it could not be written: {error}");
    let fits = |data: &Vec<u8>| encoded_len(data.len()) <= max_base64;
    let opaque = is_opaque(image);
    let mut best = None;
    if !lossy {
        let data = if opaque && image.color().has_alpha() {
            png(&DynamicImage::ImageRgb8(image.to_rgb8()))
        } else {
            png(image)
        };
        let data = data.map_err(failed)?;
        if fits(&data) && (!opaque || data.len() < LARGE) {
            return Ok(Some((data, "image/png")));
        }
        best = fits(&data).then_some((data, "image/png"));
    }
    let flat = flattened(image);
    for quality in [85, 65, 45] {
        let mut data = Vec::new();
        flat.write_with_encoder(JpegEncoder::new_with_quality(&mut data, quality))
            .map_err(failed)?;
        if fits(&data) {
            let worse = best.as_ref().is_none_or(|(png, _)| data.len() < png.len());
            return Ok(if worse {
                Some((data, "image/jpeg"))
            } else {
                best
            });
        }
    }
    Ok(best)
}

fn png(image: &DynamicImage) -> Result<Vec<u8>, ImageError> {
    let mut data = Vec::new();
    let encoder =
        PngEncoder::new_with_quality(&mut data, CompressionType::Fast, PngFilter::Adaptive);
    image.write_with_encoder(encoder)?;
    Ok(data)
}

fn is_opaque(image: &DynamicImage) -> bool {
    match image {
        DynamicImage::ImageRgba8(pixels) => pixels.pixels().all(|pixel| pixel.0[3] == u8::MAX),
        image => !image.color().has_alpha(),
    }
}

/// Replaces transparency with white.
fn flattened(image: &DynamicImage) -> DynamicImage {
    let DynamicImage::ImageRgba8(pixels) = image else {
        return image.clone();
    };
    let mut flat = image::RgbImage::new(pixels.width(), pixels.height());
    for (from, to) in pixels.pixels().zip(flat.pixels_mut()) {
        let [red, green, blue, alpha] = from.0.map(u32::from);
        let mix = |colour: u32| {
            let mixed = (colour * alpha + 255 * (255 - alpha)) / 255;
            u8::try_from(mixed).unwrap_or(u8::MAX)
        };
        *to = Rgb([mix(red), mix(green), mix(blue)]);
    }
    DynamicImage::ImageRgb8(flat)
}

/// Describes a decoding error briefly.
fn broken(error: &ImageError) -> String {
    match error {
        ImageError::IoError(_) => "it is cut off".to_owned(),
        ImageError::Limits(_) => "it takes too much memory".to_owned(),
        error => format!("it is damaged ({error})"),
    }
}
