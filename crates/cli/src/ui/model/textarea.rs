//! Editing text of several lines: raw JSON arguments.

use std::cell::Cell;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A text of several lines with a cursor, counted in characters.
#[derive(Clone, Debug)]
pub(in crate::ui) struct TextArea {
    lines: Vec<String>,
    row: usize,
    column: usize,
    top: Cell<usize>,
}

impl TextArea {
    pub(in crate::ui) fn new(text: &str) -> Self {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if lines.is_empty() {
            lines.push(String::new());
        }
        Self {
            lines,
            row: 0,
            column: 0,
            top: Cell::new(0),
        }
    }

    /// Places the cursor at the end of a member's value, or where a member can be added.
    pub(in crate::ui) fn place_at_value(&mut self, member: &str) {
        let begins = format!("{}:", serde_json::Value::from(member));
        let found = self.lines.iter().position(|line| {
            let inner = line.strip_prefix("  ");
            inner.is_some_and(|line| line.starts_with(&begins))
        });
        let last = self.lines.len() - 1;
        match found {
            Some(row) => {
                let line = self.lines[row].trim_end_matches(',');
                // Inside of the quotes.
                let outside = usize::from(line.ends_with('"'));
                (self.row, self.column) = (row, line.chars().count() - outside);
            }
            None if last == 0 => self.column = self.length(0).min(1),
            None => (self.row, self.column) = (last - 1, self.length(last - 1)),
        }
    }

    pub(in crate::ui) fn text(&self) -> String {
        self.lines.join("\n")
    }

    pub(in crate::ui) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// The row and the column of the cursor.
    pub(in crate::ui) fn cursor(&self) -> (usize, usize) {
        (self.row, self.column)
    }

    /// Returns the first row to draw.
    pub(in crate::ui) fn top(&self, height: usize) -> usize {
        let lowest = (self.row + 1).saturating_sub(height);
        self.top.set(self.top.get().clamp(lowest, self.row));
        self.top.get()
    }

    pub(in crate::ui) fn insert(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let mut added = text
            .split('\n')
            .map(|line| line.chars().filter(|c| !c.is_control()).collect::<String>());
        let at = self.byte(self.column);
        let after = self.lines[self.row].split_off(at);
        self.lines[self.row] += &added.next().unwrap_or_default();
        let next = self.row + 1;
        let before = self.lines.len();
        self.lines.splice(next..next, added);
        self.row += self.lines.len() - before;
        self.column = self.length(self.row);
        self.lines[self.row] += &after;
    }

    /// Handles a key; returns whether it was for the text.
    pub(in crate::ui) fn key(&mut self, key: &KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char(c) if !control && !key.modifiers.contains(KeyModifiers::ALT) => {
                self.insert(c.encode_utf8(&mut [0; 4]));
            }
            KeyCode::Enter => self.split(),
            KeyCode::Backspace => self.delete_before(),
            KeyCode::Delete => {
                if self.column < self.length(self.row) {
                    let at = self.byte(self.column);
                    self.lines[self.row].remove(at);
                } else if self.row + 1 < self.lines.len() {
                    let next = self.lines.remove(self.row + 1);
                    self.lines[self.row].push_str(&next);
                }
            }
            KeyCode::Left if self.column > 0 => self.column -= 1,
            KeyCode::Left if self.row > 0 => {
                self.row -= 1;
                self.column = self.length(self.row);
            }
            KeyCode::Right if self.column < self.length(self.row) => self.column += 1,
            KeyCode::Right if self.row + 1 < self.lines.len() => {
                self.row += 1;
                self.column = 0;
            }
            KeyCode::Up => self.row = self.row.saturating_sub(1),
            KeyCode::Down => self.row = (self.row + 1).min(self.lines.len() - 1),
            KeyCode::Home => self.column = 0,
            KeyCode::End => self.column = self.length(self.row),
            KeyCode::Char('u') if control => {
                self.lines[self.row].clear();
                self.column = 0;
            }
            _ => return false,
        }
        self.column = self.column.min(self.length(self.row));
        true
    }

    fn split(&mut self) {
        let at = self.byte(self.column);
        let rest = self.lines[self.row].split_off(at);
        self.lines.insert(self.row + 1, rest);
        self.row += 1;
        self.column = 0;
    }

    fn delete_before(&mut self) {
        if self.column > 0 {
            self.column -= 1;
            let at = self.byte(self.column);
            self.lines[self.row].remove(at);
        } else if self.row > 0 {
            let rest = self.lines.remove(self.row);
            self.row -= 1;
            self.column = self.length(self.row);
            self.lines[self.row].push_str(&rest);
        }
    }

    fn length(&self, row: usize) -> usize {
        self.lines[row].chars().count()
    }

    fn byte(&self, column: usize) -> usize {
        let line = &self.lines[self.row];
        line.char_indices()
            .nth(column)
            .map_or(line.len(), |(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_edited_by_characters_and_lines() {
        let mut area = TextArea::new("{\n}");
        let press = |area: &mut TextArea, codes: &[KeyCode]| {
            for code in codes {
                assert!(area.key(&KeyEvent::from(*code)), "{code:?}");
            }
        };
        press(&mut area, &[KeyCode::End, KeyCode::Enter]);
        area.insert("\"é\": 1");
        assert_eq!(area.text(), "{\n\"é\": 1\n}");
        press(&mut area, &[KeyCode::Home, KeyCode::Right, KeyCode::Delete]);
        assert_eq!(area.text(), "{\n\"\": 1\n}");
        press(&mut area, &[KeyCode::Home, KeyCode::Backspace]);
        assert_eq!(area.text(), "{\"\": 1\n}");
        assert_eq!(area.cursor(), (0, 1));
        press(&mut area, &[KeyCode::End, KeyCode::Delete, KeyCode::Down]);
        assert_eq!(area.text(), "{\"\": 1}");
        assert!(!area.key(&KeyEvent::from(KeyCode::F(5))));
    }

    #[test]
    fn a_paste_is_inserted_at_the_cursor() {
        let mut area = TextArea::new("ab");
        area.key(&KeyEvent::from(KeyCode::Right));
        area.insert("1\r\n\u{1b}2\r3");
        assert_eq!(area.text(), "a1\n2\n3b");
        assert_eq!(area.cursor(), (2, 1));
        // Quadratic work would take minutes.
        area.insert(&"x".repeat(2_000_000));
        area.insert(&"y\n".repeat(200_000));
        assert_eq!(area.lines().len(), 200_003);
    }
}
