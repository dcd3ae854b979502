//! The object's status, from what is known of processor time and memory.

use super::cpu::CpuUse;
use super::spec::{CollectPolicy, go_duration};
use crate::memory::{Aggregate, History, Published, Which, over, place_of};
use crate::node::Node;
use crosstalk_coldmem::Policy;
use crosstalk_model::Placement;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Of a duration, so much must be known before it is aggregated over: a minute is no half hour.
const ENOUGH: f64 = 0.8;

/// Under which extension the policy of the system's usage stands.
const SYSTEM: &str = "crosstalk.dev/system-memory";

/// Everything a status is made of.
pub(crate) struct Known<'a> {
    pub(crate) node: &'a Node,
    pub(crate) memory: Option<&'a Published>,
    pub(crate) cpu: &'a CpuUse,
    pub(crate) policy: &'a CollectPolicy,
    pub(crate) now_ns: u64,
    /// The time of day, as Kubernetes writes it.
    pub(crate) update_time: String,
}

/// One resource over one duration, with what it falls back to.
#[derive(Clone, Copy)]
struct Memory {
    aggregate: Aggregate,
    coverage: f64,
    policy: Policy,
}

impl Known<'_> {
    /// The fields of the status that are ours.
    pub(crate) fn status(&self) -> Map<String, Value> {
        let length = self.policy.aggregate;
        let cpu = self.cpu_over(&self.cpu.node, length).map(|(cpu, _)| cpu.avg);
        let memory = self.memory_of(Which::Node, "", length);
        let (pods, used_by_pods) = self.pods(length);
        let system_cpu = cpu.map(|cpu| (cpu - used_by_pods).max(0.0));
        let system_memory = self.memory_of(Which::System, "", length);
        let average = |memory: Option<Memory>| memory.map(|memory| memory.aggregate.avg);
        let mut node_metric = json!({
            "nodeUsage": {"resources": resources(cpu, average(memory))},
            "aggregatedNodeUsages": self.aggregated(),
            "systemUsage": {"resources": resources(system_cpu, average(system_memory))},
        });
        let cold = self.memory.and_then(|memory| memory.round.node.row.cold_bytes);
        if let Some(extensions) = self.extensions(memory, cold) {
            node_metric["extensions"] = extensions;
            // What is left of the node may fall back where the node does not.
            if let Some(system) = system_memory {
                node_metric["extensions"][SYSTEM] = self.about(system);
            }
        }
        let mut status = Map::new();
        status.insert("updateTime".to_owned(), json!(self.update_time));
        status.insert("nodeMetric".to_owned(), node_metric);
        status.insert("podsMetric".to_owned(), Value::Array(pods));
        status
    }

    fn cpu_over(&self, history: &History<1>, length: Duration) -> Option<(Aggregate, f64)> {
        let over = history.over(0, self.now_ns, length)?;
        Some((over.aggregate, over.coverage))
    }

    /// Under the policy asked for or, where it has no sample, without page cache. Memory may be looked at more rarely than the
    /// time is long: the last look stands for it as long as the next is not overdue.
    fn memory_of(&self, which: Which, name: &str, length: Duration) -> Option<Memory> {
        let published = self.memory?;
        let history = published.histories.get(&(which, Arc::from(name)))?;
        let last = |policy: Policy| {
            let last = history.last(place_of(policy)).filter(|_| published.is_current(self.now_ns));
            let aggregate = Aggregate::of(vec![last?])?;
            Some(Memory { aggregate, coverage: 0.0, policy })
        };
        let under = |policy: Policy| {
            let known = over(Some(history), place_of(policy), self.now_ns, length).map(|over| {
                let (aggregate, coverage) = (over.aggregate, over.coverage);
                Memory { aggregate, coverage, policy }
            });
            known.or_else(|| last(policy))
        };
        under(self.policy.memory).or_else(|| under(Policy::UsageWithoutPageCache))
    }

    fn aggregated(&self) -> Vec<Value> {
        let mut all = Vec::new();
        for length in &self.policy.durations {
            let enough = |coverage: f64| coverage >= ENOUGH;
            let cpu = self.cpu_over(&self.cpu.node, *length).filter(|(_, known)| enough(*known));
            let memory =
                self.memory_of(Which::Node, "", *length).filter(|memory| enough(memory.coverage));
            if cpu.is_none() && memory.is_none() {
                continue;
            }
            let mut usage = Map::new();
            let cpu = cpu.map(|(cpu, _)| cpu.values());
            let memory = memory.map(|memory| memory.aggregate.values());
            for (at, name) in Aggregate::NAMES.into_iter().enumerate() {
                let of = |values: Option<[f64; 5]>| values.map(|values| values[at]);
                usage.insert(name.to_owned(), json!({"resources": resources(of(cpu), of(memory))}));
            }
            all.push(json!({"usage": usage, "duration": go_duration(*length)}));
        }
        all
    }

    /// The pods whose names are known, and the processor time of all.
    fn pods(&self, length: Duration) -> (Vec<Value>, f64) {
        let of_memory = self.memory.into_iter().flat_map(|memory| memory.round.of(Which::Pod));
        let mut found: Vec<(Arc<str>, Placement, Option<u64>)> = of_memory
            .map(|held| (held.key.1.clone(), (*held.row.place).clone(), held.row.cold_bytes))
            .collect();
        let known: HashSet<Arc<str>> = found.iter().map(|(uid, ..)| uid.clone()).collect();
        // Processor time does not wait for memory.
        for uid in self.cpu.pods.keys().filter(|uid| !known.contains(*uid)) {
            let place = Placement { pod_uid: Some(uid.clone()), ..Placement::default() };
            found.push((uid.clone(), place, None));
        }
        let mut used = 0.0;
        let mut pods = Vec::new();
        for (uid, place, cold) in found {
            let history = self.cpu.pods.get(&uid);
            let cpu = history.and_then(|history| self.cpu_over(history, length));
            let cpu = cpu.map(|(cpu, _)| cpu.avg);
            used += cpu.unwrap_or(0.0);
            pods.extend(self.pod((&uid, &place), cold, cpu, length));
        }
        (pods, used)
    }

    fn pod(
        &self,
        (uid, place): (&str, &Placement),
        cold: Option<u64>,
        cpu: Option<f64>,
        length: Duration,
    ) -> Option<Value> {
        let place = self.node.place(place);
        let (name, namespace) = (place.pod_name?, place.pod_namespace?);
        let memory = self.memory_of(Which::Pod, uid, length);
        // One that is gone, and of which nothing was measured for as long, is not told of.
        if cpu.is_none() && memory.is_none() {
            return None;
        }
        let mut pod = json!({
            "name": name,
            "namespace": namespace,
            "podUsage": {"resources": resources(cpu, memory.map(|memory| memory.aggregate.avg))},
        });
        let inventory = self.node.inventory.as_ref().map(|inventory| inventory.snapshot());
        let known = inventory.as_ref().and_then(|snapshot| snapshot.pod(uid));
        let classes = known.map(|pod| [("priority", &pod.priority), ("qos", &pod.qos)]);
        for (key, class) in classes.into_iter().flatten().filter(|(_, class)| !class.is_empty()) {
            pod[key] = json!(class);
        }
        if let Some(extensions) = self.extensions(memory, cold) {
            pod["extensions"] = extensions;
        }
        Some(pod)
    }

    /// What the resources leave unsaid: the policy they are under, why it is another one, and what is cold.
    fn extensions(&self, memory: Option<Memory>, cold: Option<u64>) -> Option<Value> {
        let memory = memory?;
        let mut about = self.about(memory);
        if let Some(cold) = cold {
            about["coldBytes"] = json!(cold);
        }
        Some(json!({"crosstalk.dev/memory": about}))
    }

    fn about(&self, memory: Memory) -> Value {
        let mut about = json!({"policy": memory.policy.name()});
        if memory.policy != self.policy.memory {
            about["fallback"] = json!(format!("{} has no data here", self.policy.memory));
        }
        about
    }
}

/// A list of resources as Kubernetes writes it: cores in thousandths, memory in bytes. What is not known is not in it.
fn resources(cores: Option<f64>, bytes: Option<f64>) -> Value {
    let mut all = Map::new();
    if let Some(cores) = cores {
        all.insert("cpu".to_owned(), json!(format!("{}m", (cores * 1e3).round().max(0.0) as u64)));
    }
    if let Some(bytes) = bytes {
        all.insert("memory".to_owned(), json!((bytes.round() as u64).to_string()));
    }
    Value::Object(all)
}
