//! One container, from its making to its end.

use super::course::{Course, First, Teller};
use super::{REMOVE_WITHIN, engine_error, remove};
use crate::Error;
use crate::identity::PREFIX;
use crate::runtime::{Happened, Workload};
use bollard::Docker;
use bollard::query_parameters::KillContainerOptions;
use crosstalk_host::ControlGroup;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime as Tokio;

/// An engine passes a signal on in milliseconds; one that takes longer hangs.
const SIGNAL_WITHIN: Duration = Duration::from_secs(10);
/// An engine that did not answer once is not waited for as long again.
const REMOVE_AGAIN_WITHIN: Duration = Duration::from_secs(1);

pub(super) struct Contained {
    pub(super) docker: Docker,
    pub(super) tokio: Arc<Tokio>,
    pub(super) name: String,
    /// What people call it: the beginning of the engine's own name.
    pub(super) id: String,
    /// How long the engine takes from being asked to the start.
    pub(super) lead: Duration,
    /// What is to become of it, until it is asked to start.
    pub(super) course: Option<Course>,
    pub(super) teller: Teller,
    pub(super) first: Arc<Mutex<Option<First>>>,
    /// Whether the engine did not answer when it was last asked for something quick.
    pub(super) hangs: Arc<AtomicBool>,
    pub(super) is_removed: bool,
}

impl Contained {
    fn first(&self) -> Option<First> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a signal; that it was sent is told only if there was somebody to take it.
    fn send(&self, signal: &'static str, then: Option<Happened>) {
        let (docker, name, teller) = (self.docker.clone(), self.name.clone(), self.teller.clone());
        let hangs = Arc::clone(&self.hangs);
        self.tokio.spawn(async move {
            let options = KillContainerOptions { signal: signal.to_owned() };
            let sent = docker.kill_container(&name, Some(options));
            let sent = tokio::time::timeout(SIGNAL_WITHIN, sent).await;
            hangs.store(sent.is_err(), Ordering::Relaxed);
            // One that has ended meanwhile needs no signal.
            if let (Ok(Ok(())), Some(what)) = (sent, then) {
                teller.tell(what, Instant::now());
            }
        });
    }
}

impl Workload for Contained {
    fn lead(&self) -> Duration {
        self.lead
    }

    /// Only asks: the engine takes a while, and others are to start too.
    fn start(&mut self) -> Result<bool, Error> {
        if let Some(course) = self.course.take() {
            self.tokio.spawn(course.run());
        }
        Ok(false)
    }

    fn ask_to_stop(&mut self) -> bool {
        self.send("SIGTERM", Some(Happened::AskedToStop));
        false
    }

    fn kill(&mut self) {
        self.send("SIGKILL", None);
        // An engine that hangs passes no signal on.
        if let Some(group) = self.group() {
            group.kill();
        }
    }

    fn group(&self) -> Option<ControlGroup> {
        self.first()?.group
    }

    fn network_of(&self) -> Option<u32> {
        Some(self.first()?.pid)
    }

    fn id(&self) -> Option<&str> {
        Some(&self.id)
    }

    fn remove(&mut self) -> Result<(), Error> {
        if self.is_removed {
            return Ok(());
        }
        // Whatever becomes of the engine, nothing of it runs on.
        if let Some(group) = self.group() {
            group.kill();
        }
        let name = self.name.trim_start_matches(PREFIX);
        let hung = self.hangs.load(Ordering::Relaxed);
        let within = if hung { REMOVE_AGAIN_WITHIN } else { REMOVE_WITHIN };
        // A timer is made inside the runtime that keeps it.
        let gone = self.tokio.block_on(async {
            tokio::time::timeout(within, remove(&self.docker, &self.name)).await
        });
        self.hangs.store(gone.is_err(), Ordering::Relaxed);
        match gone {
            Ok(removed) => removed.map_err(|error| engine_error(name, &error))?,
            Err(_) => {
                let reason = "the engine did not remove it in time; once it answers, \
                              crosstalk bench clean does"
                    .to_owned();
                return Err(Error::Container { container: name.to_owned(), reason });
            }
        }
        self.is_removed = true;
        Ok(())
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        // Whoever could say why has called `remove` before.
        let _ = self.remove();
    }
}
