//! No line breaks the sdk bridge.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trunkline_transport::fuzzing::control_line;

fuzz_target!(|line: &[u8]| {
    control_line(line);
});
