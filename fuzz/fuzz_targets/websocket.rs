//! WebSocket messages do not depend on how the bytes arrive, and no input breaks the decoder.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trunkline_transport::fuzzing::websocket;

// Input: a byte for the limit, eight for the chunk lengths, then the frames.
fuzz_target!(|data: &[u8]| {
    let Some((&limit, rest)) = data.split_first() else {
        return;
    };
    let Some((plan, bytes)) = rest.split_first_chunk::<8>() else {
        return;
    };
    let mut chunks = Vec::new();
    let mut left = bytes;
    for &length in plan.iter().cycle() {
        if left.is_empty() {
            break;
        }
        let (chunk, more) = left.split_at(usize::from(length).clamp(1, left.len()));
        chunks.push(chunk);
        left = more;
    }
    let limit = usize::from(limit);
    assert_eq!(websocket(limit, &chunks), websocket(limit, &[bytes]));
});
