//! Commands that would publish or run something unintended.

use serde_json::json;

use crate::lab::Lab;

/// `import -s project` does not publish the user's private server.
pub(super) fn import_of_a_private_server() {
    let lab = Lab::new();
    let private = json!({"private": {"command": "x", "env": {"API_KEY": "hunter2"}}});
    lab.servers("home/.cursor/mcp.json", &private);
    for words in [
        &["import", "cursor", "-s", "project", "--yes"][..],
        &[
            "import",
            "-s",
            "project",
            "--yes",
            "--from-user",
            "--only",
            "private",
        ],
    ] {
        let run = lab.plainly(words);
        run.never_says("hunter2");
        assert!(!lab.at(".mcp.json").exists(), "{words:?}: {run:#?}");
    }
}

/// `import` does not put a repository's server into scopes without approval.
pub(super) fn import_of_a_repositorys_server() {
    let lab = Lab::new();
    for place in [
        "repo/.git",
        "repo/sub",
        "other/.git",
        "other/sub",
        "linked/.git",
    ] {
        std::fs::create_dir_all(lab.at(place)).unwrap();
    }
    let evil = json!({"evil": lab.marking("evil")});
    lab.servers("repo/.cursor/mcp.json", &evil);
    lab.servers("other/mcp.json", &evil);
    // Links: from outside into the repository, and from it to another one.
    let link = |to: &str, at: &str| std::os::unix::fs::symlink(lab.at(to), lab.at(at)).unwrap();
    link("repo/.cursor/mcp.json", "link.json");
    link("other", "linked/.cursor");
    let whole = lab.at("repo/.cursor/mcp.json");
    let whole = whole.to_str().unwrap();
    for (cwd, file) in [
        ("repo", None),
        ("linked", None),
        ("repo", Some(".cursor/mcp.json")),
        ("repo", Some(whole)),
        ("repo", Some("sub/../.cursor/mcp.json")),
        ("repo/sub", Some("../.cursor/mcp.json")),
        ("repo", Some("../link.json")),
        ("repo", Some("../other/mcp.json")),
        ("other/sub", Some("../../repo/.cursor/mcp.json")),
        ("linked", Some(".cursor/mcp.json")),
        ("home", Some(whole)),
    ] {
        for scope in ["user", "local"] {
            for more in [&[][..], &["--from-user", "--only", "evil"], &["--force"]] {
                let words = ["import", "cursor", "-y", "-s", scope];
                let mut command = lab.bare(&[&words[..], more].concat());
                command.current_dir(lab.at(cwd));
                if let Some(file) = file {
                    command.args(["--file", file]);
                }
                let run = lab.finish(&mut command);
                let case = format!("{cwd} {file:?} {scope} {more:?}: {run:#?}");
                assert!(!lab.at("home/.claude.json").exists(), "{case}");
                let says = |part: &str| run.err.contains(part);
                assert!(says("skipped") || says("nothing to import: "), "{case}");
            }
        }
        lab.finish(lab.bare(&["list"]).current_dir(lab.at(cwd)));
        assert!(!lab.started("evil"), "{cwd} {file:?}");
    }
}
