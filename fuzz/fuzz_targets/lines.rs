//! Lines do not depend on how the bytes arrive: a line over the limit is reported with its length
//! and both ends, and the next one is intact.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trunkline_transport::lines::LineDecoder;
use trunkline_wire::transport::Incoming;

/// Bytes kept of each end of an oversize line, unless the limit is lower.
const KEPT: usize = 512;

/// Input: a byte for the limit, eight for the chunk lengths, then the lines.
type Plan = [u8; 8];

fuzz_target!(|data: &[u8]| {
    let Some((&limit, rest)) = data.split_first() else {
        return;
    };
    let Some((plan, bytes)) = rest.split_first_chunk::<8>() else {
        return;
    };
    // Half of the inputs have a tiny limit, so that a short input meets it often.
    let limit = usize::from(limit / 2) + if limit % 2 == 0 { 0 } else { KEPT };

    let lines = expected(bytes);
    let found = decode(limit, plan, bytes);
    let mut found = found.iter();
    for line in &lines {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        if text.len() > limit {
            check_oversize(found.next(), line, text.len(), limit);
        } else if !text.trim_ascii_end().is_empty() {
            let Some(Incoming::Frame(frame)) = found.next() else {
                panic!("a line was lost or misjudged");
            };
            assert_eq!(frame, text.trim_ascii_end());
        }
    }
    assert!(found.next().is_none(), "a line that nobody sent");
});

/// Splits lines the simple way, as an oracle.
fn expected(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Feeds the bytes in pieces, taking sometimes one line and sometimes all there are.
fn decode(limit: usize, plan: &Plan, mut bytes: &[u8]) -> Vec<Incoming> {
    let mut lines = LineDecoder::new(limit);
    let mut found = Vec::new();
    let mut steps = plan.iter().cycle();
    while !bytes.is_empty() {
        let step = steps.next().copied().unwrap_or_default();
        // Mostly a few bytes, sometimes hundreds, and at least one in each round of the plan.
        let size = match step >> 1 {
            small @ 0..=95 => usize::from(small % 12),
            large => usize::from(large - 95) * 32,
        };
        let size = if plan.iter().all(|step| (step >> 1) % 12 == 0) {
            size.max(1)
        } else {
            size
        };
        let (chunk, rest) = bytes.split_at(size.min(bytes.len()));
        bytes = rest;
        lines.buffer().extend_from_slice(chunk);
        if step % 2 == 0 {
            found.extend(lines.next_line());
        } else {
            found.extend(std::iter::from_fn(|| lines.next_line()));
        }
    }
    found.extend(std::iter::from_fn(|| lines.next_line()));
    found.extend(lines.last_line());
    assert!(lines.next_line().is_none() && lines.last_line().is_none());
    found.retain(|incoming| !matches!(incoming, Incoming::Noise { .. }));
    found
}

fn check_oversize(found: Option<&Incoming>, line: &[u8], length: usize, limit: usize) {
    let Some(Incoming::Oversize {
        bytes,
        limit: told,
        head,
        tail,
    }) = found
    else {
        panic!("an oversize line was not reported");
    };
    assert_eq!((*bytes, *told), (length as u64, limit));
    assert!(line.starts_with(head) && line.ends_with(tail));
    assert_eq!(tail.len(), line.len().min(KEPT));
    if limit >= KEPT {
        assert_eq!(head.len(), KEPT);
    }
}
