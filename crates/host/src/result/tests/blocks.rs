//! Blocks of every kind (RES-1, RES-3).

use super::*;
use crate::result::base64;

#[test]
fn what_a_model_can_read_passes_as_it_was_sent() {
    let results = [
        json!({"content": [text("one"), text("two")]}),
        json!({"content": [{"type": "text", "text": "x", "annotations": {"priority": 1}, "_meta": {"k": 1}}]}),
        json!({"content": [{"type": "resource_link", "uri": "file:///x", "name": "x", "mimeType": "image/png"}]}),
        json!({"content": [{"type": "resource", "resource": {"uri": "file:///x", "text": "t", "mimeType": "text/csv"}}]}),
        json!({"content": [{"type": "hologram", "beam": 7}, {"type": "text", "text": 7}, {"type": "resource"}]}),
        json!({"content": []}),
    ];
    let lab = Lab::new();
    for result in results {
        let output = lab.process(&result);
        assert_eq!(json!(blocks(&output)), result["content"]);
        assert!(
            output.files.is_empty() && output.warnings.is_empty(),
            "{output:?}"
        );
    }
    assert!(!lab.dir().exists());
}

#[test]
fn content_and_structured_content_are_both_kept_though_they_contradict_each_other() {
    let result = json!({"content": [text("3 found")], "structuredContent": {"found": 4}, "isError": true, "_meta": {"m": 1}});
    let output = Lab::new().process(&result);
    assert_eq!(output.text(), "3 found");
    assert_eq!(
        output.structured_content.unwrap().as_str(),
        r#"{"found":4}"#
    );
    assert_eq!(output.meta.unwrap().as_str(), r#"{"m":1}"#);
    assert!(output.is_error);
}

#[test]
fn other_data_is_saved_and_told_of() {
    let wave = b"RIFF\x04\0\0\0WAVEfmt ".to_vec();
    let pdf = b"%PDF-1.7 and so on".to_vec();
    let cases = [
        (
            json!({"type": "audio", "mimeType": "audio/x-wav", "data": base64::encode(&wave)}),
            &wave,
            "wav",
            "audio/wav",
            "[audio saved to [FILE] (audio/wav, 16 bytes)]",
        ),
        (
            json!({"type": "resource", "resource": {"uri": "file:///a/../b.pdf", "mimeType": "text/plain", "blob": base64::encode(&pdf)}}),
            &pdf,
            "pdf",
            "application/pdf",
            "[resource file:///a/../b.pdf saved to [FILE] (application/pdf, 18 bytes)]",
        ),
        (
            json!({"type": "image", "mimeType": "image/svg+xml", "data": base64::encode(b"<svg/>")}),
            &b"<svg/>".to_vec(),
            "svg",
            "image/svg+xml",
            "[image saved to [FILE] (image/svg+xml, 6 bytes)]",
        ),
        (
            json!({"type": "image", "mimeType": "image/png", "data": base64::encode(b"II*\0tiff")}),
            &b"II*\0tiff".to_vec(),
            "tiff",
            "image/tiff",
            "[image saved to [FILE] (image/tiff, 8 bytes)]",
        ),
        (
            json!({"type": "resource", "resource": {"uri": "x:y", "blob": base64::encode(b"??")}}),
            &b"??".to_vec(),
            "bin",
            "application/octet-stream",
            "[resource x:y saved to [FILE] (application/octet-stream, 2 bytes)]",
        ),
        (
            json!({"type": "audio", "mimeType": "../../x", "data": base64::encode(b"??")}),
            &b"??".to_vec(),
            "bin",
            "application/octet-stream",
            "[audio saved to [FILE] (application/octet-stream, 2 bytes)]",
        ),
    ];
    for (block, data, extension, mime, expected) in cases {
        let output =
            Lab::new().process(&json!({"content": [text("before"), block, text("after")]}));
        assert_eq!(
            words(&output),
            format!("before\n{expected}\nafter"),
            "{block}"
        );
        let lab = Lab::new();
        let output = lab.process(&json!({"content": [block]}));
        let file = only_file(&output, extension);
        assert_eq!((read(&file.path), &*file.mime_type), (data.clone(), mime));
    }
}

#[test]
fn data_of_any_size_is_saved_byte_for_byte() {
    let lab = Lab::new();
    for size in [1, 2, 3, 49_151, 49_152, 49_153, 1_000_000] {
        let data: Vec<u8> = (0..size)
            .map(|n: usize| (n * 31 % 251).to_le_bytes()[0])
            .collect();
        let output =
            lab.process(&json!({"content": [{"type": "audio", "data": base64::encode(&data)}]}));
        assert!(read(&only_file(&output, "bin").path) == data, "{size}");
    }
}

#[test]
fn where_nothing_is_saved_data_is_left_out() {
    let block = json!({"type": "audio", "mimeType": "audio/wav", "data": "AAAA"});
    let output = process(&Results::unsaved(), &ORIGIN, &json!({"content": [block]}));
    assert_eq!(
        words(&output),
        "[audio left out: it could not be saved: results are not saved here]"
    );
    assert_eq!(output.warnings.len(), 1);
}

#[test]
fn for_people_images_are_files_and_text_has_any_size() {
    let lab = Lab::new();
    let long = "x".repeat(300_000);
    // One pixel.
    let data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let image = json!({"type": "image", "mimeType": "image/png", "data": data});
    let output = process(
        &lab.results().for_people(),
        &ORIGIN,
        &json!({"content": [text(&long), image]}),
    );
    assert_eq!(
        words(&output),
        format!("{long}\n[image saved to [FILE] (image/png, 70 bytes)]")
    );
    assert_eq!(only_file(&output, "png").size, 70);
}
