//! The stream on which a legacy server says what nobody asked for (GET).

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tokio::sync::watch;
use tokio::time::Instant;
use trunkline_wire::transport::{CloseReason, DeliveryErrorKind, Incoming};

use super::super::body::Body;
use super::super::events::EventDecoder;
use super::super::headers::{self, EVENTS};
use super::link::Link;
use crate::MAX_MESSAGE_BYTES;

/// How long to wait before the stream is asked for again, when the server has not said; doubled while it fails.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The shortest and the longest wait that a server may ask for.
const SHORTEST_ASKED: Duration = Duration::from_millis(100);
const LONGEST_ASKED: Duration = Duration::from_mins(5);

/// A stream that ends sooner than this has not really stood.
const STOOD: Duration = Duration::from_secs(5);

/// Keeps the stream open for as long as the server has one. `settled` is set once it is open, or known not to come.
pub(super) async fn listen(link: &Link, settled: &watch::Sender<bool>) {
    let mut events = EventDecoder::new(MAX_MESSAGE_BYTES);
    let mut has_stood = false;
    let mut failures = 0_u32;
    loop {
        let last_id = events.last_id().map(Bytes::copy_from_slice);
        let answer = link.get(last_id.as_deref()).await;
        settled.send_replace(true);
        match answer {
            Ok(mut answer)
                if answer.status.is_success() && headers::is(&answer.headers, EVENTS) =>
            {
                let since = Instant::now();
                events = events.again();
                let heard = read(link, &mut answer.body, &mut events).await;
                has_stood = true;
                let stood = heard || since.elapsed() >= STOOD;
                failures = if stood { 0 } else { failures + 1 };
            }
            // It knew this session once.
            Ok(answer)
                if answer.status == StatusCode::NOT_FOUND && has_stood && link.has_session() =>
            {
                link.inlet.end(CloseReason::SessionExpired);
                return;
            }
            // There is no such stream.
            Ok(mut answer) if !answer.status.is_server_error() => {
                return link.courier.client.finish(&mut answer.body).await;
            }
            Ok(_) => failures += 1,
            Err(failure) => {
                failures += 1;
                match failure.kind {
                    // Where the stream was there is now nobody.
                    DeliveryErrorKind::Unreachable if has_stood && link.inlet.waiting() == 0 => {
                        link.inlet.end(CloseReason::Io(failure.to_string()));
                        return;
                    }
                    DeliveryErrorKind::Unreachable
                    | DeliveryErrorKind::Broken
                    | DeliveryErrorKind::Timeout => {}
                    _ => return,
                }
            }
        }
        let asked = events.retry().map_or(AGAIN_AFTER, Duration::from_millis);
        let asked = asked.clamp(SHORTEST_ASKED, LONGEST_ASKED);
        let wait = asked * 2_u32.pow(failures.min(10));
        tokio::time::sleep(wait.min(LONGEST_WAIT.max(asked))).await;
    }
}

/// Delivers what comes until the stream ends; true if anything did.
async fn read(link: &Link, body: &mut Body, events: &mut EventDecoder) -> bool {
    let mut heard = false;
    loop {
        match body.piece().await {
            Ok(Some(piece)) => events.push(piece),
            Ok(None) | Err(_) => return heard,
        }
        loop {
            let delivered = link.inlet.deliver_events(events, Incoming::Frame).await;
            match delivered {
                Ok(messages) => {
                    heard |= messages;
                    break;
                }
                Err(skipped) => link.inlet.deliver(skipped.report()),
            }
        }
        link.inlet.taken().await;
    }
}
