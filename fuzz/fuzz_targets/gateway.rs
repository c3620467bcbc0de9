//! The HTTP endpoint of the gateway answers whatever it is sent, without an error of its own.
#![no_main]

use std::cell::OnceCell;

use libfuzzer_sys::fuzz_target;
use trunkline_gateway::http::fuzzing::Target;

thread_local! {
    static TARGET: OnceCell<Target> = const { OnceCell::new() };
}

fuzz_target!(|data: &[u8]| {
    TARGET.with(|target| {
        let target = target.get_or_init(|| Target::new().expect("a runtime"));
        let answers = target.exchange(data);
        if answers.is_empty() {
            return;
        }
        let status = answers
            .strip_prefix(b"HTTP/1.1 ")
            .or_else(|| answers.strip_prefix(b"HTTP/1.0 "))
            .and_then(|rest| rest.first())
            .expect("an answer begins with a status line");
        assert!((b'1'..=b'4').contains(status) || answers[9..].starts_with(b"503"));
    });
});
