//! CFG-6: the files that an approval covers, however an entry spells them.

use serde_json::{Value, json};

use crate::lab::{Lab, PROJECT, server};

/// A repository whose server `s` is approved.
#[track_caller]
fn approved(entry: &Value, files: &[&str]) -> Lab {
    let lab = Lab::new();
    for file in files {
        lab.put(&format!("repo/{file}"), "good");
    }
    lab.put(PROJECT, server("s", entry));
    lab.editor().approve(&[&lab.entry("s")]).unwrap();
    assert_eq!(lab.load().active().count(), 1, "{entry}");
    lab
}

/// Asserts that an approved entry is pending once a file has changed, and that the file is named.
#[track_caller]
fn is_pinned(entry: &Value, file: &str) {
    let lab = approved(entry, &[file, "README.md", "}/k"]);
    lab.put(&format!("repo/{file}"), "evil");
    assert_eq!(lab.load().active().count(), 0, "{entry}");
    let entry = lab.entry("s");
    let pinned: Vec<_> = entry.files.iter().map(|file| &*file.path).collect();
    assert!(pinned.contains(&file), "{pinned:?}");
}

#[track_caller]
fn are_pinned(rows: &[(&str, &[&str], &str)]) {
    for (command, args, file) in rows {
        is_pinned(&json!({"command": command, "args": args}), file);
    }
}

#[test]
fn a_quote_that_is_none_hides_no_file() {
    are_pinned(&[
        ("sh", &["-c", "# it's\n. ./m\\ain"], "main"),
        ("sh", &["-c", "cat <<E\nit's\nE\n. ./m\\ain"], "main"),
        ("bash", &["-c", ". ${x:-./'}'/../m\\ain}"], "main"),
        ("sh", &["-c", ". $(echo ')' >x; echo ./m\\ain)"], "main"),
        ("sh", &["-c", ". \"$(echo \"./m\\ain\")\""], "main"),
        ("sh", &["-c", ". `echo \\`echo ./m\\\\\\ain\\``"], "main"),
        ("env", &["-S", "sh -c '. ./m\\\\ain'"], "main"),
        ("sh", &["-c", "# it's\n. './my server'"], "my server"),
        ("sh", &["-c", "# it's\n. './my s'*"], "my server"),
        ("sh", &["-c", "# it's\n. './my dir/main'"], "my dir/main"),
        ("bash", &["-c", "# it's\n. ./$'\\x6dain'"], "main"),
        ("bash", &["-c", "# it's\n. ./m\\\nain"], "main"),
        ("bash", &["-c", "# it's\n. ./m{ai,x}n"], "main"),
        ("bash", &["-c", "# it's\n. ./$(echo ma)in"], "main"),
        ("bash", &["-c", "# it's\n. $PWD/ma\\in"], "main"),
        ("bash", &["-c", "# it's\n. $(pwd)/sub/ma\\in"], "sub/main"),
        (
            "bash",
            &["-c", "# it's\nX=a/b; . ./sub/$X/start"],
            "sub/a/b/start",
        ),
        ("sh", &["-c", ". ${X:-./main}"], "main"),
    ]);
    let helper = |helper| json!({"type": "http", "url": "http://h/", "headersHelper": helper});
    is_pinned(&helper("# it's\n. ./m\\ain"), "main");
}

#[test]
fn a_pattern_stands_for_everything_that_it_may_name() {
    are_pinned(&[
        ("bash", &["-c", ". ~+/main"], "main"),
        ("bash", &["-c", ". ~-/sub/main"], "sub/main"),
        ("bash", &["-c", ". ./ma$[1]n"], "ma1n"),
        (
            "bash",
            &["-O", "extglob", "-c", ". ./sub/@(main)"],
            "sub/main",
        ),
        ("bash", &["-O", "extglob", "-c", ". ./sub/!(x)"], "sub/main"),
        ("zsh", &["-c", ". ./sub/(main|x)"], "sub/main"),
        (
            "bash",
            &["-O", "globstar", "-c", ". ./sub/**/x"],
            "sub/a/b/x",
        ),
        ("bash", &["-c", ". ./sub/[a]/x"], "sub/a/x"),
        ("bash", &["-c", "cd s?b && . ./main"], "sub/main"),
        ("node", &["./di*"], "dist/index.js"),
    ]);
}

#[test]
fn a_directory_may_be_named_from_another_one() {
    are_pinned(&[
        (
            "sh",
            &["-c", "cd sub && cd inner && . ./start"],
            "sub/inner/start",
        ),
        (
            "env",
            &["-C", "sub", "sh", "-c", "cd inner && . ./start"],
            "sub/inner/start",
        ),
        (
            "bash",
            &["-c", "CDPATH=sub; cd inner; . ./start"],
            "sub/inner/start",
        ),
        (
            "sh",
            &["-c", "cd inner/.. && cd sub && . ./start"],
            "sub/start",
        ),
        (
            "uvicorn",
            &["--app-dir", "sub", "server:app"],
            "sub/server.py",
        ),
    ]);
    let helper = "cd sub && cd inner && . ./start";
    let entry = json!({"type": "http", "url": "http://h/", "headersHelper": helper});
    is_pinned(&entry, "sub/inner/start");
}

#[test]
fn a_module_stands_for_its_packages_and_needs_no_known_interpreter() {
    are_pinned(&[
        ("python3", &["-m", "pkg.tool"], "pkg/__init__.py"),
        ("python3", &["-m", "pkg.tool"], "pkg.py"),
        ("python3", &["-c", "import pkg.tool"], "pkg/__init__.py"),
        ("python3", &["-c", "from a.b import c"], "a/b/c.py"),
        ("python3", &["-m", "a.b"], "a/b/__main__.py"),
        ("python3", &["-m", "a.b"], "a/b/__init__.py"),
        ("python3", &["-m", "server"], "server.cpython-313.so"),
        ("python3.13t", &["-m", "server"], "server.py"),
        ("python3-dbg", &["prog.db"], "prog.db"),
        ("uvicorn", &["server:app"], "server.py"),
        ("gunicorn", &["src.server:app"], "src/server.py"),
        ("nodemon", &["server"], "server.js"),
        ("nodemon", &["./app"], "app/index.js"),
        ("sqlite3", &[":memory:", ".read boot.txt"], "boot.txt"),
        ("psql", &["-f", "boot.sql"], "boot.sql"),
        ("nginx", &["-c", "boot.conf"], "boot.conf"),
    ]);
}

#[cfg(unix)]
#[test]
fn a_name_that_is_not_utf_8_is_a_name() {
    use std::os::unix::ffi::OsStrExt;

    let lab = Lab::new();
    let path = |name: &[u8]| lab.at("repo").join(std::ffi::OsStr::from_bytes(name));
    std::fs::write(path(b"ma\xff"), "one").unwrap();
    std::fs::write(path(b"ma\xfe"), "two").unwrap();
    lab.put(
        PROJECT,
        server("s", &json!({"command": "sh", "args": ["-c", ". ./ma*"]})),
    );
    lab.editor().approve(&[&lab.entry("s")]).unwrap();
    assert_eq!(lab.load().active().count(), 1);
    // Names that look alike are not taken for each other.
    std::fs::write(path(b"ma\xff"), "two").unwrap();
    assert_eq!(lab.load().active().count(), 0);
}

/// What most entries look like is approved once, whatever else changes in the repository.
#[test]
fn an_ordinary_entry_is_approved_once() {
    let others = [
        "README.md",
        "data/x.db",
        "data/server.log",
        "docs/guide.txt",
        "lib.rs",
        "node_modules/pkg/index.js",
        "server/src/deep.ts",
        "src/other.ts",
        "test/run.sh",
    ];
    let many: Vec<_> = (0..100).map(|n| format!("src/part-{n}/f.ts")).collect();
    let files: Vec<_> = others
        .into_iter()
        .chain(many.iter().map(String::as_str))
        .chain(["server.js", "server.py", "server/package.json"])
        .collect();
    for (command, args) in [
        ("npx", &["-y", "pkg"][..]),
        ("npx", &["-y", "@scope/server-filesystem@1.2.3", "."]),
        (
            "npx",
            &["-y", "@scope/server-filesystem", "./src", "./docs"],
        ),
        (
            "npx",
            &["-y", "remote", "https://h/mcp", "--header", "A: Bearer x"],
        ),
        (
            "npx",
            &[
                "-y",
                "pkg",
                "--config",
                r#"{"a": {"b": ["./src", 1]}, "c": [2]}"#,
            ],
        ),
        ("npx", &["-y", "pkg", "--db", "./data/x.db"]),
        ("uvx", &["x"]),
        (
            "uvx",
            &["--from", "git+https://h/x@v1", "x", "--repository", "."],
        ),
        (
            "docker",
            &[
                "run",
                "-i",
                "--rm",
                "-v",
                "./data:/data",
                "-e",
                "TOKEN",
                "h/image:1",
            ],
        ),
        ("node", &["server.js"]),
        ("node", &["./server.js", "--root", "."]),
        ("bash", &["-c", "cd server && npm start"]),
        (
            "bash",
            &["-c", "cd \"$(dirname \"$0\")/server\" && exec npm start"],
        ),
        (
            "bash",
            &["-lc", "source ~/.nvm/nvm.sh && npx -y pkg \"$TOKEN\""],
        ),
        (
            "sh",
            &[
                "-c",
                "TOKEN=$(cat ~/.token) exec npx -y pkg 2>>\"$HOME/log\"",
            ],
        ),
        ("python", &["-m", "server", "--db", "./data.db"]),
        ("uv", &["run", "--directory", "server", "main.py"]),
        ("go", &["run", "./cmd/server"]),
        (
            "/usr/bin/tool",
            &["stdio", "--toolsets", "a,b", "--root", "src"],
        ),
    ] {
        let entry = json!({"command": command, "args": args});
        let lab = approved(&entry, &files);
        for other in others {
            lab.put(&format!("repo/{other}"), "changed");
        }
        lab.put("repo/new.ts", "new");
        let now = lab.entry("s");
        assert_eq!(lab.load().active().count(), 1, "{entry}: {:?}", now.files);
    }
}

#[test]
fn what_would_take_too_long_stays_pending() {
    let lab = Lab::new();
    for n in 0..1100 {
        lab.put(&format!("repo/many/d{n}/x.js"), "1");
    }
    let unknown = format!("./{}", "$x/".repeat(1000));
    let deep = "# it's\n. ./$'\\x6d'/many/**/main".to_owned();
    let words = (0..6000).map(|n| format!("{n}\\{n}* "));
    for text in [unknown, deep, words.collect()] {
        let args = ["-c", &text];
        lab.put(
            PROJECT,
            server("s", &json!({"command": "sh", "args": args})),
        );
        let set = lab.load();
        let problems = lab.problems(&set);
        let mut told = problems.iter();
        let is_told = told.any(|told| told.contains("it names more than 64 files"));
        assert!(is_told, "{problems:?}");
    }
}
