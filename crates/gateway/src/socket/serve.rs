//! `trunkline serve --socket`: one gateway for any number of clients of this user.

use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use trunkline_transport::IoTransport;

use super::hello::{
    FirstLine, HelloError, HelloReply, Purpose, RefusalCode, read_first_line, write_line,
};
use super::listener::{Accepted, Listener};
use crate::client::ClientInfo;
use crate::gateway::Gateway;

/// The maximum number of clients (SEC-4).
const MAX_CLIENTS: usize = 1024;

/// How long calls in flight may take when the gateway ends.
const DRAIN: Duration = Duration::from_secs(30);

/// Serves clients until `stop` completes, then finishes their calls.
pub async fn serve_socket(gateway: &Gateway, listener: Listener, stop: impl Future<Output = ()>) {
    let (drain, draining) = watch::channel(false);
    let mut clients = JoinSet::new();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => {
                    let has_room = clients.len() < MAX_CLIENTS;
                    let (gateway, draining) = (gateway.clone(), draining.clone());
                    clients.spawn(serve_one(gateway, accepted, has_room, draining));
                }
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            () = &mut stop => break,
            Some(_) = clients.join_next() => {}
        }
    }
    drop(listener);
    let _ = drain.send(true);
    let drained = async { while clients.join_next().await.is_some() {} };
    if timeout(DRAIN, drained).await.is_err() {
        clients.shutdown().await;
    }
}

async fn serve_one(
    gateway: Gateway,
    accepted: Accepted,
    has_room: bool,
    draining: watch::Receiver<bool>,
) {
    let Accepted {
        mut reader,
        mut writer,
        peer,
    } = accepted;
    let label = format!("pid {}", peer.pid.unwrap_or_default());
    let purpose = match read_first_line(&mut reader).await {
        Ok(FirstLine::Message(line)) if has_room => {
            let transport = IoTransport::new(std::io::Cursor::new(line).chain(reader), writer);
            let info = ClientInfo::new(label);
            let _ = gateway.serve_until(transport, info, draining).await;
            return;
        }
        // It would not understand a refusal.
        Ok(FirstLine::Message(_)) => return,
        Ok(FirstLine::Hello(hello)) => Ok(hello.purpose),
        Err(error) => Err(error),
    };
    let refused = match purpose {
        Ok(_) if !has_room => HelloReply::refused(RefusalCode::Busy, "there are too many clients"),
        Ok(Purpose::Gateway { profile }) => {
            let info = ClientInfo::new(label).profile(profile);
            // The session reports a profile that does not exist before the client is welcome.
            if let Err(error) = gateway.connect(info.clone()) {
                HelloReply::refused(RefusalCode::Unsupported, error.to_string())
            } else {
                if write_line(&mut writer, &HelloReply::welcome())
                    .await
                    .is_ok()
                {
                    let transport = IoTransport::new(reader, writer);
                    let _ = gateway.serve_until(transport, info, draining).await;
                }
                return;
            }
        }
        Ok(_) => HelloReply::refused(
            RefusalCode::Unsupported,
            "this is a gateway, not the daemon; say {\"purpose\":\"gateway\"}",
        ),
        Err(error @ HelloError::Version(_)) => {
            HelloReply::refused(RefusalCode::Version, error.to_string())
        }
        Err(error) => HelloReply::refused(RefusalCode::BadHello, error.to_string()),
    };
    let _ = write_line(&mut writer, &refused).await;
}
