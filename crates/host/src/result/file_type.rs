//! MIME types and file extensions. The bytes count more than the server's claim.

/// A MIME type with its file extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileType {
    pub(super) mime: &'static str,
    pub(super) extension: &'static str,
}

/// The number of bytes that [`sniff`] needs.
pub(super) const ENOUGH: usize = 32;

/// Signatures at fixed offsets.
const MAGIC: &[(usize, &[u8], FileType)] = &[
    (0, b"\x89PNG\r\n\x1a\n", kind("image/png", "png")),
    (0, b"\xff\xd8\xff", kind("image/jpeg", "jpg")),
    (0, b"GIF87a", kind("image/gif", "gif")),
    (0, b"GIF89a", kind("image/gif", "gif")),
    (8, b"WEBP", kind("image/webp", "webp")),
    (8, b"WAVE", kind("audio/wav", "wav")),
    (8, b"AVI ", kind("video/x-msvideo", "avi")),
    (4, b"ftypavif", kind("image/avif", "avif")),
    (4, b"ftyphei", kind("image/heic", "heic")),
    (4, b"ftypM4A", kind("audio/mp4", "m4a")),
    (4, b"ftypqt", kind("video/quicktime", "mov")),
    (4, b"ftyp", kind("video/mp4", "mp4")),
    (0, b"II*\0", kind("image/tiff", "tiff")),
    (0, b"MM\0*", kind("image/tiff", "tiff")),
    (0, b"%PDF-", kind("application/pdf", "pdf")),
    (0, b"ID3", kind("audio/mpeg", "mp3")),
    (0, b"OggS", kind("audio/ogg", "ogg")),
    (0, b"fLaC", kind("audio/flac", "flac")),
    (0, b"\x1f\x8b\x08", kind("application/gzip", "gz")),
    (0, b"\x28\xb5\x2f\xfd", kind("application/zstd", "zst")),
    (
        0,
        b"7z\xbc\xaf\x27\x1c",
        kind("application/x-7z-compressed", "7z"),
    ),
    (
        0,
        b"SQLite format 3\0",
        kind("application/vnd.sqlite3", "sqlite"),
    ),
];

/// Known types. Of several with one extension, the first is the usual one.
const NAMED: &[FileType] = &[
    kind("image/png", "png"),
    kind("image/jpeg", "jpg"),
    kind("image/jpg", "jpg"),
    kind("image/gif", "gif"),
    kind("image/webp", "webp"),
    kind("image/svg+xml", "svg"),
    kind("image/bmp", "bmp"),
    kind("image/tiff", "tiff"),
    kind("image/avif", "avif"),
    kind("image/heic", "heic"),
    kind("image/x-icon", "ico"),
    kind("image/vnd.microsoft.icon", "ico"),
    kind("audio/wav", "wav"),
    kind("audio/x-wav", "wav"),
    kind("audio/wave", "wav"),
    kind("audio/mpeg", "mp3"),
    kind("audio/mp3", "mp3"),
    kind("audio/mp4", "m4a"),
    kind("audio/aac", "aac"),
    kind("audio/ogg", "ogg"),
    kind("audio/opus", "opus"),
    kind("audio/flac", "flac"),
    kind("audio/webm", "weba"),
    kind("video/mp4", "mp4"),
    kind("video/webm", "webm"),
    kind("video/quicktime", "mov"),
    kind("application/pdf", "pdf"),
    kind("application/zip", "zip"),
    kind("application/gzip", "gz"),
    kind("application/x-gzip", "gz"),
    kind("application/x-tar", "tar"),
    kind("application/json", "json"),
    kind("application/xml", "xml"),
    kind("application/yaml", "yaml"),
    kind("application/toml", "toml"),
    kind("application/wasm", "wasm"),
    kind("application/msword", "doc"),
    kind("application/vnd.ms-excel", "xls"),
    kind("application/vnd.ms-powerpoint", "ppt"),
    kind(
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "docx",
    ),
    kind(
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "xlsx",
    ),
    kind(
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "pptx",
    ),
    kind("text/plain", "txt"),
    kind("text/html", "html"),
    kind("text/css", "css"),
    kind("text/csv", "csv"),
    kind("text/markdown", "md"),
    kind("text/xml", "xml"),
    kind("text/yaml", "yaml"),
    kind("text/javascript", "js"),
    kind("text/x-python", "py"),
];

/// The fallback.
const UNKNOWN: FileType = kind("application/octet-stream", "bin");

pub(super) const TEXT: FileType = kind("text/plain", "txt");
pub(super) const JSON: FileType = kind("application/json", "json");

const fn kind(mime: &'static str, extension: &'static str) -> FileType {
    FileType { mime, extension }
}

/// Detects the type from the first bytes.
pub(super) fn sniff(bytes: &[u8]) -> Option<FileType> {
    let begins = |(at, magic, _): &&(usize, &[u8], FileType)| {
        bytes
            .get(*at..)
            .is_some_and(|bytes| bytes.starts_with(magic))
    };
    MAGIC.iter().find(begins).map(|(_, _, kind)| *kind)
}

/// Returns the type that a server names, in any spelling, with or without parameters.
pub(super) fn named(mime: &str) -> Option<FileType> {
    let mime = mime.split(';').next().unwrap_or_default().trim();
    let known = NAMED
        .iter()
        .find(|kind| kind.mime.eq_ignore_ascii_case(mime));
    let suffixed = || {
        let lowered = mime.to_ascii_lowercase();
        let (_, suffix) = lowered.rsplit_once('+')?;
        ["json", "xml", "zip", "yaml"]
            .into_iter()
            .find(|known| *known == suffix)
            .and_then(|known| named(&format!("application/{known}")))
    };
    known.copied().or_else(suffixed)
}

/// Returns the type of data, and the MIME type to report.
pub(super) fn of_data(bytes: &[u8], declared: Option<&str>) -> (FileType, String) {
    if let Some(kind) = sniff(bytes) {
        return (kind, kind.mime.to_owned());
    }
    match (declared.and_then(named), declared.and_then(well_formed)) {
        (Some(kind), Some(declared)) => (kind, declared),
        (Some(kind), None) => (kind, kind.mime.to_owned()),
        (None, Some(declared)) => (UNKNOWN, declared),
        (None, None) => (UNKNOWN, UNKNOWN.mime.to_owned()),
    }
}

/// Returns a server's MIME type if it is well-formed: `type/subtype`, of a sensible length.
fn well_formed(mime: &str) -> Option<String> {
    const LONGEST: usize = 100;
    let mime = mime.split(';').next().unwrap_or_default().trim();
    let (first, second) = mime.split_once('/')?;
    let token = |part: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "!#$&^_.+-".contains(c);
        !part.is_empty() && part.chars().all(allowed)
    };
    let fine = mime.len() <= LONGEST && token(first) && token(second);
    fine.then(|| mime.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_bytes_say_counts_more_than_what_the_server_says() {
        type Case = (
            &'static [u8],
            Option<&'static str>,
            (&'static str, &'static str),
        );
        let cases: [Case; 12] = [
            (
                b"\x89PNG\r\n\x1a\n....",
                Some("image/jpeg"),
                ("image/png", "png"),
            ),
            (b"\xff\xd8\xff\xe0", None, ("image/jpeg", "jpg")),
            (
                b"RIFF....WAVEfmt ",
                Some("audio/x-wav"),
                ("audio/wav", "wav"),
            ),
            (b"RIFF....WEBPVP8 ", None, ("image/webp", "webp")),
            (b"%PDF-1.7", Some("text/plain"), ("application/pdf", "pdf")),
            (
                b"a,b\n1,2\n",
                Some("text/csv; charset=utf-8"),
                ("text/csv", "csv"),
            ),
            (
                b"PK\x03\x04",
                Some("application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
                (
                    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
                    "docx",
                ),
            ),
            (
                b"{}",
                Some("application/geo+json"),
                ("application/geo+json", "json"),
            ),
            (
                b"??",
                Some("application/x-new"),
                ("application/x-new", "bin"),
            ),
            (
                b"??",
                Some("../../etc/passwd"),
                ("application/octet-stream", "bin"),
            ),
            (
                b"??",
                Some("evil/<script>"),
                ("application/octet-stream", "bin"),
            ),
            (b"", None, ("application/octet-stream", "bin")),
        ];
        for (bytes, declared, (mime, extension)) in cases {
            let (kind, told) = of_data(bytes, declared);
            assert_eq!((&*told, kind.extension), (mime, extension), "{declared:?}");
        }
    }

    #[test]
    fn no_more_bytes_are_needed_than_it_asks_for() {
        for (at, magic, _) in MAGIC {
            assert!(at + magic.len() <= ENOUGH);
        }
    }
}
