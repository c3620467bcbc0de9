//! `trunkline call`: large results and results other than text (RES-2 … RES-4, RES-7).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use trunkline_testkit::Script;

use crate::lab::{Lab, files_under};

/// The directory of saved files, below the home.
const RESULTS: &str = "home/.cache/trunkline/results";

/// A PNG of one pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// A lab with a server `s` whose tool `t` returns this result.
fn replying(result: &Value) -> Lab {
    Lab::with([("s", Script::default().tool("t", json!([{"reply": result}])))])
}

/// Returns the saved files with their sizes.
fn saved(lab: &Lab) -> Vec<(PathBuf, u64)> {
    let size = |path: PathBuf| {
        let size = path.metadata().unwrap().len();
        (path, size)
    };
    files_under(&lab.at(RESULTS))
        .into_iter()
        .map(size)
        .collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_person_gets_text_whole_and_everything_else_in_files() {
    let wave =
        json!({"type": "audio", "mimeType": "audio/wav", "data": "UklGRgQAAABXQVZFZm10IA=="});
    let image = json!({"type": "image", "mimeType": "image/png", "data": PIXEL});
    let text = json!({"type": "text", "text": "here they are"});
    let lab = replying(&json!({"content": [text, wave, image]}));
    let run = lab.run(&["call", "s", "t"]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:#?}");
    let lines: Vec<&str> = run.out.lines().collect();
    let mut files = saved(&lab);
    files.sort_by_key(|(_, size)| *size);
    let [(audio, 16), (picture, 70)] = &files[..] else {
        panic!("{files:?}")
    };
    assert!(name(audio).starts_with("mcp-s-t-2"));
    assert_eq!(audio.extension().unwrap(), "wav");
    assert_eq!(
        lines,
        [
            "here they are".to_owned(),
            format!(
                "[audio saved to [DIR]/{RESULTS}/{} (audio/wav, 16 bytes)]",
                name(audio)
            ),
            format!(
                "[image saved to [DIR]/{RESULTS}/{} (image/png, 70 bytes)]",
                name(picture)
            ),
        ]
    );
}

#[test]
fn as_json_an_image_stays_and_a_file_is_named() {
    let wave =
        json!({"type": "audio", "mimeType": "audio/wav", "data": "UklGRgQAAABXQVZFZm10IA=="});
    let image = json!({"type": "image", "mimeType": "image/png", "data": PIXEL});
    let lab = replying(&json!({"content": [image, wave], "structuredContent": {"n": 1}}));
    let document = lab.run(&["call", "s", "t", "--json"]).json();
    let (path, _) = saved(&lab).pop().unwrap();
    let path = format!("[DIR]/{RESULTS}/{}", name(&path));
    let expected = json!({
        "content": [image, {"type": "text", "text": format!("[audio saved to {path} (audio/wav, 16 bytes)]")}],
        "structuredContent": {"n": 1},
        "isError": false,
        "files": [{"path": path, "mimeType": "audio/wav", "size": 16}],
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "testkit", "version": "1.0.0"}},
    });
    assert_eq!(document, expected);
}

#[test]
fn a_large_text_is_printed_whole_and_as_json_it_is_saved_whole() {
    let lab = Lab::with([(
        "s",
        Script::default().tool("t", json!([{"hugeText": 10_000_000}])),
    )]);
    let run = lab.run(&["call", "s", "t"]);
    assert_eq!(
        (run.code, run.out.len(), run.err.as_str()),
        (Some(0), 10_000_001, "")
    );
    assert!(saved(&lab).is_empty());
    let document = lab.run(&["call", "s", "t", "--json"]).json();
    let told = document["content"][0]["text"].as_str().unwrap();
    assert!(
        told.starts_with("[the result is too large to show: 10,000,000 characters (about 2,500,000 tokens). All of it was saved to [DIR]"),
        "{told}"
    );
    assert_eq!(document["files"][0]["size"], 10_000_000);
    let (path, size) = saved(&lab).pop().unwrap();
    assert_eq!(size, 10_000_000);
    let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn the_limit_is_taken_from_the_environment() {
    let text = "x".repeat(150_000);
    let lab = replying(&json!({"content": [{"type": "text", "text": text}]}));
    for (tokens, files) in [
        ("30000", 1),
        ("40000", 0),
        ("10", 1),
        ("nonsense", 1),
        ("0", 1),
    ] {
        let mut command = lab.command(&["call", "s", "t", "--json"]);
        command.env("MAX_MCP_OUTPUT_TOKENS", tokens);
        let document = lab.finish(&mut command).json();
        assert_eq!(
            document["files"].as_array().unwrap().len(),
            files,
            "{tokens}"
        );
    }
}

#[test]
fn broken_data_is_reported() {
    let lab = replying(
        &json!({"content": [{"type": "audio", "data": "!"}, {"type": "text", "text": "still here"}]}),
    );
    lab.run(&["call", "s", "t"]).is(
        0,
        "[audio left out: its data is not base64: character 1 is '!']\nstill here\n",
        "warning: a part of what \"t\" gave back was left out (audio): its data is not base64: character 1 is '!'\n",
    );
}

#[test]
fn old_files_go_and_other_files_stay() {
    let lab = Lab::with([(
        "s",
        Script::default().tool("t", json!([{"hugeText": 200_000}])),
    )]);
    let old = lab.scratch.write(
        format!("{RESULTS}/mcp-s-t-20200101T000000-0123abcd.txt"),
        "old",
    );
    let notes = lab.scratch.write(format!("{RESULTS}/notes.txt"), "mine");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(lab.at(RESULTS), mode).unwrap();
    for path in [&old, &notes] {
        let file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        let long_ago = std::time::SystemTime::now() - std::time::Duration::from_hours(8 * 24);
        file.set_modified(long_ago).unwrap();
    }
    // They go in the background, and a program that ends does not wait for that: a next one will.
    let mut runs = 0;
    while old.exists() {
        runs += 1;
        assert!(runs < 20);
        lab.run(&["call", "s", "t", "--json"]).json();
    }
    assert!(notes.exists());
    assert_eq!(saved(&lab).len(), runs + 1);
}

#[test]
fn a_full_disk_costs_the_end_of_a_text_and_leaves_nothing() {
    let lab = Lab::with([(
        "s",
        Script::default().tool("t", json!([{"hugeText": 2_000_000}])),
    )]);
    std::fs::create_dir_all(lab.at("home/.cache")).unwrap();
    let mount = "mount -n -t tmpfs -o size=1m,mode=700 tmpfs home/.cache";
    let permitted = |flags: &&&[&str]| {
        let mut probe = Command::new("unshare");
        probe.args(**flags).args(["sh", "-c", mount]);
        probe.current_dir(lab.scratch.path());
        probe.stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    };
    let ways: [&[&str]; 2] = [&["-m"], &["-Urm"]];
    let Some(unshare) = ways.iter().find(permitted) else {
        crate::lab::skipped("nothing can be mounted here");
        return;
    };
    // What is left on the disk is seen from inside.
    let line = format!("{mount} && \"$@\" && find home/.cache/trunkline/results -type f >left");
    let starter = [&["unshare"], *unshare, &["sh", "-c", &line, "sh"]].concat();
    let words = [
        "--mcp-config",
        ".mcp-config.json",
        "call",
        "s",
        "t",
        "--json",
    ];
    let run = lab.finish(&mut lab.started_by(&starter, &words));
    let document = run.json();
    assert_eq!(
        document["content"][0]["text"].as_str().map(str::len),
        Some(100_000)
    );
    let told = document["content"][1]["text"].as_str().unwrap();
    assert!(
        told.starts_with("[truncated: only the first 100,000 of 2,000,000 characters (about 500,000 tokens) are shown; the rest could not be saved: ")
            && told.contains("No space left on device"),
        "{told}"
    );
    assert!(
        run.err
            .starts_with("{\"warnings\":[\"what \\\"t\\\" gave back was truncated: "),
        "{}",
        run.err
    );
    assert_eq!(
        (lab.scratch.read("left"), &document["files"]),
        (String::new(), &json!([]))
    );
}

#[test]
fn a_corrupt_image_is_not_saved() {
    let random = "BwcH".repeat(100);
    for (data, why) in [
        (
            random.as_str(),
            "its data is no image/png, nor any other image",
        ),
        (&PIXEL[..60], "it is cut off"),
    ] {
        let image = json!({"type": "image", "mimeType": "image/png", "data": data});
        let lab = replying(&json!({"content": [image]}));
        let run = lab.run(&["call", "s", "t"]);
        assert_eq!(run.code, Some(0), "{run:#?}");
        assert!(run.out.starts_with("[image"), "{}", run.out);
        assert!(run.out.contains(why), "{}", run.out);
        assert!(saved(&lab).is_empty());
    }
}

#[test]
fn a_link_to_a_resource_stays_on_one_line() {
    let link =
        json!({"type": "resource_link", "uri": "x://a\n! next", "name": "n]\nerror: forged"});
    let lab = replying(&json!({"content": [link]}));
    let run = lab.run(&["call", "s", "t"]);
    assert_eq!(run.out.lines().count(), 1, "{}", run.out);
}
