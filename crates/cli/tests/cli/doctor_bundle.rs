//! `doctor --bundle`: an archive without secrets.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::json;

use crate::doctor::user_servers;
use crate::lab::{Lab, echo, files_under};

const SECRETS: [&str; 7] = [
    "env-secret-1f7a",
    "header-secret-2b8c",
    "query-secret-3d9e",
    "arg-secret-4a0f",
    "inherited-secret-5c1d",
    "password-secret-6e2b",
    "ghp_0123456789abcdefghijklmnopqrstuvwxyzAB",
];

#[test]
fn no_secret_is_in_the_archive() {
    let lab = Lab::new();
    let mut echoing = lab.scratch.entry("echoing", &echo());
    echoing["env"]["API_TOKEN"] = json!(SECRETS[0]);
    user_servers(
        &lab,
        &json!({
            "echoing": echoing,
            "loud": {
                "command": "sh",
                "args": ["-c", "echo \"Error: bad token $API_TOKEN, $GITHUB_TOKEN, $1\" >&2; echo 'ghp_0123456789abcdefghijklmnopqrstuvwxyzAB' >&2; exit 1", "x", format!("--token={}", SECRETS[3])],
                "env": {"API_TOKEN": SECRETS[0]},
            },
            "far": {
                "type": "http",
                "url": format!("http://me:{}@127.0.0.1:9/mcp?api_key={}", SECRETS[5], SECRETS[2]),
                "headers": {"Authorization": format!("Bearer {}", SECRETS[1])},
            },
            "bad": {"command": 5, "env": {"TOKEN": SECRETS[0]}},
        }),
    );
    let command = &mut lab.bare(&["doctor", "--bundle", "b.tar.gz"]);
    let run = lab.finish(command.env("GITHUB_TOKEN", SECRETS[4]));
    assert_eq!(run.code, Some(2), "{run:#?}");
    for file in [
        "README.txt",
        "versions.json",
        "entries.json",
        "doctor.json",
        "diagnostics.json",
    ] {
        assert!(run.out.contains(file), "{file}: {run:#?}");
    }
    let mode = std::fs::metadata(lab.at("b.tar.gz"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    std::fs::create_dir(lab.at("out")).unwrap();
    let unpacked = Command::new("tar")
        .args(["xzf", "b.tar.gz", "-C", "out"])
        .current_dir(lab.scratch.path())
        .status();
    assert!(unpacked.unwrap().success());
    let files = files_under(&lab.at("out"));
    let mut all = String::new();
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        for secret in SECRETS {
            assert!(
                !text.contains(secret),
                "{secret} is in {}: {text}",
                file.display()
            );
        }
        all += &text;
    }
    // What matters is there.
    for part in ["bad token ***", "\"name\": \"far\"", "Authorization"] {
        assert!(all.contains(part), "{part}: {all}");
    }
    assert!(
        files
            .iter()
            .any(|file| file.to_string_lossy().contains("logs/")),
        "{files:?}"
    );
    assert!(
        !all.contains(lab.scratch.home().to_str().unwrap()),
        "the home directory"
    );
    for secret in SECRETS {
        run.never_says(secret);
    }
}

#[test]
fn an_archive_is_not_overwritten() {
    let lab = Lab::with([("s", echo())]);
    lab.scratch.write("b.tar.gz", "mine");
    let run = lab.run(&["doctor", "--bundle", "b.tar.gz"]);
    run.fails(2, "b.tar.gz exists", "choose another file, or add --force");
    assert_eq!(lab.scratch.read("b.tar.gz"), "mine");
    let run = lab.run(&["doctor", "--bundle", "b.tar.gz", "--force", "--json"]);
    assert_eq!(run.json()["bundle"]["file"], "b.tar.gz");
    assert_ne!(lab.scratch.read("b.tar.gz"), "mine");
    let run = lab.run(&["doctor", "--bundle"]);
    assert!(run.out.contains("wrote trunkline-bundle-"), "{run:#?}");
}
