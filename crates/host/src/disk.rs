//! Files that are nobody else's business and never half written: pins, catalogs, eras.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What the name of a file ends in that is being written.
pub(crate) const UNFINISHED: &str = "tmp";

/// Tells apart the files that one process writes at the same time.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// How many names are tried.
const MAX_ATTEMPTS: usize = 1000;

/// Whether a file must be there after the power fails, too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Care {
    /// What it holds can be found out anew.
    Little,
    /// What it holds is lost with it.
    Lasting,
}

/// Writes beside the file and moves it into place, so that nobody ever reads half of it. Only the owner can read it.
pub(crate) fn write_whole(path: &Path, text: &[u8], care: Care) -> io::Result<()> {
    let (mut file, beside) = beside(path)?;
    let written = file
        .write_all(text)
        .and_then(|()| match care {
            Care::Lasting => file.sync_all(),
            Care::Little => Ok(()),
        })
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

/// A new file beside the other. A process that was killed may have left one, and a container gives every process the same number.
fn beside(path: &Path) -> io::Result<(File, PathBuf)> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut attempts = 0;
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let beside = path.with_extension(format!("{}-{count}.{UNFINISHED}", std::process::id()));
        match options.open(&beside) {
            Ok(file) => return Ok((file, beside)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && attempts < MAX_ATTEMPTS => {
                attempts += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Makes a directory, and those above it that are missing, for the owner alone.
pub(crate) fn private_dir(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}
