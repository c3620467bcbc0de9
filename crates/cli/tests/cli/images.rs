//! Images of results on a terminal: by the protocol that the terminal names.

use std::io::Cursor;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::{ImageFormat, Rgb, RgbImage};
use serde_json::{Value, json};
use trunkline_testkit::Script;

use crate::lab::Lab;
use crate::pty::Session;

/// The question for the attributes of the terminal.
const ATTRIBUTES: &str = "\u{1b}[c";

/// An image block of 4 x 6 red pixels.
pub(crate) fn red(format: ImageFormat) -> Value {
    let image = RgbImage::from_pixel(4, 6, Rgb([255, 0, 0]));
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, format).unwrap();
    let data = STANDARD.encode(bytes.into_inner());
    json!({"type": "image", "mimeType": format.to_mime_type(), "data": data})
}

/// Calls a tool that returns an image, on a terminal that controls the program.
fn call(lab: &Lab, terminal: &[(&str, &str)]) -> Session {
    let mut command: Command = lab.started_by(&["setsid", "-c"], &["call", "s", "t"]);
    command.args(["--mcp-config", ".mcp-config.json"]);
    command.env("TERM", "xterm-256color");
    command.envs(terminal.iter().copied());
    Session::start(&mut command)
}

fn lab(format: ImageFormat) -> Lab {
    let reply = json!([{"reply": {"content": [red(format)]}}]);
    let lab = Lab::new();
    lab.configure([("s", Script::default().tool("t", reply))]);
    lab
}

#[test]
fn a_terminal_that_knows_sixels_gets_them() {
    let lab = lab(ImageFormat::Png);
    let mut session = call(&lab, &[]);
    session.type_after(ATTRIBUTES, "\u{1b}[?62;4;22c");
    session.type_after("\u{1b}[?1;1;0S", "\u{1b}[?1;0;256S\u{1b}[?62;4;22c");
    let sixels = "\u{1b}P0;1;0q\"1;1;4;6#0;2;100;0;0#0!4~\u{1b}\\\n";
    session.wait_for_text(sixels);
    session.wait_for_echo();
    let (code, out) = session.end();
    assert_eq!(code, Some(0), "{out}");
    assert!(!out.contains("62;4"), "the answers are not echoed: {out:?}");
}

#[test]
fn other_terminals_get_no_sixels() {
    let lab = lab(ImageFormat::Png);
    // One without them, and one that does not answer.
    for answer in ["\u{1b}[?1;2c", ""] {
        let mut session = call(&lab, &[]);
        session.type_after(ATTRIBUTES, answer);
        session.wait_for_echo();
        let (code, out) = session.end();
        assert_eq!(code, Some(0), "{out}");
        assert!(!out.contains("\u{1b}P"), "{out:?}");
        assert!(out.contains("image saved to"), "{out}");
    }
}

#[test]
fn terminals_known_by_name_are_not_asked() {
    for (format, variable, start) in [
        (
            ImageFormat::Png,
            ("TERM", "xterm-kitty"),
            "\u{1b}_Ga=T,f=100,m=0;",
        ),
        // Which this terminal does not read.
        (
            ImageFormat::WebP,
            ("TERM", "xterm-kitty"),
            "\u{1b}_Ga=T,f=100,m=0;",
        ),
        (
            ImageFormat::Jpeg,
            ("TERM_PROGRAM", "WezTerm"),
            "\u{1b}]1337;File=",
        ),
    ] {
        let lab = lab(format);
        let (code, out) = call(&lab, &[variable]).end();
        assert_eq!(code, Some(0), "{out}");
        assert!(out.contains(start), "{out:?}");
        assert!(!out.contains(ATTRIBUTES), "{out:?}");
    }
}

#[test]
fn a_terminal_that_moves_no_cursor_is_not_asked() {
    let lab = lab(ImageFormat::Png);
    let (code, out) = call(&lab, &[("TERM", "dumb")]).end();
    assert_eq!(code, Some(0), "{out}");
    assert!(!out.contains('\u{1b}'), "{out:?}");
}
