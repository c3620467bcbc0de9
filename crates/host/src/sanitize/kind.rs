//! The kinds of hidden characters and their counts.

use std::fmt;
use std::ops::AddAssign;

/// A kind of hidden character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HiddenKind {
    Control,
    Escape,
    ZeroWidth,
    Bidi,
    Tag,
    Variation,
    PrivateUse,
    Noncharacter,
}

impl HiddenKind {
    pub(super) const ALL: [Self; 8] = [
        Self::Control,
        Self::Escape,
        Self::ZeroWidth,
        Self::Bidi,
        Self::Tag,
        Self::Variation,
        Self::PrivateUse,
        Self::Noncharacter,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Escape => "escape",
            Self::ZeroWidth => "zero-width",
            Self::Bidi => "bidirectional",
            Self::Tag => "tag",
            Self::Variation => "variation selector",
            Self::PrivateUse => "private use",
            Self::Noncharacter => "no character",
        }
    }
}

/// Returns the kind of a hidden character; `None` for visible ones.
pub(super) fn of(c: char) -> Option<HiddenKind> {
    let kind = match c {
        '\n' | '\t' | ' '..='~' | '\u{a0}'..='\u{ac}' | '\u{ae}'..='\u{34e}' => return None,
        _ if c.is_control() => HiddenKind::Control,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            HiddenKind::Bidi
        }
        // Soft hyphen, joiners, fillers, invisible operators and format characters.
        '\u{ad}'
        | '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{2065}'
        | '\u{206a}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' => HiddenKind::ZeroWidth,
        '\u{180b}'..='\u{180d}'
        | '\u{180f}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{e0100}'..='\u{e01ef}' => HiddenKind::Variation,
        '\u{e0000}'..='\u{e0fff}' => HiddenKind::Tag,
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{ffffd}' | '\u{100000}'..='\u{10fffd}' => {
            HiddenKind::PrivateUse
        }
        '\u{fdd0}'..='\u{fdef}' => HiddenKind::Noncharacter,
        _ if u32::from(c) & 0xfffe == 0xfffe => HiddenKind::Noncharacter,
        _ => return None,
    };
    Some(kind)
}

/// Counts removed characters by kind. Displays as `12 hidden characters (8 tag, 4 zero-width)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed([usize; HiddenKind::ALL.len()]);

impl Removed {
    /// Returns the number of characters; an escape sequence counts as one.
    pub fn total(&self) -> usize {
        self.0.iter().sum()
    }

    /// Returns whether nothing was removed.
    pub fn is_empty(&self) -> bool {
        self.total() == 0
    }

    #[cfg(test)]
    pub(super) fn of(&self, kind: HiddenKind) -> usize {
        self.0[kind as usize]
    }

    pub(super) fn count(&mut self, kind: HiddenKind) {
        self.0[kind as usize] += 1;
    }
}

impl AddAssign for Removed {
    fn add_assign(&mut self, more: Self) {
        for (count, more) in self.0.iter_mut().zip(more.0) {
            *count += more;
        }
    }
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let total = self.total();
        let s = if total == 1 { "" } else { "s" };
        write!(f, "{total} hidden character{s}")?;
        let there = HiddenKind::ALL
            .iter()
            .zip(self.0)
            .filter(|(_, count)| *count > 0);
        for (index, (kind, count)) in there.enumerate() {
            let before = if index == 0 { " (" } else { ", " };
            write!(f, "{before}{count} {}", kind.name())?;
        }
        if total > 0 {
            f.write_str(")")?;
        }
        Ok(())
    }
}
