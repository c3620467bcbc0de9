//! No line breaks the bridge to an embedding program.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trunkline_transport::fuzzing::control_line;

fuzz_target!(|line: &[u8]| {
    control_line(line);
});
