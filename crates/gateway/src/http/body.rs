//! Reads the body of a request within limits of length, memory and time.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::options::HttpLimits;

/// Bodies up to this length need no share of the budget.
const SMALL: usize = 64 * 1024;

/// The unit of the budget.
const UNIT: usize = 64 * 1024;

/// The reason that a body is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyError {
    /// It is longer than the limit.
    TooLong,
    /// It did not arrive in time.
    TooSlow,
    /// The connection broke, or its framing is invalid.
    Broken,
    /// Other bodies use all the memory.
    NoMemory,
}

impl BodyError {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::TooLong => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Broken => StatusCode::BAD_REQUEST,
            Self::NoMemory => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::TooLong => "the body of the request is too long",
            Self::TooSlow => "the body of the request did not arrive in time",
            Self::Broken => "the body of the request is incomplete",
            Self::NoMemory => "too many long requests at once; try again later",
        }
    }
}

/// The memory for bodies.
pub(super) struct BodyBudget {
    units: Arc<Semaphore>,
}

impl BodyBudget {
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            units: Arc::new(Semaphore::new((bytes / UNIT).max(1))),
        }
    }

    fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, BodyError> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let taken = Arc::clone(&self.units).try_acquire_many_owned(units);
        taken.map_err(|_| BodyError::NoMemory)
    }
}

/// A body, with its share of the budget.
pub(super) struct ReadBody {
    pub(super) bytes: Bytes,
    /// Held until the request has been decoded and its answer is under way.
    _share: Option<OwnedSemaphorePermit>,
}

/// Reads a body.
pub(super) async fn read(
    request: http::Request<Incoming>,
    budget: &BodyBudget,
    limits: &HttpLimits,
) -> Result<ReadBody, BodyError> {
    let length = request.headers().get(CONTENT_LENGTH);
    let length: Option<usize> = length.and_then(|length| length.to_str().ok()?.parse().ok());
    if length.is_some_and(|length| length > limits.body_bytes) {
        return Err(BodyError::TooLong);
    }
    let reading = collect(request.into_body(), length, budget, limits.body_bytes);
    let read = tokio::time::timeout(limits.body_timeout, reading).await;
    read.unwrap_or(Err(BodyError::TooSlow))
}

async fn collect(
    mut body: Incoming,
    length: Option<usize>,
    budget: &BodyBudget,
    limit: usize,
) -> Result<ReadBody, BodyError> {
    // A declared length is no reason to reserve memory before the bytes arrive.
    let mut read = BytesMut::new();
    let mut share: Option<OwnedSemaphorePermit> = None;
    let mut paid = SMALL;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| BodyError::Broken)?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let total = read.len() + data.len();
        if total > limit {
            return Err(BodyError::TooLong);
        }
        if total > paid {
            // In growing steps, as the buffer grows.
            let more = total.max(2 * paid).min(limit.max(total)) - paid;
            let taken = budget.take(more)?;
            paid += more;
            match &mut share {
                Some(share) => share.merge(taken),
                None => share = Some(taken),
            }
        }
        // Most bodies arrive in one piece, which is not copied.
        if read.is_empty() && length == Some(data.len()) {
            return Ok(ReadBody {
                bytes: data,
                _share: share,
            });
        }
        read.extend_from_slice(&data);
    }
    Ok(ReadBody {
        bytes: read.freeze(),
        _share: share,
    })
}
