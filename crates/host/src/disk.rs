//! Private files that are never partially written: pins, catalogs, eras.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Extension of temporary files.
pub(crate) const TEMP_EXTENSION: &str = "tmp";

/// Distinguishes temporary files of one process.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Maximum number of names to try.
const MAX_ATTEMPTS: usize = 1000;

/// Whether a file must survive a power failure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The contents can be reconstructed.
    BestEffort,
    /// The contents cannot be reconstructed.
    Synced,
}

/// Writes a temporary file and renames it into place, so readers never see a partial file. Only the
/// owner can read it.
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

/// Creates a temporary file next to `path`. A killed process may have left one, and containers
/// reuse process IDs.
fn create_temp_file(path: &Path) -> io::Result<(File, PathBuf)> {
    let mut options = private_options();
    options.write(true).create_new(true);
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

/// Creates a directory and its missing parents, accessible to the owner only.
pub(crate) fn create_private_dir(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Returns options that create files readable by the owner only.
pub(crate) fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes opening a link or a pipe fail or return, instead of following it or waiting.
pub(crate) fn no_follow(options: &mut OpenOptions) {
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;

        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        options.custom_flags(flags.bits().cast_signed());
    }
    #[cfg(not(unix))]
    let _ = options;
}

/// Formats bytes as lowercase hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        for nibble in [byte >> 4, byte & 15] {
            text.push(char::from(DIGITS[usize::from(nibble)]));
        }
    }
    text
}
