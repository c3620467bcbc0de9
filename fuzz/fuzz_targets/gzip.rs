//! Compressed events do not depend on how the bytes arrive, and no input breaks the decoder.
#![no_main]

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;
use trunkline_transport::fuzzing::{event_stream, gzip_events};

// Input: a byte for the limit, eight for the chunk lengths, then the stream.
fuzz_target!(|data: &[u8]| {
    let Some((&limit, rest)) = data.split_first() else {
        return;
    };
    let Some((plan, bytes)) = rest.split_first_chunk::<8>() else {
        return;
    };
    let limit = usize::from(limit);
    // As compressed data, which is mostly invalid.
    assert_eq!(
        gzip_events(limit, &chunks(plan, bytes)).ok(),
        gzip_events(limit, &[bytes]).ok()
    );
    // As text that is compressed here, in one or two members.
    let (one, other) = bytes.split_at(bytes.len() / 2);
    let split = plan[0] % 2 == 0;
    let packed = if split {
        [gzip(one), gzip(other)].concat()
    } else {
        gzip(bytes)
    };
    let found = gzip_events(limit, &chunks(plan, &packed));
    assert_eq!(found.as_ref(), Ok(&event_stream(limit, &[bytes])));
});

fn chunks<'b>(plan: &[u8; 8], mut left: &'b [u8]) -> Vec<&'b [u8]> {
    let mut chunks = Vec::new();
    for &length in plan.iter().cycle() {
        if left.is_empty() {
            break;
        }
        let (chunk, more) = left.split_at(usize::from(length).clamp(1, left.len()));
        chunks.push(chunk);
        left = more;
    }
    chunks
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    let packed = packer.write_all(text).and_then(|()| packer.finish());
    packed.unwrap_or_default()
}
