//! Each sample file with its expected result, in a file ending in `expected.json`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use trunkline_config::import::{Client, ClientDirs, ImportedServers, Os, parse, read_files};

/// Every sample: a client and a file below its directory.
pub(crate) const SAMPLES: [(Client, &str); 11] = [
    (Client::ClaudeDesktop, "claude_desktop_config.json"),
    (Client::Cursor, "mcp.json"),
    (Client::VsCode, "mcp.json"),
    (Client::VsCode, "settings.json"),
    (Client::Windsurf, "mcp_config.json"),
    (Client::Zed, "settings.json"),
    (Client::GeminiCli, "settings.json"),
    (Client::Codex, "config.toml"),
    (Client::Opencode, "opencode.jsonc"),
    (Client::Opencode, "opencode.json"),
    (Client::Goose, "config.yaml"),
];

pub(crate) fn path(client: Client, name: &str) -> PathBuf {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import/samples");
    samples.join(client.id()).join(name)
}

pub(crate) fn text(client: Client, name: &str) -> String {
    fs::read_to_string(path(client, name)).unwrap()
}

fn summary(found: &ImportedServers) -> Value {
    let servers = found.servers.iter().map(|server| {
        json!({
            "name": server.name,
            "original_name": server.original_name,
            "entry": server.entry,
            "notes": server.notes,
        })
    });
    json!({"servers": servers.collect::<Vec<_>>(), "diagnostics": super::shown(found)})
}

/// Run with `TRUNKLINE_BLESS=1` to write the expected files anew; then read the difference.
#[test]
fn every_sample_becomes_the_entries_beside_it() {
    for (client, name) in SAMPLES {
        let found = parse(client, Path::new(name), &text(client, name));
        let shown = serde_json::to_string_pretty(&summary(&found)).unwrap() + "\n";
        let expected = path(client, &format!("{name}.expected.json"));
        if std::env::var_os("TRUNKLINE_BLESS").is_some() {
            fs::write(&expected, &shown).unwrap();
        }
        // As text, because the order of an entry's keys matters.
        let expected = fs::read_to_string(&expected).unwrap().replace('\r', "");
        assert_eq!(shown, expected, "{client}: {name}");
    }
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_change_nothing() {
    for (client, name) in SAMPLES {
        let text = text(client, name).replace('\r', "");
        let plain = parse(client, Path::new(name), &text);
        let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        let windows = parse(client, Path::new(name), &windows);
        assert_eq!(summary(&plain), summary(&windows), "{client}: {name}");
    }
}

#[test]
fn notes_and_diagnostics_of_the_samples_show_no_secret() {
    let secrets = [
        "ghp_", "pa$word", "s3cr3t", "tok_live", "shh", "sk-0123", "Bearer",
    ];
    for (client, name) in SAMPLES {
        let found = parse(client, Path::new(name), &text(client, name));
        let shown = format!("{found:?}");
        for secret in secrets {
            assert!(
                !shown.contains(secret),
                "{client}: {name}: {secret}\n{shown}"
            );
        }
    }
}

#[test]
fn files_are_found_where_their_clients_keep_them_and_a_missing_one_is_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let (home, project) = (scratch.path().join("home"), scratch.path().join("project"));
    let places = ClientDirs::under(Os::current(), &home, &project);
    for client in Client::ALL {
        let found = read_files(client, client.files(&places));
        assert!(found.servers.is_empty() && found.diagnostics.is_empty());
    }
    for (client, name) in SAMPLES {
        let files = client.files(&places);
        let file = files.iter().find(|file| file.ends_with(name)).unwrap();
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::copy(path(client, name), file).unwrap();
    }
    for client in Client::ALL {
        let found = read_files(client, client.files(&places));
        assert!(!found.servers.is_empty(), "{client}");
        assert!(found.servers.iter().all(|server| server.client == client));
        assert!(
            found
                .servers
                .iter()
                .all(|server| server.file.starts_with(&home))
        );
    }
}

#[test]
fn a_file_that_cannot_be_read_is_a_diagnostic() {
    let scratch = tempfile::tempdir().unwrap();
    let places = ClientDirs::under(Os::Linux, scratch.path(), scratch.path());
    let file = Client::Cursor.files(&places).remove(0);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let message = || {
        read_files(Client::Cursor, Client::Cursor.files(&places))
            .diagnostics
            .remove(0)
            .message
    };
    fs::write(&file, [b'{', 0xff, b'}']).unwrap();
    assert_eq!(message(), "the file is not UTF-8 text");
    fs::write(&file, vec![b' '; (16 << 20) + 1]).unwrap();
    assert_eq!(message(), "the file is larger than 16 MB");
    #[cfg(unix)]
    {
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
        assert_eq!(message(), "it is not a regular file");
    }
}
