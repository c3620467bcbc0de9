//! Positions in a text.

use std::cell::Cell;

/// The start of each line of a text.
pub(crate) struct Lines {
    starts: Vec<usize>,
    /// The offset and column of the last position. Positions are mostly requested in order, and a
    /// large file may be a single line.
    last: Cell<(usize, usize)>,
}

impl Lines {
    pub(crate) fn of(text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = breaks.map(|(at, _)| at + 1);
        Self {
            starts: std::iter::once(0).chain(starts).collect(),
            last: Cell::new((0, 1)),
        }
    }

    /// The line and column, both from 1, of the byte of `text` at `offset`.
    pub(crate) fn position(&self, text: &str, offset: usize) -> (usize, usize) {
        let offset = offset.min(text.len());
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts.get(line - 1).copied().unwrap_or(0);
        let (mut from, mut column) = self.last.get();
        if from < start || from > offset {
            (from, column) = (start, 1);
        }
        let between = &text.as_bytes()[from..offset];
        column += String::from_utf8_lossy(between).chars().count();
        if text.is_char_boundary(offset) {
            self.last.set((offset, column));
        }
        (line, column)
    }
}

/// The line and column, both from 1, of the byte at `offset`.
pub(crate) fn position(text: &str, offset: usize) -> (usize, usize) {
    Lines::of(text).position(text, offset)
}

/// The offset of `part` within `text`.
pub(crate) fn offset(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

/// The offset that a JSON error reports.
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
        let lines = Lines::of(text);
        let ask = |offsets: &[usize]| -> Vec<_> {
            let places = offsets.iter();
            places.map(|at| lines.position(text, *at)).collect()
        };
        let (all, orders) = ([0, 1, 2, 3, 5, 6, 7], [[6, 0, 5], [0, 5, 6], [3, 3, 2]]);
        ask(&all);
        for order in orders {
            let alone: Vec<_> = order.iter().map(|at| position(text, *at)).collect();
            assert_eq!(ask(&order), alone);
        }
    }
}
