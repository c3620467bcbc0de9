//! `trunkline clean` and `demo`: files of removed servers go, and nothing else.

use std::path::PathBuf;

use serde_json::json;

use crate::lab::{Lab, files_under};

/// Returns our files in the home directory, without locks.
fn kept(lab: &Lab) -> Vec<String> {
    let home = lab.scratch.home();
    let mut files: Vec<String> = [".cache/trunkline", ".local/state/trunkline"]
        .iter()
        .flat_map(|dir| files_under(&home.join(dir)))
        .map(|file: PathBuf| file.strip_prefix(&home).unwrap().display().to_string())
        .filter(|file| !file.contains(".lock") && !file.contains("eras.json"))
        .collect();
    files.sort();
    files
}

/// A lab in which one server stays and one was removed, both after a call.
fn with_a_server_that_is_gone() -> Lab {
    let lab = Lab::new();
    let servers = json!({"stays": lab.marking("stays"), "goes": lab.marking("goes")});
    lab.servers("home/.claude.json", &servers);
    for name in ["stays", "goes"] {
        let run = lab.plainly(&["call", name, "echo"]);
        assert_eq!(run.code, Some(0), "{run:#?}");
    }
    lab.plainly(&["remove", "goes"]);
    lab
}

#[test]
fn files_of_removed_servers_are_removed() {
    let lab = with_a_server_that_is_gone();
    let before = kept(&lab);
    let dry = lab.plainly(&["clean", "--dry-run"]);
    assert_eq!(dry.code, Some(0), "{dry:#?}");
    assert!(dry.out.contains("\nwould remove 3 files ("), "{}", dry.out);
    assert!(dry.out.contains("log      goes "), "{}", dry.out);
    assert_eq!(kept(&lab), before);
    let global = lab.scratch.read("home/.claude.json");
    let document = lab.plainly(&["clean", "--json"]).json();
    let files = document["files"].as_array().unwrap().iter();
    let kinds: Vec<_> = files.map(|file| file["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["log", "catalog", "pins"]);
    assert_eq!(
        (&document["dryRun"], &document["inUse"]),
        (&json!(false), &json!(0))
    );
    let left = kept(&lab);
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(
        left.contains(&".local/state/trunkline/logs/stays.log".to_owned()),
        "{left:?}"
    );
    assert_eq!(lab.scratch.read("home/.claude.json"), global);
    lab.plainly(&["clean"]).is(0, "nothing to clean\n", "");
}

#[test]
fn recent_files_stay_while_another_process_runs() {
    let lab = with_a_server_that_is_gone();
    let before = kept(&lab);
    // A host holds the lock; this stands in for one.
    let lock = lab
        .scratch
        .home()
        .join(".local/state/trunkline/running.lock");
    let held = std::fs::File::options().append(true).open(lock).unwrap();
    held.lock_shared().unwrap();
    let stays = "nothing to clean\nkept 3 files of the last 24 hours: another trunkline process is running\n";
    lab.plainly(&["clean"]).is(0, stays, "");
    assert_eq!(kept(&lab), before);
    drop(held);
}

#[test]
fn servers_of_other_projects_and_of_named_files_are_not_gone() {
    let lab = with_a_server_that_is_gone();
    lab.servers(".mcp-config.json", &json!({"goes": lab.marking("goes")}));
    lab.run(&["clean"]).is(0, "nothing to clean\n", "");
    let other = lab.at("other");
    std::fs::create_dir(&other).unwrap();
    let mut global = lab.global();
    global["projects"][other.to_str().unwrap()] =
        json!({"mcpServers": {"goes": lab.marking("goes")}});
    lab.write_json("home/.claude.json", &global);
    lab.plainly(&["clean"]).is(0, "nothing to clean\n", "");
    // A file that cannot be read may name any server.
    lab.scratch.write("other/.mcp.json", "{broken");
    let run = lab.plainly(&["clean"]);
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:#?}");
}

#[test]
fn the_approval_of_a_server_that_is_gone_is_taken_back() {
    let lab = Lab::new();
    let servers = json!({"stays": {"command": "a"}, "goes": {"command": "b"}});
    lab.servers(".mcp.json", &servers);
    lab.plainly(&["approve", "stays", "goes"]);
    lab.plainly(&["clean"]).is(0, "nothing to clean\n", "");
    lab.servers(".mcp.json", &json!({"stays": {"command": "a"}}));
    let run = lab.plainly(&["clean"]);
    assert!(run.out.starts_with("approval goes "), "{run:#?}");
    assert!(
        run.out.ends_with("removed 0 files (0 B) and 1 approval\n"),
        "{run:#?}"
    );
    assert_eq!(lab.of_project()["enabledMcpjsonServers"], json!(["stays"]));
    // Another server of that name has to be approved anew.
    lab.servers(
        ".mcp.json",
        &json!({"stays": {"command": "a"}, "goes": {"command": "evil"}}),
    );
    assert_eq!(lab.state("goes"), "pending-approval");
    lab.servers(".mcp.json", &json!({"stays": {"command": "a"}}));
    assert_ne!(lab.state("stays"), "pending-approval");
}

#[test]
fn the_demo_leaves_nothing_behind() {
    let lab = Lab::new();
    for words in [&["demo"][..], &["demo", "--json"]] {
        let run = lab.plainly(words);
        assert_eq!(run.code, Some(0), "{run:#?}");
        let left: Vec<_> = std::fs::read_dir(lab.scratch.home()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
