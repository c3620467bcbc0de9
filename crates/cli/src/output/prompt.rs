//! Prompts on the terminal: a line of text, a choice, several choices.
//!
//! A prompt blocks its thread and can be stopped from another one, because a server may withdraw
//! its question; `inquire` cannot be stopped. Each row begins with a mark of ours, and foreign text
//! never wraps, so that it cannot start a row (SEC-3).

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::event::{
    self, DisableBracketedPaste, EnableBracketedPaste, Event, KeyCode, KeyEvent, KeyEventKind,
    KeyModifiers,
};
use crossterm::{cursor, queue, terminal};
use trunkline::text::is_harmful;
use tui_input::backend::crossterm::EventHandler;
use tui_input::{Input, InputRequest};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::inline;
use super::live::{Hold, hold_status_lines};
use super::style::Stream;

/// How often a prompt checks whether it was stopped.
const POLL: Duration = Duration::from_millis(50);

/// The most options that are visible at once.
const MAX_VISIBLE: usize = 10;

/// The least width of an input, in cells.
const MIN_INPUT: usize = 16;

/// Why a prompt ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// The user pressed Ctrl-C.
    Interrupted,
    /// Another thread stopped it.
    Withdrawn,
    /// The terminal cannot be used.
    Lost,
}

/// The answer to a prompt; `None` for Esc.
pub(crate) type Prompted<T> = Result<Option<T>, Stopped>;

/// Tells a dialog that it was stopped.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopSignal(Arc<AtomicBool>);

/// Stops a dialog when nobody waits for its answer any more.
#[derive(Debug, Default)]
pub(crate) struct StopOnDrop(StopSignal);

impl StopOnDrop {
    pub(crate) fn signal(&self) -> StopSignal {
        self.0.clone()
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// The terminal during a dialog. Restored on drop.
pub(crate) struct Dialog {
    stop: StopSignal,
    /// The rows of the open prompt above the cursor.
    above: usize,
    /// Progress is not shown meanwhile.
    _hold: Hold,
}

/// A line of text to ask for.
pub(crate) struct TextPrompt<'p> {
    /// The name of the value; shortened if need be.
    pub(crate) label: &'p str,
    /// What to type.
    pub(crate) hint: &'p str,
    /// The text to start with.
    pub(crate) initial: &'p str,
    /// Whether the text is hidden.
    pub(crate) is_secret: bool,
    /// Returns the problem of a text.
    pub(crate) check: &'p dyn Fn(&str) -> Option<String>,
}

impl Dialog {
    /// Takes the terminal over. Keys that were typed before count for nothing: they were meant for
    /// something else.
    pub(crate) fn open(stop: StopSignal) -> Result<Self, Stopped> {
        let dialog = Self {
            stop,
            above: 0,
            _hold: hold_status_lines(),
        };
        let mut terminal = io::stderr();
        let opened = terminal::enable_raw_mode()
            .and_then(|()| queue!(terminal, EnableBracketedPaste))
            .and_then(|()| terminal.flush());
        opened.map_err(|_| Stopped::Lost)?;
        while event::poll(Duration::ZERO).unwrap_or(false) {
            event::read().map_err(|_| Stopped::Lost)?;
        }
        Ok(dialog)
    }

    /// Asks for a line of text.
    pub(crate) fn text(&mut self, prompt: &TextPrompt) -> Prompted<String> {
        let mut input = Input::new(prompt.initial.to_owned());
        let mut problem: Option<String> = None;
        loop {
            let help = match &problem {
                Some(problem) => format!("  ! {}", inline(problem)),
                None => format!("  {}", inline(prompt.hint)),
            };
            self.draw_input(prompt, &input, &help);
            match self.event()? {
                Event::Paste(text) => {
                    for c in text.chars() {
                        let c = if c.is_control() { ' ' } else { c };
                        input.handle(InputRequest::InsertChar(c));
                    }
                }
                Event::Key(key) => match key.code {
                    KeyCode::Esc => return self.clear().map(|()| None),
                    KeyCode::Enter => {
                        problem = (prompt.check)(input.value());
                        if problem.is_some() {
                            continue;
                        }
                        let shown = match (prompt.is_secret, input.value()) {
                            (true, _) => "***",
                            (false, text) => text,
                        };
                        self.settle(prompt.label, shown)?;
                        return Ok(Some(input.value().to_owned()));
                    }
                    _ => drop(input.handle_event(&Event::Key(key))),
                },
                _ => {}
            }
            problem = None;
        }
    }

    /// Asks for one of these options.
    pub(crate) fn select(
        &mut self,
        label: &str,
        options: &[String],
        start: usize,
    ) -> Prompted<usize> {
        let mut at = start.min(options.len().saturating_sub(1));
        let help = "  ↑↓ to move, enter to choose, esc to go back";
        loop {
            self.draw_options(label, options, at, |_| None, help);
            let Event::Key(key) = self.event()? else {
                continue;
            };
            match key.code {
                KeyCode::Esc => return self.clear().map(|()| None),
                KeyCode::Enter if options.is_empty() => return self.clear().map(|()| None),
                KeyCode::Enter => {
                    self.settle(label, &options[at])?;
                    return Ok(Some(at));
                }
                _ => at = moved(key, at, options),
            }
        }
    }

    /// Asks for any of these options; `chosen` has those to start with.
    pub(crate) fn select_several(
        &mut self,
        label: &str,
        options: &[String],
        mut chosen: Vec<bool>,
        check: &dyn Fn(&[bool]) -> Option<String>,
    ) -> Prompted<Vec<bool>> {
        chosen.resize(options.len(), false);
        let mut problem: Option<String> = None;
        let mut at = 0;
        loop {
            let help = match &problem {
                Some(problem) => format!("  ! {}", inline(problem)),
                None => "  space to mark, enter to finish, esc to go back".to_owned(),
            };
            self.draw_options(label, options, at, |row| chosen.get(row).copied(), &help);
            let Event::Key(key) = self.event()? else {
                continue;
            };
            problem = None;
            match key.code {
                KeyCode::Esc => return self.clear().map(|()| None),
                KeyCode::Char(' ') => {
                    if let Some(mark) = chosen.get_mut(at) {
                        *mark = !*mark;
                    }
                }
                KeyCode::Enter => {
                    problem = check(&chosen);
                    if problem.is_none() {
                        let marked = options.iter().zip(&chosen);
                        let marked = marked.filter(|(_, chosen)| **chosen);
                        let marked: Vec<&str> = marked.map(|(option, _)| &**option).collect();
                        self.settle(label, &marked.join(", "))?;
                        return Ok(Some(chosen));
                    }
                }
                _ => at = moved(key, at, options),
            }
        }
    }

    /// Waits for a key, unless the dialog is stopped.
    fn event(&mut self) -> Result<Event, Stopped> {
        loop {
            if self.stop.0.load(Ordering::Relaxed) {
                self.clear()?;
                return Err(Stopped::Withdrawn);
            }
            if !event::poll(POLL).map_err(|_| Stopped::Lost)? {
                continue;
            }
            match event::read().map_err(|_| Stopped::Lost)? {
                Event::Key(key) if key.kind == KeyEventKind::Release => {}
                Event::Key(key) if is_interrupt(key) => {
                    self.clear()?;
                    return Err(Stopped::Interrupted);
                }
                event => return Ok(event),
            }
        }
    }

    fn draw_input(&mut self, prompt: &TextPrompt, input: &Input, help: &str) {
        let width = columns();
        let label = label_within(prompt.label, width.saturating_sub(MIN_INPUT));
        let room = width.saturating_sub(label.width() + 1).max(1);
        let (text, column) = if prompt.is_secret {
            (
                "*".repeat(input.value().chars().count().min(room)),
                input.cursor().min(room),
            )
        } else {
            visible_input(input, room)
        };
        let rows = [format!("{label}{text}"), help.to_owned()];
        self.draw(&rows, 0, label.width() + column);
    }

    fn draw_options(
        &mut self,
        label: &str,
        options: &[String],
        at: usize,
        mark: impl Fn(usize) -> Option<bool>,
        help: &str,
    ) {
        let visible = MAX_VISIBLE.min(lines_of_screen().saturating_sub(4)).max(1);
        let first = at.saturating_sub(visible / 2);
        let first = first.min(options.len().saturating_sub(visible));
        let mut rows = vec![label_within(label, columns())];
        for (row, option) in options.iter().enumerate().skip(first).take(visible) {
            let pointer = if row == at { ">" } else { " " };
            let mark = match mark(row) {
                None => "",
                Some(true) => "[x] ",
                Some(false) => "[ ] ",
            };
            rows.push(format!("  {pointer} {mark}{}", inline(option)));
        }
        let help = if options.len() > visible {
            format!("{help} ({} of {})", at + 1, options.len())
        } else {
            help.to_owned()
        };
        rows.push(help);
        let last = rows.len() - 1;
        self.draw(&rows, last, 0);
    }

    /// Replaces the rows of the prompt, and puts the cursor into one of them. A failure to write
    /// shows when the next key is read.
    fn draw(&mut self, rows: &[String], cursor_row: usize, column: usize) {
        let mut text = String::from("\r");
        if self.above > 0 {
            let _ = write!(text, "\x1b[{}A", self.above);
        }
        text += "\x1b[J";
        let rows: Vec<String> = rows.iter().map(|row| fitting(row, columns())).collect();
        text += &rows.join("\r\n");
        let up = rows.len().saturating_sub(cursor_row + 1);
        if up > 0 {
            let _ = write!(text, "\x1b[{up}A");
        }
        text += "\r";
        if column > 0 {
            let _ = write!(text, "\x1b[{column}C");
        }
        self.above = cursor_row;
        let mut terminal = io::stderr().lock();
        let _ = terminal.write_all(text.as_bytes());
        let _ = terminal.flush();
    }

    /// Removes the rows of the prompt.
    fn clear(&mut self) -> Result<(), Stopped> {
        self.write_in_place("")
    }

    /// Replaces the prompt with its answer.
    fn settle(&mut self, label: &str, answer: &str) -> Result<(), Stopped> {
        let label = label_within(label, columns().saturating_sub(MIN_INPUT));
        let row = fitting(&format!("{label}{}", inline(answer)), columns());
        self.write_in_place(&format!("{row}\r\n"))
    }

    fn write_in_place(&mut self, text: &str) -> Result<(), Stopped> {
        let up = match std::mem::take(&mut self.above) {
            0 => String::new(),
            above => format!("\x1b[{above}A"),
        };
        let mut terminal = io::stderr().lock();
        write!(terminal, "\r{up}\x1b[J{text}")
            .and_then(|()| terminal.flush())
            .map_err(|_| Stopped::Lost)
    }

    /// Writes lines of ours between two prompts.
    pub(crate) fn say(&mut self, lines: &super::Lines) -> Result<(), Stopped> {
        let text = lines.render(Some(columns()), Stream::Err.is_coloured());
        let text = text.replace('\n', "\r\n");
        self.write_in_place(&text)
    }
}

impl Drop for Dialog {
    fn drop(&mut self) {
        let mut terminal = io::stderr();
        let _ = queue!(terminal, DisableBracketedPaste, cursor::Show);
        let _ = terminal.flush();
        let _ = terminal::disable_raw_mode();
    }
}

/// Returns the part of an input that is in sight, and the column of the cursor in it.
///
/// The text may begin as a server's default. One `?` stands for each harmful character, so that the
/// cursor stays in place.
fn visible_input(input: &Input, room: usize) -> (String, usize) {
    let harmless = |c: char| match c {
        c if c.is_control() || is_harmful(c) => '?',
        c => c,
    };
    let shown: String = input.value().chars().map(harmless).collect();
    let shown = Input::new(shown).with_cursor(input.cursor());
    let scroll = shown.visual_scroll(room);
    let mut skipped = 0;
    let visible = shown.value().chars().skip_while(|c| {
        let skip = skipped < scroll;
        skipped += c.width().unwrap_or(0);
        skip
    });
    let visible: String = visible.collect();
    let column = shown.visual_cursor().saturating_sub(scroll);
    (fitting(&visible, room), column)
}

/// Returns the row's beginning: our mark, the label, a colon.
fn label_within(label: &str, width: usize) -> String {
    let label = inline(label);
    let room = width.saturating_sub(4);
    if label.width() <= room {
        return format!("? {label}: ");
    }
    format!("? {}…: ", fitting(&label, room.saturating_sub(1)))
}

/// Returns the width of the terminal without the last column, where some terminals wrap.
fn columns() -> usize {
    let size = terminal_size::terminal_size_of(io::stderr());
    let columns = size.map_or(80, |(width, _)| usize::from(width.0));
    columns.saturating_sub(1).max(MIN_INPUT + 8)
}

/// Truncates a text to a width, because a wrapped row cannot be erased.
fn fitting(text: &str, width: usize) -> String {
    let mut cells = 0;
    let fits = |c: &char| {
        cells += c.width().unwrap_or(0);
        cells <= width
    };
    text.chars().take_while(fits).collect()
}

fn lines_of_screen() -> usize {
    let size = terminal_size::terminal_size_of(io::stderr());
    size.map_or(24, |(_, height)| usize::from(height.0))
}

fn is_interrupt(key: KeyEvent) -> bool {
    let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
    has_control && matches!(key.code, KeyCode::Char('c' | 'C'))
}

/// Returns the option that a key leads to: the next, the previous, or the next that begins with the
/// letter.
fn moved(key: KeyEvent, at: usize, options: &[String]) -> usize {
    let last = options.len().saturating_sub(1);
    match key.code {
        KeyCode::Up | KeyCode::BackTab => at.checked_sub(1).unwrap_or(last),
        KeyCode::Down | KeyCode::Tab => {
            if at >= last {
                0
            } else {
                at + 1
            }
        }
        KeyCode::PageUp => at.saturating_sub(MAX_VISIBLE),
        KeyCode::PageDown => (at + MAX_VISIBLE).min(last),
        KeyCode::Home => 0,
        KeyCode::End => last,
        KeyCode::Char(letter) => {
            let begins = |row: &usize| {
                let mut chars = options[*row].chars().flat_map(char::to_lowercase);
                chars.next() == letter.to_lowercase().next()
            };
            let mut later = (at + 1..options.len()).chain(0..at);
            later.find(begins).unwrap_or(at)
        }
        _ => at,
    }
}

/// Returns whether dialogs are possible. They leave stdout alone, so that it may go elsewhere.
pub(crate) fn is_possible() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    super::can_ask() && !is_dumb
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    #[test]
    fn keys_move_between_options() {
        let options: Vec<String> = ["alpha", "beta", "Bravo"].map(str::to_owned).into();
        for (code, at, expected) in [
            (KeyCode::Down, 0, 1),
            (KeyCode::Down, 2, 0),
            (KeyCode::Up, 0, 2),
            (KeyCode::End, 0, 2),
            (KeyCode::Home, 2, 0),
            (KeyCode::PageDown, 0, 2),
            (KeyCode::Char('b'), 0, 1),
            (KeyCode::Char('b'), 1, 2),
            (KeyCode::Char('b'), 2, 1),
            (KeyCode::Char('z'), 1, 1),
        ] {
            assert_eq!(moved(key(code), at, &options), expected, "{code:?} {at}");
        }
        assert_eq!(moved(key(KeyCode::Down), 0, &[]), 0);
    }

    #[test]
    fn a_label_fits_and_begins_with_our_mark() {
        assert_eq!(label_within("name", 40), "? name: ");
        assert_eq!(label_within("a\n\x1b[2Jb", 40), "? a\\n\\u{1b}[2Jb: ");
        let long = label_within(&"x".repeat(100), 20);
        assert!(long.width() <= 20 && long.ends_with("…: "), "{long}");
    }

    #[test]
    fn an_input_never_draws_controls() {
        for (value, cursor, expected) in [
            ("plain", 5, ("plain", 5)),
            ("a\x1b[2J\u{9b}b", 3, ("a?[2J?b", 3)),
            ("a\nb\tc\u{202e}", 6, ("a?b?c?", 6)),
        ] {
            let input = Input::new(value.to_owned()).with_cursor(cursor);
            let (text, column) = visible_input(&input, 20);
            assert_eq!((&*text, column), expected, "{value:?}");
        }
        let long = Input::new("\x1b".repeat(100));
        let (text, column) = visible_input(&long, 10);
        assert!(
            text.chars().all(|c| c == '?') && text.len() <= 10,
            "{text:?}"
        );
        assert!(column <= 10, "{column}");
    }
}
