//! Images (RES-2).

use ::image::codecs::gif::GifEncoder;
use ::image::codecs::jpeg::JpegEncoder;
use ::image::codecs::webp::WebPEncoder;
use ::image::{DynamicImage, Frame, GenericImageView, ImageFormat, RgbImage, RgbaImage};

use super::*;
use crate::result::base64;

/// A picture in which no two places are alike.
fn picture(width: u32, height: u32) -> DynamicImage {
    let at = |x: u32, y: u32| {
        ::image::Rgb([x * 255 / width, y * 255 / height, (x ^ y) & 255].map(|n| n.to_le_bytes()[0]))
    };
    DynamicImage::ImageRgb8(RgbImage::from_fn(width, height, at))
}

/// A picture that cannot be compressed.
fn noise(width: u32, height: u32) -> DynamicImage {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_le_bytes()[3]
    };
    let pixels = RgbImage::from_fn(width, height, |_, _| ::image::Rgb([next(), next(), next()]));
    DynamicImage::ImageRgb8(pixels)
}

fn bytes(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut data = std::io::Cursor::new(Vec::new());
    image.write_to(&mut data, format).unwrap();
    data.into_inner()
}

/// A small PNG in base64.
pub(super) fn png(width: u32, height: u32) -> String {
    base64::encode(&bytes(&picture(width, height), ImageFormat::Png))
}

fn block(mime: &str, data: &[u8]) -> Value {
    json!({"type": "image", "mimeType": mime, "data": base64::encode(data), "_meta": {"kept": true}})
}

/// What an image comes to: its type and its picture, and what is said besides.
fn shown(block: &Value) -> (String, DynamicImage, Vec<Value>, Vec<String>) {
    let lab = Lab::new();
    let output = lab.process(&json!({"content": [block]}));
    let mut all = blocks(&output);
    let image = all.remove(0);
    assert_eq!(
        (&image["type"], lab.files()),
        (&json!("image"), 0),
        "{image}"
    );
    assert_eq!(image["_meta"], block["_meta"]);
    let data = image["data"].as_str().unwrap();
    assert!(data.len() <= 5_000_000);
    let data = base64::decode_whole(&Json::from(json!(data))).unwrap();
    let mime = image["mimeType"].as_str().unwrap().to_owned();
    let format = ImageFormat::from_mime_type(&mime).unwrap();
    let picture = ::image::load_from_memory_with_format(&data, format).unwrap();
    (mime, picture, all, output.warnings)
}

#[test]
fn an_image_that_fits_passes_byte_for_byte() {
    let picture = picture(1568, 20);
    let formats = [
        ("image/png", ImageFormat::Png),
        ("image/jpeg", ImageFormat::Jpeg),
        ("image/gif", ImageFormat::Gif),
        ("image/webp", ImageFormat::WebP),
    ];
    for (mime, format) in formats {
        let block = block(mime, &bytes(&picture, format));
        let output = Lab::new().process(&json!({"content": [block]}));
        assert_eq!(blocks(&output), [block], "{mime}");
        assert!(output.warnings.is_empty());
    }
}

#[test]
fn a_large_image_is_made_smaller_and_that_is_said() {
    let (mime, image, rest, warnings) = shown(&block(
        "image/png",
        &bytes(&picture(3136, 1000), ImageFormat::Png),
    ));
    assert_eq!(
        (mime.as_str(), image.dimensions()),
        ("image/png", (1568, 500))
    );
    assert_eq!(
        rest,
        [text(
            "[the image above is 3136 × 1000 pixels, shown at 1568 × 500; multiply coordinates by 2.00]"
        )]
    );
    assert!(warnings.is_empty());
    let tall = shown(&block(
        "image/webp",
        &bytes(&picture(10, 4000), ImageFormat::WebP),
    ));
    assert_eq!(tall.1.dimensions(), (3, 1568));
    let thin = shown(&block(
        "image/gif",
        &bytes(&picture(4000, 1), ImageFormat::Gif),
    ));
    assert_eq!(thin.1.dimensions(), (1568, 1));
}

#[test]
fn what_is_too_long_in_base64_is_compressed_more() {
    let noise = bytes(&noise(1500, 1500), ImageFormat::Png);
    assert!(base64::encoded_len(noise.len()) > 5_000_000);
    let (mime, image, rest, _) = shown(&block("image/png", &noise));
    assert_eq!(
        (mime.as_str(), image.dimensions()),
        ("image/jpeg", (1500, 1500))
    );
    assert!(rest.is_empty());
}

#[test]
fn a_photograph_stays_a_jpeg_and_upright() {
    let mut data = Vec::new();
    // The upper left corner is red, everything else is blue.
    let pixels = RgbImage::from_fn(2000, 1000, |x, y| {
        ::image::Rgb(if x < 1000 && y < 500 {
            [250, 0, 0]
        } else {
            [0, 0, 250]
        })
    });
    JpegEncoder::new_with_quality(&mut data, 90)
        .encode_image(&pixels)
        .unwrap();
    // To be turned to the right by a quarter (6), as cameras say it.
    let exif =
        b"\xff\xe1\x00\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
    data.splice(2..2, exif.iter().copied());
    let (mime, image, rest, _) = shown(&block("image/jpeg", &data));
    assert_eq!(
        (mime.as_str(), image.dimensions()),
        ("image/jpeg", (784, 1568))
    );
    let is_red = |x, y| image.get_pixel(x, y).0[0] > 200;
    assert_eq!(
        (is_red(100, 100), is_red(700, 100), is_red(100, 1500)),
        (false, true, false)
    );
    assert_eq!(
        rest,
        [text(
            "[the image above is 1000 × 2000 pixels, shown at 784 × 1568; multiply coordinates by 1.28]"
        )]
    );
}

#[test]
fn transparency_is_kept_where_there_is_any() {
    let with = |alpha: u8| {
        let pixels = RgbaImage::from_pixel(2000, 100, ::image::Rgba([9, 99, 199, alpha]));
        shown(&block(
            "image/png",
            &bytes(&DynamicImage::ImageRgba8(pixels), ImageFormat::Png),
        ))
        .1
    };
    let found = with(128).get_pixel(5, 5).0;
    let near = found
        .iter()
        .zip([9, 99, 199, 128])
        .all(|(found, wanted)| found.abs_diff(wanted) <= 1);
    assert!(near, "{found:?}");
    assert!(!with(255).color().has_alpha());
}

#[test]
fn deep_and_grey_images_are_made_smaller_too() {
    let deep = DynamicImage::ImageRgba16(picture(2000, 50).into_rgba16());
    assert_eq!(
        shown(&block("image/png", &bytes(&deep, ImageFormat::Png)))
            .1
            .dimensions(),
        (1568, 39)
    );
    let grey = DynamicImage::ImageLuma8(picture(2000, 50).into_luma8());
    let (_, image, ..) = shown(&block("image/png", &bytes(&grey, ImageFormat::Png)));
    assert!(!image.color().has_color());
    let grey = DynamicImage::ImageLumaA16(picture(2000, 50).into_luma_alpha16());
    assert_eq!(
        shown(&block("image/png", &bytes(&grey, ImageFormat::Png)))
            .1
            .width(),
        1568
    );
}

#[test]
fn of_an_animation_the_first_picture_is_made_smaller() {
    let mut data = Vec::new();
    let frame = |grey: u8| {
        Frame::new(RgbaImage::from_pixel(
            2000,
            10,
            ::image::Rgba([grey, grey, grey, 255]),
        ))
    };
    GifEncoder::new(&mut data)
        .encode_frames([frame(0), frame(255)])
        .unwrap();
    let (_, image, ..) = shown(&block("image/gif", &data));
    assert_eq!(
        (image.dimensions(), image.get_pixel(5, 5).0),
        ((1568, 7), [0, 0, 0, 255])
    );
}

#[test]
fn the_type_is_what_the_bytes_say() {
    let mut data = Vec::new();
    WebPEncoder::new_lossless(&mut data)
        .encode(&[7; 12], 2, 2, ::image::ExtendedColorType::Rgb8)
        .unwrap();
    let (mime, _, rest, warnings) = shown(&block("image/png", &data));
    assert_eq!((mime.as_str(), rest.len()), ("image/webp", 0));
    assert_eq!(
        warnings,
        ["an image of \"t\" says that it is image/png, and is image/webp"]
    );
    let untold = json!({"type": "image", "data": base64::encode(&data)});
    assert_eq!(shown(&untold).0, "image/webp");
}

#[test]
fn base64_is_spelt_as_models_expect_it() {
    let plain = png(20, 20);
    let broken_up: Vec<&str> = plain
        .as_bytes()
        .chunks(76)
        .map(|line| str::from_utf8(line).unwrap())
        .collect();
    for odd in [
        broken_up.join("\n"),
        format!("data:image/png;base64,{plain}"),
        plain.trim_end_matches('=').to_owned(),
    ] {
        let output = Lab::new().process(
            &json!({"content": [{"type": "image", "mimeType": "image/png", "data": odd}]}),
        );
        assert_eq!(blocks(&output)[0]["data"], plain);
    }
}

#[test]
fn an_image_in_a_resource_is_shown() {
    let resource = json!({"type": "resource", "resource": {"uri": "file:///a.png", "mimeType": "image/png", "blob": png(4, 4)}});
    let lab = Lab::new();
    let output = lab.process(&json!({"content": [resource]}));
    let image = json!({"type": "image", "data": png(4, 4), "mimeType": "image/png"});
    assert_eq!(blocks(&output), [text("[resource file:///a.png:]"), image]);
    assert_eq!(lab.files(), 0);
}

#[test]
fn for_people_only_a_broken_image_is_not_saved() {
    let lab = Lab::new();
    let large = png(3000, 3000);
    let cut = base64::encode(&bytes(&picture(40, 40), ImageFormat::Png)[..100]);
    // More than is looked at in one result.
    let block = |data: &str| json!({"type": "image", "mimeType": "image/png", "data": data});
    let mut blocks = vec![block(&cut)];
    blocks.extend(std::iter::repeat_n(block(&large), 24));
    let results = lab.results().for_people();
    let output = process(&results, &ORIGIN, &json!({"content": blocks}));
    assert_eq!(output.files.len(), 24);
    assert!(words(&output).starts_with("[image left out"));
}
