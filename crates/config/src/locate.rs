//! Where in a text something stands.

/// Where each line of a text begins.
pub(crate) struct Lines(Vec<usize>);

impl Lines {
    pub(crate) fn of(text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = breaks.map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(starts).collect())
    }

    /// The line and column, both from 1, of the byte of `text` at `offset`.
    pub(crate) fn position(&self, text: &str, offset: usize) -> (usize, usize) {
        let offset = offset.min(text.len());
        let line = self.0.partition_point(|start| *start <= offset);
        let start = self.0.get(line - 1).copied().unwrap_or(0);
        let before = &text.as_bytes()[start..offset];
        (line, String::from_utf8_lossy(before).chars().count() + 1)
    }
}

/// The line and column, both from 1, of the byte at `offset`.
pub(crate) fn position(text: &str, offset: usize) -> (usize, usize) {
    Lines::of(text).position(text, offset)
}

/// How far into `text` its part `part` begins.
pub(crate) fn offset(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

/// The offset of the place that a JSON error names.
pub(crate) fn error_offset(text: &str, error: &serde_json::Error) -> usize {
    let line_start: usize = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum();
    line_start + error.column().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters() {
        let text = "ab\né x\n";
        assert_eq!(position(text, 0), (1, 1));
        assert_eq!(position(text, 2), (1, 3));
        assert_eq!(position(text, text.find('x').unwrap()), (2, 3));
        assert_eq!(position(text, 999), (3, 1));
    }
}
