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

/// A link in a repository does not lead a write into the user's own files.
pub(super) fn write_through_a_link() {
    let imported = ["import", "cursor", "-s", "project", "-y"];
    let added = ["add", "-s", "project", "--no-check", "evil", "x"];
    let edited = ["edit", "-s", "project", "mine", "--arg", "x"];
    let removed = ["remove", "-s", "project", "mine"];
    for (target, exists) in [
        (".claude/settings.json", false),
        (".claude/settings.json", true),
        (".claude.json", false),
        (".claude.json", true),
        (".cursor/mcp.json", false),
        ("missing/../.claude/settings.json", false),
    ] {
        for words in [&imported[..], &added, &edited, &removed] {
            let lab = Lab::new();
            std::fs::create_dir_all(lab.at("home/repo/.git")).unwrap();
            lab.servers(
                "home/repo/.cursor/mcp.json",
                &json!({"evil": lab.marking("evil")}),
            );
            let mine = json!({"mine": {"command": "mine"}});
            if exists {
                lab.servers(&format!("home/{target}"), &mine);
            }
            let link = lab.at("home/repo/.mcp.json");
            std::os::unix::fs::symlink(format!("../{target}"), &link).unwrap();
            let run = lab.finish(lab.bare(words).current_dir(lab.at("home/repo")));
            let case = format!("{target} {words:?}: {run:#?}");
            assert_ne!(run.code, Some(0), "{case}");
            let text = std::fs::read_to_string(lab.at(&format!("home/{target}")));
            let now = text.ok().map(|text| serde_json::from_str(&text).unwrap());
            assert_eq!(now, exists.then(|| json!({"mcpServers": mine})), "{case}");
            assert!(!lab.at("home/missing").exists(), "{case}");
            lab.finish(lab.bare(&["list"]).current_dir(lab.at("home")));
            assert!(!lab.started("evil"), "{case}");
        }
    }
}
