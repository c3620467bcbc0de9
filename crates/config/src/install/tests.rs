//! Installing and uninstalling on real files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use tempfile::TempDir;

use super::*;
use crate::import::Os;

const PROGRAM: &str = "/opt/trunkline/bin/trunkline";

struct Home {
    dir: TempDir,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        Self { dir }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(path)
    }

    fn installer(&self) -> Installer {
        let home = self.at("home");
        let dirs = ClientDirs::under(Os::Linux, &home, self.at("project"));
        Installer::new(dirs, Layout::under(&home))
    }

    fn file(&self, client: InstallClient) -> PathBuf {
        self.installer().status(client).file
    }

    fn write(&self, client: InstallClient, text: &str) -> PathBuf {
        let file = self.file(client);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        file
    }

    fn install(&self, client: InstallClient) -> Result<bool, InstallError> {
        let plan = self
            .installer()
            .plan_install(client, "trunkline", &stdio())?;
        self.installer().apply(&plan)
    }

    fn uninstall(&self, client: InstallClient) -> Result<bool, InstallError> {
        let plan = self.installer().plan_uninstall(client, "trunkline")?;
        self.installer().apply(&plan)
    }
}

fn stdio() -> GatewayEntry {
    GatewayEntry::Stdio {
        command: PROGRAM.to_owned(),
        args: vec!["serve".to_owned()],
    }
}

/// Texts that each client may have in its file.
fn samples(client: InstallClient) -> Vec<String> {
    let section = client.section();
    match client.format() {
        Format::Toml => [
            "",
            "# only a comment",
            "model = \"x\" # why\n\n[mcp_servers.a]\ncommand = 'b'\n\n[tui]\nx = 1\n",
            "a = 1\r\n[b]\r\nc = \"d\"\r\n",
        ]
        .map(str::to_owned)
        .to_vec(),
        Format::Json(dialect) => {
            let mut texts = vec![
                "{}".to_owned(),
                "{\n  \"x\": 1\n}\n".to_owned(),
                format!("{{\"{section}\":{{}},\"x\":[1,2]}}"),
                format!(
                    "{{\n\t\"{section}\": {{\n\t\t\"a\": {{\"command\": \"b\"}}\n\t}},\n\t\"n\": 1e5\n}}"
                ),
                format!("\u{feff}{{\r\n  \"{section}\": {{}}\r\n}}\r\n"),
            ];
            if dialect == crate::edit::jsonc::Dialect::Jsonc {
                texts.extend([
                    "// mine\n".to_owned(),
                    format!("// head\n{{\n  // servers\n  \"{section}\": {{\n    \"a\": {{}}, // one\n  }},\n  /* end */\n}}\n"),
                    format!("{{\n  \"{section}\": {{\n    // none yet\n  }}\n}}\n"),
                ]);
            }
            texts
        }
    }
}

#[test]
fn uninstalling_restores_every_file_byte_for_byte() {
    for client in InstallClient::ALL {
        for text in samples(client) {
            let home = Home::new();
            let file = home.write(client, &text);
            fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
            assert!(home.install(client).unwrap(), "{client}: {text}");
            let installed = fs::read_to_string(&file).unwrap();
            assert!(installed.contains(PROGRAM), "{installed}");
            assert_eq!(
                home.installer().status(client).installed_as.as_deref(),
                Some("trunkline")
            );
            assert!(
                !home.install(client).unwrap(),
                "a second time changes nothing"
            );
            assert!(home.uninstall(client).unwrap(), "{client}: {text}");
            assert_eq!(fs::read_to_string(&file).unwrap(), text, "{client}");
            let mode = fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o640, "{client}");
            assert!(
                !home.uninstall(client).unwrap(),
                "a second time changes nothing"
            );
        }
    }
}

#[test]
fn a_file_and_directories_that_did_not_exist_are_gone_again() {
    for client in InstallClient::ALL {
        let home = Home::new();
        let file = home.file(client);
        assert!(!home.installer().status(client).found, "{client}");
        assert!(home.install(client).unwrap());
        assert!(file.exists(), "{client}");
        let plan = home
            .installer()
            .plan_uninstall(client, "trunkline")
            .unwrap();
        assert!(plan.deletes_file, "{client}");
        assert!(home.uninstall(client).unwrap());
        assert!(!file.exists(), "{client}");
        // Nothing but our own state is left.
        let left: Vec<_> = fs::read_dir(home.at("home"))
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(left, [".claude"], "{client}");
    }
}

#[test]
fn later_changes_of_others_survive_the_removal() {
    let home = Home::new();
    let file = home.write(InstallClient::Zed, "{\n  // theme\n  \"theme\": \"x\"\n}\n");
    home.install(InstallClient::Zed).unwrap();
    let installed = fs::read_to_string(&file).unwrap();
    fs::write(&file, installed.replace("\"x\"", "\"y\"")).unwrap();
    assert!(home.uninstall(InstallClient::Zed).unwrap());
    let left = fs::read_to_string(&file).unwrap();
    assert_eq!(left, "{\n  // theme\n  \"theme\": \"y\"\n}\n");
}

#[test]
fn another_server_of_that_name_is_never_touched() {
    let home = Home::new();
    let text = "{\"mcpServers\": {\"trunkline\": {\"command\": \"other\"}}}";
    let file = home.write(InstallClient::Cursor, text);
    for result in [
        home.install(InstallClient::Cursor),
        home.uninstall(InstallClient::Cursor),
    ] {
        assert!(
            matches!(result, Err(InstallError::Taken { .. })),
            "{result:?}"
        );
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn only_an_entry_that_was_installed_is_removed() {
    let refused = |home: &Home, text: &str| {
        let file = home.write(InstallClient::Cursor, text);
        let result = home.uninstall(InstallClient::Cursor);
        let taken = matches!(result, Err(InstallError::Taken { .. }));
        assert!(taken, "{text}: {result:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    };
    let entry = |entry: &str| format!("{{\"mcpServers\": {{\"trunkline\": {entry}}}}}");
    let foreign = [
        r#"{"command": "docker", "args": ["run", "trunkline", "serve"]}"#,
        r#"{"command": "/mine/trunkline", "args": ["serve", "--profile", "mine"]}"#,
        r#"{"url": "http://127.0.0.1:9999/mcp"}"#,
    ];
    // Nothing was ever installed.
    for foreign in foreign {
        refused(&Home::new(), &entry(foreign));
    }
    // Somebody has replaced what was installed.
    for foreign in foreign {
        let home = Home::new();
        assert!(home.install(InstallClient::Cursor).unwrap());
        refused(&home, &entry(foreign));
    }
    let home = Home::new();
    let url = "http://127.0.0.1:8080/mcp".to_owned();
    let gateway = GatewayEntry::Http { url };
    let installer = home.installer();
    let plan = installer.plan_install(InstallClient::Cursor, "trunkline", &gateway);
    installer.apply(&plan.unwrap()).unwrap();
    refused(&home, &entry(foreign[2]));
}

#[test]
fn an_entry_with_added_fields_is_still_the_installed_one() {
    let home = Home::new();
    assert!(home.install(InstallClient::Cursor).unwrap());
    let file = home.file(InstallClient::Cursor);
    let text = fs::read_to_string(&file).unwrap();
    let mut document: Value = serde_json::from_str(&text).unwrap();
    document["mcpServers"]["trunkline"]["env"]["A"] = "b".into();
    fs::write(&file, document.to_string()).unwrap();
    assert!(home.uninstall(InstallClient::Cursor).unwrap());
}

#[test]
fn an_update_keeps_the_fields_that_the_user_added() {
    let home = Home::new();
    let text = "{\n  \"mcpServers\": {\n    \"trunkline\": {\"command\": \"/old/trunkline\", \"args\": [\"serve\"], \"env\": {\"A\": \"b\"}}\n  }\n}\n";
    let file = home.write(InstallClient::Cursor, text);
    assert!(home.install(InstallClient::Cursor).unwrap());
    let entry: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let entry = &entry["mcpServers"]["trunkline"];
    assert_eq!(
        (&entry["command"], &entry["env"]["A"]),
        (&PROGRAM.into(), &"b".into())
    );
}

#[test]
fn a_url_is_written_in_the_form_of_each_client() {
    let url = "http://127.0.0.1:8080/mcp";
    let gateway = GatewayEntry::Http {
        url: url.to_owned(),
    };
    for client in InstallClient::ALL {
        let home = Home::new();
        let plan = home.installer().plan_install(client, "trunkline", &gateway);
        if client == InstallClient::ClaudeDesktop {
            assert!(matches!(plan, Err(InstallError::Unsupported(_))));
            continue;
        }
        home.installer().apply(&plan.unwrap()).unwrap();
        let text = fs::read_to_string(home.file(client)).unwrap();
        assert!(text.contains(url), "{client}: {text}");
        assert!(home.uninstall(client).unwrap(), "{client}");
        assert!(!home.file(client).exists());
    }
}

#[test]
fn a_link_out_of_the_home_directory_is_not_followed() {
    let home = Home::new();
    fs::create_dir_all(home.at("elsewhere")).unwrap();
    fs::write(home.at("elsewhere/mcp.json"), "{}").unwrap();
    fs::create_dir_all(home.at("home/dotfiles")).unwrap();
    fs::write(home.at("home/dotfiles/mcp.json"), "{}").unwrap();
    fs::create_dir(home.at("home/.cursor")).unwrap();
    let link = home.at("home/.cursor/mcp.json");
    symlink(home.at("elsewhere/mcp.json"), &link).unwrap();
    let error = home.install(InstallClient::Cursor).unwrap_err();
    assert!(error.to_string().contains("is a link to"), "{error}");
    assert_eq!(
        fs::read_to_string(home.at("elsewhere/mcp.json")).unwrap(),
        "{}"
    );
    fs::remove_file(&link).unwrap();
    symlink("../dotfiles/mcp.json", &link).unwrap();
    assert!(home.install(InstallClient::Cursor).unwrap());
    assert!(link.is_symlink(), "the link stays");
    let text = fs::read_to_string(home.at("home/dotfiles/mcp.json")).unwrap();
    assert!(text.contains(PROGRAM), "{text}");
}

#[test]
fn a_broken_file_is_reported_and_left_alone() {
    for (client, text) in [
        (
            InstallClient::Cursor,
            "{\"mcpServers\": {} // no comments here\n}",
        ),
        (InstallClient::Zed, "{\"context_servers\": 1}"),
        (InstallClient::Codex, "mcp_servers = 1"),
        (InstallClient::ClaudeCode, "{"),
    ] {
        let home = Home::new();
        let file = home.write(client, text);
        let error = home.install(client).unwrap_err();
        assert!(matches!(error, InstallError::BadFile { .. }), "{error:?}");
        assert_eq!(fs::read_to_string(file).unwrap(), text);
        assert!(
            home.installer().status(client).problem.is_some(),
            "{client}"
        );
    }
}
