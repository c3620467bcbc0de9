//! Real servers in the sandbox profiles that `docs/sandbox.md` has for them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::lab::Lab;
use crate::servers::{Server, installed};

const DOCS: &str = include_str!("../../../../docs/sandbox.md");

/// Runs words in a network namespace, in which the name `site.example` is an address of a server of
/// pages: the proxy refuses names that lead to the loopback interface.
const WITH_SITE: &str = r#"
    perl -e 'use Socket; socket(my $s, AF_INET, SOCK_DGRAM, 0) or die;
        my $lo = pack("Z16 S n a4 x8", "lo", AF_INET, 0, inet_aton("10.9.8.7"));
        ioctl($s, 0x8916, $lo) or die "address: $!";
        my $up = pack("Z16 S x22", "lo", 0x41);
        ioctl($s, 0x8914, $up) or die "up: $!";' || exit 9
    printf '127.0.0.1 localhost\n10.9.8.7 site.example\n' > "$HOME/hosts"
    mount --bind "$HOME/hosts" /etc/hosts || exit 9
    ( cd "$HOME/site" && exec "$PYTHON" -m http.server --bind 10.9.8.7 80 > /dev/null 2>&1 ) &
    site=$!
    until perl -MIO::Socket::INET -e 'exit !IO::Socket::INET->new("10.9.8.7:80")'; do :; done
    "$@"
    code=$?
    kill $site
    exit $code
"#;

/// The `sandbox` that the page has for a server.
fn documented(name: &str) -> Value {
    let row = DOCS
        .lines()
        .find_map(|line| line.strip_prefix(&format!("| {name} | `")))
        .unwrap_or_else(|| panic!("docs/sandbox.md has no profile for {name}"));
    let text = row.split('`').next().unwrap();
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"))
}

/// The directories of the programs that run a server, which the page says to add.
fn programs() -> Vec<PathBuf> {
    let python = installed().join("venv/bin/python").canonicalize().unwrap();
    let python = python.parent().and_then(Path::parent).unwrap().to_owned();
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop");
    [installed(), python, pages]
        .into_iter()
        .filter(|dir| !dir.starts_with("/usr"))
        .collect()
}

/// A lab with a server in its documented profile, beside a secret that no profile grants.
fn lab(server: Server, change: impl FnOnce(&Lab, &mut Value)) -> Lab {
    let lab = Lab::with(&[]);
    let (command, args) = server.command(&lab.project);
    let env: Value = lab
        .server_env()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let mut sandbox = documented(server.name());
    if sandbox == true {
        sandbox = json!({"read": ["project"]});
    }
    let read = sandbox["read"]
        .as_array()
        .cloned()
        .unwrap_or_else(|| vec!["project".into()]);
    let read = read
        .into_iter()
        .chain(programs().into_iter().map(|dir| json!(dir)));
    sandbox["read"] = read.collect();
    let mut entry = json!({"command": command, "args": args, "env": env, "sandbox": sandbox});
    change(&lab, &mut entry);
    lab.write_servers(&json!({ server.name(): entry }));
    fs::create_dir(lab.home().join(".ssh")).unwrap();
    fs::write(lab.home().join(".ssh/id"), "private").unwrap();
    lab
}

/// Checks that the profile keeps the secret, and has no network that it does not list.
fn check_confined(lab: &Lab, server: Server) {
    let secret = lab.home().join(".ssh/id").display().to_string();
    let ran = lab.run(&["sandbox", "try", server.name(), "--", "cat", &secret]);
    assert_ne!(ran.code, Some(0), "{ran:#?}");
    assert_eq!(ran.stdout, "");
}

#[test]
fn filesystem_writes_to_the_project() {
    let lab = lab(Server::Filesystem, |_, _| {});
    let file = lab.project.join("note.txt").display().to_string();
    let path = format!("path={file}");
    lab.call(&[
        "filesystem",
        "write_file",
        &path,
        "content=from the sandbox",
    ]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "from the sandbox");
    let read = lab.call(&["filesystem", "read_text_file", &path]);
    assert!(read.contains("from the sandbox"), "{read}");
    check_confined(&lab, Server::Filesystem);
}

#[test]
fn git_commits() {
    let lab = lab(Server::Git, |_, _| {});
    lab.git(&["init", "--quiet", "--initial-branch", "main"]);
    fs::write(lab.project.join("a.txt"), "a").unwrap();
    let repository = format!("repo_path={}", lab.project.display());
    lab.call(&["git", "git_add", &repository, "files:=[\"a.txt\"]"]);
    lab.call(&["git", "git_commit", &repository, "message=from the sandbox"]);
    assert!(lab.git(&["log", "--oneline"]).contains("from the sandbox"));
    check_confined(&lab, Server::Git);
}

#[test]
fn memory_keeps_its_graph() {
    let lab = lab(Server::Memory, |lab, entry| {
        let dir = lab.home().join(".local/share/mcp-memory");
        fs::create_dir_all(&dir).unwrap();
        entry["env"]["MEMORY_FILE_PATH"] = json!(dir.join("memory.jsonl"));
    });
    let entities = r#"entities:=[{"name": "Ada", "entityType": "person", "observations": ["b"]}]"#;
    lab.call(&["memory", "create_entities", entities]);
    // Of another process.
    assert!(lab.call(&["memory", "read_graph"]).contains("Ada"));
    check_confined(&lab, Server::Memory);
}

#[test]
fn sqlite_writes_to_its_directory() {
    let lab = lab(Server::Sqlite, |lab, entry| {
        // Beside the file that names it.
        let data = lab.home().parent().unwrap().join("data");
        fs::create_dir(&data).unwrap();
        entry["args"] = json!(["--db-path", data.join("test.db")]);
    });
    lab.call(&["sqlite", "create_table", "query=CREATE TABLE t (a INTEGER)"]);
    lab.call(&["sqlite", "write_query", "query=INSERT INTO t VALUES (7)"]);
    let read = lab.call(&["sqlite", "read_query", "query=SELECT a FROM t"]);
    assert_eq!(read.trim_end(), "[{'a': 7}]");
    check_confined(&lab, Server::Sqlite);
}

#[test]
fn everything_answers() {
    let lab = lab(Server::Everything, |_, _| {});
    let sum = lab.call(&["everything", "get-sum", "a:=2", "b:=3"]);
    assert_eq!(sum, "The sum of 2 and 3 is 5.\n");
    let image = lab.call_json(&["everything", "get-tiny-image"]);
    assert!(image["content"].as_array().unwrap().len() > 1, "{image}");
    check_confined(&lab, Server::Everything);
}

/// The proposal for a real server covers it, starting from nothing.
#[cfg(target_arch = "x86_64")]
#[test]
fn learn_proposes_profiles_that_work() {
    for (server, learnt, call) in [
        (
            Server::Everything,
            "echo={\"message\": \"x\"}",
            &["echo", "message=x"][..],
        ),
        (
            Server::Time,
            "get_current_time={\"timezone\": \"UTC\"}",
            &["get_current_time", "timezone=UTC"],
        ),
    ] {
        let lab = Lab::with(&[server]);
        let words = [
            "--json",
            "sandbox",
            "learn",
            server.name(),
            "--call",
            learnt,
        ];
        let found = lab.run(&words).done().json();
        let profile = found["profile"].clone();
        let read = profile["read"].as_array().unwrap();
        assert!(
            read.iter()
                .any(|path| path.as_str().unwrap().contains("interop")),
            "{found}"
        );
        assert_eq!(profile["write"], json!([]), "{found}");

        let run = |sandbox: &Value| {
            let (command, args) = server.command(&lab.project);
            let mut entry = json!({"command": command, "args": args, "sandbox": sandbox});
            for (name, value) in lab.server_env() {
                entry["env"][name] = json!(value);
            }
            lab.write_servers(&json!({ server.name(): entry }));
            lab.run(&[&["call", server.name()], call].concat()).code
        };
        assert_eq!(run(&profile), Some(0), "{found}");
        assert_ne!(run(&json!({"read": []})), Some(0), "the proposal is needed");
    }
}

/// Runs the program where `site.example` exists; returns its exit code and output.
fn run_with_site(lab: &Lab, args: &[&str]) -> (Option<i32>, String) {
    let site = lab.home().join("site");
    fs::create_dir_all(&site).unwrap();
    fs::write(site.join("page.txt"), "plain words\n").unwrap();
    let page = "<title>A page of the site</title><body>words</body>";
    fs::write(site.join("page.html"), page).unwrap();
    let program = lab.program(args);
    let mut command = Command::new("unshare");
    command
        .args([
            "--user",
            "--map-root-user",
            "--mount",
            "--net",
            "sh",
            "-c",
            WITH_SITE,
            "sh",
        ])
        .arg(program.get_program())
        .args(program.get_args())
        .current_dir(&lab.project)
        .env_clear()
        .env("PYTHON", installed().join("venv/bin/python"));
    for (name, value) in program.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let output = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    (output.status.code(), format!("{stdout}{stderr}"))
}

#[test]
fn fetch_reaches_the_hosts_of_its_list_and_no_other() {
    let lab = lab(Server::Fetch, |_, entry| {
        assert_eq!(entry["sandbox"]["network"], json!(["example.com"]));
        entry["sandbox"]["network"] = json!(["site.example"]);
    });
    let fetch = |url: &str| {
        let url = format!("url={url}");
        run_with_site(&lab, &["call", "fetch", "fetch", &url, "raw:=true"])
    };
    let (code, said) = fetch("http://site.example/page.txt");
    assert!(code == Some(0) && said.contains("plain words"), "{said}");
    // The same server by its address, which the list does not have.
    let (code, said) = fetch("http://10.9.8.7/page.txt");
    assert!(code == Some(1) && !said.contains("plain words"), "{said}");
    assert!(said.contains("403"), "{said}");
    check_confined(&lab, Server::Fetch);
}

#[test]
fn playwright_shows_a_page_of_its_list() {
    let lab = lab(Server::Playwright, |_, entry| {
        assert_eq!(entry["sandbox"]["network"], json!(["example.com"]));
        entry["sandbox"]["network"] = json!(["site.example"]);
    });
    let open = |url: &str| {
        let url = format!("url={url}");
        run_with_site(&lab, &["call", "playwright", "browser_navigate", &url])
    };
    let (code, said) = open("http://site.example/page.html");
    assert!(
        code == Some(0) && said.contains("A page of the site"),
        "{said}"
    );
    let (_, said) = open("http://10.9.8.7/page.html");
    assert!(!said.contains("A page of the site"), "{said}");
    check_confined(&lab, Server::Playwright);
}
