//! Accepting connections: bounded in number, each with little time to say what it wants.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use crate::config::Listener;
use crate::error::Error;

/// Time connections get to finish their requests when the processor stops.
const DRAIN: Duration = Duration::from_secs(10);

/// The listening side.
pub(crate) struct Server {
    pub(crate) listener: TcpListener,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) router: Router,
    pub(crate) max_connections: usize,
    pub(crate) head_timeout: Duration,
}

impl Server {
    /// Serves until shutdown, then lets requests in work finish.
    pub(crate) async fn run(self, mut shutdown: watch::Receiver<bool>) {
        let connections = Arc::new(Semaphore::new(self.max_connections));
        let graceful = GracefulShutdown::new();
        loop {
            let permit = Arc::clone(&connections).acquire_owned();
            let accepted = tokio::select! {
                biased;
                _ = shutdown.wait_for(|stop| *stop) => break,
                accepted = async { (permit.await, self.listener.accept().await) } => accepted,
            };
            let (Ok(permit), Ok((stream, _))) = accepted else {
                // Out of file descriptors, most likely: others must close before more can open.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let (tls, router, timeout) = (self.tls.clone(), self.router.clone(), self.head_timeout);
            let watcher = graceful.watcher();
            tokio::spawn(async move {
                // What goes wrong on one connection concerns only its client, who has seen it.
                let _ = serve(stream, tls, router, timeout, watcher).await;
                drop(permit);
            });
        }
        let _ = tokio::time::timeout(DRAIN, graceful.shutdown()).await;
    }
}

type Watcher = hyper_util::server::graceful::Watcher;

async fn serve(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    router: Router,
    timeout: Duration,
    watcher: Watcher,
) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    match tls {
        Some(tls) => {
            let stream = tokio::time::timeout(timeout, tls.accept(stream)).await.ok()?.ok()?;
            connection(stream, router, timeout, watcher).await
        }
        None => connection(stream, router, timeout, watcher).await,
    }
}

async fn connection<S>(stream: S, router: Router, timeout: Duration, watcher: Watcher) -> Option<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(timeout)
        .serve_connection(TokioIo::new(stream), service);
    watcher.watch(connection).await.ok()
}

/// TLS as configured, or none.
pub(crate) fn tls_acceptor(listener: &Listener) -> Result<Option<TlsAcceptor>, Error> {
    let (Some(cert), Some(key)) = (&listener.tls_cert, &listener.tls_key) else {
        return Ok(None);
    };
    let unusable = |path: &Path, reason: String| Error::Tls { path: path.to_owned(), reason };
    let chain: Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_file_iter(cert).and_then(Iterator::collect);
    let chain = chain.map_err(|error| unusable(cert, error.to_string()))?;
    let private = PrivateKeyDer::from_pem_file(key);
    let private = private.map_err(|error| unusable(key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the default protocol versions")
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| unusable(cert, error.to_string()))?;
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}
