//! The names in directories of a repository (CFG-6), read once per load.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The maximum number of names in a directory that are compared.
const MAX_NAMES: usize = 100_000;

/// The names in a directory by their stem in lower case: `index` has `index.js`.
///
/// The names are as the system has them. Only comparisons use text, in which bytes that are not
/// UTF-8 match no text but a wildcard.
#[derive(Default)]
pub(super) struct Listing {
    by_stem: HashMap<String, Vec<OsString>>,
    /// There are more names.
    pub(super) is_cut: bool,
}

impl Listing {
    fn read(dir: &Path) -> Self {
        let mut listing = Self::default();
        let entries = dir.read_dir().into_iter().flatten().flatten();
        for (count, entry) in entries.enumerate() {
            if count > MAX_NAMES {
                listing.is_cut = true;
                break;
            }
            let name = entry.file_name();
            let stem = stem(&name);
            listing.by_stem.entry(stem).or_default().push(name);
        }
        listing
    }

    /// The names that have a stem, whatever their extension and case.
    pub(super) fn with_stem(&self, stem: &OsStr) -> &[OsString] {
        let stem = stem.to_string_lossy().to_lowercase();
        self.by_stem.get(&stem).map_or(&[], Vec::as_slice)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &OsString> {
        self.by_stem.values().flatten()
    }
}

fn stem(name: &OsStr) -> String {
    let stem = Path::new(name).file_stem().unwrap_or_default();
    let stem = stem.to_string_lossy().to_lowercase();
    // Python prefers `server.cpython-313.so` to `server.py`.
    let is_library = Path::new(name)
        .extension()
        .is_some_and(|end| end == "so" || end == "pyd");
    match stem.split_once('.') {
        Some((first, _)) if is_library => first.to_owned(),
        _ => stem,
    }
}

/// The directories that were read.
#[derive(Default)]
pub(crate) struct Listings(HashMap<PathBuf, Rc<Listing>>);

impl Listings {
    pub(super) fn of(&mut self, dir: &Path) -> Rc<Listing> {
        if let Some(listing) = self.0.get(dir) {
            return Rc::clone(listing);
        }
        let listing = Rc::new(Listing::read(dir));
        self.0.insert(dir.to_owned(), Rc::clone(&listing));
        listing
    }
}
