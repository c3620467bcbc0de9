//! Where programs are that a shell's profile would put on `PATH`: the folders of version managers
//! and package managers. A server started from a desktop, a service or a script does not have them.

use std::path::{Path, PathBuf};

use super::causes::program::{Elsewhere, FileKind};
use super::program::{find_in, head, is_executable};

/// A folder with programs.
struct Folder {
    manager: &'static str,
    /// Relative to the manager's own directory; `*` stands for a version.
    path: &'static str,
    /// The variable with the manager's directory, and its default below the home directory.
    root: (&'static str, &'static str),
}

const fn folder(
    manager: &'static str,
    root: (&'static str, &'static str),
    path: &'static str,
) -> Folder {
    Folder {
        manager,
        path,
        root,
    }
}

const FOLDERS: [Folder; 17] = [
    folder("nvm", ("NVM_DIR", ".nvm"), "versions/node/*/bin"),
    folder(
        "fnm",
        ("FNM_DIR", ".local/share/fnm"),
        "node-versions/*/installation/bin",
    ),
    folder("fnm", ("", ".fnm"), "node-versions/*/installation/bin"),
    folder("Volta", ("VOLTA_HOME", ".volta"), "bin"),
    folder("asdf", ("ASDF_DATA_DIR", ".asdf"), "shims"),
    folder("mise", ("MISE_DATA_DIR", ".local/share/mise"), "shims"),
    folder("pyenv", ("PYENV_ROOT", ".pyenv"), "shims"),
    folder("Bun", ("BUN_INSTALL", ".bun"), "bin"),
    folder("Deno", ("DENO_INSTALL", ".deno"), "bin"),
    folder("~/.local/bin", ("", ".local"), "bin"),
    folder("Cargo", ("CARGO_HOME", ".cargo"), "bin"),
    folder("Go", ("GOPATH", "go"), "bin"),
    folder("Nix", ("", ".nix-profile"), "bin"),
    folder("Homebrew", ("HOMEBREW_PREFIX", ""), "bin"),
    folder("Homebrew", ("", "/opt/homebrew"), "bin"),
    folder("Homebrew", ("", "/home/linuxbrew/.linuxbrew"), "bin"),
    folder("/usr/local/bin", ("", "/usr/local"), "bin"),
];

/// Looks for a program in the folders. `var` reads the environment.
pub(super) fn find(
    command: &str,
    home: Option<&Path>,
    var: &dyn Fn(&str) -> Option<String>,
) -> Option<Elsewhere> {
    let (path, manager) = FOLDERS.iter().find_map(|folder| {
        let programs = directories(folder, home, var);
        let found = programs.into_iter().map(|dir| dir.join(command));
        let mut found = found.filter(|path| is_executable(path));
        Some((found.next()?, folder.manager))
    })?;
    Some(Elsewhere {
        needs_directory: needs_directory(&path, var),
        path,
        manager,
    })
}

/// Returns whether a program is a script whose interpreter is beside it and not on `PATH`.
fn needs_directory(path: &Path, var: &dyn Fn(&str) -> Option<String>) -> bool {
    let search = var("PATH").unwrap_or_default();
    let exists =
        |name: &str| Path::new(name).is_absolute() || find_in(name, search.as_ref()).is_some();
    let kind = FileKind::of(&head(path), exists);
    let FileKind::Script {
        interpreter,
        exists: false,
    } = kind
    else {
        return false;
    };
    path.parent()
        .is_some_and(|dir| is_executable(&dir.join(interpreter)))
}

/// Returns the directories of a folder, the newest version first.
fn directories(
    folder: &Folder,
    home: Option<&Path>,
    var: &dyn Fn(&str) -> Option<String>,
) -> Vec<PathBuf> {
    let (name, default) = folder.root;
    let set = Some(name).filter(|name| !name.is_empty()).and_then(var);
    let by_default = || {
        (!default.is_empty())
            .then(|| Some(home?.join(default)))
            .flatten()
    };
    let Some(root) = set.map(PathBuf::from).or_else(by_default) else {
        return Vec::new();
    };
    let Some((before, after)) = folder.path.split_once("*/") else {
        return vec![root.join(folder.path)];
    };
    let listed = std::fs::read_dir(root.join(before))
        .into_iter()
        .flatten()
        .flatten();
    let mut versions: Vec<PathBuf> = listed.map(|entry| entry.path()).collect();
    versions.sort_by_key(|path| std::cmp::Reverse(version(path)));
    versions
        .into_iter()
        .map(|version| version.join(after))
        .collect()
}

/// Returns the numbers of a version such as `v22.1.0`.
fn version(path: &Path) -> Vec<u64> {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let parts = name.trim_start_matches('v').split('.');
    parts.map(|part| part.parse().unwrap_or(0)).collect()
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn program(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    #[test]
    fn programs_are_found_in_every_folder() {
        for (path, manager) in [
            (".nvm/versions/node/v22.1.0/bin/p", "nvm"),
            (
                ".local/share/fnm/node-versions/v20.0.0/installation/bin/p",
                "fnm",
            ),
            (".volta/bin/p", "Volta"),
            (".asdf/shims/p", "asdf"),
            (".local/share/mise/shims/p", "mise"),
            (".pyenv/shims/p", "pyenv"),
            (".local/bin/p", "~/.local/bin"),
            (".cargo/bin/p", "Cargo"),
            ("go/bin/p", "Go"),
        ] {
            let home = tempfile::tempdir().unwrap();
            program(&home.path().join(path), "#!/bin/sh\n");
            let found = find("p", Some(home.path()), &|_| None).unwrap();
            assert_eq!(
                (found.manager, found.path),
                (manager, home.path().join(path))
            );
            assert!(!found.needs_directory);
        }
        let home = tempfile::tempdir().unwrap();
        assert_eq!(
            find("no-such-program-x", Some(home.path()), &|_| None),
            None
        );
        program(&home.path().join("brew/bin/p"), "");
        let prefix = home.path().join("brew").display().to_string();
        let var = |name: &str| (name == "HOMEBREW_PREFIX").then(|| prefix.clone());
        assert_eq!(find("p", None, &var).unwrap().manager, "Homebrew");
    }

    #[test]
    fn the_newest_version_wins_and_its_interpreter_is_noticed() {
        let home = tempfile::tempdir().unwrap();
        let at = |version: &str, name: &str| {
            home.path()
                .join(format!(".nvm/versions/node/{version}/bin/{name}"))
        };
        for version in ["v9.11.2", "v22.1.0", "v18.20.4"] {
            program(&at(version, "npx"), "#!/usr/bin/env node\n");
            program(&at(version, "node"), "\x7fELF");
        }
        let found = find("npx", Some(home.path()), &|_| None).unwrap();
        assert_eq!(found.path, at("v22.1.0", "npx"));
        assert!(found.needs_directory);
    }
}
