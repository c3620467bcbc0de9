//! Files that are nobody else's business and never half written: pins, catalogs, eras.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What the name of a file ends in that is being written.
pub(crate) const TEMP_EXTENSION: &str = "tmp";

/// Tells apart the files that one process writes at the same time.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// How many names are tried.
const MAX_ATTEMPTS: usize = 1000;

/// Whether a file must be there after the power fails, too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// What it holds can be found out anew.
    BestEffort,
    /// What it holds is lost with it.
    Synced,
}

/// Writes temp the file and moves it into place, so that nobody ever reads half of it. Only the owner can read it.
pub(crate) fn write_atomic(path: &Path, text: &[u8], durability: Durability) -> io::Result<()> {
    let (mut file, temp) = create_temp_file(path)?;
    let written = file
        .write_all(text)
        .and_then(|()| match durability {
            Durability::Synced => file.sync_all(),
            Durability::BestEffort => Ok(()),
        })
        .and_then(|()| fs::rename(&temp, path));
    if written.is_err() {
        let _ = fs::remove_file(&temp);
    }
    written
}

/// A new file temp the other. A process that was killed may have left one, and a container gives every process the same number.
fn create_temp_file(path: &Path) -> io::Result<(File, PathBuf)> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut attempts = 0;
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let temp = path.with_extension(format!("{}-{count}.{TEMP_EXTENSION}", std::process::id()));
        match options.open(&temp) {
            Ok(file) => return Ok((file, temp)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && attempts < MAX_ATTEMPTS => {
                attempts += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Makes a directory, and those above it that are missing, for the owner alone.
pub(crate) fn create_private_dir(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}
