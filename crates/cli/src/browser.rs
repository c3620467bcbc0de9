//! Opens the user's browser.

use std::io;
use std::process::Stdio;

use trunkline::auth::BrowserUrl;

use crate::program;

/// The variable with the user's browser.
const BROWSER: &str = "BROWSER";

/// Returns whether a browser can show a page here.
pub(crate) fn has_display() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if is_set(BROWSER) {
        return true;
    }
    let is_remote = is_set("SSH_CONNECTION") || is_set("SSH_TTY");
    if cfg!(any(target_os = "macos", windows)) {
        return !is_remote;
    }
    is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
}

/// Opens a page. The URL is one argument, never part of a command line.
pub(crate) fn open(url: &BrowserUrl) -> io::Result<()> {
    let mut command = match std::env::var_os(BROWSER).filter(|browser| !browser.is_empty()) {
        Some(browser) => program::command(browser),
        None if cfg!(target_os = "macos") => program::command("open"),
        None if cfg!(windows) => {
            let mut command = program::command("rundll32");
            command.arg("url.dll,FileProtocolHandler");
            command
        }
        None => program::command("xdg-open"),
    };
    command
        .arg(url.as_str())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn()?;
    // A browser that stays in the foreground is not waited for.
    std::thread::spawn(move || child.wait());
    Ok(())
}
