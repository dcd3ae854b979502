//! The object in Kubernetes: watched for what it asks, and its status replaced.

use super::spec::CollectPolicy;
use super::{API_VERSION, KIND, Reported, Reports};
use crate::log::say;
use crosstalk_host::WithFix;
use crosstalk_inventory::{Backoff, Failure, Kubernetes, api_failure, watch_failure};
use futures_util::TryStreamExt;
use kube::api::PostParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, TypeMeta};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::pin::pin;
use std::time::Duration;
use tokio::time::Instant;

/// What an account needs, which is said where it may not do it.
const RIGHTS: &str = "let its account get, list and watch nodemetrics and update nodemetrics/status; see deploy/kubernetes/node-metric";
/// The longest pause after failures in a row.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Failures of one watch after which everything is begun anew, with a new client.
const MOST_FAILURES: u32 = 5;
/// How often a report that met another writer is made anew.
const MOST_CONFLICTS: u32 = 8;
/// How soon it is looked again while there is nothing to tell.
const SOON: Duration = Duration::from_millis(500);

/// Keeps the object up to date. Never returns.
pub(super) async fn keep(reported: &Reported, kubernetes: &Kubernetes) {
    let mut backoff = Backoff::new(LONGEST_PAUSE);
    let mut said = String::new();
    loop {
        let mut session = Session { reported, backoff: &mut backoff, said: &mut said };
        let failure = match kubernetes.client().await {
            Ok(client) => session.run(client, kubernetes.watch_timeout).await,
            Err(failure) => failure,
        };
        session.fail(&failure);
        backoff.wait().await;
    }
}

/// One connection.
struct Session<'a> {
    reported: &'a Reported,
    backoff: &'a mut Backoff,
    /// What was said last, so that it is said once.
    said: &'a mut String,
}

/// The object as it was seen last, and what it asks for.
struct Seen {
    object: DynamicObject,
    policy: CollectPolicy,
}

impl Session<'_> {
    fn fail(&mut self, failure: &Failure) {
        Reports::count(&self.reported.node.reports.failed);
        self.tell(failure.with_fix());
    }

    fn tell(&mut self, what: String) {
        if *self.said != what {
            say(format_args!("NodeMetric {}: {what}", self.reported.name));
            *self.said = what;
        }
    }

    /// Watches and reports until that has to begin anew, and says why.
    async fn run(&mut self, client: Client, watch_timeout: Duration) -> Failure {
        let (group, version) = API_VERSION.split_once('/').unwrap_or_default();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, KIND));
        let api: Api<DynamicObject> = Api::all_with(client, &resource);
        let seconds = watch_timeout.as_secs().clamp(1, u64::from(u32::MAX)) as u32;
        let config = watcher::Config::default()
            .timeout(seconds)
            .fields(&format!("metadata.name={}", self.reported.name));
        let mut events = pin!(watcher::watcher(api.clone(), config));
        let mut seen: Option<Seen> = None;
        let mut listed: Option<DynamicObject> = None;
        let mut due = Instant::now();
        let mut failures = 0;
        loop {
            let event = tokio::select! {
                biased;
                () = tokio::time::sleep_until(due), if seen.is_some() => {
                    match self.report(&api, &mut seen).await {
                        Ok(pause) => due = Instant::now() + pause,
                        Err(failure) => return failure,
                    }
                    continue;
                }
                event = events.try_next() => event,
            };
            match event {
                Ok(Some(event)) => {
                    if !matches!(event, Event::Init) {
                        failures = 0;
                        self.backoff.reset();
                    }
                    let before = seen.as_ref().map(|seen| seen.policy.clone());
                    self.take(event, &mut seen, &mut listed);
                    // What is asked for anew is told anew.
                    if seen.as_ref().map(|seen| &seen.policy) != before.as_ref() {
                        due = Instant::now();
                    }
                }
                Ok(None) => return Failure::away("the watch ended", ""),
                Err(error) => {
                    let (failure, anew) = watch_failure(error, RIGHTS);
                    failures += 1;
                    if anew || failures >= MOST_FAILURES {
                        return failure;
                    }
                    self.fail(&failure);
                    self.backoff.wait().await;
                }
            }
        }
    }

    fn take(
        &mut self,
        event: Event<DynamicObject>,
        seen: &mut Option<Seen>,
        listed: &mut Option<DynamicObject>,
    ) {
        match event {
            Event::Init => *listed = None,
            Event::InitApply(object) => *listed = Some(object),
            Event::InitDone => {
                *seen = listed.take().map(|object| self.seen(object));
                if seen.is_none() {
                    let way_out = "Koordinator's manager makes it; without one: kubectl apply";
                    self.tell(format!("there is no such object; {way_out}"));
                }
            }
            Event::Apply(object) => *seen = Some(self.seen(object)),
            Event::Delete(_) => {
                *seen = None;
                self.tell("the object was deleted".to_owned());
            }
        }
    }

    fn seen(&mut self, object: DynamicObject) -> Seen {
        let (policy, remarks) = self.reported.policy.obeying(&object.data["spec"]);
        if !remarks.is_empty() {
            self.tell(remarks.join("; "));
        }
        Seen { object, policy }
    }

    /// Replaces the status. Where somebody else wrote meanwhile, the object is read and the status put in again. Says when
    /// the next report is due.
    async fn report(
        &mut self,
        api: &Api<DynamicObject>,
        seen: &mut Option<Seen>,
    ) -> Result<Duration, Failure> {
        if !self.reported.is_known() {
            return Ok(SOON);
        }
        let reported = self.reported;
        let reports = &reported.node.reports;
        let refused = |error: kube::Error| api_failure(&error, RIGHTS);
        for _ in 0..MOST_CONFLICTS {
            let Some(now) = seen.as_mut() else { return Ok(SOON) };
            put(&mut now.object, reported.status(&now.policy));
            let name = &reported.name;
            match api.replace_status(name, &PostParams::default(), &now.object).await {
                Ok(object) => {
                    Reports::count(&reports.done);
                    self.backoff.reset();
                    self.said.clear();
                    now.object = object;
                    return Ok(now.policy.every);
                }
                Err(kube::Error::Api(answer)) if answer.code == 409 => {
                    Reports::count(&reports.conflicts);
                    let newest = api.get_opt(name).await.map_err(refused)?;
                    *seen = newest.map(|object| self.seen(object));
                }
                // Deleted meanwhile: the watch tells.
                Err(kube::Error::Api(answer)) if answer.code == 404 => {
                    *seen = None;
                    return Ok(SOON);
                }
                Err(error) => return Err(refused(error)),
            }
        }
        Err(Failure::away(
            format!("{MOST_CONFLICTS} conflicts in a row"),
            "see who else writes its status",
        ))
    }
}

/// Puts our fields into an object's status. What else is in it is somebody else's and stays.
fn put(object: &mut DynamicObject, status: serde_json::Map<String, Value>) {
    object.types = Some(TypeMeta { api_version: API_VERSION.to_owned(), kind: KIND.to_owned() });
    if !object.data.is_object() {
        object.data = json!({});
    }
    let held = &mut object.data["status"];
    match held.as_object_mut() {
        Some(held) => held.extend(status),
        None => *held = Value::Object(status),
    }
}
