//! Accepting connections: bounded in number, each with little time to say what it wants.

use crate::error::ServeError;
use crate::gate::{Connection, Gate, HURRY, Rules, Tokens};
use crate::guarded::Guarded;
use crate::listener::Listener;
use crate::metrics::ServerMetrics;
use crate::problem::Problem;
use crate::reserve::{Reserve, Taken};
use crate::tls::{self, Tls};
use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::Service;

/// Time connections get to finish their requests in the end.
const DRAIN: Duration = Duration::from_secs(10);
/// After a failure to accept (no descriptors left) there is no point in trying at once.
const BREATHER: Duration = Duration::from_millis(50);
/// How long a client that is turned away is listened to, and how many are at once: to close while its
/// request is unread would take the answer from it.
const LINGER: Duration = Duration::from_millis(500);
const LINGERING: usize = 64;
const LONGEST_HEARD: usize = 16 * 1024;

/// An address that is listened on, with everything its configuration names read and checked.
#[derive(Debug)]
pub struct Server {
    listener: StdListener,
    address: SocketAddr,
    settings: Listener,
    tls: Option<Tls>,
    gate: Gate,
    rules: Rules,
    metrics: Arc<ServerMetrics>,
}

impl Server {
    /// Listens on `address`; port 0 takes a free one. Beyond loopback without TLS or without asking who is there, it warns.
    ///
    /// # Errors
    /// If the address cannot be had, or a file the settings name cannot be used.
    pub fn bind(
        address: SocketAddr,
        settings: &Listener,
        rules: Rules,
        metrics: ServerMetrics,
    ) -> Result<Self, ServeError> {
        let (tokens, tls) = open(settings)?;
        let refused = |cause| ServeError::Listen { address, cause };
        let listener = StdListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        if !address.ip().is_loopback() {
            if tls.is_none() {
                tracing::warn!(%address, "listens beyond loopback without TLS; set tls_cert and tls_key");
            }
            if !tokens.guard_all() && settings.client_ca.is_none() {
                tracing::warn!(%address, "anybody who reaches it may ask; set bearer_token_file or client_ca");
            }
        }
        let metrics = Arc::new(metrics);
        let gate = Gate::new(settings, tokens, rules, Arc::clone(&metrics));
        let settings = settings.clone();
        Ok(Self { listener, address, settings, tls, gate, rules, metrics })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it counts.
    #[must_use]
    pub fn metrics(&self) -> Arc<ServerMetrics> {
        Arc::clone(&self.metrics)
    }

    /// Serves until `stop`, then lets requests in work finish.
    ///
    /// # Errors
    /// If the runtime cannot wait on the socket.
    pub async fn run(self, routes: Router, stop: impl Future<Output = ()>) -> io::Result<()> {
        let listener = TcpListener::from_std(self.listener)?;
        let front = Arc::new(Front::new(
            &self.settings,
            self.rules,
            self.tls,
            routes.layer(self.gate),
            self.metrics,
        ));
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        tokio::pin!(stop);
        loop {
            while connections.try_join_next().is_some() {}
            let accepted = tokio::select! {
                biased;
                () = &mut stop => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => front.meet(stream, &graceful, &mut connections),
                Err(_) => {
                    front.metrics.accept_errors.fetch_add(1, Relaxed);
                    tokio::time::sleep(BREATHER).await;
                }
            }
        }
        // Who comes now must find nobody rather than wait for an answer that never comes.
        drop(listener);
        let _ = tokio::time::timeout(DRAIN, graceful.shutdown()).await;
        // Whoever still has not finished is cut off: nothing may hold the service up.
        connections.shutdown().await;
        Ok(())
    }
}

/// Reads the files that settings name and listens nowhere.
///
/// # Errors
/// If one of them cannot be used.
pub fn check(settings: &Listener) -> Result<(), ServeError> {
    open(settings).map(drop)
}

fn open(settings: &Listener) -> Result<(Tokens, Option<Tls>), ServeError> {
    Ok((Tokens::of(settings)?, tls::open(settings)?))
}

/// What connections meet.
struct Front {
    limit: usize,
    reserve: Arc<Reserve>,
    read_timeout: Duration,
    write_timeout: Duration,
    tls: Option<Tls>,
    routes: Router,
    http: http1::Builder,
    /// Of places in the reserve: short of patience, and one request each.
    hurried: http1::Builder,
    lingering: Arc<Semaphore>,
    metrics: Arc<ServerMetrics>,
}

impl Front {
    fn new(
        settings: &Listener,
        rules: Rules,
        tls: Option<Tls>,
        routes: Router,
        metrics: Arc<ServerMetrics>,
    ) -> Self {
        let builder = |patience: Duration, keep_alive: bool| {
            let mut http = http1::Builder::new();
            // Not pipeline_flush: with requests waiting it never writes, so a client that does not
            // read would never be noticed.
            http.timer(TokioTimer::new()).header_read_timeout(patience).keep_alive(keep_alive);
            if let Some(longest) = rules.longest_head {
                http.max_buf_size(longest);
            }
            http
        };
        let read_timeout = settings.read_timeout.get();
        Self {
            limit: settings.connections,
            reserve: Arc::default(),
            read_timeout,
            write_timeout: settings.write_timeout.get(),
            tls,
            routes,
            http: builder(read_timeout, true),
            hurried: builder(read_timeout.min(HURRY), false),
            lingering: Arc::new(Semaphore::new(LINGERING)),
            metrics,
        }
    }

    fn meet(
        self: &Arc<Self>,
        stream: TcpStream,
        graceful: &GracefulShutdown,
        tasks: &mut JoinSet<()>,
    ) {
        // Only this loop adds, so two cannot both take the last place.
        let others = self.metrics.open.load(Relaxed).saturating_sub(self.reserve.taken());
        let entered = if others < self.limit { None } else { Some(self.reserve.enter()) };
        let taken = entered.map(|entered| {
            if !matches!(entered, Some((_, false))) {
                // This one, or the one whose place it takes.
                self.metrics.refused.fetch_add(1, Relaxed);
            }
            entered.map(|(taken, _)| taken)
        });
        if let Some(None) = taken {
            // In clear text an answer would mean nothing to a client that speaks TLS.
            if self.tls.is_none() {
                let place = Arc::clone(&self.lingering).try_acquire_owned().ok();
                tasks.spawn(async move {
                    let _ = tokio::time::timeout(LINGER, turn_away(stream, place)).await;
                });
            }
            return;
        }
        let counted = Counted::new(&self.metrics);
        let (front, watcher) = (Arc::clone(self), graceful.watcher());
        let taken = taken.flatten();
        tasks.spawn(async move {
            let reserved = taken.as_ref().map(|taken| Arc::clone(&taken.stay));
            let serving = front.serve(stream, Connection { certified: false, reserved }, watcher);
            // A client that leaves, dawdles or talks nonsense is no error of ours.
            match &taken {
                None => {
                    let _ = serving.await;
                }
                Some(Taken { stay, .. }) => tokio::select! {
                    _ = serving => {}
                    () = stay.over() => {}
                },
            }
            drop((taken, counted));
        });
    }

    async fn serve(
        &self,
        stream: TcpStream,
        mut connection: Connection,
        watcher: Watcher,
    ) -> Option<()> {
        stream.set_nodelay(true).ok()?;
        let reserved = connection.reserved.is_some();
        let write_timeout = if reserved { HURRY } else { self.write_timeout };
        let stream = Guarded::new(stream, self.write_timeout.min(write_timeout));
        let Some(tls) = &self.tls else {
            return self.speak(stream, connection, watcher).await;
        };
        let shaking = TlsAcceptor::from(tls.get()).accept(stream);
        let patience = if reserved { HURRY } else { self.read_timeout };
        let stream = tokio::time::timeout(patience, shaking).await.ok()?.ok()?;
        connection.certified = stream.get_ref().1.peer_certificates().is_some();
        self.speak(stream, connection, watcher).await
    }

    async fn speak<S>(&self, stream: S, connection: Connection, watcher: Watcher) -> Option<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let http = if connection.reserved.is_some() { &self.hurried } else { &self.http };
        let service = Spoken { routes: self.routes.clone(), connection };
        watcher.watch(http.serve_connection(TokioIo::new(stream), service)).await.ok()
    }
}

/// The routes, told what connection a request came on.
struct Spoken {
    routes: Router,
    connection: Connection,
}

impl hyper::service::Service<Request<Incoming>> for Spoken {
    type Response = axum::response::Response;
    type Error = std::convert::Infallible;
    type Future = axum::routing::future::RouteFuture<std::convert::Infallible>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(self.connection.clone());
        // A router is always ready.
        self.routes.clone().call(request)
    }
}

/// One connection among those counted.
struct Counted(Arc<ServerMetrics>);

impl Counted {
    fn new(metrics: &Arc<ServerMetrics>) -> Self {
        metrics.open.fetch_add(1, Relaxed);
        Self(Arc::clone(metrics))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

/// Tells a client that there are too many, and hears it out if there is a place for that.
async fn turn_away(mut stream: TcpStream, place: Option<OwnedSemaphorePermit>) -> io::Result<()> {
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too many connections; try again");
    let body = problem.to_string();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
         content-length: {}\r\nconnection: close\r\nretry-after: 1\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    let (mut request, mut heard) = ([0; 1024], 0);
    while place.is_some() && heard < LONGEST_HEARD {
        match stream.read(&mut request).await? {
            0 => break,
            bytes => heard += bytes,
        }
    }
    Ok(())
}
