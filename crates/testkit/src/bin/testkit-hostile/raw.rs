//! System calls without a wrapper, made by Perl: this workspace has no unsafe code.

use std::process::Command;

/// Runs a script that prints `ok`, or the system's error.
pub(crate) fn perl(script: &str) -> Result<String, String> {
    let output = Command::new("perl").args(["-e", script]).output();
    let output = output.map_err(|error| format!("perl: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if text == "ok" {
        Ok("ok".to_owned())
    } else if output.status.success() && !text.is_empty() {
        Err(text)
    } else {
        let error = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(format!("{text} {error} {}", output.status))
    }
}

/// Calls the kernel with these arguments, which are Perl.
pub(crate) fn call(number: u32, arguments: &str) -> Result<String, String> {
    perl(&format!(
        "my $b = \"\\0\" x 256; my $r = syscall({number}, {arguments}); print $r == -1 ? \"$!\" : 'ok';"
    ))
}

/// Numbers that differ between architectures: x86-64 first, then the generic ones.
pub(crate) fn number(x86_64: u32, generic: u32) -> u32 {
    if cfg!(target_arch = "x86_64") {
        x86_64
    } else {
        generic
    }
}
