//! HTTP/1.1 responses decode as in hyper, however their bytes arrive.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trunkline_transport::fuzzing::http1;

#[path = "../../crates/transport/tests/http/oracle.rs"]
mod oracle;

// Input: eight bytes for the chunk lengths, then the response.
fuzz_target!(|data: &[u8]| {
    let Some((plan, bytes)) = data.split_first_chunk::<8>() else {
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
    let whole = http1(&[bytes]);
    assert_eq!(http1(&chunks).ok(), whole.clone().ok());
    // Two responses to hyper are errors to us: the switch to another protocol, and a lone line feed
    // in trailers, since readers that disagree on line endings allow smuggling.
    let is_stricter = whole.as_ref().is_err_and(|error| {
        error.contains("switch to another protocol") || error.contains("line ending")
    });
    if !is_stricter {
        let oracle = oracle::hyper_reads(bytes);
        assert_eq!(whole.is_ok(), oracle.is_ok(), "{whole:?} {oracle:?}");
        assert_eq!(whole.ok(), oracle.ok());
    }
});
