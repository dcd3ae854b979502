//! When something was last received of the list or watch of pods.
//!
//! A watch on which nothing happens says nothing, and one behind a proxy that swallowed the connection says nothing either.
//! Bookmarks tell them apart, but the watcher keeps those to itself; so the bytes are noted on their way to it.

use super::token::TokenFile;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::header::AUTHORIZATION;
use hyper::{Request, Response};
use kube::client::Body;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tower::{BoxError, Layer, Service};

/// When a byte of pods came last.
#[derive(Debug, Clone)]
pub(super) struct Pulse {
    began: Instant,
    /// Milliseconds since then, 0 for never.
    last: Arc<AtomicU64>,
}

impl Pulse {
    pub(super) fn new() -> Self {
        Pulse { began: Instant::now(), last: Arc::default() }
    }

    fn beat(&self) {
        self.last.store(self.began.elapsed().as_millis() as u64 + 1, Ordering::Relaxed);
    }

    /// The last byte; the beginning where none came.
    pub(super) fn last(&self) -> Instant {
        self.began + Duration::from_millis(self.last.load(Ordering::Relaxed).saturating_sub(1))
    }

    /// Whether anything came at all.
    pub(super) fn felt(&self) -> bool {
        self.last.load(Ordering::Relaxed) > 0
    }
}

/// Lays what we want of every exchange around a client.
#[derive(Debug, Clone)]
pub(super) struct Around {
    pub(super) pulse: Pulse,
    pub(super) token: Option<Arc<TokenFile>>,
}

impl<S> Layer<S> for Around {
    type Service = Watched<S>;

    fn layer(&self, service: S) -> Watched<S> {
        Watched { service, around: self.clone() }
    }
}

#[derive(Debug)]
pub(super) struct Watched<S> {
    service: S,
    around: Around,
}

/// The body of an answer.
pub(super) type Answer = http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError>;

impl<S, B> Service<Request<Body>> for Watched<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
    B: hyper::body::Body<Data = Bytes, Error = BoxError> + Send + 'static,
{
    type Response = Response<Answer>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(token) = &self.around.token
            && let Some(value) = token.header()
        {
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        let of_pods = request.uri().path().ends_with("/pods");
        let pulse = of_pods.then(|| self.around.pulse.clone());
        let answer = self.service.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            if let Some(pulse) = pulse.clone().filter(|_| answer.status().is_success()) {
                pulse.beat();
                return Ok(answer.map(|body| {
                    let noted = body.map_frame(move |frame| {
                        pulse.beat();
                        frame
                    });
                    noted.boxed_unsync()
                }));
            }
            Ok(answer.map(BodyExt::boxed_unsync))
        })
    }
}
