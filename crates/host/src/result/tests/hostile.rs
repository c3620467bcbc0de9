//! Results made to do harm: each ends in something bounded, and says what is wrong.

use ::image::ImageFormat;
use trunkline_wire::envelope::{Frame, Message, decode};

use super::*;
use crate::result::base64;

/// What is said in place of a block.
fn said(block: &Value) -> String {
    let output = Lab::new().process(&json!({"content": [block]}));
    assert!(
        output.files.is_empty() && output.warnings.len() == 1,
        "{output:?}"
    );
    words(&output)
}

fn image(data: &[u8]) -> Value {
    json!({"type": "image", "mimeType": "image/png", "data": base64::encode(data)})
}

/// A PNG that says it is so large, with next to nothing in it.
fn claiming(width: u32, height: u32) -> Vec<u8> {
    let mut data = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut header = b"IHDR".to_vec();
    header.extend(width.to_be_bytes());
    header.extend(height.to_be_bytes());
    header.extend([8, 6, 0, 0, 0]);
    let zeros = b"IDAT\x78\x9c\x63\x60\x00\x00\x00\x02\x00\x01".to_vec();
    for chunk in [header, zeros, b"IEND".to_vec()] {
        let length = u32::try_from(chunk.len() - 4).unwrap();
        data.extend(length.to_be_bytes());
        data.extend(&chunk);
        data.extend(crc32(&chunk).to_be_bytes());
    }
    data
}

fn crc32(data: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 {
                crc >> 1 ^ 0xedb8_8320
            } else {
                crc >> 1
            }
        })
    };
    !data.iter().fold(!0, step)
}

#[test]
fn base64_that_is_not_is_told() {
    let cases = [
        (
            json!({"type": "image", "mimeType": "image/png", "data": "not base64!"}),
            "[image left out: its data is not base64: character 10 is '!']",
        ),
        (
            json!({"type": "audio", "data": "AAAA\u{202e}"}),
            "[audio left out: its data is not base64: character 5 is '\\\\u{e2}']",
        ),
        (
            json!({"type": "image", "data": 7}),
            "[image left out: its data is not base64: it is not a text]",
        ),
        (
            json!({"type": "image", "mimeType": "image/png"}),
            "[image left out: it has no data]",
        ),
        (
            json!({"type": "audio", "data": ""}),
            "[audio left out: it is empty]",
        ),
        (
            json!({"type": "resource", "resource": {"uri": "x:\u{1b}[2J", "blob": "?"}}),
            "[resource x:\\u{1b}[2J left out: its data is not base64: character 1 is '?']",
        ),
    ];
    for (block, expected) in cases {
        assert_eq!(said(&block), expected.replace("\\\\u", "\\u"), "{block}");
    }
}

#[test]
fn a_broken_end_of_base64_leaves_no_file() {
    let lab = Lab::new();
    let data = format!("{}!", "A".repeat(1_000_000));
    let output = lab.process(&json!({"content": [{"type": "audio", "data": data}]}));
    assert_eq!(
        words(&output),
        "[audio left out: its data is not base64: character 1000001 is '!']"
    );
    assert_eq!((lab.files(), output.files.len()), (0, 0));
}

#[test]
fn a_bomb_is_not_unpacked() {
    let expected =
        "[image (image/png) left out: it would be 60000 × 60000 pixels, which is too large]";
    assert_eq!(said(&image(&claiming(60_000, 60_000))), expected);
    let most = said(&image(&claiming(u32::MAX >> 1, u32::MAX >> 1)));
    assert!(most.starts_with("[image (image/png) left out: "), "{most}");
    assert!(said(&image(&claiming(0, 5))).contains("left out"));
}

#[test]
fn many_images_share_one_budget() {
    let block = image(&claiming(10_000, 10_000));
    let output = Lab::new().process(&json!({"content": [block, block, block]}));
    let told = words(&output);
    let refused = "it would be 10000 × 10000 pixels, which is too large";
    assert_eq!(told.matches(refused).count(), 1, "{told}");
    assert_eq!(told.matches("left out").count(), 3, "{told}");
}

#[test]
fn what_only_calls_itself_an_image_is_told() {
    assert_eq!(
        said(&image(b"<html>not found</html>")),
        "[image left out: its data is no image/png, nor any other image]"
    );
    let mut damaged = base64::decode_whole(&Json::from(json!(super::images::png(50, 50)))).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0xff;
    assert!(said(&image(&damaged)).starts_with("[image (image/png) left out: it is damaged ("));
    assert!(said(&image(b"\x89PNG\r\n\x1a\n")).starts_with("[image (image/png) left out: it is "));
}

#[test]
fn an_image_that_is_cut_off_is_told_wherever_it_is_cut() {
    let picture = ::image::DynamicImage::new_rgb8(64, 64);
    for format in [
        ImageFormat::Png,
        ImageFormat::Gif,
        ImageFormat::WebP,
        ImageFormat::Jpeg,
    ] {
        let mut whole = std::io::Cursor::new(Vec::new());
        picture.write_to(&mut whole, format).unwrap();
        let whole = whole.into_inner();
        for end in [16, whole.len() / 3, whole.len() / 2] {
            let output = Lab::new().process(&json!({"content": [image(&whole[..end])]}));
            let told = words(&output);
            assert!(
                told.starts_with("[image") && told.contains("left out: "),
                "{format:?} {end}: {told}"
            );
        }
    }
}

#[test]
fn an_image_with_any_byte_changed_ends_in_an_image_or_a_note() {
    let picture = ::image::DynamicImage::new_rgb8(24, 24);
    let mut state = 7_usize;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state >> 33
    };
    for format in [
        ImageFormat::Png,
        ImageFormat::Gif,
        ImageFormat::WebP,
        ImageFormat::Jpeg,
    ] {
        let mut whole = std::io::Cursor::new(Vec::new());
        picture.write_to(&mut whole, format).unwrap();
        let whole = whole.into_inner();
        let mutated = (0..200).map(|_| {
            let mut data = whole.clone();
            // The first bytes say what it is.
            let at = 12 + next() % (data.len() - 12);
            data[at] = next().to_le_bytes()[0];
            image(&data)
        });
        for block in mutated {
            let output = Lab::new().process(&json!({"content": [block]}));
            let shown = blocks(&output);
            let fine = shown[0]["type"] == "image" || words(&output).contains("left out: ");
            assert!(fine, "{block}");
        }
    }
}

#[test]
fn blocks_without_end_are_counted() {
    let lab = Lab::new();
    let audio = json!({"type": "audio", "data": "AAAA"});
    let mut blocks = vec![audio; 250];
    blocks.push(text("the end"));
    let output = lab.process(&json!({"content": blocks}));
    assert_eq!(
        (lab.files(), output.files.len(), output.content.len()),
        (100, 100, 102)
    );
    assert!(words(&output).ends_with("\nthe end\n[150 more blocks left out: there are too many]"));
}

#[test]
fn json_of_any_depth_is_survived() {
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let wide = format!("[{}]", vec![deep.as_str(); 20].join(","));
    for (inner, files) in [(&deep, 0), (&wide, 1)] {
        let lab = Lab::new();
        let in_text = process_text(
            &lab.results(),
            &ORIGIN,
            &result_with("content", &json!([text(inner)]).to_string()),
        );
        assert_eq!(in_text.files.len(), files);
        let structured = process_text(
            &lab.results(),
            &ORIGIN,
            &result_with("structuredContent", inner),
        );
        assert_eq!(structured.files.len(), files);
        for file in in_text.files.iter().chain(&structured.files) {
            assert_eq!(read(&file.path), inner.as_bytes());
            assert_eq!(file.mime_type, "application/json");
        }
    }
}

/// A result with one member, of any depth.
fn result_with(key: &str, value: &str) -> Json {
    // Deeper than `Json::parse` goes, so it comes as a message does.
    let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"{key}":{value}}}}}"#);
    match decode(&text.into()) {
        Frame::Single(Message::Response { outcome, .. }) => outcome.unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn half_a_pair_and_controls_are_saved_as_they_were_said() {
    let lab = Lab::new();
    let spelt = format!(
        r#"{{"content":[{{"type":"text","text":"\ud83d \u0000\u001b[2J{}"}}]}}"#,
        "x".repeat(200_000)
    );
    let output = process_text(&lab.results(), &ORIGIN, &Json::parse(spelt).unwrap());
    let file = only_file(&output, "txt");
    assert!(read(&file.path).starts_with("\u{fffd} \0\u{1b}[2Jxx".as_bytes()));
}

#[cfg(unix)]
#[test]
fn a_link_in_place_of_the_directory_is_not_followed() {
    let lab = Lab::new();
    let elsewhere = lab.scratch.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, lab.dir()).unwrap();
    let output = lab.process(
        &json!({"content": [text(&"x".repeat(200_000)), {"type": "audio", "data": "AAAA"}]}),
    );
    let told = words(&output);
    assert_eq!(
        told.matches("is not used, because it is a symbolic link")
            .count(),
        2,
        "{told:.100}"
    );
    assert!(told.len() < 102_000 && output.files.is_empty());
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn many_blocks_and_long_addresses_come_to_little() {
    let nothing = json!({"type": "text", "text": ""});
    let output = Lab::new().process(&json!({"content": vec![nothing; 30_000]}));
    assert!(output.content.len() < 10_010, "{}", output.content.len());
    assert!(words(&output).contains("20,000 more blocks left out"));

    let uri = "x".repeat(5000);
    let block = json!({"type": "resource", "resource": {"uri": uri, "text": "said"}});
    let output = Lab::new().process(&json!({"content": vec![block; 500]}));
    let shown = output.for_model(crate::tool::Format::OpenAi);
    let shown = shown.as_str().unwrap();
    assert_eq!(shown.matches("said").count(), 500);
    assert!(shown.len() < 150_000, "{}", shown.len());
}
