//! Newline-delimited JSON over pipes: one read, one write of all responses.

use std::process::exit;

use memchr::{memchr, memrchr};
use rustix::{
    buffer::spare_capacity,
    io::{read, retry_on_intr, write},
    pipe::fcntl_setpipe_size,
    stdio::{stdin, stdout},
};

use crate::{Options, answer::answer};

const CHUNK: usize = 64 << 10;
/// Messages at least this long get larger pipes.
const LARGE: usize = 32 << 10;
const LARGE_PIPE: usize = 1 << 20;

/// Serves stdio until stdin ends.
pub(crate) fn serve(options: &Options) -> ! {
    let mut input = Vec::with_capacity(CHUNK);
    let mut output = Vec::with_capacity(CHUNK);
    let mut modern = true;
    let mut grown = false;
    loop {
        let known = input.len();
        if input.capacity() - known < CHUNK / 2 {
            input.reserve(if grown { known.max(LARGE_PIPE) } else { CHUNK });
        }
        match retry_on_intr(|| read(stdin(), spare_capacity(&mut input))) {
            Ok(1..) => {}
            Ok(0) | Err(_) => exit(0),
        }
        if input.len() >= LARGE && !grown {
            grown = true;
            // Larger pipes are optional.
            fcntl_setpipe_size(stdin(), LARGE_PIPE).ok();
            fcntl_setpipe_size(stdout(), LARGE_PIPE).ok();
        }
        // Only new bytes are searched for a newline.
        let Some(end) = memrchr(b'\n', &input[known..]).map(|at| known + at + 1) else {
            continue;
        };
        if options.hang {
            // Read, so that the client can write, but not answered.
        } else if options.raw_limit {
            send(&input[..end]);
        } else {
            let mut rest = &input[..end];
            while let Some(at) = memchr(b'\n', rest) {
                let before = output.len();
                answer(&rest[..at], options, &mut modern, &mut output);
                if output.len() > before {
                    output.push(b'\n');
                }
                rest = &rest[at + 1..];
            }
            send(&output);
            output.clear();
        }
        input.drain(..end);
    }
}

fn send(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match retry_on_intr(|| write(stdout(), bytes)) {
            Ok(count) => bytes = &bytes[count..],
            Err(_) => exit(1),
        }
    }
}
