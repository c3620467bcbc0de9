//! The position in a list, and the part of the list that is on the screen.

use std::cell::Cell;
use std::ops::Range;

/// The selected row of a list, and its first visible one.
#[derive(Clone, Debug, Default)]
pub(in crate::ui) struct Cursor {
    pub(in crate::ui) at: usize,
    top: Cell<usize>,
    page: Cell<usize>,
}

impl Cursor {
    /// Moves by some rows within a list of this length.
    pub(in crate::ui) fn step(&mut self, by: isize, len: usize) {
        self.at = self.at.saturating_add_signed(by).min(len.saturating_sub(1));
    }

    /// The rows of a page.
    pub(in crate::ui) fn page(&self) -> isize {
        isize::try_from(self.page.get().saturating_sub(1).max(1)).unwrap_or(1)
    }

    /// Returns the rows to draw, so that the selected one is among them. Only these are formatted:
    /// a list may have thousands.
    pub(in crate::ui) fn window(&self, len: usize, height: usize) -> Range<usize> {
        self.window_at(self.at, len, height)
    }

    /// As [`Cursor::window`], where the selected row is drawn at another position.
    pub(in crate::ui) fn window_at(&self, at: usize, len: usize, height: usize) -> Range<usize> {
        self.page.set(height);
        let at = at.min(len.saturating_sub(1));
        let lowest = (at + 1).saturating_sub(height);
        let top = self.top.get().clamp(lowest, at.max(lowest));
        let top = top.min(len.saturating_sub(height));
        self.top.set(top);
        top..(top + height).min(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_row_is_always_visible() {
        let mut cursor = Cursor::default();
        for (step, len, height, expected) in [
            (0, 3, 10, 0..3),
            (0, 100, 10, 0..10),
            (9, 100, 10, 0..10),
            (1, 100, 10, 1..11),
            (500, 100, 10, 90..100),
            (-5, 100, 10, 90..100),
            (-10, 100, 10, 84..94),
            (0, 5, 10, 0..5),
            (0, 0, 10, 0..0),
        ] {
            cursor.step(step, len);
            assert_eq!(cursor.window(len, height), expected, "{step} {len}");
        }
    }
}
