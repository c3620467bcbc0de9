//! Commands that would give away or run what the user did not mean.

use serde_json::json;

use crate::lab::Lab;

/// The user's private server does not get into a repository by `import -s project`.
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
