//! `cargo xtask test --only tidy`: rules about the text of the tree that no compiler checks.
//!
//! - A contract number (such as CFG-1) must be a heading of `docs/contract.md`, which states the
//!   status of each.
//! - Comment lines in Rust are at most 100 columns wide.
//! - Links between pages lead to a file, and to a heading of it, that exist.
//! - Tests that `SECURITY.md` names as proof exist.
//! - Source paths that pages mention exist, and files in the glossary define the types beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::sh;

/// The page that holds the numbered requirements.
const CONTRACT: &str = "docs/contract.md";

/// The page that maps concepts to types and files.
const GLOSSARY: &str = "docs/glossary.md";

/// The page that names a test for each threat.
const SECURITY: &str = "SECURITY.md";

/// The width of a comment line, in characters.
const MAX_WIDTH: usize = 100;

/// Comment lines that may still be wider. This number only goes down.
const WIDE_COMMENTS_ALLOWED: usize = 61;

/// Directories that hold no text of ours.
const SKIPPED: [&str; 5] = [".git", "target", "node_modules", "seeds", "artifacts"];

/// Checks the whole tree; returns a line for the summary.
pub(crate) fn run() -> Result<String> {
    let tree = Tree::read(&sh::root())?;
    let contract = Contract::parse(tree.text(CONTRACT)?)?;
    let mut problems = contract.without_status();
    let mut citations = 0;
    let mut wide = Vec::new();
    for (path, text) in &tree.files {
        let cited = contract.citations(text);
        citations += cited.len();
        let unknown = cited.into_iter().filter(|(_, name)| !contract.has(name));
        problems.extend(
            unknown.map(|(line, name)| format!("{path}:{line}: {name} is not in {CONTRACT}")),
        );
        if has_extension(path, "rs") {
            wide.extend(wide_comments(text).map(|line| format!("{path}:{line}")));
        }
        if has_extension(path, "md") {
            let broken = links(text).into_iter().filter_map(|(line, link)| {
                let problem = tree.broken(path, &link)?;
                Some(format!("{path}:{line}: link to {link}: {problem}"))
            });
            problems.extend(broken);
            let missing = mentioned_paths(text).filter(|(_, path)| !tree.root.join(path).exists());
            problems.extend(
                missing
                    .map(|(line, mentioned)| format!("{path}:{line}: {mentioned} does not exist")),
            );
        }
    }
    problems.extend(undefined_types(&tree, tree.text(GLOSSARY)?));
    problems.extend(missing_tests(&tree, tree.text(SECURITY)?));
    if wide.len() > WIDE_COMMENTS_ALLOWED {
        problems.push(format!(
            "{} comment lines are wider than {MAX_WIDTH} columns, {WIDE_COMMENTS_ALLOWED} allowed:\n  {}",
            wide.len(),
            wide.join("\n  ")
        ));
    }
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    let mut note = format!(
        "{citations} citations of {} numbers",
        contract.statuses.len()
    );
    if wide.len() < WIDE_COMMENTS_ALLOWED {
        let _ = write!(
            note,
            "; {} wide comments left: lower WIDE_COMMENTS_ALLOWED in tidy.rs",
            wide.len()
        );
    }
    println!("{note}");
    Ok(note)
}

/// The text files of the workspace, by their path from its root.
struct Tree {
    root: PathBuf,
    files: BTreeMap<String, String>,
}

impl Tree {
    fn read(root: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        let mut directories = vec![root.to_path_buf()];
        while let Some(directory) = directories.pop() {
            let entries = fs::read_dir(&directory)
                .with_context(|| format!("could not read {}", directory.display()))?;
            for entry in entries {
                let entry = entry?;
                let (path, kind) = (entry.path(), entry.file_type()?);
                let name = entry.file_name().to_string_lossy().into_owned();
                if kind.is_dir() {
                    if !SKIPPED.contains(&name.as_str()) {
                        directories.push(path);
                    }
                } else if kind.is_file() && is_text(&name) {
                    let text = fs::read_to_string(&path)
                        .with_context(|| format!("could not read {}", path.display()))?;
                    let path = path.strip_prefix(root).unwrap_or(&path);
                    files.insert(path.to_string_lossy().into_owned(), text);
                }
            }
        }
        let root = root.to_path_buf();
        Ok(Self { root, files })
    }

    fn text(&self, path: &str) -> Result<&str> {
        let text = self.files.get(path).map(String::as_str);
        text.with_context(|| format!("{path} is missing"))
    }

    /// Returns the problem with a link on the page at `page`, if there is one.
    fn broken(&self, page: &str, link: &str) -> Option<&'static str> {
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        let target = match file {
            "" => page.to_owned(),
            file => joined(page, file),
        };
        if !self.root.join(&target).exists() {
            return Some("no such file");
        }
        let text = self.files.get(&target)?;
        let is_missing = !anchor.is_empty() && !anchors(text).contains(anchor);
        (is_missing && has_extension(&target, "md")).then_some("no such heading")
    }
}

fn is_text(name: &str) -> bool {
    let extensions = ["rs", "md", "toml", "py", "sh"];
    extensions
        .into_iter()
        .any(|extension| has_extension(name, extension))
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path)
        .extension()
        .is_some_and(|found| found == extension)
}

/// Resolves a relative path against the page that holds it.
fn joined(page: &str, file: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The requirements, each with its status.
struct Contract {
    statuses: BTreeMap<String, Option<String>>,
    areas: BTreeSet<String>,
}

impl Contract {
    fn parse(page: &str) -> Result<Self> {
        let mut statuses = BTreeMap::new();
        let mut current: Option<String> = None;
        for line in page.lines() {
            if let Some(heading) = line.strip_prefix("### ") {
                let name = heading.split(' ').next().unwrap_or_default().to_owned();
                if statuses.insert(name.clone(), None).is_some() {
                    bail!("{CONTRACT} has {name} twice");
                }
                current = Some(name);
            } else if let (Some(name), Some(status)) = (&current, line.strip_prefix("Status: ")) {
                statuses.insert(name.clone(), Some(status.to_owned()));
            }
        }
        let area = |name: &String| name.split_once('-').map(|(area, _)| area.to_owned());
        let areas = statuses.keys().filter_map(area).collect();
        Ok(Self { statuses, areas })
    }

    fn has(&self, name: &str) -> bool {
        self.statuses.contains_key(name)
    }

    fn without_status(&self) -> Vec<String> {
        let is_known = |status: &Option<String>| {
            let words = ["done", "partly", "planned"];
            status
                .as_ref()
                .is_some_and(|status| words.iter().any(|word| status.starts_with(word)))
        };
        let unknown = self.statuses.iter().filter(|(_, status)| !is_known(status));
        unknown
            .map(|(name, _)| format!("{CONTRACT}: {name} needs a status: done, partly or planned"))
            .collect()
    }

    /// Finds the numbers that a text cites, each with its line.
    fn citations(&self, text: &str) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
            for word in words {
                let Some((area, number)) = word.split_once('-') else {
                    continue;
                };
                let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
                if is_number && self.areas.contains(area) {
                    found.push((index + 1, word.to_owned()));
                }
            }
        }
        found
    }
}

/// Finds the comment lines that are too wide. A line without a second word, such as a long URL,
/// cannot be wrapped.
fn wide_comments(text: &str) -> impl Iterator<Item = usize> {
    let lines = text.lines().enumerate();
    let wide = lines.filter(|(_, line)| {
        let comment = line.trim_start();
        comment.starts_with("//")
            && line.chars().count() > MAX_WIDTH
            && comment.split_whitespace().count() > 2
    });
    wide.map(|(index, _)| index + 1)
}

/// Finds the links of a page to other files or headings, each with its line.
fn links(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in prose(page) {
        for part in line.split("](").skip(1) {
            let target = part.split([')', ' ']).next().unwrap_or_default();
            if !target.contains("://") && !target.starts_with("mailto:") {
                found.push((index + 1, target.to_owned()));
            }
        }
    }
    found
}

/// The lines of a page without its code blocks and code spans.
fn prose(page: &str) -> impl Iterator<Item = (usize, String)> {
    let mut in_block = false;
    let lines = page.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        !in_block && !is_fence
    });
    lines.map(|(index, line)| {
        let outside = line.split('`').step_by(2).collect::<Vec<_>>();
        (index, outside.join("`"))
    })
}

/// Finds the code spans of a page that are paths into the source tree, each with its line.
fn mentioned_paths(page: &str) -> impl Iterator<Item = (usize, String)> {
    let is_path = |span: &&str| {
        let is_source = span.starts_with("crates/") || span.starts_with("xtask/src/");
        is_source && !span.contains(['*', '<', '{', ' ', ':'])
    };
    page.lines().enumerate().flat_map(move |(index, line)| {
        let spans = line.split('`').skip(1).step_by(2).filter(is_path);
        spans
            .map(|span| (index + 1, span.to_owned()))
            .collect::<Vec<_>>()
    })
}

/// Checks each row of the glossary: the file in the last cell defines the types in the one before.
fn undefined_types(tree: &Tree, glossary: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for row in glossary.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [_, types, file] = cells.as_slice() else {
            problems.push(format!("{GLOSSARY}: a row needs three cells: {row}"));
            continue;
        };
        let file = file.trim_matches('`');
        let Some(text) = tree.files.get(file) else {
            continue;
        };
        for name in types.split('`').skip(1).step_by(2) {
            let is_defined = |kind: &str| text.contains(&format!("{kind} {name}"));
            if !["struct", "enum", "trait", "type"]
                .into_iter()
                .any(is_defined)
            {
                problems.push(format!("{GLOSSARY}: {file} does not define {name}"));
            }
        }
    }
    problems
}

/// Checks the third cell of each row about a threat: the tests in it are functions, or rows of the
/// attacks.
fn missing_tests(tree: &Tree, page: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        let row = row.replace("\\|", "");
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let [_, _, tests, _] = cells.as_slice() else {
            problems.push(format!("{SECURITY}: a row needs four cells: {row}"));
            continue;
        };
        for name in tests.split('`').skip(1).step_by(2) {
            let spellings = [format!("fn {name}("), format!("    {name}: \"")];
            let mut sources = tree
                .files
                .iter()
                .filter(|(path, _)| has_extension(path, "rs"));
            let is_there = |text: &str| spellings.iter().any(|spelling| text.contains(spelling));
            if !sources.any(|(_, text)| is_there(text)) {
                problems.push(format!("{SECURITY}: there is no test {name}"));
            }
        }
    }
    problems
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut in_block = false;
    let headings = page.lines().filter(move |line| {
        in_block ^= line.starts_with("```");
        !in_block && line.starts_with('#')
    });
    let anchor = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        });
        kept.collect()
    };
    headings.map(anchor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "### CFG-1 Scopes\n\nText.\n\nStatus: done.\n\n### CFG-2 Entries\n";

    #[test]
    fn the_tree_is_tidy() {
        run().unwrap();
    }

    #[test]
    fn numbers_are_found_wherever_they_are_cited() {
        let contract = Contract::parse(PAGE).unwrap();
        let check = |text: &str, expected: &[&str]| {
            let found = contract.citations(text);
            let names: Vec<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
            assert_eq!(names, expected, "{text}");
        };
        check(
            "// The order of scopes (CFG-1), see CFG-9.",
            &["CFG-1", "CFG-9"],
        );
        check("UTF-8, SHA-256, XCFG-1, CFG-x, CFG-, CFG-1-a", &[]);
        assert!(contract.has("CFG-2") && !contract.has("CFG-9"));
    }

    #[test]
    fn a_number_needs_a_status_and_appears_once() {
        let contract = Contract::parse(PAGE).unwrap();
        assert_eq!(
            contract.without_status(),
            ["docs/contract.md: CFG-2 needs a status: done, partly or planned"]
        );
        assert!(Contract::parse(&PAGE.repeat(2)).is_err());
    }

    #[test]
    fn wide_comments_are_found() {
        let text = format!(
            "// short\n    /// two words {}\n// {}\nlet a = \"{} b\";\n",
            "x".repeat(100),
            "u".repeat(120),
            "c".repeat(120)
        );
        assert_eq!(wide_comments(&text).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn links_are_found_outside_code() {
        let page =
            "[a](b.md) [c](https://d.example) `[e](f.md)` [g](h.md#i)\n```\n[j](k.md)\n```\n";
        let found: Vec<String> = links(page).into_iter().map(|(_, link)| link).collect();
        assert_eq!(found, ["b.md", "h.md#i"]);
    }

    #[test]
    fn paths_are_relative_to_their_page() {
        assert_eq!(joined("docs/a.md", "../README.md"), "README.md");
        assert_eq!(joined("docs/a.md", "images/b.svg"), "docs/images/b.svg");
        assert_eq!(joined("README.md", "./docs/a.md"), "docs/a.md");
    }

    #[test]
    fn the_glossary_names_types_where_they_are() {
        let files = [("crates/a/src/b.rs".to_owned(), "pub struct B {}".to_owned())];
        let tree = Tree {
            root: PathBuf::new(),
            files: files.into(),
        };
        let row = |name: &str| format!("| b: a thing | `{name}` | `crates/a/src/b.rs` |\n");
        assert!(undefined_types(&tree, &row("B")).is_empty());
        let problems = undefined_types(&tree, &row("C"));
        let expected = "docs/glossary.md: crates/a/src/b.rs does not define C";
        assert_eq!(problems, [expected]);
        let found: Vec<_> = mentioned_paths(&row("B")).collect();
        assert_eq!(found, [(1, "crates/a/src/b.rs".to_owned())]);
    }

    #[test]
    fn headings_have_anchors() {
        let page = "# The `tools` filter, of CFG-7\n```\n# no heading\n```\n";
        let expected = BTreeSet::from(["the-tools-filter-of-cfg-7".to_owned()]);
        assert_eq!(anchors(page), expected);
    }
}
