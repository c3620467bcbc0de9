//! Writes the software bill of materials of the program: every crate that is compiled into it or
//! runs while it is built, with its licence and hash, as `CycloneDX` JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::sh;

/// The package of the program.
const PROGRAM: &str = "trunkline-cli";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Write to this file instead of target/sbom.cdx.json
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

/// The hashes of `Cargo.lock`.
#[derive(Deserialize)]
struct Lock {
    package: Vec<LockedPackage>,
}

#[derive(Deserialize)]
struct LockedPackage {
    name: String,
    version: String,
    checksum: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let output = sh::cargo(&["metadata", "--format-version", "1", "--locked"])
        .output()
        .context("cargo metadata")?;
    anyhow::ensure!(output.status.success(), "cargo metadata failed");
    let metadata: Metadata = serde_json::from_slice(&output.stdout)?;
    let lock: Lock = toml::from_str(&std::fs::read_to_string(sh::root().join("Cargo.lock"))?)?;
    let document = document(&metadata, &lock).context("the program is not in the workspace")?;
    let count = document["components"].as_array().map_or(0, Vec::len);
    let path = options.out.clone();
    let path = path.unwrap_or_else(|| sh::root().join("target/sbom.cdx.json"));
    std::fs::write(&path, serde_json::to_string_pretty(&document)? + "\n")?;
    println!("{count} components in {}", path.display());
    Ok(())
}

fn document(metadata: &Metadata, lock: &Lock) -> Option<Value> {
    let packages: BTreeMap<&str, &Package> = metadata
        .packages
        .iter()
        .map(|package| (package.id.as_str(), package))
        .collect();
    let nodes: BTreeMap<&str, Vec<&str>> = metadata
        .resolve
        .nodes
        .iter()
        .map(|node| (node.id.as_str(), shipped(node)))
        .collect();
    let program = metadata
        .packages
        .iter()
        .find(|package| package.name == PROGRAM)?;
    let mut reached = BTreeSet::from([program.id.as_str()]);
    let mut open = vec![program.id.as_str()];
    while let Some(id) = open.pop() {
        for dependency in nodes.get(id).into_iter().flatten() {
            if reached.insert(dependency) {
                open.push(dependency);
            }
        }
    }
    let mut components: Vec<(&Package, Value)> = reached
        .iter()
        .filter(|id| **id != program.id)
        .filter_map(|id| packages.get(id))
        .map(|package| (*package, component(package, lock)))
        .collect();
    let by_name =
        |(package, _): &(&Package, Value)| (package.name.clone(), package.version.clone());
    components.sort_by_key(by_name);
    let mut links: Vec<(String, Value)> = reached
        .iter()
        .filter_map(|id| Some((packages.get(id)?, nodes.get(id)?)))
        .map(|(package, dependencies)| {
            let dependencies = dependencies.iter().filter_map(|id| packages.get(id));
            let on: BTreeSet<String> = dependencies.map(|package| reference(package)).collect();
            let from = reference(package);
            (from.clone(), json!({"ref": from, "dependsOn": on}))
        })
        .collect();
    links.sort_by(|one, other| one.0.cmp(&other.0));
    // No serial number and no time: the same sources make the same document.
    Some(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {
            "type": "application",
            "bom-ref": reference(program),
            "name": "trunkline",
            "version": program.version,
        }},
        "components": components.into_iter().map(|(_, value)| value).collect::<Vec<_>>(),
        "dependencies": links.into_iter().map(|(_, value)| value).collect::<Vec<_>>(),
    }))
}

/// The dependencies that are compiled into the program or run while it is built.
fn shipped(node: &Node) -> Vec<&str> {
    let is_shipped = |kind: &DependencyKind| kind.kind.as_deref() != Some("dev");
    let shipped = node.deps.iter();
    shipped
        .filter(|dependency| dependency.dep_kinds.iter().any(is_shipped))
        .map(|dependency| dependency.pkg.as_str())
        .collect()
}

fn component(package: &Package, lock: &Lock) -> Value {
    let mut value = json!({
        "type": "library",
        "bom-ref": reference(package),
        "name": package.name,
        "version": package.version,
    });
    if package.source.is_some() {
        value["purl"] = json!(reference(package));
    }
    if let Some(license) = &package.license {
        // Older crates separate alternatives by a slash.
        value["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
    }
    let mut locked = lock.package.iter();
    let locked =
        locked.find(|locked| locked.name == package.name && locked.version == package.version);
    if let Some(checksum) = locked.and_then(|locked| locked.checksum.as_ref()) {
        value["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    value
}

fn reference(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_shipped_is_listed_with_its_hash() {
        let metadata: Metadata = serde_json::from_value(json!({
            "packages": [
                {"id": "p", "name": PROGRAM, "version": "1.0.0", "license": null, "source": null},
                {"id": "a", "name": "a", "version": "2.0.0", "license": "MIT/Apache-2.0", "source": "registry"},
                {"id": "b", "name": "b", "version": "3.0.0", "license": "MIT", "source": "registry"},
                {"id": "c", "name": "c", "version": "4.0.0", "license": "MIT", "source": "registry"},
            ],
            "resolve": {"nodes": [
                {"id": "p", "deps": [
                    {"pkg": "a", "dep_kinds": [{"kind": null}]},
                    {"pkg": "c", "dep_kinds": [{"kind": "dev"}]},
                ]},
                {"id": "a", "deps": [{"pkg": "b", "dep_kinds": [{"kind": "build"}]}]},
                {"id": "b", "deps": []},
                {"id": "c", "deps": []},
            ]},
        }))
        .unwrap();
        let lock =
            toml::from_str("[[package]]\nname = \"a\"\nversion = \"2.0.0\"\nchecksum = \"00ff\"\n")
                .unwrap();
        let document = document(&metadata, &lock).unwrap();
        let names: Vec<_> = document["components"]
            .as_array()
            .unwrap()
            .iter()
            .map(|component| component["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(document["components"][0]["hashes"][0]["content"], "00ff");
        let expression = &document["components"][0]["licenses"][0]["expression"];
        assert_eq!(expression, "MIT OR Apache-2.0");
    }
}
