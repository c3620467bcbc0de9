//! The launcher of sandboxed servers alone (SEC-5). `trunkline` has it, too; this program is small,
//! so that starting it twice for each server takes little time.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    if args
        .next()
        .is_some_and(|first| first == trunkline_sandbox::LAUNCHER_ARG)
    {
        return trunkline_sandbox::launcher::run(args.next().as_deref());
    }
    refuse("only trunkline starts this program; use `trunkline sandbox try`")
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    refuse("sandboxes exist on Linux only")
}

fn refuse(reason: &str) -> ExitCode {
    use std::io::Write as _;

    let _ = writeln!(std::io::stderr(), "error: {reason}");
    ExitCode::from(2)
}
