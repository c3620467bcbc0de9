//! Finds the files inside a repository that an entry runs (CFG-6). An approval includes their
//! hashes, so that it covers the code and not only the entry.
//!
//! They are the command and every file that a word of the arguments or of `headersHelper` names,
//! except for data that no interpreter is near. Which words there are says `words`; names are
//! completed as interpreters do, and every directory that is named, from any other one, counts as a
//! starting point. Files loaded by those files are not covered; see SECURITY.md.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::crude;
use super::listing::{Listing, Listings};
use super::programs::{has_code_extension, has_data_extension, is_interpreter, is_package_runner};
use super::roots::{Named, RepositoryRoots, without_parents};
use super::words::{ANYTHING, GLOB, UNKNOWN, Words};
use crate::entry::{ServerEntry, hex};
use crate::files::{self, open_regular};
use crate::glob;
use crate::layout::Project;

/// How much of a file is hashed, in addition to its length (SEC-4).
const MAX_HASHED: u64 = 64 << 20;

/// The maximum number of files in an approval. An entry that names more cannot be approved: a file
/// left out could be the one that runs.
pub(crate) const MAX_FILES: usize = 64;

/// The maximum number of distinct words of an entry. An entry with more cannot be approved either.
const MAX_WORDS: usize = 10_000;

/// The maximum number of directories that words start from, and of paths to look for.
const MAX_DIRECTORIES: usize = 64;
const MAX_PATHS: usize = 200_000;

/// The maximum number of names that are compared with wildcards and texts.
const MAX_COMPARED: usize = 4_000_000;

/// The maximum number of directories that one wildcard leads into.
const MAX_BELOW: usize = 1000;

/// The files that a directory stands for.
const INDEX: [&str; 14] = [
    "index.js",
    "index.cjs",
    "index.mjs",
    "index.json",
    "index.node",
    "index.ts",
    "index.tsx",
    "index.mts",
    "__init__.py",
    "__main__.py",
    "package.json",
    "main.py",
    "main.go",
    "mod.ts",
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

impl RepositoryFile {
    /// The hash of a file with this content, if that is not over 64 MB.
    pub fn hash_of(content: &[u8]) -> String {
        hex(&Sha256::digest(content))
    }
}

/// The repository files that an entry runs.
pub(crate) struct RepositoryFiles {
    /// The files with their full paths.
    pub(crate) files: Vec<(PathBuf, RepositoryFile)>,
    /// The entry names more files than an approval can cover.
    pub(crate) too_many: bool,
}

/// Finds the repository files that an entry of `project` runs.
pub(crate) fn repository_files(
    entry: &ServerEntry,
    project: &Project,
    listings: &mut Listings,
) -> RepositoryFiles {
    let base = entry.base.as_deref().unwrap_or(&project.cwd);
    let mut words = Words::default();
    let (dir, program) = if let Some(stdio) = entry.transport.stdio() {
        for arg in &stdio.args {
            words.add_text(arg);
        }
        let dir = stdio.cwd.as_deref().unwrap_or(&project.cwd);
        (dir, entry.program())
    } else {
        words.add_text(entry.transport.headers_helper().unwrap_or_default());
        (base, None)
    };
    let runs_any = program.as_deref().is_none_or(is_interpreter)
        || words.list.iter().any(|word| is_interpreter(word));
    let mut search = Search {
        inside: RepositoryRoots::new(&[&project.root, base]),
        runs_any,
        has_index: runs_any || !program.as_deref().is_some_and(is_package_runner),
        found: BTreeSet::new(),
        listings,
        directories: vec![dir.to_owned()],
        started: HashSet::new(),
        indexed: HashSet::new(),
        odd: HashSet::new(),
        paths: 0,
        compared: 0,
        is_cut: words.is_cut || words.list.len() > MAX_WORDS,
    };
    if let Some(program) = program.filter(|program| is_path(program)) {
        search.found.extend(search.inside.find(dir, &program));
    }
    if !search.is_cut {
        search.all(project, &words);
    }
    let too_many = search.is_full();
    let described = search.found.into_iter().take(MAX_FILES).map(|path| {
        let name = path.strip_prefix(&project.root).unwrap_or(&path);
        let file = RepositoryFile {
            path: distinct(name),
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

/// Searches for the files that an entry names.
struct Search<'l> {
    inside: RepositoryRoots,
    /// An interpreter is among the words, so that data may be code.
    runs_any: bool,
    /// A directory stands for its index file.
    has_index: bool,
    found: BTreeSet<PathBuf>,
    listings: &'l mut Listings,
    /// Where words start from.
    directories: Vec<PathBuf>,
    /// The real paths of those directories.
    started: HashSet<PathBuf>,
    indexed: HashSet<PathBuf>,
    /// Directories whose names are torn apart in the words, and so are the paths below them.
    odd: HashSet<PathBuf>,
    /// The number of paths looked for.
    paths: usize,
    /// The number of names compared.
    compared: usize,
    /// Something was left out.
    is_cut: bool,
}

impl Search<'_> {
    fn is_full(&self) -> bool {
        self.is_cut || self.found.len() > MAX_FILES
    }

    /// Finds the files of all words, from every directory that a word names: `env -C sub sh x`,
    /// `cd sub && cd inner && ./x`, `perl -Isub -Mx`.
    fn all(&mut self, project: &Project, words: &Words) {
        self.started.extend(self.directories[0].canonicalize());
        if self.runs_any {
            self.start_in(project.root.clone());
            // Where Perl and Ruby projects keep their modules.
            if let Some(lib) = self.inside.find_directory(&self.directories[0], "lib") {
                self.start_in(lib);
            }
        }
        let mut next = 0;
        while let Some(dir) = self.directories.get(next).cloned() {
            next += 1;
            for word in &words.list {
                if self.is_full() {
                    return;
                }
                self.word(&dir, word);
            }
            for named in &words.directories {
                self.look_for(1);
                if let Some(found) = self.inside.find_directory(&dir, named) {
                    self.start_in(found);
                }
            }
            self.odd_names(&dir, &words.squeezed);
        }
    }

    /// Lets words start from a directory.
    fn start_in(&mut self, dir: PathBuf) {
        let real = dir.canonicalize().unwrap_or_else(|_| dir.clone());
        if self.started.insert(real) {
            self.directories.push(without_parents(dir));
            self.is_cut |= self.directories.len() > MAX_DIRECTORIES;
        }
    }

    fn look_for(&mut self, paths: usize) {
        self.paths += paths;
        self.is_cut |= self.paths > MAX_PATHS;
    }

    fn compare(&mut self, names: usize) {
        self.compared += names;
        self.is_cut |= self.compared > MAX_COMPARED;
    }

    fn word(&mut self, dir: &Path, word: &str) {
        self.look_for(1);
        if is_wild(word) {
            // A variable alone may be anything, and so may a `*` in a program.
            if word.chars().any(|c| !is_wild_char(c)) {
                let parts: Vec<_> = word.split('/').collect();
                let start = if word.starts_with('/') {
                    Path::new("/")
                } else {
                    dir
                };
                self.matching(start, &parts);
            }
            return;
        }
        self.named(dir, word);
        self.completed(dir, Path::new(word));
        // Modules: `-m pkg.server`, `-MFoo::Bar`, `server:app`.
        for separator in ["::", "."] {
            if word.contains(separator) && !word.contains('/') {
                self.module(dir, word.split(separator));
            }
        }
    }

    /// Adds the file or directory with a name.
    fn named(&mut self, dir: &Path, name: impl AsRef<OsStr>) {
        match self.inside.named(dir, name.as_ref()) {
            Some(Named::File(file)) => self.insert(Some(file)),
            Some(Named::Directory(found)) => self.directory(found),
            None => {}
        }
    }

    /// Adds the files that a directory stands for, and those that words name in it.
    fn directory(&mut self, dir: PathBuf) {
        if self.has_index && self.indexed.insert(dir.clone()) {
            self.look_for(INDEX.len());
            self.index(&dir);
        }
        self.start_in(dir);
    }

    /// Adds the files that importing a module runs: those of the packages above it, and its own.
    fn module<'w>(&mut self, dir: &Path, parts: impl Iterator<Item = &'w str>) {
        let mut parts = parts.filter(|part| !part.is_empty()).peekable();
        let mut path = PathBuf::new();
        while let Some(part) = parts.next() {
            path.push(part);
            if parts.peek().is_none() {
                self.completed(dir, &path);
                if let Some(found) = self.inside.find_directory(dir, &path) {
                    self.directory(found);
                }
                return;
            }
            self.look_for(2);
            let is_python = |file: &Path| {
                let end = file.extension().and_then(OsStr::to_str);
                end.is_some_and(|end| ["py", "pyc", "so", "pyd"].contains(&end))
            };
            self.with_stem(dir, &path, is_python);
            self.with_stem(dir, &path.join("__init__"), is_python);
            if self.is_cut || !dir.join(&path).is_dir() {
                return;
            }
        }
    }

    /// Adds the files that a directory stands for.
    fn index(&mut self, dir: &Path) {
        for name in INDEX {
            self.insert(self.inside.find(dir, name));
        }
        let manifest = dir.join("package.json");
        let text = files::read(&manifest).ok().flatten().unwrap_or_default();
        let manifest: Value = serde_json::from_str(&text).unwrap_or_default();
        for main in [&manifest["main"], &manifest["module"], &manifest["exports"]] {
            if let Some(main) = main.as_str() {
                self.insert(self.inside.find(dir, main));
                self.completed(dir, Path::new(main));
                for name in INDEX {
                    self.insert(self.inside.find(&dir.join(main), name));
                }
            }
        }
    }

    /// Adds the files that a word names without their extension.
    fn completed(&mut self, dir: &Path, word: &Path) {
        self.with_stem(dir, word, |file| {
            has_code_extension(file) || file.extension().is_some_and(|end| end == "json")
        });
    }

    /// Adds the files that have a path apart from their extension.
    fn with_stem(&mut self, dir: &Path, word: &Path, is_module: fn(&Path) -> bool) {
        let path = dir.join(word);
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return;
        };
        for name in self.listing(above).with_stem(name) {
            let file = self.inside.find(above, name);
            self.insert(file.filter(|file| is_module(file)));
        }
    }

    /// Adds the files and directories that match a path with wildcards.
    fn matching(&mut self, dir: &Path, parts: &[&str]) {
        let Some((part, rest)) = parts.split_first() else {
            return;
        };
        if part.contains(ANYTHING) {
            self.below(dir, &parts.join("/"));
            return;
        }
        if !is_wild(part) {
            let below = dir.join(part);
            if rest.is_empty() {
                self.named(dir, part);
            } else if below.is_dir() {
                self.matching(&below, rest);
            }
            return;
        }
        let pattern = part.replace(is_wild_char, "*");
        for name in self.listing(dir).names() {
            self.compare(1);
            if self.is_full() {
                return;
            }
            if !glob::matches(&pattern, &name.to_string_lossy()) {
                continue;
            }
            self.look_for(1);
            if rest.is_empty() {
                self.named(dir, name);
            } else if dir.join(name).is_dir() {
                self.matching(&dir.join(name), rest);
            }
        }
    }

    /// Adds everything below a directory that matches a pattern whose wildcards may stand for
    /// directories.
    fn below(&mut self, dir: &Path, pattern: &str) {
        let pattern = pattern.replace(is_wild_char, "*");
        let first = pattern.split('*').next().unwrap_or_default();
        let mut seen = HashSet::new();
        let mut open = vec![(dir.to_owned(), String::new())];
        while let Some((dir, above)) = open.pop() {
            for name in self.listing(&dir).names() {
                self.compare(1);
                self.is_cut |= seen.len() > MAX_BELOW;
                if self.is_full() {
                    return;
                }
                let path = format!("{above}{}", name.to_string_lossy());
                if !path.starts_with(first) {
                    continue;
                }
                self.look_for(1);
                if glob::matches(&pattern, &path) {
                    self.named(&dir, name);
                }
                let below = dir.join(name);
                if below.is_dir() && below.canonicalize().is_ok_and(|real| seen.insert(real)) {
                    open.push((below, path + "/"));
                }
            }
        }
    }

    /// Adds what a text may name although separators are part of the name, or of that of the
    /// directory: `'./my server'`.
    fn odd_names(&mut self, dir: &Path, texts: &str) {
        if texts.is_empty() {
            return;
        }
        let is_below_odd = self.odd.contains(dir);
        for name in self.listing(dir).names() {
            let text = name.to_string_lossy();
            if !is_below_odd && !crude::is_odd(&text) {
                continue;
            }
            self.look_for(1 + texts.len() / 1024);
            if self.is_full() {
                return;
            }
            if crude::may_name(texts, &text) {
                self.odd.insert(without_parents(dir.join(name)));
                self.named(dir, name);
            }
        }
    }

    /// The names in a directory of the repository.
    fn listing(&mut self, dir: &Path) -> Rc<Listing> {
        if !self.inside.contain(dir) {
            return Rc::default();
        }
        let listing = self.listings.of(dir);
        self.is_cut |= listing.is_cut;
        listing
    }

    fn insert(&mut self, file: Option<PathBuf>) {
        let counts = |path: &PathBuf| self.runs_any || may_be_code(path);
        let file = file.filter(counts);
        self.found.extend(file.map(without_parents));
    }
}

/// Whether part of a word is not known.
fn is_wild(word: &str) -> bool {
    word.contains(is_wild_char)
}

fn is_wild_char(c: char) -> bool {
    matches!(c, UNKNOWN | GLOB | ANYTHING)
}

/// The text of a path. Paths that are not UTF-8 have different texts too.
fn distinct(path: &Path) -> String {
    const UNREADABLE: char = char::REPLACEMENT_CHARACTER;
    let bytes = path.as_os_str().as_encoded_bytes();
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for part in chunk.valid().split_inclusive(UNREADABLE) {
            text.push_str(part);
            if part.ends_with(UNREADABLE) {
                text.push(UNREADABLE);
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "{UNREADABLE}{byte:02x}");
        }
    }
    text
}

/// Whether a file may be code, judging by its name, its mode, or its first bytes. A data file that
/// a server writes to must not invalidate the approval; what is not known to be data may be code.
fn may_be_code(path: &Path) -> bool {
    if !has_data_extension(path) {
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

    fn repository_files(entry: &ServerEntry, project: &Project) -> RepositoryFiles {
        super::repository_files(entry, project, &mut Listings::default())
    }

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
            (&["npx", "-y", "main"], &["main"]),
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
    fn files_that_words_name_indirectly_are_found() {
        let scratch = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("dist/index.js", "1"),
            ("hook.js", "1"),
            ("hook.mjs", "1"),
            ("main", "x"),
            ("my server", "x"),
            ("server.py", "x"),
            ("pkg/tool.py", "x"),
            ("pkg/__init__.py", ""),
            ("Evil.pm", "x"),
            ("lib/Foo/Bar.pm", "x"),
            ("prog", "x"),
            ("args.txt", "x"),
            ("sub/start", "x"),
            ("app/package.json", "{\"main\": \"./out/run\"}"),
            ("app/out/run.js", "x"),
            ("data.db", "x"),
        ] {
            let path = scratch.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let project = Project::at(scratch.path());
        let url = format!("file://{}/ho%6fk.mjs", scratch.path().display());
        for (argv, expected) in [
            (&["node", "./dist/index"][..], "dist/index.js"),
            (&["node", "./dist"], "dist/index.js"),
            (&["node", "-r", "./hook"], "hook.js"),
            (&["node", "./app"], "app/out/run.js"),
            (&["node", "--import", &url], "hook.mjs"),
            (&["python3", "-m", "server"], "server.py"),
            (&["python3", "-m", "pkg.tool"], "pkg/tool.py"),
            (&["perl", "-I.", "-MEvil"], "Evil.pm"),
            (&["perl", "-Ilib", "-MFoo::Bar"], "lib/Foo/Bar.pm"),
            (&["awk", "-f", "prog"], "prog"),
            (&["sed", "-f", "./prog"], "prog"),
            (&["tclsh", "prog"], "prog"),
            (&["unknown-language", "prog"], "prog"),
            (&["taskset", "1", "sh", "args.txt"], "args.txt"),
            (&["flock", "/x", "sh", "args.txt"], "args.txt"),
            (&["find", ".", "-exec", "sh", "args.txt", ";"], "args.txt"),
            (&["script", "-qc", "sh ./main"], "main"),
            (&["git", "-c", "include.path=args.txt"], "args.txt"),
            (&["java", "@./args.txt"], "args.txt"),
            (&["sh", "-c", ". \"./my server\""], "my server"),
            (&["sh", "-c", r". ./my\ server"], "my server"),
            (&["sh", "-c", ". ./ma\\\nin"], "main"),
            (&["bash", "-c", r". ./$'\x6dain'"], "main"),
            (&["bash", "-c", ". ./ma{in,x}"], "main"),
            (&["bash", "-c", ". ./ma$(echo in)"], "main"),
            (&["bash", "-c", ". ./$x"], "main"),
            (&["bash", "-c", ". ./m??n"], "main"),
            (&["env", "-S", r"sh\_./main"], "main"),
            (&["env", "-C", "sub", "sh", "./start"], "sub/start"),
            (&["sh", "-c", "cd sub && exec ./start"], "sub/start"),
        ] {
            let entry = ServerEntry {
                base: Some(scratch.path().to_owned()),
                ..ServerEntry::stdio("s", argv[0], argv[1..].iter().copied())
            };
            let found = repository_files(&entry, &project);
            assert!(!found.too_many, "{argv:?}");
            let found: Vec<_> = found.files.iter().map(|(_, file)| &*file.path).collect();
            assert!(found.contains(&expected), "{argv:?}: {found:?}");
        }
        // Data without an interpreter is not part of it.
        let entry = ServerEntry::stdio("s", "npx", ["-y", "some-server", "data.db", "./app"]);
        let found = repository_files(&entry, &project).files;
        let found: Vec<_> = found.iter().map(|(_, file)| &*file.path).collect();
        assert_eq!(found, [""; 0]);
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
