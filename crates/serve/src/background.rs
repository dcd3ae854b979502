use crate::error::ServeError;
use crate::server::Server;
use axum::Router;
use std::net::SocketAddr;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use tokio::sync::oneshot;

/// A server on threads of its own, for a service that is not asynchronous itself. Dropping it ends it.
#[derive(Debug)]
pub struct Background {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Serves `routes` on two threads; every second, on one of them, calls `tick`.
    ///
    /// # Errors
    /// If no thread can be made.
    pub fn start(
        server: Server,
        routes: Router,
        tick: impl Fn() + Send + 'static,
    ) -> Result<Self, ServeError> {
        let address = server.address();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(2)
            .thread_name("http")
            .thread_stack_size(512 * 1024)
            .enable_all()
            .build()
            .map_err(ServeError::Thread)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = move || {
            runtime.block_on(async {
                let ticking = async {
                    let mut clock = tokio::time::interval(Duration::from_secs(1));
                    loop {
                        clock.tick().await;
                        tick();
                    }
                };
                let stop = async {
                    let _ = stopped.await;
                };
                tokio::select! {
                    served = server.run(routes, stop) => if let Err(error) = served {
                        tracing::error!(%error, "cannot serve");
                    },
                    () = ticking => {}
                }
            });
            runtime.shutdown_timeout(Duration::from_millis(200));
        };
        let thread = Builder::new()
            .name("http-accept".to_owned())
            .spawn(serving)
            .map_err(ServeError::Thread)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
