//! A line diff of two texts.

use std::ops::Range;

/// The size of the table of common lines. Texts that need more are shown as replaced.
const MAX_CELLS: usize = 4_000_000;

/// A line of a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'t> {
    Same(&'t str),
    Removed(&'t str),
    Added(&'t str),
}

/// Returns the lines that differ, with so many lines of context around them.
pub(super) fn diff<'t>(before: &'t str, after: &'t str, context: usize) -> Vec<Line<'t>> {
    let lines = all_lines(before, after);
    let mut shown: Vec<Range<usize>> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if !matches!(line, Line::Same(_)) {
            shown.push(at.saturating_sub(context)..(at + 1 + context).min(lines.len()));
        }
    }
    let mut from = 0;
    let mut kept = Vec::new();
    for range in shown {
        kept.extend_from_slice(&lines[range.start.max(from)..range.end]);
        from = range.end;
    }
    kept
}

/// Returns all lines: a longest common subsequence, with removed lines before added ones.
fn all_lines<'t>(before: &'t str, after: &'t str) -> Vec<Line<'t>> {
    let before: Vec<&str> = before.lines().collect();
    let after: Vec<&str> = after.lines().collect();
    let common = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| {
        pairs.take_while(|(one, other)| one == other).count()
    };
    let head = common(&mut before.iter().zip(&after));
    let (old, new) = (&before[head..], &after[head..]);
    let tail = common(&mut old.iter().rev().zip(new.iter().rev()));
    let (old, end) = old.split_at(old.len() - tail);
    let new = &new[..new.len() - tail];

    let mut lines: Vec<Line> = before[..head].iter().copied().map(Line::Same).collect();
    lines.extend(changed(old, new));
    lines.extend(end.iter().copied().map(Line::Same));
    lines
}

fn changed<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<Line<'t>> {
    let width = new.len() + 1;
    let cells = (old.len() + 1).saturating_mul(width);
    let mut lines = Vec::with_capacity(old.len() + new.len());
    let (mut i, mut j) = (0, 0);
    if cells <= MAX_CELLS {
        // The number of common lines of `old[i..]` and `new[j..]`.
        let mut common = vec![0_u32; cells];
        for i in (0..old.len()).rev() {
            for j in (0..new.len()).rev() {
                common[i * width + j] = if old[i] == new[j] {
                    common[(i + 1) * width + j + 1] + 1
                } else {
                    common[(i + 1) * width + j].max(common[i * width + j + 1])
                };
            }
        }
        while i < old.len() && j < new.len() {
            if old[i] == new[j] {
                lines.push(Line::Same(old[i]));
                i += 1;
                j += 1;
            } else if common[(i + 1) * width + j] >= common[i * width + j + 1] {
                lines.push(Line::Removed(old[i]));
                i += 1;
            } else {
                lines.push(Line::Added(new[j]));
                j += 1;
            }
        }
    }
    lines.extend(old[i..].iter().copied().map(Line::Removed));
    lines.extend(new[j..].iter().copied().map(Line::Added));
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(before: &str, after: &str, expected: &[&str]) {
        let shown: Vec<String> = diff(before, after, 1)
            .into_iter()
            .map(|line| match line {
                Line::Same(text) => format!(" {text}"),
                Line::Removed(text) => format!("-{text}"),
                Line::Added(text) => format!("+{text}"),
            })
            .collect();
        assert_eq!(shown, expected, "{before:?} {after:?}");
    }

    #[test]
    fn changes_are_shown_with_their_context() {
        check("", "", &[]);
        check("a\nb", "a\nb\n", &[]);
        check("", "a", &["+a"]);
        check("a", "", &["-a"]);
        check("a\nb\nc\nd", "a\nb\nx\nd", &[" b", "-c", "+x", " d"]);
        check(
            "a\nb\nc\nd\ne\nf",
            "A\nb\nc\nd\ne\nF",
            &["-a", "+A", " b", " e", "-f", "+F"],
        );
        check("a\nb\nc", "b\nc\na", &["-a", " b", " c", "+a"]);
    }

    #[test]
    fn long_texts_are_shown_as_replaced() {
        let text = |word: &str| {
            let lines: Vec<String> = (0..3000).map(|n| format!("{word}{n}")).collect();
            lines.join("\n")
        };
        let (before, after) = (text("a") + "\nsame\nx", text("b") + "\nsame\ny");
        let lines = diff(&before, &after, 0);
        assert_eq!(lines.len(), 6004);
        assert!(!lines.contains(&Line::Same("same")));
    }

    proptest! {
        #[test]
        fn both_texts_can_be_read_back(
            before in prop::collection::vec("[ab]", 0..12),
            after in prop::collection::vec("[ab]", 0..12),
        ) {
            let (old, new) = (before.join("\n"), after.join("\n"));
            let lines = all_lines(&old, &new);
            let read = |left_out: fn(&Line) -> bool| -> Vec<String> {
                let lines = lines.iter().filter(|line| !left_out(line));
                lines
                    .map(|line| match line {
                        Line::Same(text) | Line::Removed(text) | Line::Added(text) => text,
                    })
                    .map(ToString::to_string)
                    .collect()
            };
            prop_assert_eq!(read(|line| matches!(line, Line::Added(_))), before);
            prop_assert_eq!(read(|line| matches!(line, Line::Removed(_))), after);
        }
    }
}
