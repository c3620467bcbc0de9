//! Ctrl-C, SIGTERM and SIGHUP.

use tokio::sync::Notify;

/// Notified by Ctrl-C in a dialog, where it is a key and no signal.
static RAISED: Notify = Notify::const_new();

/// Interrupts the program as Ctrl-C does.
pub(crate) fn raise() {
    RAISED.notify_one();
}

/// Waits for Ctrl-C, SIGTERM or SIGHUP.
#[cfg(unix)]
pub(crate) async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};

    let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
    ) else {
        // Without handlers the default action applies, which ends the program.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
        () = RAISED.notified() => {}
    }
}

/// Waits for Ctrl-C.
#[cfg(not(unix))]
pub(crate) async fn interrupted() {
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = RAISED.notified() => {}
    }
}
