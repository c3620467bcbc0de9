//! The look of the program: a few styles, and when they become colours.
//!
//! A state is a glyph, a word and a colour, and complete without the colour. Only the 16 ANSI
//! colours are used, and neither black nor white, so that every theme of a terminal stays readable.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use anstyle::{AnsiColor, Color};
use trunkline_config::env_vars;

/// The meaning of a piece of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Style {
    #[default]
    Plain,
    /// The name of a server, tool, prompt or argument, and headings.
    Name,
    /// Done, connected, allowed.
    Done,
    /// Failed, refused.
    Failed,
    /// Waits for the user.
    Attention,
    /// A command to paste, a path, a URL, a literal value.
    Literal,
    /// Secondary.
    Dim,
    /// The word `error:`.
    Error,
    /// The word `warning:`.
    Warning,
    /// Emphasis in rendered Markdown.
    Emphasis,
}

impl Style {
    /// Returns the style for a terminal.
    pub(crate) const fn ansi(self) -> anstyle::Style {
        const fn of(colour: AnsiColor) -> anstyle::Style {
            anstyle::Style::new().fg_color(Some(Color::Ansi(colour)))
        }
        match self {
            Self::Plain => anstyle::Style::new(),
            Self::Name => anstyle::Style::new().bold(),
            Self::Done => of(AnsiColor::Green),
            Self::Failed => of(AnsiColor::Red),
            Self::Attention => of(AnsiColor::Yellow),
            Self::Literal => of(AnsiColor::Cyan),
            Self::Dim => anstyle::Style::new().dimmed(),
            Self::Error => of(AnsiColor::Red).bold(),
            Self::Warning => of(AnsiColor::Yellow).bold(),
            Self::Emphasis => anstyle::Style::new().italic(),
        }
    }
}

/// How something fares: a glyph with a colour, which goes in front of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Done,
    /// Waits for the user.
    Attention,
    Failed,
    /// Still at work.
    Busy,
    /// Not in use.
    Off,
}

impl Status {
    /// Returns the glyph for this terminal.
    pub(crate) fn glyph(self) -> &'static str {
        let (glyph, ascii) = match self {
            Self::Done => ("✓", "+"),
            Self::Attention => ("!", "!"),
            Self::Failed => ("✗", "x"),
            Self::Busy => ("◌", "~"),
            Self::Off => ("○", "-"),
        };
        if is_utf8() { glyph } else { ascii }
    }

    pub(crate) const fn style(self) -> Style {
        match self {
            Self::Done => Style::Done,
            Self::Attention => Style::Attention,
            Self::Failed => Style::Failed,
            Self::Busy => Style::Literal,
            Self::Off => Style::Dim,
        }
    }
}

/// Returns the mark of a text that was cut.
pub(crate) fn ellipsis() -> &'static str {
    if is_utf8() { "…" } else { "..." }
}

/// Returns what separates the parts of a summary.
pub(crate) fn separator() -> &'static str {
    if is_utf8() { " · " } else { ", " }
}

/// Returns whether the locale can show more than ASCII.
pub(crate) fn is_utf8() -> bool {
    static UTF8: OnceLock<bool> = OnceLock::new();
    *UTF8.get_or_init(|| {
        let set = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .filter_map(std::env::var_os)
            .find(|value| !value.is_empty());
        cfg!(any(windows, target_os = "macos"))
            || set.is_some_and(|locale| names_utf8(&locale.to_string_lossy()))
    })
}

fn names_utf8(locale: &str) -> bool {
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal, unless `NO_COLOR` is set; `CLICOLOR_FORCE` uses them anywhere
    #[default]
    Auto,
    Always,
    Never,
}

/// A stream of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

impl Stream {
    pub(crate) fn is_terminal(self) -> bool {
        match self {
            Self::Out => io::stdout().is_terminal(),
            Self::Err => io::stderr().is_terminal(),
        }
    }

    /// Returns whether its text has colours.
    pub(crate) fn is_coloured(self) -> bool {
        let colours = COLOURS.get_or_init(|| Colours::decide(ColorWhen::Auto));
        match self {
            Self::Out => colours.out,
            Self::Err => colours.err,
        }
    }
}

/// The decision, made once.
static COLOURS: OnceLock<Colours> = OnceLock::new();

struct Colours {
    out: bool,
    err: bool,
}

impl Colours {
    fn decide(when: ColorWhen) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let environment = Environment {
            no_color: set(env_vars::NO_COLOR),
            force: std::env::var_os(env_vars::CLICOLOR_FORCE)
                .is_some_and(|value| !value.is_empty() && value != "0"),
            dumb: std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb"),
        };
        Self {
            out: environment.allows(when, Stream::Out.is_terminal()),
            err: environment.allows(when, Stream::Err.is_terminal()),
        }
    }
}

/// The variables that decide about colours.
#[derive(Clone, Copy)]
struct Environment {
    no_color: bool,
    force: bool,
    dumb: bool,
}

impl Environment {
    fn allows(self, when: ColorWhen, is_terminal: bool) -> bool {
        match when {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto if self.no_color => false,
            ColorWhen::Auto if self.force => true,
            ColorWhen::Auto => is_terminal && !self.dumb,
        }
    }
}

/// Decides about colours by the command line, before it is parsed, so that its errors follow too.
pub(crate) fn decide_colours(words: &[OsString]) {
    let own = words.split(|word| word == "--").next().unwrap_or_default();
    let mut when = ColorWhen::Auto;
    for (at, word) in own.iter().enumerate() {
        let next = own.get(at + 1).and_then(|word| word.to_str());
        let value = match word.to_str() {
            Some("--color") => next,
            Some(word) => word.strip_prefix("--color="),
            None => None,
        };
        when = match value {
            Some("always") => ColorWhen::Always,
            Some("never") => ColorWhen::Never,
            _ => when,
        };
    }
    let _ = COLOURS.set(Colours::decide(when));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_decides_then_the_variables_then_the_terminal() {
        let plain = Environment {
            no_color: false,
            force: false,
            dumb: false,
        };
        let no_color = Environment {
            no_color: true,
            ..plain
        };
        let force = Environment {
            force: true,
            ..plain
        };
        let both = Environment {
            no_color: true,
            ..force
        };
        let dumb = Environment {
            dumb: true,
            ..plain
        };
        for (environment, when, on_terminal, in_pipe) in [
            (plain, ColorWhen::Auto, true, false),
            (plain, ColorWhen::Always, true, true),
            (plain, ColorWhen::Never, false, false),
            (no_color, ColorWhen::Auto, false, false),
            (no_color, ColorWhen::Always, true, true),
            (force, ColorWhen::Auto, true, true),
            (force, ColorWhen::Never, false, false),
            (both, ColorWhen::Auto, false, false),
            (dumb, ColorWhen::Auto, false, false),
            (dumb, ColorWhen::Always, true, true),
        ] {
            assert_eq!(environment.allows(when, true), on_terminal, "{when:?}");
            assert_eq!(environment.allows(when, false), in_pipe, "{when:?}");
        }
    }

    #[test]
    fn locales_with_utf8_are_recognised() {
        for (locale, is_so) in [
            ("en_GB.UTF-8", true),
            ("C.utf8", true),
            ("POSIX", false),
            ("de_DE.ISO-8859-1", false),
        ] {
            assert_eq!(names_utf8(locale), is_so, "{locale}");
        }
    }
}
