//! Events come out the same however the bytes arrive.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trunkline_transport::fuzzing::event_stream;

// The input: a byte for the limit, eight for how the bytes arrive, then the bytes themselves.
fuzz_target!(|data: &[u8]| {
    let Some((&limit, rest)) = data.split_first() else {
        return;
    };
    let Some((plan, bytes)) = rest.split_first_chunk::<8>() else {
        return;
    };
    let mut pieces = Vec::new();
    let mut left = bytes;
    for &length in plan.iter().cycle() {
        if left.is_empty() {
            break;
        }
        let (piece, more) = left.split_at(usize::from(length).clamp(1, left.len()));
        pieces.push(piece);
        left = more;
    }
    let limit = usize::from(limit);
    assert_eq!(event_stream(limit, &pieces), event_stream(limit, &[bytes]));
});
