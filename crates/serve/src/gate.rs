//! What every request passes: who may ask, how many at once, and the counting of answers.

use crate::body;
use crate::listener::Listener;
use crate::metrics::{CountAs, ServerMetrics};
use crate::problem::Problem;
use crate::reserve::{Asked, Stay};
use axum::extract::{MatchedPath, Request};
use axum::http::header::{AUTHORIZATION, CONNECTION, HeaderValue, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use crosstalk_settings::{RenewedSecret, Secret};
use std::convert::Infallible;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::{Layer, Service};

/// Whether a service lives and is ready: asked by those who have neither token nor certificate.
pub const PROBES: [&str; 4] = ["/healthz", "/readyz", "/health", "/ready"];

/// What one service wants different from another.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Paths that are served also when connections or requests are too many; probes always are.
    pub essential: &'static [&'static str],
    /// Paths that are written to: opened by `write_token`, where every other is opened by `read_token`.
    pub written: &'static [&'static str],
    /// The longest head of a request; `None` leaves it to the library, whose buffer suits large bodies.
    pub longest_head: Option<usize>,
    /// Sees every refusal, with the route it was for.
    pub on_refusal: fn(&str, Response) -> Response,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            essential: &[],
            written: &[],
            longest_head: None,
            on_refusal: |_, response| response,
        }
    }
}

/// How long whoever has one of the places kept for what is essential may take for anything.
pub(crate) const HURRY: Duration = Duration::from_secs(1);

/// In a request's extensions: what its connection is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connection {
    /// The client has shown a certificate of an authority we trust.
    pub(crate) certified: bool,
    /// The place that it has of those kept for what is essential.
    pub(crate) reserved: Option<Arc<Stay>>,
}

/// In a request's extensions: its place among the requests in work, which is free again once the last copy is gone. A client
/// that leaves takes the answer's copy with it; whoever goes on with what it began keeps another, as [`Held`] does.
///
/// [`Held`]: crate::Held
#[derive(Clone, Debug)]
pub struct Place {
    _permit: Arc<OwnedSemaphorePermit>,
}

/// Guards every route it is laid over.
#[derive(Clone, Debug)]
pub(crate) struct Gate(Arc<Inner>);

/// What opens a service; where there is no token for what is asked, it is open.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    pub(crate) all: Option<RenewedSecret>,
    pub(crate) read: Option<RenewedSecret>,
    pub(crate) write: Option<RenewedSecret>,
}

impl Tokens {
    pub(crate) fn of(listener: &Listener) -> Result<Self, crosstalk_settings::SettingsError> {
        let of = |token: &Option<Secret>, file: &Option<PathBuf>| {
            RenewedSecret::of(token.as_ref(), file.as_deref())
        };
        Ok(Tokens {
            all: of(&listener.bearer_token, &listener.bearer_token_file)?,
            read: of(&listener.read_token, &listener.read_token_file)?,
            write: of(&listener.write_token, &listener.write_token_file)?,
        })
    }

    /// Whether everything needs a token.
    pub(crate) fn guard_all(&self) -> bool {
        self.all.is_some() || (self.read.is_some() && self.write.is_some())
    }
}

#[derive(Debug)]
struct Inner {
    tokens: Tokens,
    needs_certificate: bool,
    requests: Arc<Semaphore>,
    body_timeout: Duration,
    rules: Rules,
    metrics: Arc<ServerMetrics>,
}

impl Gate {
    pub(crate) fn new(
        listener: &Listener,
        tokens: Tokens,
        rules: Rules,
        metrics: Arc<ServerMetrics>,
    ) -> Self {
        Self(Arc::new(Inner {
            tokens,
            needs_certificate: listener.client_ca.is_some(),
            requests: Arc::new(Semaphore::new(listener.requests)),
            body_timeout: listener.body_timeout.get(),
            rules,
            metrics,
        }))
    }
}

impl Inner {
    /// A place for the request if it needs one, or why it is refused.
    fn admit(&self, request: &Request) -> Result<Option<Place>, Box<Response>> {
        let path = request.uri().path();
        let unknown = Connection::default();
        let connection = request.extensions().get::<Connection>().unwrap_or(&unknown);
        let probe = PROBES.contains(&path);
        if !probe && self.needs_certificate && !connection.certified {
            self.metrics.denied.fetch_add(1, Relaxed);
            let detail = "a client certificate is required";
            return Err(Box::new(Problem::new(StatusCode::FORBIDDEN, detail).into_response()));
        }
        if !probe && !self.bears_token(path, request.headers()) {
            self.metrics.denied.fetch_add(1, Relaxed);
            let problem = Problem::new(StatusCode::UNAUTHORIZED, "a bearer token is required");
            return Err(Box::new(([(WWW_AUTHENTICATE, "Bearer")], problem).into_response()));
        }
        if probe || self.rules.essential.contains(&path) {
            connection.reserved.iter().for_each(|stay| stay.asks_for(Asked::Essential));
            return Ok(None);
        }
        if connection.reserved.is_some() {
            self.metrics.refused.fetch_add(1, Relaxed);
            let detail = "too many connections; try again";
            let mut busy = Problem::try_again(StatusCode::SERVICE_UNAVAILABLE, detail);
            busy.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            return Err(Box::new(busy));
        }
        let place = Arc::clone(&self.requests).try_acquire_owned();
        place.map(|permit| Some(Place { _permit: Arc::new(permit) })).map_err(|_| {
            self.metrics.throttled.fetch_add(1, Relaxed);
            let detail = "too many requests in work at once; try again";
            Box::new(Problem::try_again(StatusCode::TOO_MANY_REQUESTS, detail))
        })
    }

    fn bears_token(&self, path: &str, headers: &HeaderMap) -> bool {
        let written = self.rules.written.contains(&path);
        let own = if written { &self.tokens.write } else { &self.tokens.read };
        if own.is_none() && self.tokens.all.is_none() {
            return true;
        }
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        given.and_then(|value| value.split_once(' ')).is_some_and(|(scheme, given)| {
            let is = |token: &RenewedSecret| {
                same(given.trim().as_bytes(), token.get().reveal().as_bytes())
            };
            scheme.eq_ignore_ascii_case("bearer")
                && [own, &self.tokens.all].into_iter().flatten().any(is)
        })
    }
}

fn reserved(request: &Request) -> Option<&Arc<Stay>> {
    request.extensions().get::<Connection>()?.reserved.as_ref()
}

/// Takes the same time wherever the first difference is.
fn same(given: &[u8], expected: &[u8]) -> bool {
    let difference = expected
        .iter()
        .enumerate()
        .fold(0, |sum, (at, byte)| sum | (byte ^ given.get(at).copied().unwrap_or(!byte)));
    difference == 0 && given.len() == expected.len() && !expected.is_empty()
}

impl<S> Layer<S> for Gate {
    type Service = Gated<S>;

    fn layer(&self, service: S) -> Gated<S> {
        Gated { gate: Arc::clone(&self.0), service }
    }
}

/// A service behind the gate.
#[derive(Clone, Debug)]
pub(crate) struct Gated<S> {
    gate: Arc<Inner>,
    service: S,
}

impl<S> Service<Request> for Gated<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let began = Instant::now();
        let gate = Arc::clone(&self.gate);
        let matched = request.extensions().get::<MatchedPath>();
        let route = gate.metrics.route(matched.map(MatchedPath::as_str));
        match gate.admit(&request) {
            Ok(place) => {
                if let Some(place) = &place {
                    request.extensions_mut().insert(place.clone());
                }
                let answer = self.service.call(request);
                Box::pin(async move {
                    let response = answer.await?;
                    drop(place);
                    let label = response.extensions().get::<CountAs>().copied();
                    gate.metrics.count(route, label, response.status().as_u16(), began.elapsed());
                    Ok(response)
                })
            }
            Err(refusal) => {
                let matched = matched.cloned();
                let patience = match reserved(&request) {
                    Some(stay) => {
                        stay.asks_for(Asked::Other);
                        HURRY
                    }
                    None => gate.body_timeout,
                };
                Box::pin(async move {
                    // In a way that its sender gets to see.
                    body::discard(request, patience).await;
                    let matched = matched.as_ref().map_or("", MatchedPath::as_str);
                    let response = (gate.rules.on_refusal)(matched, *refusal);
                    gate.metrics.count(route, None, response.status().as_u16(), began.elapsed());
                    Ok(response)
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_token_is_the_token() {
        assert!(same(b"abc", b"abc"));
        for given in ["abcd", "ab", "abd", ""] {
            assert!(!same(given.as_bytes(), b"abc"), "{given}");
        }
        assert!(!same(b"", b""));
    }
}
