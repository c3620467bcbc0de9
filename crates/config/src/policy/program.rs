//! The spellings of a program, so that none evades a denied command (CFG-7).

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::approval::is_path;

/// Every form of a program that a rule may name: as written, without `//`, `.` and `..`, and the
/// file that it really is, also if it is found on `PATH`.
pub(super) fn spellings(program: &str) -> BTreeSet<String> {
    let mut forms = vec![PathBuf::from(program)];
    if is_path(program) {
        forms.push(without_dots(Path::new(program)));
        forms.extend(Path::new(program).canonicalize());
    } else if !program.is_empty() {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut found = std::env::split_paths(&path).map(|dir| dir.join(program));
        forms.extend(found.find(|file| file.is_file()).map(|file| {
            let real = file.canonicalize();
            real.unwrap_or(file)
        }));
    }
    let texts = forms
        .into_iter()
        .filter_map(|form| form.into_os_string().into_string().ok());
    texts.collect()
}

/// A path with `.` and `..` resolved by their text.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if plain.file_name().is_some() => _ = plain.pop(),
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_program_have_a_form_in_common() {
        for (one, other, same) in [
            ("/no/such", "/no//such", true),
            ("/no/such", "/no/./such", true),
            ("/no/such", "/no/x/../such", true),
            ("/no/such", "//no/such", true),
            ("./such", "such/./../such", true),
            ("/no/such", "/no/other", false),
            ("no-such-program", "other-such-program", false),
        ] {
            let (ours, theirs) = (spellings(one), spellings(other));
            assert_eq!(!ours.is_disjoint(&theirs), same, "{one} {other}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_and_the_search_path_lead_to_one_program() {
        let scratch = tempfile::tempdir().unwrap();
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink("/bin/sh", &link).unwrap();
        let sh = spellings("/bin/sh");
        for other in ["sh", "/bin//sh", "/bin/../bin/sh", link.to_str().unwrap()] {
            assert!(!sh.is_disjoint(&spellings(other)), "{other}");
        }
    }
}
