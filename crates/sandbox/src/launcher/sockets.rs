//! The Unix sockets of this machine that have an address in the file system.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

const LIST: &str = "/proc/net/unix";

/// The sockets that processes are bound to, as far as their addresses are absolute paths that still
/// lead to a socket.
pub(super) fn bound() -> Vec<PathBuf> {
    let list = fs::read(LIST).unwrap_or_default();
    let list = String::from_utf8_lossy(&list);
    let mut found: Vec<PathBuf> = list
        .lines()
        .filter_map(address)
        .filter_map(|path| {
            // Where its directory really is; the socket itself is no link.
            let dir = path.parent()?.canonicalize().ok()?;
            let path = dir.join(path.file_name()?);
            let kind = fs::symlink_metadata(&path).ok()?.file_type();
            kind.is_socket().then_some(path)
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// The address in a line of the list, if it is an absolute path.
fn address(line: &str) -> Option<PathBuf> {
    let mut rest = line;
    for _ in 0..7 {
        rest = rest.trim_start();
        rest = &rest[rest.find(' ')?..];
    }
    let path = rest.strip_prefix(' ')?;
    path.starts_with('/').then(|| path.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_bound_socket_is_found_and_a_left_file_is_not() {
        let dir = std::env::temp_dir().join(format!("sockets of {}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let dir = dir.canonicalize().unwrap();
        let (live, left) = (dir.join("live"), dir.join("left"));
        let _live = UnixListener::bind(&live).unwrap();
        drop(UnixListener::bind(&left).unwrap());
        let found = bound();
        let _ = fs::remove_dir_all(&dir);
        assert!(found.contains(&live) && !found.contains(&left), "{found:?}");
    }

    #[test]
    fn other_lines_of_the_list_have_no_path() {
        for line in [
            "Num       RefCount Protocol Flags    Type St Inode Path",
            "0000000000000000: 00000002 00000000 00010000 0001 01 12345 @abstract",
            "0000000000000000: 00000003 00000000 00000000 0001 03 12346",
            "",
        ] {
            assert_eq!(address(line), None, "{line}");
        }
        let line = "0000000000000000: 00000002 00000000 00010000 0001 01   345 /run/a b";
        assert_eq!(address(line), Some("/run/a b".into()));
    }
}
