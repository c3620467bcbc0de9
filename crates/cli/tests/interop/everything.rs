//! server-everything, whole: each of its tools called, each prompt got, each resource read, each
//! template filled. The tables are held against what it offers, so that a newer version cannot
//! bring something that nobody tries.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use trunkline::context::Reference;
use trunkline::{Host, ServerEntry};

use crate::lab::Lab;
use crate::servers::{Server, installed};

/// A tool, arguments that fit, the exit code, and what must be said.
type Call = (
    &'static str,
    &'static [&'static str],
    i32,
    &'static [&'static str],
);

const CALLS: [Call; 20] = [
    ("echo", &["message=hi"], 0, &["Echo: hi"]),
    (
        "get-annotated-message",
        &["messageType=error", "includeImage:=true"],
        0,
        &["Error: Operation failed", "image/png"],
    ),
    ("get-env", &[], 0, &["CLAUDE_PROJECT_DIR"]),
    (
        "get-resource-links",
        &["count:=3"],
        0,
        &[
            "demo://resource/dynamic/blob/1",
            "demo://resource/dynamic/text/2",
            "demo://resource/dynamic/blob/3",
        ],
    ),
    (
        "get-resource-reference",
        &["resourceType=Text", "resourceId:=4"],
        0,
        &["Resource 4: This is a plaintext resource"],
    ),
    (
        "get-resource-reference",
        &["resourceType=Blob", "resourceId:=5"],
        0,
        &["demo://resource/dynamic/blob/5 saved to "],
    ),
    // What the client calls its roots.
    ("get-roots-list", &[], 0, &["(1 total)", "/project"]),
    (
        "get-structured-content",
        &["location=New York"],
        0,
        &["\"temperature\":33", "Cloudy"],
    ),
    ("get-sum", &["a:=2", "b:=3"], 0, &["is 5"]),
    ("get-tiny-image", &[], 0, &["image/png"]),
    (
        "gzip-file-as-resource",
        &[
            "name=a.gz",
            "data=data:text/plain,hello",
            "outputType=resource",
        ],
        0,
        &["demo://resource/session/a.gz saved to ", "application/gzip"],
    ),
    (
        "gzip-file-as-resource",
        &[
            "name=a.gz",
            "data=data:text/plain,hello",
            "outputType=resourceLink",
        ],
        0,
        &["[resource demo://resource/session/a.gz"],
    ),
    // Runs only as a task.
    (
        "simulate-research-query",
        &["topic=tides"],
        0,
        &["# Research Report: tides", "Stage 4"],
    ),
    // A task that asks in the middle, and goes on when nobody is there.
    (
        "simulate-research-query",
        &["topic=python", "ambiguous:=true"],
        0,
        &["User cancelled - using default interpretation"],
    ),
    ("toggle-simulated-logging", &[], 0, &["Started simulated"]),
    ("toggle-subscriber-updates", &[], 0, &["Started simulated"]),
    ("trigger-elicitation-request", &[], 0, &["User cancelled"]),
    (
        "trigger-long-running-operation",
        &["duration:=0.2", "steps:=2"],
        0,
        &["Steps: 2"],
    ),
    (
        "trigger-url-elicitation",
        &["url=https://example.com/"],
        0,
        &["User cancelled"],
    ),
    (
        "trigger-url-elicitation",
        &["url=https://example.com/", "errorPath:=true"],
        1,
        &["-32042", "browser-based authorization", "not visited"],
    ),
];

/// A prompt, its arguments in order, and what it must say.
const PROMPTS: [(&str, &[&str], &str); 6] = [
    (
        "simple-prompt",
        &[],
        "This is a simple prompt without arguments.",
    ),
    ("args-prompt", &["Paris"], "What's weather in Paris?"),
    (
        "args-prompt",
        &["Paris", "Texas"],
        "What's weather in Paris, Texas?",
    ),
    (
        "completable-prompt",
        &["Sales", "Eve"],
        "Please promote Eve to the head of the Sales team.",
    ),
    (
        "resource-prompt",
        &["Text", "2"],
        "Resource 2: This is a plaintext resource",
    ),
    (
        "resource-prompt",
        &["Blob", "2"],
        "[resource demo://resource/dynamic/blob/2",
    ),
];

fn lab() -> Lab {
    Lab::with(&[Server::Everything])
}

/// One field of each item in a `--json` list; items without it are left out.
fn each<'v>(list: &'v Value, field: &str) -> BTreeSet<&'v str> {
    let items = list.as_array().unwrap();
    items
        .iter()
        .filter_map(|item| item[field].as_str())
        .collect()
}

fn check_calls(calls: &[Call]) {
    let lab = lab();
    for (tool, arguments, code, said) in calls {
        let ran = lab.run(&[&["call", "everything", tool], *arguments].concat());
        assert_eq!(ran.code, Some(*code), "{tool}: {ran:#?}");
        let all = format!("{}{}", ran.stdout, ran.stderr);
        for part in *said {
            assert!(all.contains(part), "{tool} does not say {part:?}: {ran:#?}");
        }
    }
}

#[test]
fn every_tool_is_tried() {
    let shown = lab().run(&["tools", "--json"]).done().json();
    let tried: BTreeSet<&str> = CALLS.iter().map(|(tool, ..)| *tool).collect();
    assert_eq!(each(&shown, "originalName"), tried);
}

#[test]
fn the_first_half_of_its_tools_answer() {
    check_calls(&CALLS[..CALLS.len() / 2]);
}

#[test]
fn the_second_half_of_its_tools_answer() {
    check_calls(&CALLS[CALLS.len() / 2..]);
}

/// What we do not declare, it does not offer; asking all the same is explained.
#[test]
fn sampling_tools_are_absent_and_reported() {
    let ran = lab().run(&["call", "everything", "trigger-sampling-request", "prompt=x"]);
    assert_eq!(ran.code, Some(2), "{ran:#?}");
    let expected = "the server \"everything\" has no tool \"trigger-sampling-request\"";
    assert!(ran.stderr.contains(expected), "{ran:#?}");
}

#[test]
fn every_prompt_says_what_it_should() {
    let lab = lab();
    let shown = lab.run(&["prompts", "--json"]).done().json();
    let tried: BTreeSet<&str> = PROMPTS.iter().map(|(prompt, ..)| *prompt).collect();
    assert_eq!(each(&shown, "originalName"), tried);
    for (prompt, arguments, said) in PROMPTS {
        let ran = lab
            .run(&[&["prompt", "everything", prompt], arguments].concat())
            .done();
        assert!(ran.stdout.contains(said), "{prompt}: {ran:#?}");
    }
    let missing = lab.run(&["prompt", "everything", "args-prompt"]);
    assert_eq!(missing.code, Some(2), "{missing:#?}");
    assert!(missing.stderr.contains("city"), "{missing:#?}");
}

#[test]
fn every_resource_is_the_file_behind_it() {
    let lab = lab();
    let shown = lab.run(&["resources", "--json"]).done().json();
    let uris = each(&shown, "uri");
    let documents =
        installed().join("node_modules/@modelcontextprotocol/server-everything/dist/docs");
    assert_eq!(uris.len(), fs::read_dir(&documents).unwrap().count());
    for uri in uris {
        let name = uri
            .strip_prefix("demo://resource/static/document/")
            .unwrap();
        let copy = lab.project.join(name);
        let target = copy.display().to_string();
        lab.run(&["read", "everything", uri, "-o", &target]).done();
        assert_eq!(
            fs::read(copy).unwrap(),
            fs::read(documents.join(name)).unwrap(),
            "{uri}"
        );
    }
}

#[test]
fn every_template_can_be_filled() {
    let lab = lab();
    let shown = lab.run(&["resources", "--json"]).done().json();
    let templates = [
        "demo://resource/dynamic/blob/{resourceId}",
        "demo://resource/dynamic/text/{resourceId}",
    ];
    assert_eq!(each(&shown, "uriTemplate"), BTreeSet::from(templates));
    for (template, said) in templates.iter().zip(["base64 blob", "plaintext resource"]) {
        let uri = template.replace("{resourceId}", "7");
        let ran = lab.run(&["read", "everything", &uri, "-o", "-"]).done();
        let expected = format!("Resource 7: This is a {said} created at");
        assert!(ran.stdout.starts_with(&expected), "{ran:#?}");
    }
    let wrong = lab.run(&["read", "everything", "demo://resource/dynamic/text/seven"]);
    assert_eq!(wrong.code, Some(1), "{wrong:#?}");
    assert!(
        wrong
            .stderr
            .contains("Unknown resource: demo://resource/dynamic/text/seven"),
        "{wrong:#?}"
    );
}

#[tokio::test]
async fn it_completes_arguments() {
    let lab = lab();
    let (command, args) = Server::Everything.command(&lab.project);
    let entry = ServerEntry::stdio("everything", command.display().to_string(), args);
    let host = Host::builder().servers([entry]).start();
    host.ready().await;
    let prompt = Reference::Prompt("completable-prompt".to_owned());
    let template = Reference::Template("demo://resource/dynamic/text/{resourceId}".to_owned());
    let sales = [("department".to_owned(), "Sales".to_owned())];
    for (reference, argument, known, expected) in [
        (
            &prompt,
            ("department", "S"),
            &[][..],
            &["Sales", "Support"][..],
        ),
        (&prompt, ("name", ""), &sales, &["David", "Eve", "Frank"]),
        (&prompt, ("name", "x"), &sales, &[]),
        (&template, ("resourceId", "7"), &[], &["7"]),
    ] {
        let completion = host
            .complete("everything", reference, argument, known)
            .await
            .unwrap();
        assert_eq!(completion.values, expected, "{argument:?}");
    }
    host.shutdown().await;
}
