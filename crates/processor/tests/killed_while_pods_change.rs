//! `kill -9` while pods come, go and hand their devices over, told by annotations or by the agent of their node: nothing that was
//! acknowledged is lost, and each sample is billed to who had the device, or the name, when it was taken.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crosstalk_remote_write::STALE_MARKER_BITS;
use serde_json::{Value, json};
use support::cluster::{Cluster, kubeconfig, pod};
use support::http::{try_get, try_send};
use support::process::ProcessorProcess;
use support::sink::Sink;
use support::write::try_write;
use support::{eventually, pace};

const ROUNDS: usize = 6;

/// How long after it was taken a sample is sent. Senders gather for seconds; what comes sooner than the news of a change can
/// only go to who is known.
const SENT_AFTER: Duration = Duration::from_secs(2);

/// Three devices of a node and who holds them, and the pod that came last.
struct Node<'c> {
    cluster: &'c Cluster,
    /// Names of pods, in the order in which [`CALLED`] calls them.
    now: Mutex<[String; PLACES]>,
    /// Whether the node's agent is being restarted too.
    agent_is_away: AtomicBool,
}

const PLACES: usize = 4;

const CALLED: [&str; PLACES] = ["gpu_0", "gpu_1", "named", "gpu_2"];

/// The place of a pod that is found by its name.
const NAMED: usize = 2;

/// The place of a device that the node's agent tells of.
const REPORTED: usize = 3;

impl Node<'_> {
    fn new(cluster: &Cluster) -> Node<'_> {
        let node = Node { cluster, now: Mutex::default(), agent_is_away: AtomicBool::new(false) };
        (0..PLACES).for_each(|place| node.hand_over(place, "first"));
        node
    }

    /// Another pod takes the place of the one that is there.
    fn hand_over(&self, place: usize, to: &str) {
        let mut now = self.now.lock().unwrap();
        // No sample is of the millisecond in which the place changes hands.
        pace(Duration::from_millis(2));
        let name = format!("{}-{to}", CALLED[place].replace('_', "-"));
        let mut taken_on = pod(&name, None);
        taken_on["spec"]["nodeName"] = json!("node-k");
        let now_text = json!(jiff::Timestamp::from_millisecond(now_ms()).unwrap().to_string());
        taken_on["metadata"]["creationTimestamp"] = now_text.clone();
        taken_on["status"]["startTime"] = now_text;
        if place == REPORTED {
            taken_on["spec"]["containers"] =
                json!([{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]);
        } else if place != NAMED {
            let devices = json!({"gpu": [place.to_string()]}).to_string();
            taken_on["metadata"]["annotations"] = json!({"crosstalk.dev/devices": devices});
        }
        if !now[place].is_empty() {
            self.cluster.delete_pod(&format!("{}-uid", now[place]));
        }
        self.cluster.add_pod(taken_on);
        now[place] = name;
    }

    /// A sample of now, and whose it is.
    fn sample(&self, place: usize) -> Taken {
        let now = self.now.lock().unwrap();
        Taken { place, at: now_ms(), pod: now[place].clone() }
    }

    /// Whether a processor that is killed now leaves behind that it knew who is there.
    fn is_saved(&self, file: &Path) -> bool {
        let saved = std::fs::read_to_string(file).unwrap_or_default();
        let now = self.now.lock().unwrap();
        let saved_facts: Value = serde_json::from_str(&saved).unwrap_or_default();
        let reported = saved_facts["sources"]["agents"]["facts"]["devices"].as_array();
        let holds = |device: &Value| device["pod_name"] == now[REPORTED].as_str();
        reported.is_some_and(|devices| devices.iter().any(holds))
            && now.iter().all(|name| saved.contains(&format!("\"{name}-uid\"")))
    }

    /// Tells the processor who has the device, as the node's agent does, until all is over.
    fn report(&self, processor: &ProcessorAddress, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            if self.agent_is_away.load(Ordering::Relaxed) {
                pace(Duration::from_millis(20));
                continue;
            }
            let pod = self.now.lock().unwrap()[REPORTED].clone();
            let given = json!({"resource": "nvidia.com/gpu", "device": "GPU-2", "namespace": "ml", "pod": pod});
            let body = json!({"node": "node-k", "devices": [given]}).to_string();
            let headers = [("Content-Type", "application/json")];
            try_send(processor.0, "POST", "/devices", &headers, body.as_bytes());
            pace(Duration::from_millis(300));
        }
    }
}

#[derive(Clone)]
struct Taken {
    place: usize,
    at: i64,
    pod: String,
}

impl Taken {
    fn is_due(&self) -> bool {
        now_ms() - self.at >= SENT_AFTER.as_millis() as i64
    }

    /// Whether it was acknowledged.
    fn send(&self, processor: &ProcessorAddress) -> bool {
        let called = CALLED[self.place];
        let device = self.place.to_string();
        let labels = match self.place {
            NAMED => [("__name__", called), ("namespace", "ml"), ("pod", self.pod.as_str())],
            REPORTED => [("UUID", "GPU-2"), ("__name__", called), ("node", "node-k")],
            _ => [("__name__", called), ("gpu_id", device.as_str()), ("node", "node-k")],
        };
        let answer = try_write(processor.0, &[(&labels, &[(1.0, self.at)])]);
        answer.is_some_and(|answer| answer.status == 204)
    }
}

struct ProcessorAddress(std::net::SocketAddr);

/// Sends what is taken of one place, each sample again until it is acknowledged, in order; all that was.
fn send_late(
    node: &Node<'_>,
    place: usize,
    processor: &ProcessorAddress,
    over: &AtomicBool,
) -> Vec<Taken> {
    let (mut waiting, mut acknowledged) = (VecDeque::new(), Vec::new());
    loop {
        let ends = over.load(Ordering::Relaxed);
        if !ends {
            waiting.push_back(node.sample(place));
        } else if waiting.is_empty() {
            return acknowledged;
        }
        while let Some(first) = waiting.front().filter(|first: &&Taken| first.is_due()) {
            if !first.send(processor) {
                break;
            }
            acknowledged.extend(waiting.pop_front());
        }
        pace(Duration::from_millis(10));
    }
}

#[test]
fn whoever_is_killed_while_pods_change_loses_nothing_and_bills_nobody_for_another() {
    let folder = tempfile::tempdir().unwrap();
    let (sink, cluster) = (Sink::start(), Cluster::start("t1"));
    let node = Node::new(&cluster);
    cluster.slow_down(Duration::from_millis(20));
    let kubeconfig = kubeconfig(&cluster, folder.path()).display().to_string();
    let tables = format!("[cache.kubernetes]\nenabled = true\nkubeconfig = \"{kubeconfig}\"\n");
    let mut processor =
        ProcessorProcess::start_with_tables(folder.path(), &sink.url(), "", &tables);
    let saved = folder.path().join("data/inventory.json");
    let address = ProcessorAddress(processor.address);
    let over = AtomicBool::new(false);
    let known = || {
        eventually("all is known and saved", || {
            let ready: Value = try_get(address.0, "/readyz")?.json();
            let doubtful = ready["doubtful"].as_array()?;
            (doubtful.is_empty() && node.is_saved(&saved)).then_some(())
        });
    };
    let acknowledged: Vec<Taken> = std::thread::scope(|scope| {
        let (node, address, over) = (&node, &address, &over);
        scope.spawn(move || node.report(address, over));
        known();
        let senders: Vec<_> = (0..PLACES)
            .map(|place| scope.spawn(move || send_late(node, place, address, over)))
            .collect();
        for round in 0..ROUNDS {
            sink.answer_always((round % 2 == 1).then_some("503 Away"));
            pace(Duration::from_millis(61 * round as u64));
            let change = || {
                node.hand_over(round % 2, &round.to_string());
                node.hand_over(NAMED, &round.to_string());
                node.hand_over(REPORTED, &round.to_string());
            };
            // Before it can be heard of, when it may have been, and while nobody listens.
            match round % 3 {
                0 => change(),
                1 => {
                    change();
                    pace(Duration::from_millis(150));
                }
                _ => {}
            }
            processor.kill();
            if round % 3 == 2 {
                change();
            }
            if round % 2 == 0 {
                cluster.fail("/api");
            }
            // Beside the processor the API goes in every other round, the store and the agent in those between. Not the agent
            // with the API: who got the device of a pod that nobody saw go is then known to nobody until both are back.
            let agent_too = round % 2 == 1;
            node.agent_is_away.store(agent_too, Ordering::Relaxed);
            processor.restart();
            pace(Duration::from_millis(if agent_too { 1500 } else { 200 }));
            cluster.repair();
            node.agent_is_away.store(false, Ordering::Relaxed);
            known();
        }
        sink.answer_always(None);
        over.store(true, Ordering::Relaxed);
        senders.into_iter().flat_map(|sender| sender.join().unwrap()).collect()
    });
    hold_against(&sink, &acknowledged);
}

/// All that was acknowledged arrives, each sample as that of one pod, the one it was taken of.
fn hold_against(sink: &Sink, acknowledged: &[Taken]) {
    let whose = |taken: &Taken| (format!("workload_{}", CALLED[taken.place]), taken.at);
    let deadline = Instant::now() + Duration::from_secs(60);
    let arrived = eventually("all that was acknowledged", || {
        let arrived = arrivals(sink);
        let lost = acknowledged.iter().filter(|taken| !arrived.contains_key(&whose(taken)));
        let lost: Vec<_> = lost.map(|taken| (&taken.pod, taken.at)).collect();
        assert!(lost.is_empty() || Instant::now() < deadline, "never came: {lost:?}");
        lost.is_empty().then_some(arrived)
    });
    for taken in acknowledged {
        let expected = BTreeSet::from([format!("{}-uid", taken.pod)]);
        assert_eq!(arrived[&whose(taken)], expected, "{:?}", whose(taken));
    }
    for (sample, times) in repeats(sink) {
        // What was under way when it was killed may come again, and nothing else.
        assert!(times <= 1 + ROUNDS, "{sample:?} came {times} times");
    }
    let pods: BTreeSet<&str> = acknowledged.iter().map(|taken| &*taken.pod).collect();
    assert!(pods.len() >= PLACES + 2 * ROUNDS, "samples of everybody: {pods:?}");
}

/// Whose each sample is, by the series' name and its time; that a series has ended is no sample.
fn arrivals(sink: &Sink) -> BTreeMap<(String, i64), BTreeSet<String>> {
    let mut arrived: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for series in sink.series() {
        let label = |name: &str| {
            let value = series.labels.split(' ').find_map(|label| label.strip_prefix(name));
            value.unwrap_or_else(|| panic!("no {name} in {}", series.labels)).to_owned()
        };
        for (bits, at) in &series.samples {
            if *bits != STALE_MARKER_BITS {
                let owners = arrived.entry((label("__name__="), *at)).or_default();
                owners.insert(label("workload_uid="));
            }
        }
    }
    arrived
}

/// How often each sample came.
fn repeats(sink: &Sink) -> BTreeMap<(String, i64), usize> {
    let mut times = BTreeMap::new();
    for series in sink.series() {
        for (_, at) in series.samples.iter().filter(|(bits, _)| *bits != STALE_MARKER_BITS) {
            *times.entry((series.labels.clone(), *at)).or_default() += 1;
        }
    }
    times
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}
