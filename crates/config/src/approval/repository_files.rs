//! Finds the files inside a repository that an entry runs (CFG-6). An approval includes their
//! hashes, so that it covers the code and not only the entry.
//!
//! They are the command, the arguments and parts of arguments that name code, every file named
//! after an interpreter, and the words of `headersHelper`. Files loaded by those files are not
//! covered; see SECURITY.md.

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::entry::{ServerEntry, hex};
use crate::files::{open_regular, shown};
use crate::layout::Project;

/// How much of a file is hashed, in addition to its length (SEC-4).
const MAX_HASHED: u64 = 64 << 20;

/// The maximum number of files in an approval. An entry that names more cannot be approved: a file
/// left out could be the one that runs.
pub(crate) const MAX_FILES: usize = 64;

/// The maximum number of distinct words of an entry. An entry with more cannot be approved either.
const MAX_WORDS: usize = 10_000;

/// Programs that run a file given as an argument, whatever its name.
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

/// Programs that start another program given as an argument.
const STARTERS: [&str; 18] = [
    "npx", "bunx", "pnpm", "yarn", "uvx", "pipx", "timeout", "nice", "nohup", "setsid", "stdbuf",
    "sudo", "doas", "busybox", "xargs", "time", "start", "conda",
];

/// File extensions of code.
const CODE: [&str; 49] = [
    "js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "py", "pyw", "pyc", "pyz", "rb", "pl",
    "pm", "php", "phar", "lua", "sh", "bash", "zsh", "ksh", "fish", "ps1", "psm1", "bat", "cmd",
    "vbs", "jar", "war", "class", "groovy", "kts", "wasm", "exe", "com", "dll", "so", "dylib",
    "node", "go", "rs", "csx", "csproj", "fsx", "ex", "exs", "r", "jl",
];

/// A file inside the repository that an entry runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RepositoryFile {
    /// The path, relative to the root of the repository if it is below that.
    pub path: String,
    /// SHA-256 of the content, in hex; for a file over 64 MB, of its length and its first 64 MB.
    pub sha256: String,
}

/// The repository files that an entry runs.
pub(crate) struct RepositoryFiles {
    /// The files with their full paths.
    pub(crate) files: Vec<(PathBuf, RepositoryFile)>,
    /// The entry names more files than an approval can cover.
    pub(crate) too_many: bool,
}

/// Finds the repository files that an entry of `project` runs.
pub(crate) fn repository_files(entry: &ServerEntry, project: &Project) -> RepositoryFiles {
    let base = entry.base.as_deref().unwrap_or(&project.cwd);
    let mut search = Search {
        inside: RepositoryRoots::new(&[&project.root, base]),
        found: BTreeSet::new(),
        seen: HashSet::new(),
    };
    if let Some(stdio) = entry.transport.stdio() {
        let program = entry.program().unwrap_or_default();
        let dir = stdio.cwd.as_deref().unwrap_or(&project.cwd);
        let command = search.inside.find(dir, &program);
        search.found.extend(command.filter(|_| is_path(&program)));
        let runs_any = is_among(&INTERPRETERS, &program)
            || is_among(&STARTERS, &program)
                && stdio.args.iter().any(|arg| is_among(&INTERPRETERS, arg));
        for arg in &stdio.args {
            search.text(dir, arg, runs_any);
        }
    } else {
        let helper = entry.transport.headers_helper().unwrap_or_default();
        search.text(base, helper, true);
    }
    let too_many = search.is_full();
    let described = search.found.into_iter().take(MAX_FILES).map(|path| {
        let name = path.strip_prefix(&project.root).unwrap_or(&path);
        let file = RepositoryFile {
            path: shown(name),
            sha256: hash(&path),
        };
        (path, file)
    });
    RepositoryFiles {
        files: described.collect(),
        too_many,
    }
}

/// Whether a command is a path rather than a name to look up in `PATH`. An unresolved reference is
/// an ordinary part of a path to the operating system, and here too.
pub(crate) fn is_path(command: &str) -> bool {
    command.contains('/') || (cfg!(windows) && command.contains('\\'))
}

fn is_among(programs: &[&str], program: &str) -> bool {
    let name = Path::new(program)
        .file_stem()
        .and_then(|name| name.to_str());
    let name = name.unwrap_or_default().to_ascii_lowercase();
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    programs.contains(&plain)
}

/// Searches for the files that an entry names.
struct Search {
    inside: RepositoryRoots,
    found: BTreeSet<PathBuf>,
    /// The words searched so far.
    seen: HashSet<String>,
}

impl Search {
    fn is_full(&self) -> bool {
        self.found.len() > MAX_FILES || self.seen.len() > MAX_WORDS
    }

    /// Adds the files named by an argument or a command line: by all of it, by a word, or by part
    /// of a word. With `runs_any`, data files count too.
    fn text(&mut self, dir: &Path, text: &str, runs_any: bool) {
        self.word(dir, text, runs_any);
        for word in text.split(char::is_whitespace) {
            self.word(dir, word, runs_any);
            // `./"run".sh`
            if word.contains(['"', '\'', '\\']) {
                let plain = word.replace(['"', '\'', '\\'], "");
                self.word(dir, plain.trim_matches(is_syntax), runs_any);
            }
            for part in word.split(is_syntax) {
                self.word(dir, part, runs_any);
                // `--import=./hook.js`, `-cp a.jar:b.jar`
                if let Some((_, value)) = part.split_once('=') {
                    self.word(dir, value, runs_any);
                }
                for piece in part.split(['=', ',', ':']) {
                    self.word(dir, piece, runs_any);
                }
                // `-r./hook.js`
                if let Some(value) = part.strip_prefix('-').and_then(|flag| flag.get(1..)) {
                    self.word(dir, value, runs_any);
                }
            }
            // `$PWD/run.sh`, `${CLAUDE_PROJECT_DIR}/run.sh`
            for part in word.split('$').skip(1) {
                let path = part.split_once('/').map_or("", |(_, path)| path);
                let path = path.split(is_syntax).next().unwrap_or_default();
                self.word(dir, path, runs_any);
            }
        }
    }

    fn word(&mut self, dir: &Path, word: &str, runs_any: bool) {
        if self.is_full() || word.is_empty() || !self.seen.insert(word.to_owned()) {
            return;
        }
        let file = self.inside.find(dir, word);
        self.found
            .extend(file.filter(|path| runs_any || is_code(path)));
    }
}

/// Characters that separate the words of a command line.
fn is_syntax(c: char) -> bool {
    c.is_whitespace() || "\"'`<>();|&${}[]!".contains(c)
}

/// The directories whose content the author of a repository controls.
struct RepositoryRoots {
    roots: Vec<PathBuf>,
}

impl RepositoryRoots {
    fn new(roots: &[&Path]) -> Self {
        let real = roots.iter().filter_map(|root| root.canonicalize().ok());
        let roots = roots.iter().map(|root| (*root).to_owned());
        Self {
            roots: roots.chain(real).collect(),
        }
    }

    /// The repository file that a word names. A link that leads out of the repository counts too:
    /// its author can change the target.
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
}

/// Whether a file is code, judging by its name, its mode, or its first bytes. A data file that a
/// server writes to must not invalidate the approval.
fn is_code(path: &Path) -> bool {
    if has_code_extension(path) {
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

/// Whether a file has an extension of code.
pub(crate) fn has_code_extension(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let extension = extension.unwrap_or_default().to_ascii_lowercase();
    CODE.contains(&&*extension)
}

/// The hash of a file, or `unreadable`.
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
    use crate::entry::{HttpEntry, HttpFlavour, TransportEntry};

    /// A repository with some files.
    fn repository() -> (tempfile::TempDir, Project) {
        let scratch = tempfile::tempdir().unwrap();
        for dir in [".git", "dist", "sub", "$d", "${D}"] {
            std::fs::create_dir(scratch.path().join(dir)).unwrap();
        }
        for (name, text) in [
            ("run.sh", "echo"),
            ("dist/index.js", "1"),
            ("main", "x"),
            ("script", "#!/bin/sh"),
            ("data.db", "d"),
            ("config.json", "{}"),
            ("README.md", "r"),
            ("$d/run.sh", "d"),
            ("${D}/run.sh", "D"),
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
            (&["node", "--import=./run.sh", "main"], &["main", "run.sh"]),
            (&["$d/run.sh"], &["$d/run.sh"]),
            (&["${D}/run.sh"], &["${D}/run.sh"]),
            (
                &["node", "--title=README.md", "main"],
                &["README.md", "main"],
            ),
            (&["sh", "-c", "exec ./main"], &["main"]),
            (
                &["sh", "-c", "a=b;(./main<config.json)"],
                &["config.json", "main"],
            ),
            (&["sh", "-c", "./\"ma\"in"], &["main"]),
            (&["sh", "-c", "exec \"$PWD/main\""], &["main"]),
            (&["sh", "-c", "exec \"${PWD}/main\""], &["main"]),
            (&["timeout", "5", "sh", "main"], &["main"]),
            (&["tool", "-c", "exec ./run.sh"], &["run.sh"]),
            (&["tool", "-r./run.sh", "--x=a:run.sh"], &["run.sh"]),
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
            assert!(!found.too_many);
            let found: Vec<_> = found.files.iter().map(|(_, file)| &*file.path).collect();
            assert_eq!(found, expected, "{argv:?}");
        }
    }

    #[test]
    fn the_words_of_a_headers_helper_count() {
        let (scratch, project) = repository();
        let mut http = HttpEntry::new(HttpFlavour::Streamable, "https://h/");
        http.headers_helper = Some("env A=1 ./run.sh | sh 'main'".to_owned());
        let entry = ServerEntry {
            base: Some(scratch.path().to_owned()),
            ..ServerEntry::new("s", TransportEntry::Http(http))
        };
        let found = repository_files(&entry, &project).files;
        let found: Vec<_> = found.iter().map(|(_, file)| &*file.path).collect();
        assert_eq!(found, ["main", "run.sh"]);
    }

    #[test]
    fn fillers_hide_no_file_and_too_many_are_told() {
        let (scratch, project) = repository();
        let runs = |args: Vec<String>| {
            let entry = ServerEntry::stdio("s", "node", args);
            repository_files(&entry, &project)
        };
        let fillers = |count: usize| (0..count).map(|n| format!("filler-{n}"));
        let last = || ["./dist/index.js".to_owned()];
        let found = runs(fillers(1000).chain(last()).collect());
        assert_eq!((found.files.len(), found.too_many), (1, false));
        assert!(runs(fillers(MAX_WORDS).chain(last()).collect()).too_many);
        let names = |count: usize| (0..count).map(|n| format!("f{n}.js")).collect::<Vec<_>>();
        for name in names(MAX_FILES + 1) {
            std::fs::write(scratch.path().join(name), "x").unwrap();
        }
        for (count, too_many) in [(MAX_FILES, false), (MAX_FILES + 1, true)] {
            let found = runs(names(count));
            assert_eq!((found.files.len(), found.too_many), (MAX_FILES, too_many));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_out_counts_and_what_is_no_file_does_not() {
        let (scratch, project) = repository();
        let link = scratch.path().join("link.js");
        std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
        std::os::unix::fs::symlink("/dev/zero", scratch.path().join("zero.js")).unwrap();
        let entry = ServerEntry::stdio("s", "node", ["link.js", "zero.js"]);
        let found = repository_files(&entry, &project).files;
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
