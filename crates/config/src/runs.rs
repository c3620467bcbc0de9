//! Which files inside a repository an entry runs (CFG-6). An approval holds their hashes, so that it is one of what runs and
//! not only of what the entry says.
//!
//! Covered are the command, the arguments that name code, and the words of `headersHelper`. What those files load is not
//! covered: SECURITY.md says so.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::entry::{ServerEntry, TransportEntry, hex};
use crate::files::{open_regular, shown};
use crate::layout::Project;

/// How much of a file is hashed, besides its length (SEC-4).
const MAX_HASHED: u64 = 64 << 20;

/// How many words of an entry are looked at.
const MAX_WORDS: usize = 64;

/// Programs that run the first file among their arguments, whatever it is called.
const INTERPRETERS: [&str; 31] = [
    "node",
    "nodejs",
    "bun",
    "deno",
    "tsx",
    "ts-node",
    "python",
    "pythonw",
    "pypy",
    "py",
    "uv",
    "ruby",
    "perl",
    "php",
    "lua",
    "luajit",
    "sh",
    "bash",
    "dash",
    "ash",
    "zsh",
    "ksh",
    "fish",
    "pwsh",
    "powershell",
    "cmd",
    "java",
    "dotnet",
    "rscript",
    "julia",
    "env",
];

/// File name extensions of code.
const CODE: [&str; 49] = [
    "js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "py", "pyw", "pyc", "pyz", "rb", "pl",
    "pm", "php", "phar", "lua", "sh", "bash", "zsh", "ksh", "fish", "ps1", "psm1", "bat", "cmd",
    "vbs", "jar", "war", "class", "groovy", "kts", "wasm", "exe", "com", "dll", "so", "dylib",
    "node", "go", "rs", "csx", "csproj", "fsx", "ex", "exs", "r", "jl",
];

/// A file inside the repository that an entry runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RepositoryFile {
    /// Its path, from the root of the repository where it is below that.
    pub path: String,
    /// SHA-256 of its content, in hex; of a file over 64 MB, of its length and beginning.
    pub sha256: String,
}

/// The files inside the repository that an entry of `project` runs, and where they are.
pub(crate) fn repository_files(
    entry: &ServerEntry,
    project: &Project,
) -> Vec<(PathBuf, RepositoryFile)> {
    let base = entry.base.as_deref().unwrap_or(&project.cwd);
    let inside = Inside::new(&[&project.root, base]);
    let mut found: Vec<PathBuf> = Vec::new();
    match &entry.transport {
        TransportEntry::Stdio(stdio) => {
            let program = entry.program().unwrap_or_default();
            let dir = stdio.cwd.as_deref().unwrap_or(&project.cwd);
            found.extend(inside.find(dir, &program).filter(|_| is_path(&program)));
            let runs_any = is_interpreter(&program);
            found.extend(inside.code(dir, stdio.args.iter().map(String::as_str), runs_any));
        }
        transport => {
            let words = transport.headers_helper().unwrap_or_default();
            let quotes = |c: char| matches!(c, '"' | '\'' | ';' | '&' | '|' | '(' | ')' | '`');
            let words = words
                .split(|c: char| c.is_whitespace() || quotes(c))
                .filter(|word| !word.is_empty());
            found.extend(inside.code(base, words, true));
        }
    }
    found.sort();
    found.dedup();
    let described = found.into_iter().map(|path| {
        let name = path.strip_prefix(&project.root).unwrap_or(&path);
        let file = RepositoryFile {
            path: shown(name),
            sha256: hash(&path),
        };
        (path, file)
    });
    described.collect()
}

/// Whether a command is a path, and not a name to be looked up in `PATH`, or one that a variable still has to begin.
pub(crate) fn is_path(command: &str) -> bool {
    if command.starts_with('$') {
        return false;
    }
    command.contains('/') || (cfg!(windows) && command.contains('\\'))
}

fn is_interpreter(program: &str) -> bool {
    let name = Path::new(program)
        .file_stem()
        .and_then(|name| name.to_str());
    let name = name.unwrap_or_default().to_ascii_lowercase();
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.contains(&plain)
}

/// The folders whose content the author of a repository controls.
struct Inside {
    roots: Vec<PathBuf>,
}

impl Inside {
    fn new(roots: &[&Path]) -> Self {
        let real = roots.iter().filter_map(|root| root.canonicalize().ok());
        let roots = roots.iter().map(|root| (*root).to_owned());
        Self {
            roots: roots.chain(real).collect(),
        }
    }

    /// The file inside that a word names. A link inside that leads out counts as well: its target can be changed.
    fn find(&self, dir: &Path, word: &str) -> Option<PathBuf> {
        if word.is_empty() || word.len() > 4096 || word.contains('\0') {
            return None;
        }
        let path: PathBuf = dir.join(word).components().collect();
        if !path.is_file() {
            return None;
        }
        let within = |path: &Path| self.roots.iter().any(|root| path.starts_with(root));
        let real = path.canonicalize();
        (within(&path) || real.is_ok_and(|real| within(&real))).then_some(path)
    }

    /// The files of code among the words of a command: with `runs_any`, the first file whatever its kind.
    fn code<'w>(
        &self,
        dir: &Path,
        words: impl Iterator<Item = &'w str>,
        mut runs_any: bool,
    ) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for word in words.take(MAX_WORDS) {
            // `--import=./hook.js`
            let value = word.split_once('=').map(|(_, value)| value);
            let file = self.find(dir, word).or_else(|| self.find(dir, value?));
            if let Some(path) = file
                && (std::mem::take(&mut runs_any) || is_code(&path))
            {
                found.push(path);
            }
        }
        found
    }
}

/// Whether a file looks like something to run: by its name, its mode, or its first bytes. A data file that a server writes
/// to must not need a new approval each time.
fn is_code(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let extension = extension.unwrap_or_default().to_ascii_lowercase();
    if CODE.contains(&&*extension) {
        return true;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if path
            .metadata()
            .is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
        {
            return true;
        }
    }
    let mut first = [0; 2];
    let read = open_regular(path).map(|file| file.map(|mut file| file.read_exact(&mut first)));
    matches!(read, Ok(Some(Ok(())))) && &first == b"#!"
}

/// The hash of a file; a text that no hash is, where it cannot be read.
fn hash(path: &Path) -> String {
    match open_regular(path) {
        Ok(Some(file)) => hash_of(file).unwrap_or_else(|_| "unreadable".to_owned()),
        _ => "unreadable".to_owned(),
    }
}

fn hash_of(file: File) -> io::Result<String> {
    let length = file.metadata()?.len();
    let mut digest = Sha256::new();
    if length > MAX_HASHED {
        digest.update(length.to_be_bytes());
    }
    let mut file = file.take(MAX_HASHED);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => digest.update(&buffer[..read]),
        }
    }
    Ok(hex(&digest.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{HttpEntry, HttpFlavour};

    /// A repository with some files.
    fn repository() -> (tempfile::TempDir, Project) {
        let scratch = tempfile::tempdir().unwrap();
        for dir in [".git", "dist", "sub"] {
            std::fs::create_dir(scratch.path().join(dir)).unwrap();
        }
        for (name, text) in [
            ("run.sh", "echo"),
            ("dist/index.js", "1"),
            ("main", "x"),
            ("script", "#!/bin/sh"),
            ("data.db", "d"),
            ("config.json", "{}"),
        ] {
            std::fs::write(scratch.path().join(name), text).unwrap();
        }
        let project = Project::at(scratch.path());
        (scratch, project)
    }

    #[test]
    fn the_command_and_arguments_that_are_code_are_found() {
        let (scratch, project) = repository();
        let outside = tempfile::tempdir().unwrap();
        let foreign = outside.path().join("x.js");
        std::fs::write(&foreign, "x").unwrap();
        let foreign = foreign.to_str().unwrap();
        for (argv, expected) in [
            (&["./run.sh"][..], &["run.sh"][..]),
            (&["run.sh"], &[]),
            (&["node", "dist/index.js"], &["dist/index.js"]),
            (&["node", "--import=./run.sh", "main"], &["run.sh"]),
            (&["python3.12", "-u", "main"], &["main"]),
            (&["npx", "-y", "main"], &[]),
            (&["npx", "tsx", "dist/index.js"], &["dist/index.js"]),
            (&["npx", "sqlite", "data.db", "config.json"], &[]),
            (&["tool", "script", "data.db"], &["script"]),
            (&["node", foreign], &[]),
            (&["node", "no-such.js", "."], &[]),
        ] {
            let entry = ServerEntry {
                base: Some(scratch.path().to_owned()),
                ..ServerEntry::stdio("s", argv[0], argv[1..].iter().copied())
            };
            let found = repository_files(&entry, &project);
            let found: Vec<_> = found.iter().map(|(_, file)| &*file.path).collect();
            assert_eq!(found, expected, "{argv:?}");
        }
    }

    #[test]
    fn the_words_of_a_headers_helper_count() {
        let (scratch, project) = repository();
        let mut http = HttpEntry::at(HttpFlavour::Streamable, "https://h/");
        http.headers_helper = Some("env A=1 ./run.sh | sh 'main'".to_owned());
        let entry = ServerEntry {
            base: Some(scratch.path().to_owned()),
            ..ServerEntry::new("s", TransportEntry::Http(http))
        };
        let found = repository_files(&entry, &project);
        assert_eq!(found[0].1.path, "run.sh");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_out_counts_and_what_is_no_file_does_not() {
        let (scratch, project) = repository();
        let link = scratch.path().join("link.js");
        std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
        std::os::unix::fs::symlink("/dev/zero", scratch.path().join("zero.js")).unwrap();
        let entry = ServerEntry::stdio("s", "node", ["link.js", "zero.js"]);
        let found = repository_files(&entry, &project);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, link);
    }

    #[test]
    fn the_hash_is_of_the_content() {
        let (scratch, _) = repository();
        let path = scratch.path().join("run.sh");
        let before = hash(&path);
        assert_eq!(before, hash(&path));
        std::fs::write(&path, "other").unwrap();
        assert_ne!(before, hash(&path));
        assert_eq!(hash(Path::new("/dev/zero")), "unreadable");
    }
}
