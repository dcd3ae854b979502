//! The object's status, from what is known of processor time and memory.

use super::cpu::CpuUse;
use super::spec::{CollectPolicy, go_duration};
use crate::memory::{Aggregate, Held, History, Published, Which, over, place_of};
use crate::node::Node;
use crosstalk_coldmem::Policy;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Of a duration, so much must be known before it is aggregated over: a minute is no half hour.
const ENOUGH: f64 = 0.8;

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

    /// Under the policy asked for or, where it has no sample, without page cache.
    fn memory_of(&self, which: Which, name: &str, length: Duration) -> Option<Memory> {
        let history = self.memory?.histories.get(&(which, Arc::from(name)))?;
        let under = |policy: Policy| {
            let over = over(Some(history), place_of(policy), self.now_ns, length)?;
            let (aggregate, coverage) = (over.aggregate, over.coverage);
            Some(Memory { aggregate, coverage, policy })
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
        let Some(published) = self.memory else { return (Vec::new(), 0.0) };
        let mut used = 0.0;
        let mut pods = Vec::new();
        for held in published.round.of(Which::Pod) {
            let history = self.cpu.pods.get(&held.key.1);
            let cpu = history.and_then(|history| self.cpu_over(history, length));
            let cpu = cpu.map(|(cpu, _)| cpu.avg);
            used += cpu.unwrap_or(0.0);
            pods.extend(self.pod(held, cpu, length));
        }
        (pods, used)
    }

    fn pod(&self, held: &Held, cpu: Option<f64>, length: Duration) -> Option<Value> {
        let place = self.node.place(&held.row.place);
        let (name, namespace) = (place.pod_name?, place.pod_namespace?);
        let memory = self.memory_of(Which::Pod, &held.key.1, length);
        let mut pod = json!({
            "name": name,
            "namespace": namespace,
            "podUsage": {"resources": resources(cpu, memory.map(|memory| memory.aggregate.avg))},
        });
        let inventory = self.node.inventory.as_ref().map(|inventory| inventory.snapshot());
        let known = inventory.as_ref().and_then(|snapshot| snapshot.pod(&held.key.1));
        let classes = known.map(|pod| [("priority", &pod.priority), ("qos", &pod.qos)]);
        for (key, class) in classes.into_iter().flatten().filter(|(_, class)| !class.is_empty()) {
            pod[key] = json!(class);
        }
        if let Some(extensions) = self.extensions(memory, held.row.cold_bytes) {
            pod["extensions"] = extensions;
        }
        Some(pod)
    }

    /// What the resources leave unsaid: the policy they are under, why it is another one, and what is cold.
    fn extensions(&self, memory: Option<Memory>, cold: Option<u64>) -> Option<Value> {
        let memory = memory?;
        let mut about = json!({"policy": memory.policy.name()});
        if memory.policy != self.policy.memory {
            about["fallback"] = json!(format!("{} has no data here", self.policy.memory));
        }
        if let Some(cold) = cold {
            about["coldBytes"] = json!(cold);
        }
        Some(json!({"crosstalk.dev/memory": about}))
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
