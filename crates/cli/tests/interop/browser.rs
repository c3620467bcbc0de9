//! Images from a real browser, Debian's chromium, behind two servers that drive it each in its own
//! way.
//!
//! The page is larger than a model may see (RES-2), and neither server makes it smaller: the
//! program must.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::lab::Lab;
use crate::servers::{CHROMIUM, Server};

/// The longest side of an image that a model gets (RES-2).
const LONGEST_SIDE: u32 = 1568;

/// A lab for a server that drives chromium.
fn lab(server: Server) -> Lab {
    assert!(
        Path::new(CHROMIUM).exists(),
        "{CHROMIUM} is missing: `cargo xtask interop` installs it (Debian: `apt-get install chromium` as root)"
    );
    Lab::with(&[server])
}

/// The only image of a result, decoded to its last pixel.
fn image(result: &Value) -> image::RgbImage {
    let content = result["content"].as_array().unwrap();
    let images: Vec<&Value> = content
        .iter()
        .filter(|block| block["type"] == "image")
        .collect();
    let [image] = images[..] else {
        panic!("{} images: {result}", images.len());
    };
    let bytes = STANDARD.decode(image["data"].as_str().unwrap()).unwrap();
    let format = image::guess_format(&bytes).unwrap();
    assert_eq!(image["mimeType"], format.to_mime_type(), "{result}");
    image::load_from_memory_with_format(&bytes, format)
        .unwrap()
        .into_rgb8()
}

/// It shows the page, all of it, as large as may be.
fn check(result: &Value) {
    let picture = image(result);
    assert_eq!(picture.dimensions(), (LONGEST_SIDE, 1045));
    for (x, y) in [(20, 20), (784, 522), (1540, 1020)] {
        let image::Rgb([red, green, blue]) = *picture.get_pixel(x, y);
        let teal = red < 8 && green.abs_diff(128) < 8 && blue.abs_diff(128) < 8;
        assert!(teal, "({x}, {y}) is {red}, {green}, {blue}");
    }
    let content = result["content"].as_array().unwrap();
    let note = "[the image above is 3000 × 2000 pixels, shown at 1568 × 1045";
    let noted = content
        .iter()
        .filter_map(|block| block["text"].as_str())
        .any(|text| text.starts_with(note));
    assert!(noted, "the model is not told the scale");
}

#[test]
fn chrome_devtools_takes_a_png() {
    let lab = lab(Server::ChromeDevtools);
    let result = lab.call_json(&["chrome-devtools", "take_screenshot", "pageId:=1"]);
    check(&result);
}

#[test]
fn chrome_devtools_takes_a_jpeg() {
    let lab = lab(Server::ChromeDevtools);
    let call = ["take_screenshot", "pageId:=1", "format=jpeg", "quality:=90"];
    let result = lab.call_json(&[&["chrome-devtools"], &call[..]].concat());
    check(&result);
}

#[test]
fn playwright_takes_a_png() {
    let lab = lab(Server::Playwright);
    // It wants `scale`, although it has a default for it.
    let call = ["playwright", "browser_take_screenshot", "scale=css"];
    check(&lab.call_json(&call));
}
