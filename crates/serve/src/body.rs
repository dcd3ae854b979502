//! Reading a request body: no larger, no slower and no more at once than allowed.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, EXPECT};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::gate::Place;
use crate::problem::Problem;

/// Bytes of all bodies in memory at once.
#[derive(Debug, Clone)]
pub struct Budget {
    room: Arc<Semaphore>,
    /// All of it, in units.
    units: u32,
}

/// Unit in which the budget is counted.
const UNIT: usize = 1024;

impl Budget {
    /// Room for so many.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        Budget { room: Arc::new(Semaphore::new(units as usize)), units }
    }

    /// Waits until there is room for so many; what needs more than there ever is waits until it is alone.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let budget = crosstalk_serve::Budget::new(100 << 10);
    /// let mut share = budget.take(100 << 10).await;
    /// crosstalk_serve::keep_only(&mut share, 10 << 10);
    /// budget.take(90 << 10).await;
    /// drop(share);
    /// budget.take(1 << 20).await;
    /// # });
    /// ```
    pub async fn take(&self, bytes: usize) -> OwnedSemaphorePermit {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.units);
        let share = Arc::clone(&self.room).acquire_many_owned(units).await;
        share.expect("the semaphore is never closed")
    }
}

/// Gives back what a share is larger than so many bytes.
pub fn keep_only(share: &mut OwnedSemaphorePermit, bytes: usize) {
    drop(share.split(share.num_permits().saturating_sub(bytes.div_ceil(UNIT))));
}

/// A body with what it takes: whoever works on it keeps that until the work has ended, whether or not its sender still waits.
#[derive(Debug)]
pub struct Held {
    /// The body.
    pub bytes: Vec<u8>,
    /// Gives the budget back when dropped.
    pub share: Option<OwnedSemaphorePermit>,
    /// Its place among the requests in work.
    pub place: Option<Place>,
}

/// Why a body was not read.
#[derive(Debug, PartialEq, Eq)]
pub enum Unread {
    /// Over the limit.
    TooLarge,
    /// It did not come in time.
    TooSlow,
    /// No room for it among the others.
    NoBudget,
    /// The client left.
    BrokenOff,
}

/// Room taken before the first byte came; a declared length is believed only so far.
const FIRST_ROOM: usize = 64 << 10;

/// Bytes of a body that is not wanted which are still taken off the connection before it is answered.
const MAX_DISCARDED: usize = 64 << 20;

/// Reads a whole body.
///
/// # Errors
/// If it is not wanted or does not come. One that is refused half-way is still taken off the connection: see [`discard`].
pub async fn read(
    request: Request<Body>,
    limit: usize,
    timeout: Duration,
    budget: &Budget,
) -> Result<Held, Unread> {
    let declared = declared_length(request.headers());
    if declared.is_some_and(|length| length > limit) {
        discard(request, timeout).await;
        return Err(Unread::TooLarge);
    }
    let place = request.extensions().get::<Place>().cloned();
    let mut body = request.into_body();
    let reading = async {
        let result = gather(&mut body, declared.unwrap_or(0), limit, budget).await;
        if matches!(result, Err(Unread::TooLarge | Unread::NoBudget)) {
            drain(&mut body).await;
        }
        result.map(|held| Held { place, ..held })
    };
    tokio::time::timeout(timeout, reading).await.unwrap_or(Err(Unread::TooSlow))
}

/// Reads a body that is not wanted and forgets it, a bounded part and for a bounded time. Many clients read no answer
/// before they have sent everything: for them a connection closed earlier is a broken pipe and not the 429 or 413 that
/// would tell them what to do.
pub async fn discard(request: Request<Body>, timeout: Duration) {
    let headers = request.headers();
    // Such a client waits to be asked for its body, and will not be.
    let waits = headers.get(EXPECT).is_some_and(|value| value.as_bytes().starts_with(b"100"));
    let too_long = declared_length(headers).is_some_and(|length| length > MAX_DISCARDED);
    if !waits && !too_long {
        let mut body = request.into_body();
        // Whoever is too slow gets the answer now.
        let _ = tokio::time::timeout(timeout, drain(&mut body)).await;
    }
}

async fn drain(body: &mut Body) {
    let mut discarded = 0;
    while discarded <= MAX_DISCARDED
        && let Some(Ok(frame)) = body.frame().await
    {
        discarded += frame.data_ref().map_or(0, |data| data.len());
    }
}

fn declared_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn gather(
    body: &mut Body,
    declared: usize,
    limit: usize,
    budget: &Budget,
) -> Result<Held, Unread> {
    let bytes = Vec::with_capacity(declared.min(FIRST_ROOM));
    let mut held = Held { bytes, share: None, place: None };
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Unread::BrokenOff)?.into_data() else {
            continue;
        };
        if held.bytes.len() + data.len() > limit {
            return Err(Unread::TooLarge);
        }
        let paid = held.share.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let owed = (held.bytes.len() + data.len()).div_ceil(UNIT).saturating_sub(paid);
        let more = Arc::clone(&budget.room).try_acquire_many_owned(owed as u32);
        let more = more.map_err(|_| Unread::NoBudget)?;
        match &mut held.share {
            Some(share) => share.merge(more),
            None => held.share = Some(more),
        }
        held.bytes.extend_from_slice(&data);
    }
    Ok(held)
}

impl Unread {
    /// What the sender is told; `limit_name` is the limit as the configuration calls it.
    #[must_use]
    pub fn response(&self, limit_name: &str, limit: usize) -> Response {
        match self {
            Unread::TooLarge => {
                let detail = format!("body is larger than {limit_name} ({limit})");
                Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail).into_response()
            }
            // Not 408: senders take a 4xx for final and drop the data.
            Unread::TooSlow => {
                let detail = "body did not arrive in time (body_timeout)";
                let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail);
                ([("connection", "close")], problem).into_response()
            }
            Unread::NoBudget => {
                let detail = "too many bodies in memory at once; try again";
                Problem::try_again(StatusCode::TOO_MANY_REQUESTS, detail)
            }
            Unread::BrokenOff => {
                Problem::new(StatusCode::BAD_REQUEST, "body broke off").into_response()
            }
        }
    }
}
