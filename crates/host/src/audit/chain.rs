//! The form of a line, and the chain of lines. Pure functions.
//!
//! A line is `{"seq":7,"prev":"<hash of line 6>",…,"hash":"<SHA-256>"}`. The hash covers the text
//! of the line before `,"hash":`, and with `prev` all lines before it.

use sha2::{Digest, Sha256};

use crate::disk::hex;

/// The `prev` of the first line.
pub(super) const START: &str = "0000000000000000000000000000000000000000000000000000000000000000";

const HASH_MEMBER: &str = ",\"hash\":\"";

/// The place of the next line in the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// The number of the next line.
    pub(super) seq: u64,
    /// The hash of the last line.
    pub(super) prev: String,
}

impl Link {
    /// Before the first line.
    pub(super) fn start() -> Self {
        Self {
            seq: 0,
            prev: START.to_owned(),
        }
    }

    /// Whether a line with this number begins the chain.
    pub(super) fn is_first(&self, seq: u64) -> bool {
        seq == 0 && self.seq > 0
    }

    /// Appends a line with the members of `record`, a JSON object with at least one.
    pub(super) fn append(&mut self, record: &str, lines: &mut String) {
        use std::fmt::Write as _;

        let from = lines.len();
        let members = record.strip_prefix('{').unwrap_or(record);
        let members = members.strip_suffix('}').unwrap_or(members);
        let _ = write!(
            lines,
            "{{\"seq\":{},\"prev\":\"{}\",{members}",
            self.seq, self.prev
        );
        let hash = hex(&Sha256::digest(&lines.as_bytes()[from..]));
        lines.push_str(HASH_MEMBER);
        lines.push_str(&hash);
        lines.push_str("\"}\n");
        self.seq += 1;
        self.prev = hash;
    }

    /// Checks that a line is the next of the chain, and moves on. A line that is intact but not the
    /// next one is continued from, so that one gap is one problem.
    pub(super) fn follow(&mut self, line: &str) -> Result<(), LineProblem> {
        let found = Self::read(line)?;
        let expected = std::mem::replace(
            self,
            Self {
                seq: found.seq + 1,
                prev: found.hash.to_owned(),
            },
        );
        if found.seq > expected.seq {
            return Err(LineProblem::Missing {
                from: expected.seq,
                to: found.seq - 1,
            });
        }
        if found.seq < expected.seq {
            return Err(LineProblem::OutOfOrder { seq: found.seq });
        }
        if found.prev != expected.prev {
            return Err(LineProblem::Detached { seq: found.seq });
        }
        Ok(())
    }

    /// Reads a line and checks its own hash.
    pub(super) fn read(line: &str) -> Result<Line<'_>, LineProblem> {
        let bad = LineProblem::Malformed;
        let (covered, hash) = line.rsplit_once(HASH_MEMBER).ok_or(bad)?;
        let hash = hash.strip_suffix("\"}").ok_or(LineProblem::Malformed)?;
        let rest = line
            .strip_prefix("{\"seq\":")
            .ok_or(LineProblem::Malformed)?;
        let (seq, rest) = rest
            .split_once(",\"prev\":\"")
            .ok_or(LineProblem::Malformed)?;
        let (prev, _) = rest.split_once('"').ok_or(LineProblem::Malformed)?;
        let seq: u64 = seq.parse().map_err(|_| LineProblem::Malformed)?;
        if hex(&Sha256::digest(covered.as_bytes())) != hash || seq == u64::MAX {
            return Err(LineProblem::Altered { seq });
        }
        Ok(Line { seq, prev, hash })
    }
}

/// The links of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'l> {
    pub(super) seq: u64,
    pub(super) prev: &'l str,
    pub(super) hash: &'l str,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LineProblem {
    #[error("not a line of the log: it was changed, or its write was interrupted")]
    Malformed,
    #[error("record {seq} was changed")]
    Altered { seq: u64 },
    #[error("records {from} to {to} are missing")]
    Missing { from: u64, to: u64 },
    #[error("record {seq} is repeated or out of order")]
    OutOfOrder { seq: u64 },
    #[error("record {seq} does not follow the record before it: that one was replaced")]
    Detached { seq: u64 },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize) -> Vec<String> {
        let (mut link, mut text) = (Link::start(), String::new());
        for number in 0..count {
            link.append(&format!("{{\"event\":\"e{number}\"}}"), &mut text);
        }
        text.lines().map(str::to_owned).collect()
    }

    fn problems(lines: &[String]) -> Vec<LineProblem> {
        let mut link = Link::start();
        lines
            .iter()
            .filter_map(|line| link.follow(line).err())
            .collect()
    }

    #[test]
    fn a_removed_changed_or_inserted_line_is_found() {
        let whole = lines(5);
        assert_eq!(problems(&whole), []);
        let value: serde_json::Value = serde_json::from_str(&whole[1]).unwrap();
        assert_eq!((&value["seq"], &value["event"]), (&1.into(), &"e1".into()));
        assert_eq!(
            value["prev"],
            serde_json::from_str::<serde_json::Value>(&whole[0]).unwrap()["hash"]
        );

        let mut removed = whole.clone();
        removed.remove(2);
        assert_eq!(
            problems(&removed),
            [LineProblem::Missing { from: 2, to: 2 }]
        );
        let mut changed = whole.clone();
        changed[2] = changed[2].replace("e2", "e9");
        // The next one is then unexpected, too.
        assert_eq!(problems(&changed)[0], LineProblem::Altered { seq: 2 });
        // A forged line with a hash of its own.
        let mut forged = whole.clone();
        let (mut link, mut text) = (Link::start(), String::new());
        link.seq = 2;
        link.prev = Link::read(&whole[1]).unwrap().hash.to_owned();
        link.append("{\"event\":\"forged\"}", &mut text);
        forged[2] = text.trim_end().to_owned();
        assert_eq!(problems(&forged), [LineProblem::Detached { seq: 3 }]);
        let mut repeated = whole.clone();
        repeated.insert(3, whole[1].clone());
        assert_eq!(problems(&repeated)[0], LineProblem::OutOfOrder { seq: 1 });
        for torn in ["", "{", "x", &whole[2][..40]] {
            let mut lines = whole.clone();
            lines.insert(2, torn.to_owned());
            assert_eq!(problems(&lines), [LineProblem::Malformed], "{torn}");
        }
    }
}
