//! The GET stream on which a legacy server sends requests and notifications.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tokio::sync::watch;
use tokio::time::Instant;
use trunkline_wire::transport::{CloseReason, DeliveryErrorKind};

use super::super::body::Body;
use super::super::events::EventDecoder;
use super::super::headers::{self, EVENTS};
use super::session::Session;
use crate::MAX_MESSAGE_BYTES;

/// The wait before reconnecting unless the server sets one; doubled on each failure.
const RECONNECT_AFTER: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// Bounds for the reconnection time that a server sets.
const MIN_RETRY: Duration = Duration::from_millis(100);
const MAX_RETRY: Duration = Duration::from_mins(5);

/// A stream that ends sooner counts as a failure.
const MIN_UPTIME: Duration = Duration::from_secs(5);

/// Keeps the stream open for as long as the server offers it. `settled` is set once it is open or
/// known not to come.
pub(super) async fn listen(session: &Session, settled: &watch::Sender<bool>) {
    let mut events = EventDecoder::new(MAX_MESSAGE_BYTES);
    let mut was_open = false;
    let mut failures = 0_u32;
    loop {
        let last_id = events.last_id().map(Bytes::copy_from_slice);
        let response = session.get(last_id.as_deref()).await;
        settled.send_replace(true);
        match response {
            Ok(mut response)
                if response.status.is_success()
                    && headers::has_content_type(&response.headers, EVENTS) =>
            {
                let since = Instant::now();
                events = events.resumed();
                let received = read(session, &mut response.body, &mut events).await;
                was_open = true;
                let worked = received || since.elapsed() >= MIN_UPTIME;
                failures = if worked { 0 } else { failures + 1 };
            }
            // The server no longer knows the session.
            Ok(response)
                if response.status == StatusCode::NOT_FOUND && was_open && session.has_id() =>
            {
                session.inbound.close(CloseReason::SessionExpired);
                return;
            }
            // The server has no such stream.
            Ok(mut response) if !response.status.is_server_error() => {
                return session.http_client.pool.drain(&mut response.body).await;
            }
            Ok(_) => failures += 1,
            Err(error) => {
                failures += 1;
                match error.kind {
                    // The server is gone.
                    DeliveryErrorKind::Unreachable
                        if was_open && session.inbound.in_flight() == 0 =>
                    {
                        session.inbound.close(CloseReason::Io(error.to_string()));
                        return;
                    }
                    DeliveryErrorKind::Unreachable
                    | DeliveryErrorKind::Broken
                    | DeliveryErrorKind::Timeout => {}
                    _ => return,
                }
            }
        }
        let retry = events.retry();
        let retry = retry.map_or(RECONNECT_AFTER, Duration::from_millis);
        let retry = retry.clamp(MIN_RETRY, MAX_RETRY);
        let wait = retry * 2_u32.pow(failures.min(10));
        tokio::time::sleep(wait.min(MAX_BACKOFF.max(retry))).await;
    }
}

/// Delivers messages until the stream ends; true if there were any.
async fn read(session: &Session, body: &mut Body, events: &mut EventDecoder) -> bool {
    let mut received = false;
    loop {
        match body.next_chunk().await {
            Ok(Some(chunk)) => events.push(chunk),
            Ok(None) | Err(_) => return received,
        }
        received |= session.inbound.deliver_messages(events).await;
        session.inbound.drained().await;
    }
}
