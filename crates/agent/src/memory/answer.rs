//! What `GET /memory` answers.

use super::round::{COLD, Held, Key, Round, Which, place_of};
use super::{Aggregate, History, Memory, Published, over};
use crate::node::{Node, unix_seconds};
use crate::query::{BadValue, bad};
use crosstalk_coldmem::{AgeCell, Policy, Usage};
use crosstalk_host::{Capability, Verdict, monotonic_ns};
use crosstalk_model::Placement;
use serde::Serialize;
use serde_json::json;
use std::time::Duration;

/// As many of each kind as an answer lists at most.
const MOST: usize = 4_096;

/// The parameters, for whoever reads the description; [`parse`] takes them.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code)] // only described
pub(crate) struct Parameters {
    /// Only these: node, system, pod, container or cgroup; without it all but plain cgroups.
    subject: Option<String>,
    /// How many pods, containers and cgroups, those with most to give first.
    #[param(minimum = 1, maximum = 4096, default = 100)]
    top: Option<u32>,
}

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    which: Option<Which>,
    top: usize,
}

/// Reads the parameters.
pub(crate) fn parse(pairs: &[(String, String)]) -> Result<Wanted, BadValue> {
    let mut wanted = Wanted { which: None, top: 100 };
    for (name, value) in pairs {
        match name.as_str() {
            "subject" => {
                let found = Which::ALL.into_iter().find(|which| which.name() == value);
                let known = Which::ALL.map(Which::name);
                let refuse =
                    || bad("subject", format!("there is no subject {value:?}"), json!(known));
                wanted.which = Some(found.ok_or_else(refuse)?);
            }
            "top" => {
                let top = value.parse().ok().filter(|top| (1..=MOST).contains(top));
                let what = || format!("top={value} is not within 1 and {MOST}");
                let allowed = json!({"minimum": 1, "maximum": MOST});
                wanted.top = top.ok_or_else(|| bad("top", what(), allowed))?;
            }
            other => {
                let detail = format!("there is no parameter {other:?}");
                return Err(bad(other, detail, json!(["subject", "top"])));
            }
        }
    }
    Ok(wanted)
}

impl Wanted {
    fn wants(&self, which: Which) -> bool {
        self.which.map_or(which != Which::Cgroup, |only| only == which)
    }
}

/// What is used of memory, and how much of it is cold.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct MemoryAnswer {
    timestamp: f64,
    /// Age of what is told here; absent before the first look.
    age_seconds: Option<f64>,
    /// Age of what is said to be cold, which is looked at more rarely where that is dear; absent where no ages are known.
    ages_age_seconds: Option<f64>,
    /// What tells ages: kidled, damon, mglru, or bounds where nothing does.
    backend: Option<&'static str>,
    /// starting, ok, limited, absent, failing or off.
    #[schema(value_type = String)]
    verdict: Verdict,
    /// How the source stands, and why.
    found: String,
    /// What would make it better.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
    /// The policy that `usage` is told under.
    policy: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<SubjectMemory>,
    /// What is in no pod and no container.
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<SubjectMemory>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pods: Option<Vec<SubjectMemory>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    containers: Option<Vec<SubjectMemory>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroups: Option<Vec<SubjectMemory>>,
}

/// One subject.
#[derive(Serialize, utoipa::ToSchema)]
struct SubjectMemory {
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<String>,
    #[serde(flatten)]
    #[schema(value_type = Object)]
    place: Placement,
    /// Bytes used under the policy of the answer, or under the one that falls back to.
    usage_bytes: Option<u64>,
    /// The policy that is.
    usage_policy: Option<&'static str>,
    /// Why it is not the one that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback: Option<String>,
    /// Bytes under each policy that has data.
    #[serde(rename = "usageWithHotPageCache", skip_serializing_if = "Option::is_none")]
    hot: Option<u64>,
    #[serde(rename = "usageWithoutPageCache", skip_serializing_if = "Option::is_none")]
    without: Option<u64>,
    #[serde(rename = "usageWithPageCache", skip_serializing_if = "Option::is_none")]
    with: Option<u64>,
    /// What is cold; null where ages are not known.
    cold_bytes: Option<u64>,
    /// No more than this is cold.
    at_most_bytes: Option<u64>,
    /// Pages read back after they had been reclaimed, since it was made: those were not cold.
    #[serde(skip_serializing_if = "Option::is_none")]
    refaults: Option<u64>,
    /// Nanoseconds in which a task stood still for memory, since it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    stalled_ns: Option<u64>,
    /// Idle for how long, by kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    ages: Vec<AgeCell>,
    /// What usage came to over each duration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    aggregates: Vec<Over>,
    /// What could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// Usage over one duration.
#[derive(Serialize, utoipa::ToSchema)]
struct Over {
    duration_seconds: f64,
    samples_count: usize,
    /// How much of the duration is known, 0 to 1.
    coverage: f64,
    #[serde(rename = "usageWithHotPageCache", skip_serializing_if = "Option::is_none")]
    hot: Option<Aggregate>,
    #[serde(rename = "usageWithoutPageCache", skip_serializing_if = "Option::is_none")]
    without: Option<Aggregate>,
    #[serde(rename = "usageWithPageCache", skip_serializing_if = "Option::is_none")]
    with: Option<Aggregate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cold_bytes: Option<Aggregate>,
}

impl MemoryAnswer {
    /// What is known of this node.
    pub(crate) fn of(node: &Node, wanted: Wanted) -> Self {
        let now_ns = monotonic_ns();
        let published = node.memory.newest();
        let answering =
            published.as_deref().map(|p| Answering { node, published: p, now_ns, wanted });
        let source = node.sources.iter().find(|source| source.name() == "coldmem");
        let missing = || Capability::new("coldmem", Verdict::Absent, "not a part of this agent");
        let standing = source.map_or_else(missing, |source| source.standing().capability);
        let some = |which| answering.as_ref().filter(|_| wanted.wants(which));
        let list = |which| some(which).map(|answering| answering.list(which));
        Self {
            timestamp: unix_seconds(),
            age_seconds: answering.as_ref().map(|answering| {
                now_ns.saturating_sub(answering.published.round.end_ns) as f64 * 1e-9
            }),
            ages_age_seconds: answering
                .as_ref()
                .and_then(|answering| answering.published.round.ages_age(now_ns)),
            backend: answering.as_ref().map(|answering| answering.published.round.backend.name()),
            verdict: standing.verdict,
            found: standing.found,
            fix: standing.fix,
            policy: node.memory.policy.name(),
            node: some(Which::Node)
                .map(|answering| answering.subject(&answering.published.round.node)),
            system: some(Which::System).map(Answering::system),
            pods: list(Which::Pod),
            containers: list(Which::Container),
            cgroups: list(Which::Cgroup),
        }
    }
}

/// Memory of one subject in the answer about a window.
///
/// Memory is looked at far more rarely than the window is long, so this is the last look, with its age; what it came
/// to over the window is told where the window holds a look.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct WindowMemory {
    /// Age of what is told here.
    age_seconds: f64,
    /// Age of what is said to be cold; absent where no ages are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    ages_age_seconds: Option<f64>,
    /// What tells ages: kidled, damon, mglru, or bounds where nothing does.
    backend: &'static str,
    #[serde(flatten)]
    #[schema(value_type = Object)]
    last: SubjectMemory,
    /// What usage came to over the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<Over>,
}

impl WindowMemory {
    /// Of the node, or of a pod or container by UID or id; `None` where nothing is known of it.
    pub(crate) fn of(node: &Node, which: Which, name: &str, window: Duration) -> Option<Self> {
        let now_ns = monotonic_ns();
        let published = node.memory.current(now_ns)?;
        let round = &published.round;
        let mut all = round.of(which);
        let held = all.find(|held| which == Which::Node || *held.key.1 == *name)?;
        let wanted = Wanted { which: None, top: 1 };
        let answering = Answering { node, published: &published, now_ns, wanted };
        let history = published.histories.get(&held.key);
        Some(Self {
            age_seconds: now_ns.saturating_sub(round.end_ns) as f64 * 1e-9,
            ages_age_seconds: round.ages_age(now_ns),
            backend: round.backend.name(),
            window: history.and_then(|history| of_duration(history, now_ns, window)),
            last: SubjectMemory {
                // Who it is about is said beside it, and what `GET /memory` is for, there.
                place: Placement::default(),
                ages: Vec::new(),
                aggregates: Vec::new(),
                ..answering.subject(held)
            },
        })
    }
}

struct Answering<'a> {
    node: &'a Node,
    published: &'a Published,
    now_ns: u64,
    wanted: Wanted,
}

impl Answering<'_> {
    fn memory(&self) -> &Memory {
        &self.node.memory
    }

    fn list(&self, which: Which) -> Vec<SubjectMemory> {
        let all = by_gain(&self.published.round, which);
        all.into_iter().take(self.wanted.top).map(|held| self.subject(held)).collect()
    }

    fn subject(&self, held: &Held) -> SubjectMemory {
        let row = &held.row;
        let cell = |row: &crosstalk_coldmem::ColdRow| {
            let (kind, from_ms, to_ms) = (row.kind, row.age_from_ms, row.age_to_ms);
            let (bytes, cold_bytes) = (row.bytes?, row.cold_bytes);
            Some(AgeCell { kind, from_ms, to_ms, bytes, cold_bytes })
        };
        let usage = row.usage_under(self.memory().policy);
        SubjectMemory {
            cgroup: Some(row.cgroup.to_string()),
            place: self.node.place(&row.place),
            hot: row.with_hot_page_cache(),
            without: row.without_page_cache,
            with: row.with_page_cache,
            cold_bytes: row.cold_bytes,
            at_most_bytes: row.at_most_bytes,
            refaults: row.refaults,
            stalled_ns: row.stalled_ns,
            ages: held.ages.iter().filter_map(cell).collect(),
            aggregates: self.aggregates(&held.key),
            problem: row.problem.clone(),
            ..used(usage)
        }
    }

    fn system(&self) -> SubjectMemory {
        let round = &self.published.round;
        let own = |policy| {
            round.system(policy).filter(|usage| usage.fallback().is_none()).map(|usage| usage.bytes)
        };
        SubjectMemory {
            hot: own(Policy::UsageWithHotPageCache),
            without: own(Policy::UsageWithoutPageCache),
            with: own(Policy::UsageWithPageCache),
            cold_bytes: round.system_cold(),
            aggregates: self.aggregates(&(Which::System, "".into())),
            ..used(round.system(self.memory().policy))
        }
    }

    fn aggregates(&self, key: &Key) -> Vec<Over> {
        let Some(history) = self.published.histories.get(key) else { return Vec::new() };
        let of = |length: &Duration| of_duration(history, self.now_ns, *length);
        self.memory().durations.iter().filter_map(of).collect()
    }
}

/// With nothing known but what is used.
fn used(usage: Option<Usage>) -> SubjectMemory {
    SubjectMemory {
        cgroup: None,
        place: Placement::default(),
        usage_bytes: usage.map(|usage| usage.bytes),
        usage_policy: usage.map(|usage| usage.policy.name()),
        fallback: usage.and_then(|usage| usage.fallback()),
        hot: None,
        without: None,
        with: None,
        cold_bytes: None,
        at_most_bytes: None,
        refaults: None,
        stalled_ns: None,
        ages: Vec::new(),
        aggregates: Vec::new(),
        problem: None,
    }
}

fn of_duration(history: &History, now_ns: u64, length: Duration) -> Option<Over> {
    let of = |value| over(Some(history), value, now_ns, length);
    let without = of(place_of(Policy::UsageWithoutPageCache));
    let known = without.or_else(|| of(COLD))?;
    let aggregate = |value| of(value).map(|over| over.aggregate);
    Some(Over {
        duration_seconds: length.as_secs_f64(),
        samples_count: known.samples,
        coverage: known.coverage,
        hot: aggregate(place_of(Policy::UsageWithHotPageCache)),
        without: without.map(|over| over.aggregate),
        with: aggregate(place_of(Policy::UsageWithPageCache)),
        cold_bytes: aggregate(COLD),
    })
}

/// All of a kind, those with most to give first.
pub(super) fn by_gain(round: &Round, which: Which) -> Vec<&Held> {
    let mut all: Vec<&Held> = round.of(which).collect();
    let gain = |held: &Held| held.row.cold_bytes.or(held.row.at_most_bytes).unwrap_or(0);
    all.sort_by_key(|held| std::cmp::Reverse(gain(held)));
    all
}
