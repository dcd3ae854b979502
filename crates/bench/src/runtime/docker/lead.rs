//! How long an engine takes from being asked to start a container to its start, so that it is asked as much earlier.

use super::remove;
use bollard::Docker;
use bollard::models::{ContainerCreateBody, ContainerState};
use bollard::query_parameters::{
    CreateContainerOptions, InspectContainerOptions, StartContainerOptions,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The engine puts it into any container that asks for it; it needs nothing of the image.
const INIT: &str = "/sbin/docker-init";
/// Starts that are tried: the first has to read what later ones find in memory.
const TRIES: usize = 2;
/// An engine that takes longer is not made up for.
const LONGEST: Duration = Duration::from_secs(5);

/// What is known by image. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Leads(Arc<Mutex<HashMap<String, Duration>>>);

impl Leads {
    /// How long before its time a container must be asked for: as others of its image took, else as a container with
    /// the same limits that does nothing takes.
    pub(super) async fn of(
        &self,
        docker: &Docker,
        name: &str,
        body: &ContainerCreateBody,
    ) -> Duration {
        let image = body.image.clone().unwrap_or_default();
        if let Some(known) = self.known(&image) {
            return known;
        }
        let mut least = None;
        for _ in 0..TRIES {
            let took = try_start(docker, &format!("{name}-lead"), body).await;
            least = [least, took].into_iter().flatten().min();
        }
        // Without any, it is learned from the first real start.
        let Some(lead) = least.map(|lead: Duration| lead.min(LONGEST)) else {
            return Duration::ZERO;
        };
        self.locked().insert(image, lead);
        lead
    }

    /// Takes what a real start took; a single slow one changes half.
    pub(super) fn learn(&self, image: &str, took: Duration) {
        let took = took.min(LONGEST);
        let mut all = self.locked();
        let known = all.get(image).map_or(took, |known| (*known + took) / 2);
        all.insert(image.to_owned(), known);
    }

    fn known(&self, image: &str) -> Option<Duration> {
        self.locked().get(image).copied()
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<String, Duration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts a container like `body` that only says its version, and removes it. `None` where the engine cannot.
async fn try_start(docker: &Docker, name: &str, body: &ContainerCreateBody) -> Option<Duration> {
    let mut body = body.clone();
    body.entrypoint = Some(vec![INIT.to_owned(), "--version".to_owned()]);
    body.cmd = None;
    body.exposed_ports = None;
    if let Some(host) = &mut body.host_config {
        (host.init, host.port_bindings) = (Some(true), None);
    }
    let options =
        CreateContainerOptions { name: Some(name.to_owned()), ..CreateContainerOptions::default() };
    docker.create_container(Some(options), body).await.ok()?;
    let asked = Instant::now();
    let started = docker.start_container(name, None::<StartContainerOptions>).await;
    let inspected = docker.inspect_container(name, None::<InspectContainerOptions>).await;
    // Its label leads whoever cleans up to what cannot be removed now.
    let _ = remove(docker, name).await;
    started.ok()?;
    let state = inspected.ok()?.state;
    Some(started_at(state.as_ref(), asked).saturating_duration_since(asked))
}

/// When a container that was asked for at `asked` really started, by the engine's account.
pub(super) fn started_at(state: Option<&ContainerState>, asked: Instant) -> Instant {
    engine_time(state.and_then(|state| state.started_at.as_deref()), asked, Instant::now())
}

/// When a container that started then, and of whose end was heard now, really ended: an engine first puts away what it had
/// of it, and then says so. It is asked how long the container ran, so that its clock may be another than ours.
pub(super) fn ended_at(
    state: Option<&ContainerState>,
    started: Instant,
    heard: Instant,
) -> Instant {
    let time = |text: &Option<String>| text.as_deref()?.parse::<jiff::Timestamp>().ok();
    let ran = state.and_then(|state| {
        let ran = time(&state.finished_at)?.duration_since(time(&state.started_at)?);
        started.checked_add(Duration::try_from(ran).ok()?)
    });
    ran.map_or(heard, |at| at.min(heard))
}

/// The time an engine tells, which is between these two.
fn engine_time(time: Option<&str>, from: Instant, to: Instant) -> Instant {
    let time = time.and_then(|time| time.parse::<jiff::Timestamp>().ok());
    let engine_ns = time.and_then(|time| u64::try_from(time.as_nanosecond()).ok());
    let now = Instant::now();
    let unix_ns = SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_nanos() as u64);
    match (engine_ns, unix_ns) {
        (Some(time), Ok(unix)) => {
            let ago = Duration::from_nanos(unix.saturating_sub(time));
            // An engine on another clock is believed no more than that it was between the two.
            now.checked_sub(ago).unwrap_or(from).clamp(from, to.max(from))
        }
        _ => to,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_lies_as_far_behind_the_start_as_the_engine_says_whatever_its_clock_is() {
        let started = Instant::now();
        let heard = started + Duration::from_secs(60);
        let ended = |from: &str, to: &str| {
            let state = ContainerState {
                started_at: Some(from.to_owned()),
                finished_at: Some(to.to_owned()),
                ..ContainerState::default()
            };
            ended_at(Some(&state), started, heard)
        };
        let at = |seconds| started + Duration::from_secs(seconds);
        assert_eq!(ended("1999-01-01T00:00:00Z", "1999-01-01T00:00:58Z"), at(58));
        assert_eq!(ended("2999-01-01T00:00:00Z", "2999-01-01T00:00:58Z"), at(58));
        assert_eq!(ended("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"), heard);
        assert_eq!(ended("2026-01-01T00:00:01Z", "2026-01-01T00:00:00Z"), heard);
        assert_eq!(ended("2026-01-01T00:00:00Z", "later"), heard);
        assert_eq!(ended_at(None, started, heard), heard);
    }

    #[test]
    fn a_start_lies_between_asking_and_answering_whatever_the_engine_says() {
        let asked = Instant::now();
        let at = |text: &str| {
            let state =
                ContainerState { started_at: Some(text.to_owned()), ..ContainerState::default() };
            started_at(Some(&state), asked)
        };
        assert_eq!(at("1999-01-01T00:00:00Z"), asked);
        assert!(at("2999-01-01T00:00:00Z") >= asked && at("soon") <= Instant::now());
        let heard = asked + Duration::from_secs(1);
        assert_eq!(engine_time(Some("2999-01-01T00:00:00Z"), asked, heard), heard);
        assert_eq!(engine_time(None, asked, heard), heard);
        let past = jiff::Timestamp::now() - Duration::from_millis(300);
        let begun = asked.checked_sub(Duration::from_secs(9)).unwrap();
        let found = engine_time(Some(&past.to_string()), begun, Instant::now());
        assert!(
            found < asked && found > begun + Duration::from_secs(8),
            "the engine's own account"
        );
    }

    #[test]
    fn a_slow_start_changes_half_of_what_is_known() {
        let leads = Leads::default();
        leads.learn("a", Duration::from_millis(400));
        leads.learn("a", Duration::from_millis(200));
        assert_eq!(leads.known("a"), Some(Duration::from_millis(300)));
        assert_eq!(leads.known("b"), None);
    }
}
