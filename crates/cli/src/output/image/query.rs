//! Asks the terminal whether it shows sixels. Variables do not tell: of one terminal, some builds
//! and settings do and others do not.

use super::Protocol;

/// The colours of a terminal that shows sixels and does not tell how many it has. A VT340 has
/// these.
const FEWEST_COLOURS: usize = 16;

/// Returns sixels if the terminal shows them.
pub(super) fn sixel() -> Option<Protocol> {
    #[cfg(unix)]
    {
        let terminal = terminal::Terminal::open()?;
        let attributes = terminal.ask(ATTRIBUTES)?;
        if !shows_sixels(&attributes) {
            return None;
        }
        // Only a terminal that knows sixels is asked for more. The second question, which every
        // terminal answers, ends the wait for an answer to the first.
        let answer = terminal.ask(&format!("{COLOURS}{ATTRIBUTES}"));
        let colours = answer.as_deref().and_then(colour_registers);
        Some(Protocol::Sixel {
            colours: colours.unwrap_or(FEWEST_COLOURS),
        })
    }
    #[cfg(not(unix))]
    None
}

/// The question for the primary device attributes.
const ATTRIBUTES: &str = "\x1b[c";

/// The question for the number of colour registers.
const COLOURS: &str = "\x1b[?1;1;0S";

/// Returns whether device attributes (`ESC [ ? 62 ; 4 c`) include sixels.
fn shows_sixels(answer: &str) -> bool {
    parameters(answer, 'c').is_some_and(|mut attributes| {
        // The first is the class of the terminal.
        attributes.next();
        attributes.any(|attribute| attribute == "4")
    })
}

/// Returns the number of colour registers (`ESC [ ? 1 ; 0 ; 256 S`).
fn colour_registers(answer: &str) -> Option<usize> {
    let mut parameters = parameters(answer, 'S')?;
    let is_success = parameters.next() == Some("1") && parameters.next() == Some("0");
    let colours = parameters.next()?.parse::<usize>().ok()?;
    (is_success && colours >= 2).then_some(colours.min(256))
}

/// Returns the parameters of the answer that ends with this byte, among other input.
fn parameters(answer: &str, end: char) -> Option<impl Iterator<Item = &str>> {
    let is_parameter = |c: char| c.is_ascii_digit() || c == ';';
    answer.split("\x1b[?").skip(1).find_map(|rest| {
        let (parameters, rest) = rest.split_at(rest.find(|c| !is_parameter(c))?);
        rest.starts_with(end).then(|| parameters.split(';'))
    })
}

#[cfg(unix)]
mod terminal {
    use std::fs::File;
    use std::io::{Read as _, Write as _};
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::{Mode, OFlags};
    use rustix::termios::{
        LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
    };

    use super::parameters;

    /// How long an answer may take, over a slow line too. Every terminal answers; only what
    /// pretends to be one takes this long, once per run.
    const PATIENCE: Duration = Duration::from_secs(1);

    /// The most bytes of an answer.
    const MAX_ANSWER: usize = 4096;

    /// The controlling terminal while its answers are read: without echo, byte by byte.
    pub(super) struct Terminal {
        file: File,
        before: Termios,
    }

    impl Terminal {
        /// Opens the terminal; `None` for a job in the background, which the terminal would stop.
        pub(super) fn open() -> Option<Self> {
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
            let file = File::from(rustix::fs::open("/dev/tty", flags, Mode::empty()).ok()?);
            if tcgetpgrp(&file).ok()? != rustix::process::getpgrp() {
                return None;
            }
            let before = tcgetattr(&file).ok()?;
            let mut raw = before.clone();
            raw.local_modes &= !(LocalModes::ICANON | LocalModes::ECHO);
            raw.special_codes[SpecialCodeIndex::VMIN] = 0;
            raw.special_codes[SpecialCodeIndex::VTIME] = 0;
            tcsetattr(&file, OptionalActions::Now, &raw).ok()?;
            Some(Self { file, before })
        }

        /// Asks a question that ends with the one for attributes, and returns what arrives up to
        /// their answer.
        pub(super) fn ask(&self, question: &str) -> Option<String> {
            (&self.file).write_all(question.as_bytes()).ok()?;
            let deadline = Instant::now() + PATIENCE;
            let mut answer = Vec::new();
            let mut bytes = [0; 256];
            while answer.len() < MAX_ANSWER {
                let left = deadline.checked_duration_since(Instant::now())?;
                let left = Timespec::try_from(left).ok()?;
                let mut ready = [PollFd::new(&self.file, PollFlags::IN)];
                match poll(&mut ready, Some(&left)) {
                    Ok(1..) => {}
                    Err(rustix::io::Errno::INTR) => continue,
                    Ok(0) | Err(_) => return None,
                }
                let length = (&self.file)
                    .read(&mut bytes)
                    .ok()
                    .filter(|read| *read > 0)?;
                answer.extend_from_slice(&bytes[..length]);
                let text = String::from_utf8_lossy(&answer);
                if parameters(&text, 'c').is_some() {
                    return Some(text.into_owned());
                }
            }
            None
        }
    }

    impl Drop for Terminal {
        fn drop(&mut self) {
            let _ = tcsetattr(&self.file, OptionalActions::Now, &self.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_tell_who_shows_sixels() {
        for (answer, shows) in [
            ("\x1b[?62;4;6;22c", true),
            ("\x1b[?63;1;2;4c", true),
            ("typed\x1b[?62;4c", true),
            ("\x1b[?1;2c", false),
            ("\x1b[?4c", false),
            ("\x1b[?62;14;40c", false),
            ("\x1b[?62;4", false),
            ("", false),
        ] {
            assert_eq!(shows_sixels(answer), shows, "{answer:?}");
        }
    }

    #[test]
    fn the_number_of_colours_is_told_or_presumed() {
        for (answer, colours) in [
            ("\x1b[?1;0;256S\x1b[?62;4c", Some(256)),
            ("\x1b[?1;0;1024S\x1b[?62;4c", Some(256)),
            ("\x1b[?1;0;16S\x1b[?62;4c", Some(16)),
            ("\x1b[?1;3S\x1b[?62;4c", None),
            ("\x1b[?62;4c", None),
            ("\x1b[?1;0;0S", None),
        ] {
            assert_eq!(colour_registers(answer), colours, "{answer:?}");
        }
    }
}
