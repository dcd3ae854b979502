//! Questions to the API about owners. Many are under way at once, and none waits for another that hangs.

use super::access::{code, failure};
use super::pods::controller;
use crate::source::Failure;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResource, OwnerReference};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::time::Duration;

/// Owners of one API version that are asked for at once: with fewer, a large cluster far away takes half a minute of round
/// trips. Each version has places of its own, so that one whose server hangs takes none of another's.
const AT_ONCE: usize = 64;

/// Time for one answer.
pub(super) const ASK_TIMEOUT: Duration = Duration::from_secs(5);

/// Questions that were not answered yet.
#[derive(Default)]
pub(super) struct Asking {
    under_way: FuturesUnordered<BoxFuture<'static, Reply>>,
    /// By API version.
    lines: HashMap<String, Line>,
}

/// Questions about one API version.
#[derive(Default)]
struct Line {
    under_way: usize,
    waiting: VecDeque<(String, BoxFuture<'static, Reply>)>,
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").field("under_way", &self.under_way.len()).finish_non_exhaustive()
    }
}

/// An owner that is asked for, and where.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) namespace: String,
    pub(super) owner: OwnerReference,
}

/// What came of a question.
pub(super) enum Reply {
    /// About the kinds of an API version.
    Kinds(String, Result<Found, Failure>),
    /// About an owner.
    Owner(Asked, Result<Answer, Failed>),
}

/// What the API serves under a version.
#[derive(Debug, PartialEq)]
pub(super) enum Found {
    /// These; none where it knows no such version.
    Kinds(Vec<APIResource>),
    /// We may not know.
    Forbidden,
}

/// What the API says of one owner.
#[derive(Debug)]
pub(super) enum Answer {
    /// Who controls it.
    Controlled(Option<OwnerReference>),
    /// It is not there, or another object has its name.
    Gone,
    /// We may not know.
    Forbidden,
}

/// An owner, or a whole API version, that could not be asked for now.
#[derive(Debug)]
pub(super) struct Failed {
    /// A UID when one owner fails, else an API version.
    pub(super) what: String,
    pub(super) failure: Failure,
}

impl Reply {
    fn version(&self) -> &str {
        match self {
            Reply::Kinds(version, _) => version,
            Reply::Owner(asked, _) => &asked.owner.api_version,
        }
    }
}

impl Asking {
    /// Asks for the kinds of an API version.
    pub(super) fn kinds(&mut self, client: &Client, version: &str) {
        let question = kinds_of(client.clone(), version.to_owned());
        self.ask(version, version, Box::pin(question));
    }

    /// Asks who is above an owner of this kind.
    pub(super) fn owner(&mut self, client: &Client, asked: Asked, kind: APIResource) {
        let (version, uid) = (asked.owner.api_version.clone(), asked.owner.uid.clone());
        self.ask(&version, &uid, Box::pin(ask(client.clone(), asked, kind)));
    }

    fn ask(&mut self, version: &str, what: &str, question: BoxFuture<'static, Reply>) {
        let line = self.lines.entry(version.to_owned()).or_default();
        if line.under_way < AT_ONCE {
            line.under_way += 1;
            self.under_way.push(question);
        } else {
            line.waiting.push_back((what.to_owned(), question));
        }
    }

    /// The next reply; `None` where nothing is asked.
    pub(super) async fn next(&mut self) -> Option<Reply> {
        let reply = self.under_way.next().await?;
        let version = reply.version();
        if let Some(line) = self.lines.get_mut(version) {
            match line.waiting.pop_front() {
                Some((_, question)) => self.under_way.push(question),
                None => line.under_way -= 1,
            }
            if line.under_way == 0 {
                self.lines.remove(version);
            }
        }
        Some(reply)
    }

    /// Gives up what waits for a place in the line of an API version, and says what that is.
    pub(super) fn give_up(&mut self, version: &str) -> Vec<String> {
        let waiting = self.lines.get_mut(version).map(|line| std::mem::take(&mut line.waiting));
        waiting.into_iter().flatten().map(|(what, _)| what).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }
}

async fn kinds_of(client: Client, version: String) -> Reply {
    let asking = async {
        match version.contains('/') {
            true => client.list_api_group_resources(&version).await,
            false => client.list_core_api_resources(&version).await,
        }
    };
    let answer = match tokio::time::timeout(ASK_TIMEOUT, asking).await {
        Ok(Ok(list)) => Ok(Found::Kinds(list.resources)),
        Ok(Err(error)) if code(&error) == Some(403) => Ok(Found::Forbidden),
        Ok(Err(error)) if matches!(code(&error), Some(404 | 410)) => Ok(Found::Kinds(Vec::new())),
        Ok(Err(error)) => Err(failure(&error)),
        Err(_) => Err(late(&version)),
    };
    Reply::Kinds(version, answer)
}

/// Who controls an owner, whose object is found where the API itself says.
async fn ask(client: Client, asked: Asked, kind: APIResource) -> Reply {
    let Asked { namespace, owner } = &asked;
    let (group, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: owner.api_version.clone(),
        kind: owner.kind.clone(),
        plural: kind.name,
    };
    let api: Api<DynamicObject> = match kind.namespaced {
        true => Api::namespaced_with(client, namespace, &resource),
        false => Api::all_with(client, &resource),
    };
    let all_of_it = |failure| Failed { what: owner.api_version.clone(), failure };
    let answer = match tokio::time::timeout(ASK_TIMEOUT, api.get_metadata(&owner.name)).await {
        Err(_) => Err(all_of_it(late(&format!("{} {}", owner.kind, owner.name)))),
        // Another object of the same name that came after ours is not our owner.
        Ok(Ok(object)) if object.metadata.uid.as_ref() != Some(&owner.uid) => Ok(Answer::Gone),
        Ok(Ok(object)) => Ok(Answer::Controlled(controller(object.metadata))),
        Ok(Err(error)) => match code(&error) {
            Some(403) => Ok(Answer::Forbidden),
            Some(404 | 410) => Ok(Answer::Gone),
            Some(500..) => Err(Failed { what: owner.uid.clone(), failure: failure(&error) }),
            _ => Err(all_of_it(failure(&error))),
        },
    };
    Reply::Owner(asked, answer)
}

fn late(what: &str) -> Failure {
    Failure::away(format!("{what}: no answer within {ASK_TIMEOUT:?}"), "")
}
