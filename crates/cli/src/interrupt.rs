//! Ctrl-C, SIGTERM and SIGHUP.

/// Waits until the user, or the system, wants the program to end.
#[cfg(unix)]
pub(crate) async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};

    let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
    ) else {
        // Without handlers the system's default applies, which ends the program.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
}

/// Waits until the user wants the program to end.
#[cfg(not(unix))]
pub(crate) async fn interrupted() {
    let _ = tokio::signal::ctrl_c().await;
}
