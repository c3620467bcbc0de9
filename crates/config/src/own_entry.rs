//! Recognises entries that start this gateway.
//!
//! A gateway that reads the configuration it is installed in must not start itself: each copy would
//! start the next.

use std::path::Path;

/// The name of the program.
const PROGRAM: &str = "trunkline";

/// The command that serves as a gateway.
const SERVE: &str = "serve";

/// The option with which a gateway reads no configuration but its own.
const STRICT: &str = "--strict-mcp-config";

/// Returns whether a command line starts this gateway, directly or through a shell or a launcher.
/// `own` is the path of the running program, which may have another name. A gateway that reads only
/// its own configuration is a server like any other.
///
/// ```
/// use trunkline_config::is_gateway_command;
/// assert!(is_gateway_command(&["/usr/bin/trunkline", "serve"], None));
/// assert!(!is_gateway_command(&["trunkline", "sdk"], None));
/// ```
pub fn is_gateway_command(argv: &[impl AsRef<str>], own: Option<&Path>) -> bool {
    // Words of arguments too: `sh -c "trunkline serve"`.
    let words = argv.iter().enumerate().flat_map(|(at, word)| {
        let whole = (at == 0).then_some(word.as_ref());
        whole.into_iter().chain(word.as_ref().split_whitespace())
    });
    let mut words = words.map(|word| word.trim_matches(['"', '\'']));
    let starts = words.by_ref().any(|word| is_program(word, own));
    let mut serves = false;
    for word in words {
        if word == STRICT {
            return false;
        }
        serves |= word == SERVE;
    }
    starts && serves
}

fn is_program(word: &str, own: Option<&Path>) -> bool {
    let path = Path::new(word);
    let named = path.file_stem().is_some_and(|stem| stem == PROGRAM)
        && path.extension().is_none_or(|end| end == "exe");
    named || own.is_some_and(|own| path.is_absolute() && path == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_own_command_is_recognised_however_it_is_started() {
        let own = Path::new("/opt/tl/tl-1.2");
        for (argv, expected) in [
            (&["trunkline", "serve"][..], true),
            (
                &["/usr/local/bin/trunkline", "serve", "--profile", "x"],
                true,
            ),
            (&["/home/my programs/trunkline", "serve"], true),
            (&["trunkline.exe", "-v", "serve"], true),
            (&["/opt/tl/tl-1.2", "serve"], true),
            (&["sh", "-c", "exec trunkline serve"], true),
            (&["npx", "-y", "trunkline", "serve"], true),
            (
                &["env", "A=b", "trunkline", "--mcp-config", "x", "serve"],
                true,
            ),
            // Another gateway, with servers of its own.
            (
                &[
                    "trunkline",
                    "--strict-mcp-config",
                    "--mcp-config",
                    "x",
                    "serve",
                ],
                false,
            ),
            (&["trunkline", "sdk"], false),
            (&["serve", "trunkline"], false),
            (&["trunkline-tools", "serve"], false),
            (&["trunkline.py", "serve"], false),
            (&["other", "serve"], false),
            (&[], false),
        ] {
            assert_eq!(is_gateway_command(argv, Some(own)), expected, "{argv:?}");
        }
    }
}
