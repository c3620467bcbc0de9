//! Tables with two spaces between columns and no borders, which adapt to the terminal's width.

use super::line::Line;
use super::lines::Lines;

/// The space between columns.
const GUTTER: usize = 2;

/// The maximum widths of a column that is never cut: the first that leaves enough room counts. A
/// wider cell shifts only its own row.
const MAX_KEPT: [usize; 3] = [40, 24, 16];

/// Below this width, a row takes two lines.
const MIN_WIDTH: usize = 60;

/// The fewest cells of a column that may be cut.
const MIN_FLEXIBLE: usize = 14;

/// The indentation of what is below a row.
const INDENT: usize = 4;

/// What a column may do when there is too little room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// It is never cut: names, states, commands.
    Keep,
    /// It shares the room that the others leave, and is cut.
    Flexible,
}

/// Rows of cells. A pipe gets everything, uncut.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<TableRow>,
}

/// One row.
pub(crate) struct TableRow {
    cells: Vec<Line>,
    short: Option<Short>,
    below: Lines,
}

/// A replacement for a cell that would be cut, with the whole text below the row.
struct Short {
    column: usize,
    cell: Line,
    below: Lines,
}

impl Table {
    pub(crate) fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self {
            columns: columns.into(),
            rows: Vec::new(),
        }
    }

    /// Adds a row, with a cell for each column.
    pub(crate) fn row(&mut self, cells: impl Into<Vec<Line>>) -> &mut TableRow {
        let mut cells = cells.into();
        cells.resize(self.columns.len(), Line::new());
        self.rows.push(TableRow {
            cells,
            short: None,
            below: Lines::new(),
        });
        let last = self.rows.len() - 1;
        &mut self.rows[last]
    }

    /// Lays the table out for a terminal's width, or for a pipe.
    pub(crate) fn lines(&self, width: Option<usize>) -> Lines {
        let layout = match width {
            None => Layout::Columns(self.natural_widths(MAX_KEPT[0])),
            Some(width) => self.fit(width),
        };
        let mut lines = Lines::new();
        for row in &self.rows {
            match &layout {
                Layout::Columns(widths) => self.put(row, widths, width, &mut lines),
                Layout::TailBelow(widths) => {
                    self.put(row, widths, width, &mut lines);
                    if let Some(tail) = row.cells.last().filter(|tail| !tail.is_empty()) {
                        let mut line = Line::plain(" ".repeat(INDENT));
                        line.append(tail);
                        lines.push_line(line);
                    }
                }
                Layout::Stacked => Self::stack(row, &mut lines),
            }
            lines.append(&row.below);
        }
        lines
    }

    /// Returns the widths of the columns, those that are never cut up to a limit.
    fn natural_widths(&self, most: usize) -> Vec<usize> {
        let natural = |column: usize| {
            let widths = self.rows.iter().map(|row| row.cells[column].width());
            let widest = match self.columns[column] {
                Column::Keep => widths.map(|width| width.min(most)).max(),
                Column::Flexible => widths.max(),
            };
            widest.unwrap_or(0)
        };
        (0..self.columns.len()).map(natural).collect()
    }

    /// Distributes the width among the columns.
    fn fit(&self, width: usize) -> Layout {
        let natural = self.natural_widths(MAX_KEPT[0]);
        if natural.iter().sum::<usize>() + gutters(&natural) <= width {
            return Layout::Columns(natural);
        }
        if width < MIN_WIDTH {
            return Layout::Stacked;
        }
        let mut last = self.natural_widths(MAX_KEPT[0]);
        for most in MAX_KEPT {
            // The last column is not aligned with anything.
            let mut natural = self.natural_widths(most);
            if let (Some(end), Some(whole)) = (natural.last_mut(), last.last()) {
                *end = *whole;
            }
            if let Some(widths) = self.share(&natural, width) {
                return Layout::Columns(widths);
            }
            last = natural;
        }
        if let Some(end) = last.last_mut() {
            *end = 0;
        }
        match self.share(&last, width) {
            Some(widths) => Layout::TailBelow(widths),
            None => Layout::Stacked,
        }
    }

    /// Lets the columns that may be cut share the remaining room; `None` if there is too little.
    fn share(&self, natural: &[usize], width: usize) -> Option<Vec<usize>> {
        let is_flexible = |column: &usize| self.columns[*column] == Column::Flexible;
        let kept: usize = (0..natural.len())
            .filter(|column| !is_flexible(column))
            .map(|column| natural[column])
            .sum();
        let mut flexible: Vec<usize> = (0..natural.len()).filter(is_flexible).collect();
        let mut room = width.checked_sub(kept + gutters(natural))?;
        let needed = |column: &usize| natural[*column].min(MIN_FLEXIBLE);
        if flexible.iter().map(needed).sum::<usize>() > room {
            return None;
        }
        // The narrow ones keep their width, and the others share what is left.
        let mut widths = natural.to_vec();
        flexible.sort_by_key(|column| natural[*column]);
        for (at, column) in flexible.iter().enumerate() {
            let share = room / (flexible.len() - at);
            widths[*column] = natural[*column].min(share);
            room -= widths[*column];
        }
        Some(widths)
    }

    /// Adds a row of one line.
    fn put(&self, row: &TableRow, widths: &[usize], total: Option<usize>, lines: &mut Lines) {
        let mut line = Line::new();
        let mut at = 0;
        let mut below = None;
        let last = row.cells.iter().rposition(|cell| !cell.is_empty());
        for (column, cell) in row.cells.iter().enumerate() {
            if widths[column] == 0 {
                continue;
            }
            if at > 0 {
                at += GUTTER;
                line.pad(at.max(line.width() + GUTTER));
            }
            let is_cut = self.columns[column] == Column::Flexible && total.is_some();
            // A cell before this one may have been too wide. What is left may be too little.
            let needed = cell.width().min(MIN_FLEXIBLE).min(widths[column]);
            let overflow = line.width().saturating_sub(at);
            if is_cut && overflow + needed > widths[column] {
                lines.push_line(std::mem::take(&mut line));
                line.pad(at);
            }
            let overflow = line.width().saturating_sub(at);
            let room = match total {
                // The last cell may use what is left.
                Some(total) if Some(column) == last => total.saturating_sub(line.width()),
                _ => widths[column].saturating_sub(overflow),
            };
            match &row.short {
                Some(short) if short.column == column && is_cut && cell.width() > room => {
                    line.append(&short.cell.cut(room));
                    below = Some(&short.below);
                }
                _ if is_cut => line.append(&cell.cut(room)),
                _ => line.append(cell),
            }
            at += widths[column];
        }
        lines.push_line(line);
        if let Some(below) = below {
            lines.append(below);
        }
    }

    /// Adds a row of two lines: the first two cells, and the others below.
    fn stack(row: &TableRow, lines: &mut Lines) {
        let (first, rest) = row.cells.split_at(row.cells.len().min(2));
        for (start, cells) in [(0, first), (INDENT, rest)] {
            let mut line = Line::plain(" ".repeat(start));
            for cell in cells.iter().filter(|cell| !cell.is_empty()) {
                if line.width() > start {
                    line.pad(line.width() + GUTTER);
                }
                line.append(cell);
            }
            if line.width() > start {
                lines.push_line(line);
            }
        }
    }
}

impl TableRow {
    /// Sets what a cell says if it would be cut, and lines that then follow below.
    pub(crate) fn or_short(&mut self, column: usize, cell: Line, below: Lines) -> &mut Self {
        self.short = Some(Short {
            column,
            cell,
            below,
        });
        self
    }

    /// Adds lines below the row.
    pub(crate) fn below(&mut self, lines: impl Into<Lines>) -> &mut Self {
        self.below.append(lines);
        self
    }
}

/// Returns the space between these columns.
fn gutters(widths: &[usize]) -> usize {
    let used = widths.iter().filter(|width| **width > 0).count();
    GUTTER * used.saturating_sub(1)
}

enum Layout {
    /// A width for each column.
    Columns(Vec<usize>),
    /// The same, with the last cell below the others.
    TailBelow(Vec<usize>),
    /// Two lines a row.
    Stacked,
}

#[cfg(test)]
mod tests {
    use super::super::style::ellipsis;
    use super::*;

    fn table() -> Table {
        let mut table = Table::new([Column::Keep, Column::Flexible, Column::Keep]);
        table.row([
            Line::plain("github"),
            Line::plain("opens issues, reads pull requests and searches the code of repositories"),
            Line::plain("trunkline login github"),
        ]);
        table.row([Line::plain("a"), Line::plain("b")]);
        table
    }

    #[test]
    fn columns_adapt_to_the_width() {
        let whole = "\
github  opens issues, reads pull requests and searches the code of repositories  trunkline login github
a       b
";
        let cut = format!(
            "\
github  opens issues, reads pull requests and searches{}  trunkline login github
a       b
",
            ellipsis()
        );
        let stacked = "\
github  opens issues, reads pull requests and searches the code of repositories
    trunkline login github
a  b
";
        for (width, expected) in [
            (None, whole),
            (Some(200), whole),
            (Some(82), &*cut),
            (Some(50), stacked),
        ] {
            let shown = table().lines(width).to_plain();
            let unpadded: Vec<_> = shown
                .lines()
                .map(|line| {
                    let words = line.split("  ").filter(|word| !word.is_empty());
                    words.map(str::trim).collect::<Vec<_>>().join("  ")
                })
                .collect();
            let wanted: Vec<_> = expected
                .lines()
                .map(|line| {
                    let words = line.split("  ").filter(|word| !word.is_empty());
                    words.map(str::trim).collect::<Vec<_>>().join("  ")
                })
                .collect();
            assert_eq!(unpadded, wanted, "{width:?}: {shown}");
            let fits = |line: &str| Line::plain(line).width() <= width.unwrap_or(usize::MAX);
            assert!(width == Some(50) || shown.lines().all(fits), "{shown}");
        }
    }

    #[test]
    fn hostile_cells_stay_in_their_columns() {
        for name in [
            "a\u{1b}[31mb",
            "two\nlines",
            "宽字符",
            "e\u{301}\u{301}\u{301}",
            "\u{202e}rtl",
            "zero\u{200b}width",
        ] {
            let mut table = Table::new([Column::Keep, Column::Flexible, Column::Keep]);
            table.row([
                Line::plain(name),
                Line::plain(name.repeat(30)),
                Line::plain("x"),
            ]);
            table.row([Line::plain("plain"), Line::plain("b"), Line::plain("x")]);
            let lines = table.lines(Some(80));
            let mut columns = Vec::new();
            for line in lines.to_plain().lines() {
                let before = line.strip_suffix('x').unwrap();
                columns.push(Line::plain(before).width());
                assert!(!line.contains(['\u{1b}', '\u{202e}', '\u{200b}']), "{line}");
            }
            assert_eq!(columns.len(), 2, "{name:?}");
            assert_eq!(columns[0], columns[1], "{name:?}");
        }
    }

    #[test]
    fn a_name_that_is_too_wide_has_a_line_of_its_own() {
        let mut table = Table::new([Column::Keep, Column::Flexible, Column::Keep]);
        for name in ["short", "a-name-that-is-far-too-wide-for-a-column-of-names"] {
            let cure = Line::plain("trunkline doctor something");
            table.row([Line::plain(name), Line::plain("x ".repeat(30)), cure]);
        }
        let shown = table.lines(Some(70)).to_plain();
        let rows: Vec<_> = shown.lines().collect();
        assert_eq!(rows.len(), 3, "{shown}");
        assert_eq!(rows[1], "a-name-that-is-far-too-wide-for-a-column-of-names");
        assert_eq!(rows[0].find('x'), rows[2].find('x'), "{shown}");
    }

    #[test]
    fn a_cell_without_room_is_replaced_and_explained_below() {
        let mut table = Table::new([Column::Keep, Column::Flexible, Column::Keep]);
        table
            .row([
                Line::plain("s"),
                Line::plain("x ".repeat(60)),
                Line::plain("cure"),
            ])
            .or_short(1, Line::plain("failed"), Lines::from("  all of it"));
        assert!(table.lines(None).to_plain().starts_with("s  x x x"));
        let shown = table.lines(Some(80)).to_plain();
        assert!(shown.starts_with("s  failed "), "{shown}");
        assert!(shown.ends_with("cure\n  all of it\n"), "{shown}");
    }
}
