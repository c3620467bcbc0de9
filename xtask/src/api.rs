//! `docs/api.txt`: the public API of the crate `trunkline`, one item per line.
//!
//! rustdoc's JSON of a crate does not contain the items that it re-exports from others. So all
//! library crates are listed, and the items of a re-exported type are added under its public path.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::{docs, sh};

/// The crates that the API consists of; `trunkline` re-exports from the others.
const CRATES: [&str; 5] = [
    "trunkline",
    "trunkline-auth",
    "trunkline-config",
    "trunkline-transport",
    "trunkline-wire",
];

const PAGE: &str = "docs/api.txt";

/// A documentation build with all dependencies checked stays under this.
const LIMIT: Duration = Duration::from_mins(20);

/// Set in the environment of the process that cargo starts as rustdoc.
const AS_RUSTDOC: &str = "XTASK_AS_RUSTDOC";

/// Runs rustdoc if cargo started this process for that.
///
/// Its JSON output needs `RUSTC_BOOTSTRAP`. Setting that for cargo would build all dependencies
/// once more, so it is set here, for rustdoc alone.
pub(crate) fn as_rustdoc() -> Option<ExitCode> {
    std::env::var_os(AS_RUSTDOC)?;
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let status = Command::new("rustdoc")
        .args(arguments)
        .env("RUSTC_BOOTSTRAP", "1")
        .status();
    Some(match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Writes the listing, or checks that it is up to date.
pub(crate) fn run(options: &docs::Options) -> Result<()> {
    docs::write_or_check(options, vec![(PAGE, listing()?)])
}

fn listing() -> Result<String> {
    let mut doc = sh::cargo(&["doc", "--no-deps", "--lib"]);
    doc.args(CRATES.iter().map(|name| format!("--package={name}")))
        .env("RUSTDOC", std::env::current_exe()?)
        .env(AS_RUSTDOC, "1")
        .env("RUSTDOCFLAGS", "-Zunstable-options --output-format=json");
    sh::run(&mut doc, LIMIT)?;

    let folder = sh::root().join("target/doc");
    let json = |name: &str| folder.join(format!("{}.json", name.replace('-', "_")));
    let mut lines = items_of(&json("trunkline"))?;
    let reexports = Reexports::read(&json("trunkline"))?;
    for name in &CRATES[1..] {
        let items = items_of(&json(name))?.into_iter();
        lines.extend(items.filter(|line| reexports.cover(item_path(line))));
    }
    let unnamed = reexports.unnamed(&lines);
    if !unnamed.is_empty() {
        let list: Vec<_> = unnamed
            .into_iter()
            .map(|(name, line)| format!("{name} in {line}"))
            .collect();
        bail!(
            "these types are part of the API of `trunkline`, which does not export them:\n{}",
            list.join("\n")
        );
    }
    let lines: Vec<String> = lines.into_iter().collect();
    Ok(format!("{}\n", lines.join("\n")))
}

/// The public items of a crate, without implementations of automatic and derived traits.
fn items_of(json: &Path) -> Result<BTreeSet<String>> {
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .with_context(|| format!("cannot read {}", json.display()))?;
    Ok(api.items().map(ToString::to_string).collect())
}

/// The path of the item that a line describes: that of the type for an implementation.
fn item_path(line: &str) -> &str {
    let subject = match line.strip_prefix("impl") {
        Some(rest) => {
            let rest = after_generics(rest);
            rest.rsplit_once(" for ").map_or(rest, |(_, of)| of)
        }
        None => line,
    };
    let start = subject.find("trunkline").unwrap_or(subject.len());
    let path = &subject[start..];
    let end = path.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    let path = end.map_or(path, |end| &path[..end]);
    path.trim_end_matches(':')
}

/// The text after generic parameters at its beginning.
fn after_generics(text: &str) -> &str {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            // Not the arrow of a closure's type.
            '>' if !text[..at].ends_with('-') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return &text[at..];
        }
    }
    text
}

/// The items that `trunkline` re-exports from the other crates.
struct Reexports {
    /// Their paths, public and as defined.
    paths: BTreeSet<String>,
}

impl Reexports {
    fn read(json: &Path) -> Result<Self> {
        let json: Value = serde_json::from_slice(&std::fs::read(json)?)?;
        let mut paths = BTreeSet::new();
        for item in json["index"]
            .as_object()
            .into_iter()
            .flat_map(|index| index.values())
        {
            let reexport = &item["inner"]["use"];
            let Some(source) = reexport["source"].as_str() else {
                continue;
            };
            let target = &json["paths"][reexport["id"].to_string()];
            if item["visibility"] != "public" || target["crate_id"] == 0 {
                continue;
            }
            paths.insert(source.to_owned());
            let defined = target["path"].as_array().into_iter().flatten();
            let defined: Vec<&str> = defined.filter_map(Value::as_str).collect();
            paths.insert(defined.join("::"));
        }
        Ok(Self { paths })
    }

    /// Whether a path is re-exported, or below one that is.
    fn cover(&self, path: &str) -> bool {
        let mut ends = path.match_indices("::").map(|(at, _)| at);
        self.paths.contains(path) || ends.any(|end| self.paths.contains(&path[..end]))
    }

    /// The types of the other crates that `trunkline` has no name for, each with a line that
    /// mentions it.
    fn unnamed<'l>(&self, lines: &'l BTreeSet<String>) -> BTreeMap<&'l str, &'l str> {
        let is_separator = |c: char| !(c.is_alphanumeric() || c == '_' || c == ':');
        let mut unnamed = BTreeMap::new();
        for line in lines {
            let words = line.split(is_separator);
            let words = words.map(|word| word.trim_end_matches(':'));
            let foreign =
                words.filter(|word| word.starts_with("trunkline_") && word.contains("::"));
            unnamed.extend(
                foreign
                    .filter(|word| !self.cover(word))
                    .map(|word| (word, line.as_str())),
            );
        }
        unnamed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_describes_one_item() {
        for (line, path) in [
            ("pub struct trunkline_a::B", "trunkline_a::B"),
            (
                "pub fn trunkline_a::B::c(&self) -> trunkline_d::E",
                "trunkline_a::B::c",
            ),
            (
                "pub trunkline_a::B::field: trunkline_d::E",
                "trunkline_a::B::field",
            ),
            ("impl core::fmt::Debug for trunkline_a::B", "trunkline_a::B"),
            ("impl<T> trunkline_a::B<T>", "trunkline_a::B"),
            (
                "impl<T: Fn() -> trunkline_d::E> trunkline_a::B<T>",
                "trunkline_a::B",
            ),
            (
                "impl core::convert::From<trunkline_d::E> for trunkline_a::B",
                "trunkline_a::B",
            ),
        ] {
            assert_eq!(item_path(line), path, "{line}");
        }
    }

    #[test]
    fn types_without_a_name_are_found() {
        let paths = ["trunkline_a::B", "trunkline_a::sdk"].map(str::to_owned);
        let reexports = Reexports {
            paths: paths.into(),
        };
        assert!(reexports.cover("trunkline_a::B::c") && reexports.cover("trunkline_a::sdk::X"));
        assert!(!reexports.cover("trunkline_a::Better"));
        let line = "pub fn trunkline::f(trunkline_a::B) -> Vec<trunkline_a::Hidden>";
        let lines = BTreeSet::from([line.to_owned()]);
        let unnamed = reexports.unnamed(&lines);
        assert_eq!(unnamed, BTreeMap::from([("trunkline_a::Hidden", line)]));
    }
}
