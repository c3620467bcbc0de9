//! Results that are too large (RES-4 … RES-6).

use super::*;

/// What a file holds, as text.
fn saved(file: &SavedFile) -> String {
    String::from_utf8(read(&file.path)).unwrap()
}

#[test]
fn a_large_text_is_saved_whole_and_told_of() {
    let lab = Lab::new();
    let long = "a line with \"quotes\", é and 中\n".repeat(5000);
    let output = lab.process(&json!({"content": [text(&long)]}));
    assert_eq!(
        words(&output),
        "[the result is too large to show: 150,000 characters (about 42,500 tokens). All of it was saved to [FILE] \
         (text/plain, 165,000 bytes, 5,001 lines).\n\
         To use it, search in it, or read some lines at a time; do not read all of it at once.]"
    );
    let file = only_file(&output, "txt");
    assert_eq!(saved(file), long);
    assert!(output.warnings.is_empty());
}

#[test]
fn large_json_is_told_of_with_its_shape() {
    let rows: Vec<Value> = (0..5000)
        .map(|n| json!({"id": n, "name": "somebody", "tags": ["a"]}))
        .collect();
    let whole = json!({"total": 5000, "rows": rows});
    for (long, how) in [
        (
            whole.to_string(),
            "ask for parts of it with a tool for JSON such as jq; do",
        ),
        (
            serde_json::to_string_pretty(&whole).unwrap(),
            "ask for parts of it with a tool for JSON such as jq, search in it, or read some lines at a time; do",
        ),
    ] {
        let output = Lab::new().process(&json!({"content": [text(&long)]}));
        let told = words(&output);
        let shape = "\nIt has this shape: {total: number, rows: [{id: number, name: string, tags: [string]}]}\nTo use it, ";
        assert!(
            told.contains(&format!("{shape}{how} not read all of it at once.]")),
            "{told}"
        );
        let lab = Lab::new();
        let output = lab.process(&json!({"content": [text(&long)]}));
        let file = only_file(&output, "json");
        assert_eq!((saved(file), &*file.mime_type), (long, "application/json"));
    }
}

#[test]
fn the_limits_are_characters_and_tokens_and_what_fits_stays() {
    let cases = [
        ("x".repeat(100_000), false),
        ("x".repeat(100_001), true),
        ("中".repeat(25_000), false),
        ("中".repeat(25_001), true),
        ("\n".repeat(100_000), false),
        ("é".repeat(50_000), false),
        ("é".repeat(50_001), true),
    ];
    for (long, too_large) in cases {
        let output = Lab::new().process(&json!({"content": [text(&long)]}));
        assert_eq!(output.files.len(), usize::from(too_large), "{long:.9}");
        assert_eq!(output.text() == long, !too_large);
    }
}

#[test]
fn several_texts_that_are_too_much_together_are_in_one_file() {
    let lab = Lab::new();
    let (one, two) = ("1".repeat(60_000), "2".repeat(60_000));
    let link = json!({"type": "resource_link", "uri": "file:///x", "name": "x"});
    let resource =
        json!({"type": "resource", "resource": {"uri": "file:///y", "text": "in a resource"}});
    let output = lab.process(&json!({"content": [link, text(&one), resource, text(&two)]}));
    assert_eq!(blocks(&output)[0], link);
    assert_eq!(output.content.len(), 2);
    assert_eq!(
        saved(only_file(&output, "txt")),
        format!("{one}\nin a resource\n{two}")
    );
}

#[test]
fn an_embedded_resource_that_is_too_large_keeps_its_kind() {
    let lab = Lab::new();
    let long = "a,b\n".repeat(30_000);
    let resource = json!({"type": "resource", "resource": {"uri": "file:///y", "mimeType": "text/csv", "text": long}});
    let output = lab.process(&json!({"content": [resource]}));
    let file = only_file(&output, "csv");
    assert_eq!((saved(file), &*file.mime_type), (long, "text/csv"));
}

#[test]
fn links_without_end_are_in_the_file_too() {
    let lab = Lab::new();
    let link = json!({"type": "resource_link", "uri": "file:///x", "name": "x"});
    let output = lab.process(&json!({"content": vec![link.clone(); 5000]}));
    assert_eq!(output.content.len(), 1);
    let all = saved(only_file(&output, "txt"));
    assert_eq!(all.lines().count(), 5000);
    assert_eq!(
        serde_json::from_str::<Value>(all.lines().next().unwrap()).unwrap(),
        link
    );
}

#[test]
fn structured_content_is_judged_by_itself() {
    let large = json!({"rows": vec![json!({"id": 1}); 20_000]});
    let lab = Lab::new();
    let alone = lab.process(&json!({"content": [], "structuredContent": large}));
    assert!(alone.structured_content.is_none());
    let told = words(&alone);
    assert!(
        told.starts_with("[the result is too large to show: 180,0")
            && told.contains("{rows: [{id: number}]}"),
        "{told}"
    );
    assert_eq!(saved(only_file(&alone, "json")), large.to_string());

    let beside =
        lab.process(&json!({"content": [text("20,000 rows")], "structuredContent": large}));
    assert!(beside.structured_content.is_none());
    let told = words(&beside);
    assert!(
        told.starts_with(
            "20,000 rows\n[the structured content of the result is too large to show: "
        ),
        "{told}"
    );
    assert_eq!(saved(only_file(&beside, "json")), large.to_string());

    let pretty = serde_json::to_string_pretty(&large).unwrap();
    let twice = lab.process(&json!({"content": [text(&pretty)], "structuredContent": large}));
    assert_eq!((twice.files.len(), twice.content.len()), (1, 1));
    assert!(twice.structured_content.is_none());
    let contradicting = large.to_string().replace("rows", "cows");
    let both = lab.process(&json!({"content": [text(&contradicting)], "structuredContent": large}));
    assert_eq!((both.files.len(), both.content.len()), (2, 2));
    assert_eq!(saved(&both.files[0]), contradicting);
    assert_eq!(saved(&both.files[1]), large.to_string());

    let small = lab
        .process(&json!({"content": [text(&"x".repeat(200_000))], "structuredContent": {"a": 1}}));
    assert_eq!(small.structured_content.unwrap().as_str(), r#"{"a":1}"#);
    assert_eq!(small.files.len(), 1);

    let unsaved = process(
        &Results::unsaved(),
        &ORIGIN,
        &json!({"structuredContent": large}),
    );
    let told = words(&unsaved);
    assert!(
        told.starts_with("{\"rows\":[{\"id\":1},") && told.ends_with("if the tool can do that.]"),
        "{told}"
    );
    assert!(told.len() < 101_000 && unsaved.structured_content.is_none());
}

#[test]
fn text_beside_images_is_cut() {
    let lab = Lab::new();
    let image = json!({"type": "image", "mimeType": "image/png", "data": super::images::png(3, 2)});
    let output =
        lab.process(&json!({"content": [text(&"é".repeat(60_000)), image, text("after")]}));
    let shown = blocks(&output);
    assert_eq!(shown[0]["text"].as_str().unwrap(), "é".repeat(50_000));
    assert_eq!(shown[1], image);
    assert_eq!(
        shown[2]["text"],
        "[truncated: only the first 50,000 of 60,005 characters (about 30,002 tokens) are shown; \
         what comes with images is not saved. Ask for less at a time, if the tool can do that.]"
    );
    assert_eq!((shown.len(), lab.files()), (3, 0));
}

#[test]
fn text_that_cannot_be_saved_is_cut() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("file");
    fs::write(&file, "").unwrap();
    let results = Results::at(file.join("results"));
    let annotated =
        json!({"type": "text", "text": "b".repeat(90_000), "annotations": {"priority": 1}});
    let output = process(
        &results,
        &ORIGIN,
        &json!({"content": [text(&"a".repeat(90_000)), annotated, text("never seen")]}),
    );
    let shown = blocks(&output);
    assert_eq!(shown[0]["text"].as_str().map(str::len), Some(90_000));
    assert_eq!(shown[1]["text"].as_str().map(str::len), Some(10_000));
    assert_eq!(shown[1]["annotations"], json!({"priority": 1}));
    let note = shown[2]["text"].as_str().unwrap();
    assert!(
        note.starts_with("[truncated: only the first 100,000 of 180,010 characters"),
        "{note}"
    );
    assert!(
        note.contains("; the rest could not be saved: ") && note.contains(file.to_str().unwrap()),
        "{note}"
    );
    assert_eq!(
        (shown.len(), output.warnings.len(), output.files.len()),
        (3, 1, 0)
    );
}

#[test]
fn a_tool_may_ask_for_more_or_less_and_an_ide_for_anything() {
    let long = "x".repeat(400_000);
    let result = json!({"content": [text(&long)], "structuredContent": [long]});
    let large = |origin: ResultOrigin| {
        let lab = Lab::new();
        !process(&lab.results(), &origin, &result).files.is_empty()
    };
    let of_tool = |chars| ResultOrigin {
        max_chars: Some(chars),
        ..ORIGIN
    };
    assert!(large(ORIGIN) && large(of_tool(399_999)));
    assert!(!large(of_tool(450_000)));
    assert!(!large(ResultOrigin {
        ide: true,
        ..ORIGIN
    }));
    let longer = "x".repeat(500_001);
    let lab = Lab::new();
    let output = process(
        &lab.results(),
        &of_tool(10_000_000),
        &json!({"content": [text(&longer)]}),
    );
    assert_eq!(output.files.len(), 1);
}

/// The most memory that this process has had, in bytes.
#[cfg(target_os = "linux")]
fn most_memory() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
    kilobytes.parse::<usize>().unwrap() * 1024
}

#[cfg(target_os = "linux")]
#[test]
fn fifty_megabytes_reach_their_file_without_a_second_copy_of_them() {
    let lab = Lab::new();
    let line = r#"a line with \"quotes\" and its end\n"#;
    let said = serde_json::from_str::<String>(&format!("\"{line}\"")).unwrap();
    let lines = 50_000_000 / line.len();
    let spelt = format!(
        r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#,
        line.repeat(lines)
    );
    let message = Json::parse(spelt).unwrap();
    let before = most_memory();
    let output = process_text(&lab.results(), &ORIGIN, &message);
    let more = most_memory() - before;
    assert_eq!(only_file(&output, "txt").size, (said.len() * lines) as u64);
    // Only where tests have a process each is that the work of this one.
    if std::env::var_os("NEXTEST").is_some() {
        assert!(more < 10_000_000, "{more}");
    }
}

#[test]
fn limits_can_be_set_and_lifted() {
    let long = "x".repeat(1000);
    let result = json!({"content": [text(&long)]});
    let lab = Lab::new();
    let files = |results: Results| process(&results, &ORIGIN, &result).files.len();
    assert_eq!(files(lab.results().max_chars(Some(999))), 1);
    assert_eq!(files(lab.results().max_tokens(Some(249))), 1);
    assert_eq!(
        files(lab.results().max_chars(Some(1000)).max_tokens(Some(250))),
        0
    );
    let huge = json!({"content": [text(&"x".repeat(1_000_000))]});
    let lifted = lab.results().max_chars(None).max_tokens(None);
    assert_eq!(process(&lifted, &ORIGIN, &huge).text().len(), 1_000_000);
}
