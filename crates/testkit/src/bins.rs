//! Locates the programs of this crate.

use std::{
    env, fs,
    fs::File,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::SystemTime,
};

/// Returns the path of a program of this crate, building it if it is missing or outdated.
///
/// Cargo does not build the programs of a dependency. `TRUNKLINE_TESTKIT_BIN_DIR` names a directory
/// to take them from.
///
/// # Panics
/// When the build fails, or there is no such program.
pub fn bin(name: &str) -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let path = DIRECTORY
        .get_or_init(directory)
        .join(name)
        .with_extension(env::consts::EXE_EXTENSION);
    assert!(
        path.is_file(),
        "no program {name} in the testkit ({})",
        path.display()
    );
    path
}

fn directory() -> PathBuf {
    if let Some(given) = env::var_os("TRUNKLINE_TESTKIT_BIN_DIR") {
        return given.into();
    }
    let exe = env::current_exe().expect("the path of this program");
    let mut directory = exe.parent().expect("its directory");
    // target/<profile>/deps/test-hash, target/<profile>/examples/x, or target/<profile>/x.
    if directory.ends_with("deps") || directory.ends_with("examples") {
        directory = directory.parent().expect("a profile directory");
    }
    if !fresh(directory) {
        // Under nextest each test is a process: the first builds, the others wait.
        let lock = File::create(directory.join(".testkit-lock"))
            .expect("a lock file in the target directory");
        lock.lock().expect("the lock of the testkit build");
        if !fresh(directory) {
            build(directory);
        }
    }
    directory.to_owned()
}

fn stamp(directory: &Path) -> PathBuf {
    directory.join(".testkit-built")
}

fn fresh(directory: &Path) -> bool {
    let source = newest(Path::new(env!("CARGO_MANIFEST_DIR")).join("src").as_path());
    let built = modified(&stamp(directory));
    ["testkit-server", "testkit-echo", "testkit-hostile"]
        .iter()
        .all(|name| {
            // Cargo does not touch an unaffected program; then the stamp is newer.
            let program = modified(
                &directory
                    .join(name)
                    .with_extension(env::consts::EXE_EXTENSION),
            );
            program.is_some() && program.max(built) >= source
        })
}

fn build(directory: &Path) {
    let profile = directory
        .file_name()
        .and_then(|name| name.to_str())
        .expect("a profile name");
    let profile = if profile == "debug" { "dev" } else { profile };
    let target = directory.parent().expect("a target directory");
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "build",
            "--quiet",
            "--package",
            "trunkline-testkit",
            "--bins",
            "--profile",
            profile,
        ])
        .arg("--manifest-path")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .output()
        .expect("cargo, to build the testkit");
    assert!(
        output.status.success(),
        "building the testkit failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    fs::write(stamp(directory), "").expect("the stamp of the testkit build");
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|meta| meta.modified()).ok()
}

fn newest(directory: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(directory)
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    entries
        .filter_map(|path| {
            if path.is_dir() {
                newest(&path)
            } else {
                modified(&path)
            }
        })
        .max()
}
