use super::guarded::Guarded;
use super::router;
use crate::config::Http;
use crate::error::AgentError;
use crate::log::say;
use crate::node::Node;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Enough for any request here; a longer one is answered with 431.
const LONGEST_HEAD: usize = 16 * 1024;
/// How often the clocks are compared.
const CLOCKS: Duration = Duration::from_secs(1);
/// After a failure to accept (no descriptors left) there is no point in trying at once.
const BREATHER: Duration = Duration::from_millis(100);
const TOO_MANY: &str = "{\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\
\"detail\":\"busy; try again\"}\n";
/// How long a client that is turned away is listened to, and how many are at once: to close while its
/// request is unread would take the answer from it.
const LINGER: Duration = Duration::from_millis(500);
const LINGERING: usize = 64;

/// Answers HTTP about a node until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on `address`; port 0 takes a free one.
    ///
    /// # Errors
    /// If the address cannot be had, or no thread can be made.
    pub fn start(node: Arc<Node>, address: SocketAddr, http: &Http) -> Result<Self, AgentError> {
        let refused = |source| AgentError::Listen { address, source };
        let listener = StdListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let start = |source| AgentError::Start { what: "the HTTP server", source };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(2)
            .thread_name("http")
            .thread_stack_size(512 * 1024)
            .enable_all()
            .build()
            .map_err(start)?;
        let limits = Arc::new(Limits::new(http));
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = Builder::new()
            .name("http-accept".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        _ = stopped => {}
                        () = serve(listener, node, limits) => {}
                    }
                });
                runtime.shutdown_timeout(Duration::from_millis(200));
            })
            .map_err(start)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Limits {
    connections: usize,
    write_timeout: Duration,
    /// Places for clients that are turned away.
    lingering: Arc<Semaphore>,
    http: http1::Builder,
}

impl Limits {
    fn new(config: &Http) -> Self {
        let mut http = http1::Builder::new();
        // Not pipeline_flush: with requests waiting it never writes, so a client that does not
        // read would never be noticed.
        http.timer(TokioTimer::new())
            .header_read_timeout(config.read_timeout.get())
            .max_buf_size(LONGEST_HEAD);
        let write_timeout = config.write_timeout.get();
        let lingering = Arc::new(Semaphore::new(LINGERING));
        Self { connections: config.connections, write_timeout, lingering, http }
    }
}

async fn serve(listener: StdListener, node: Arc<Node>, limits: Arc<Limits>) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            say(format_args!("cannot serve: {error}"));
            return;
        }
    };
    let routes = router(Arc::clone(&node));
    let mut clocks = tokio::time::interval(CLOCKS);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => connect(stream, &node, &routes, &limits),
                Err(_) => {
                    node.accept_errors.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(BREATHER).await;
                }
            },
            _ = clocks.tick() => node.look_at_clocks(),
        }
    }
}

/// One connection among those counted.
struct Counted(Arc<Node>);

impl Counted {
    fn new(node: &Arc<Node>, most: usize) -> Option<Self> {
        let count: &AtomicUsize = &node.connections;
        // Only the accept loop adds, so two cannot both take the last place.
        if count.load(Ordering::Relaxed) >= most {
            node.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        count.fetch_add(1, Ordering::Relaxed);
        Some(Self(Arc::clone(node)))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells a client that there are too many, and hears it out if there is a place for that.
async fn turn_away(mut stream: TcpStream, place: Option<OwnedSemaphorePermit>) -> io::Result<()> {
    let length = TOO_MANY.len();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
         content-length: {length}\r\nconnection: close\r\nretry-after: 1\r\n\r\n{TOO_MANY}"
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    let (mut request, mut heard) = ([0; 1024], 0);
    while place.is_some() && heard < LONGEST_HEAD {
        match stream.read(&mut request).await? {
            0 => break,
            bytes => heard += bytes,
        }
    }
    Ok(())
}

fn connect(stream: TcpStream, node: &Arc<Node>, routes: &Router, limits: &Arc<Limits>) {
    let Some(counted) = Counted::new(node, limits.connections) else {
        let place = Arc::clone(&limits.lingering).try_acquire_owned().ok();
        tokio::spawn(tokio::time::timeout(LINGER, turn_away(stream, place)));
        return;
    };
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(routes.clone());
    let limits = Arc::clone(limits);
    tokio::spawn(async move {
        let stream = TokioIo::new(Guarded::new(stream, limits.write_timeout));
        // A client that leaves, dawdles or talks nonsense is no error of ours.
        let _ = limits.http.serve_connection(stream, service).await;
        drop(counted);
    });
}
