//! Remembers how files were changed, so that an uninstallation restores them byte for byte.
//!
//! A receipt holds only the edits that undo an installation, and the hash of the file after it. If
//! the file has changed since, the receipt still tells what else the installation created.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::edit::text_edit::TextEdit;
use crate::edit::{EditError, EditOptions, edit_file};
use crate::files;
use crate::layout::Layout;

/// An installation in one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Receipt {
    /// The client's identifier.
    pub(super) client: String,
    /// The file as the client names it.
    pub(super) file: PathBuf,
    /// The name of the entry.
    pub(super) name: String,
    /// The entry as it was written; none in receipts of earlier versions.
    #[serde(default)]
    pub(super) written: Option<Map<String, Value>>,
    /// The SHA-256 of the file after the installation.
    pub(super) sha256: String,
    /// The edits that undo it.
    pub(super) undo: Vec<TextEdit>,
    /// Whether the file did not exist.
    pub(super) created_file: bool,
    /// The directories that did not exist, outermost first.
    #[serde(default)]
    pub(super) created_directories: Vec<PathBuf>,
    /// Whether the object that holds the servers did not exist.
    pub(super) created_section: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Receipts {
    #[serde(default)]
    installs: Vec<Receipt>,
}

impl Receipt {
    fn is_of(&self, file: &Path, name: &str) -> bool {
        self.file == file && self.name == name
    }

    /// Whether an entry still has all members as they were written. Others may have been added.
    pub(super) fn wrote(&self, entry: &Value) -> bool {
        let written = self.written.as_ref();
        written.is_none_or(|written| {
            let same = |(key, value): (&String, &Value)| entry.get(key) == Some(value);
            written.iter().all(same)
        })
    }

    /// Whether the file is as the installation left it.
    pub(super) fn fits(&self, text: &str) -> bool {
        self.sha256 == hash(text)
    }
}

/// The SHA-256 of a text, in hexadecimal.
pub(super) fn hash(text: &str) -> String {
    use std::fmt::Write;

    let digest = Sha256::digest(text.as_bytes());
    digest.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn path(layout: &Layout) -> PathBuf {
    layout.state_dir().join("installed.json")
}

/// The receipt of an installation. An unreadable file is the same as none.
pub(super) fn find(layout: &Layout, file: &Path, name: &str) -> Option<Receipt> {
    let text = files::read(&path(layout)).ok()??;
    let receipts: Receipts = serde_json::from_str(&text).ok()?;
    receipts
        .installs
        .into_iter()
        .find(|one| one.is_of(file, name))
}

/// Stores a receipt instead of an earlier one for the same entry.
pub(super) fn store(layout: &Layout, receipt: &Receipt) -> Result<(), EditError> {
    change(layout, |receipts| {
        receipts.retain(|one| !one.is_of(&receipt.file, &receipt.name));
        receipts.push(receipt.clone());
    })
}

/// Forgets the receipt of an entry.
pub(super) fn forget(layout: &Layout, file: &Path, name: &str) -> Result<(), EditError> {
    change(layout, |receipts| {
        receipts.retain(|one| !one.is_of(file, name));
    })
}

fn change(layout: &Layout, change: impl Fn(&mut Vec<Receipt>)) -> Result<(), EditError> {
    let state = layout.state_dir();
    let options = EditOptions {
        locks: Some(&state),
        private: true,
        ..EditOptions::default()
    };
    edit_file(&path(layout), &options, |text| {
        let mut receipts: Receipts = serde_json::from_str(text).unwrap_or_default();
        let before = receipts.installs.clone();
        change(&mut receipts.installs);
        if receipts.installs == before {
            return Ok((None, ()));
        }
        let new = serde_json::to_string_pretty(&receipts).unwrap_or_default();
        Ok((Some(new + "\n"), ()))
    })
}
