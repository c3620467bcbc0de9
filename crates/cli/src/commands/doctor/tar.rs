//! Writes small archives in the ustar format.

/// The size of a header and of the blocks that contents are padded to.
const BLOCK: usize = 512;

/// An archive of private files.
#[derive(Default)]
pub(super) struct Tar {
    bytes: Vec<u8>,
}

impl Tar {
    /// Adds a file. The name has at most 100 bytes.
    pub(super) fn add(&mut self, name: &str, content: &[u8], modified: u64) {
        let mut header = [0_u8; BLOCK];
        let mut put = |at: usize, text: &str, room: usize| {
            let text = &text.as_bytes()[..text.len().min(room)];
            header[at..at + text.len()].copy_from_slice(text);
        };
        put(0, name, 100);
        put(100, "0000600", 8);
        put(108, "0000000", 8);
        put(116, "0000000", 8);
        put(124, &format!("{:011o}", content.len()), 12);
        put(136, &format!("{modified:011o}"), 12);
        // The checksum counts its own field as spaces.
        put(148, "        ", 8);
        put(156, "0", 1);
        put(257, "ustar\0", 6);
        put(263, "00", 2);
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.bytes.extend_from_slice(&header);
        self.bytes.extend_from_slice(content);
        let padding = content.len().next_multiple_of(BLOCK) - content.len();
        self.bytes.resize(self.bytes.len() + padding, 0);
    }

    /// Returns the archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 2 * BLOCK, 0);
        self.bytes
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_reads_the_archive() {
        let dir = tempfile::tempdir().unwrap();
        let long = "x".repeat(1000);
        let mut tar = Tar::default();
        tar.add("b/one.txt", b"1", 1_700_000_000);
        tar.add("b/empty", b"", 0);
        tar.add("b/long", long.as_bytes(), 1);
        let file = dir.path().join("b.tar");
        std::fs::write(&file, tar.finish()).unwrap();
        let status = std::process::Command::new("tar")
            .args(["xf", "b.tar"])
            .current_dir(dir.path())
            .status();
        assert!(status.unwrap().success());
        let read = |name: &str| std::fs::read_to_string(dir.path().join("b").join(name)).unwrap();
        assert_eq!(
            (read("one.txt"), read("empty"), read("long")),
            ("1".into(), String::new(), long)
        );
    }
}
