//! `trunkline daemon logs`.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::time::Duration;

use crate::exit::Exit;
use crate::interrupt::interrupted;
use crate::output::{self, Line, Lines};

use super::process::log_file;

/// How much of the end of the file is read.
const MAX_TAIL: u64 = 1 << 20;

/// How often the file is read again.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);

/// Returns the last lines of the log.
pub(super) fn last_lines(count: usize) -> Vec<String> {
    let Some((text, _)) = tail() else {
        return Vec::new();
    };
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(count);
    lines[from..]
        .iter()
        .map(|line| (*line).to_owned())
        .collect()
}

/// Returns the end of the log, and its length.
fn tail() -> Option<(String, u64)> {
    let mut file = File::open(log_file()?).ok()?;
    let length = file.metadata().ok()?.len();
    read_from(&mut file, length.saturating_sub(MAX_TAIL)).map(|text| (text, length))
}

fn read_from(file: &mut File, at: u64) -> Option<String> {
    file.seek(SeekFrom::Start(at)).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_TAIL).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

pub(super) async fn run(lines: usize, follow: bool) -> Exit {
    let Some((_, mut length)) = tail() else {
        output::error(
            "the daemon has no log yet",
            Some("start it with `trunkline daemon start`"),
        );
        return Exit::Usage;
    };
    show(&last_lines(lines));
    if !follow {
        return Exit::Done;
    }
    let stop = interrupted();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => return Exit::Interrupted,
            () = tokio::time::sleep(FOLLOW_EVERY) => {}
        }
        let Some((_, now)) = tail() else {
            continue;
        };
        // A new file begins from its beginning.
        let from = if now < length { 0 } else { length };
        let file = log_file().and_then(|path| File::open(path).ok());
        let added = file
            .and_then(|mut file| read_from(&mut file, from))
            .unwrap_or_default();
        // A line that is being written is shown when it is whole.
        let whole = added.rfind('\n').map_or(0, |end| end + 1);
        let added: Vec<String> = added[..whole].lines().map(str::to_owned).collect();
        show(&added);
        length = from + whole as u64;
        if output::gone() {
            return Exit::Done;
        }
    }
}

fn show(lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let mut shown = Lines::new();
    for line in lines {
        shown.push_line(Line::plain(line).verbatim());
    }
    output::result(shown);
}
