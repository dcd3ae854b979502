//! One container, from its making to its end.

use super::lead::{Leads, started_at};
use super::{REMOVE_WITHIN, engine_error, remove};
use crate::Error;
use crate::experiment::NetworkLimits;
use crate::identity::PREFIX;
use crate::runtime::{Ear, Happened, News, Workload, network};
use bollard::Docker;
use bollard::query_parameters::{
    InspectContainerOptions, KillContainerOptions, LogsOptions, StartContainerOptions,
    WaitContainerOptions,
};
use crosstalk_host::{ControlGroup, HostRoot};
use futures_util::StreamExt;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime as Tokio;

pub(super) struct Contained {
    pub(super) docker: Docker,
    pub(super) tokio: Arc<Tokio>,
    pub(super) host: HostRoot,
    pub(super) name: String,
    pub(super) id: String,
    /// How long the engine takes from being asked to the start.
    pub(super) lead: Duration,
    pub(super) leads: Leads,
    pub(super) image: String,
    pub(super) network: Option<NetworkLimits>,
    pub(super) ear: Option<Ear>,
    pub(super) news: Sender<News>,
    pub(super) index: u32,
    pub(super) round: u32,
    /// Its first process, once it runs.
    pub(super) pid: Arc<Mutex<Option<u32>>>,
    pub(super) is_removed: bool,
}

/// Tells what happens to a container; nobody may be listening any more.
#[derive(Clone)]
struct Teller {
    news: Sender<News>,
    index: u32,
    round: u32,
}

impl Teller {
    fn tell(&self, what: Happened, at: Instant) {
        let _ = self.news.send(News { index: self.index, round: self.round, what, at });
    }
}

impl Contained {
    fn pid(&self) -> Option<u32> {
        *self.pid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn teller(&self) -> Teller {
        Teller { news: self.news.clone(), index: self.index, round: self.round }
    }

    fn send(&self, signal: &'static str, then: Option<Happened>) {
        let (docker, name, teller) = (self.docker.clone(), self.name.clone(), self.teller());
        self.tokio.spawn(async move {
            let options = KillContainerOptions { signal: signal.to_owned() };
            // One that has ended meanwhile needs no signal.
            let _ = docker.kill_container(&name, Some(options)).await;
            if let Some(what) = then {
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
        let Some(mut ear) = self.ear.take() else { return Ok(false) };
        let (docker, name) = (self.docker.clone(), self.name.clone());
        let (teller, pid) = (self.teller(), Arc::clone(&self.pid));
        let (leads, image, limits) = (self.leads.clone(), self.image.clone(), self.network);
        self.tokio.spawn(async move {
            let asked = Instant::now();
            if let Err(error) = docker.start_container(&name, None::<StartContainerOptions>).await {
                ear.hear(format!("crosstalk: {error}\n").as_bytes());
                return teller.tell(Happened::Ended { code: None }, Instant::now());
            }
            let inspected = docker.inspect_container(&name, None::<InspectContainerOptions>).await;
            let state = inspected.ok().and_then(|found| found.state);
            let at = started_at(state.as_ref(), asked);
            leads.learn(&image, at.saturating_duration_since(asked));
            let first = state.and_then(|state| u32::try_from(state.pid?).ok());
            let first = first.filter(|pid| *pid > 0);
            *pid.lock().unwrap_or_else(PoisonError::into_inner) = first;
            teller.tell(Happened::Started, at);
            if let (Some(limits), Some(pid)) = (limits, first) {
                let limited = tokio::task::spawn_blocking(move || network::limit(pid, &limits));
                let limited = limited.await.unwrap_or_else(|error| Err(error.to_string()));
                if let Err(reason) = limited {
                    let reason = format!("its network cannot be limited: {reason}");
                    teller.tell(Happened::Failed { reason }, Instant::now());
                }
            }
            let logs =
                LogsOptions { follow: true, stdout: true, stderr: true, ..LogsOptions::default() };
            let mut logs = docker.logs(&name, Some(logs));
            let follow = async {
                while let Some(Ok(piece)) = logs.next().await {
                    ear.hear(&piece.into_bytes());
                }
            };
            let mut over = docker.wait_container(&name, None::<WaitContainerOptions>);
            let wait = async {
                let code = match over.next().await {
                    Some(Ok(answer)) => i32::try_from(answer.status_code).ok(),
                    // The engine tells an exit code other than 0 as an error.
                    Some(Err(bollard::errors::Error::DockerContainerWaitError {
                        code, ..
                    })) => i32::try_from(code).ok(),
                    _ => None,
                };
                teller.tell(Happened::Ended { code }, Instant::now());
            };
            tokio::join!(follow, wait);
        });
        Ok(false)
    }

    fn ask_to_stop(&mut self) -> bool {
        self.send("SIGTERM", Some(Happened::AskedToStop));
        false
    }

    fn kill(&mut self) {
        self.send("SIGKILL", None);
    }

    fn group(&self) -> Option<ControlGroup> {
        ControlGroup::of_process(&self.host, self.pid()?)
    }

    fn network_of(&self) -> Option<u32> {
        self.pid()
    }

    fn id(&self) -> Option<&str> {
        Some(&self.id)
    }

    fn remove(&mut self) -> Result<(), Error> {
        if self.is_removed {
            return Ok(());
        }
        let name = self.name.trim_start_matches(PREFIX);
        // A timer is made inside the runtime that keeps it.
        let gone = self.tokio.block_on(async {
            tokio::time::timeout(REMOVE_WITHIN, remove(&self.docker, &self.name)).await
        });
        match gone {
            Ok(removed) => removed.map_err(|error| engine_error(name, &error))?,
            Err(_) => {
                let reason = "the engine did not remove it in time".to_owned();
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
