//! `kill -9` at any moment: nothing that was acknowledged is lost, and order is kept.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use support::cluster::{Cluster, kubeconfig, object, pod};
use support::http::try_get;
use support::process::ProcessorProcess;
use support::sink::Sink;
use support::write::try_write;
use support::{eventually, pace};

#[test]
fn what_was_acknowledged_arrives_in_order_however_often_the_processor_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let sink = Sink::start();
    let processor = ProcessorProcess::start(folder.path(), &sink.url(), "");
    kill_again_and_again(processor, &sink, 8, ("ml", "train-0"), |_| {});
}

#[test]
fn nothing_acknowledged_is_lost_or_misses_its_owner_with_kubernetes_as_the_source() {
    let folder = tempfile::tempdir().unwrap();
    let sink = Sink::start();
    let cluster = Cluster::start("t1");
    let job = object("job", Some(("example.com/v1", "FancyJob", "sweep")));
    cluster.set("/apis/batch/v1/namespaces/ml/jobs/job", job);
    cluster.set("/apis/example.com/v1/namespaces/ml/fancyjobs/sweep", object("sweep", None));
    cluster.add_pod(pod("job-0", Some(("batch/v1", "Job", "job"))));
    let kubeconfig = kubeconfig(&cluster, folder.path()).display().to_string();
    let tables = format!("[cache.kubernetes]\nenabled = true\nkubeconfig = \"{kubeconfig}\"\n");
    let processor = ProcessorProcess::start_with_tables(folder.path(), &sink.url(), "", &tables);
    // The API is away in every other start, slow in all of them.
    cluster.slow_down(Duration::from_millis(20));
    kill_again_and_again(processor, &sink, 6, ("ml", "job-0"), |round| match round % 2 {
        0 => cluster.fail("/api"),
        _ => cluster.repair(),
    });
    for series in sink.series() {
        assert!(series.labels.contains("workload_uid=sweep-uid"), "{}", series.labels);
    }
}

/// Sends from three sides while the processor is killed, and holds what arrives against what was acknowledged.
fn kill_again_and_again(
    mut processor: ProcessorProcess,
    sink: &Sink,
    rounds: u64,
    (namespace, pod): (&str, &str),
    before_restart: impl Fn(u64),
) {
    let address = processor.address;
    let finished = AtomicBool::new(false);

    let acknowledged: Vec<Vec<i64>> = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..3)
            .map(|sender| {
                let finished = &finished;
                scope.spawn(move || {
                    let name = format!("from_{sender}");
                    let labels =
                        [("__name__", name.as_str()), ("namespace", namespace), ("pod", pod)];
                    let mut acknowledged = Vec::new();
                    let mut number = 0;
                    // As real senders do: the same sample again until it is taken, then the next.
                    while !finished.load(Ordering::Relaxed) {
                        match try_write(address, &[(&labels, &[(number as f64, number)])]) {
                            Some(answer) if answer.status == 204 => {
                                acknowledged.push(number);
                                number += 1;
                            }
                            _ => pace(Duration::from_millis(5)),
                        }
                    }
                    acknowledged
                })
            })
            .collect();
        for round in 0..rounds {
            // Stores come and go too, so that blocks wait on disk when the next kill comes.
            sink.answer_always((round % 2 == 1).then_some("503 Away"));
            pace(Duration::from_millis(100 + 37 * round));
            processor.kill();
            before_restart(round);
            processor.restart();
        }
        sink.answer_always(None);
        before_restart(1);
        eventually("the processor takes data again", || {
            let ready = try_get(address, "/readyz")?;
            (ready.status == 200).then_some(())
        });
        pace(Duration::from_millis(300));
        finished.store(true, Ordering::Relaxed);
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    });

    for (sender, numbers) in acknowledged.iter().enumerate() {
        assert!(numbers.len() > 10, "sender {sender} got only {} through", numbers.len());
        let name = format!("__name__=workload_from_{sender} ");
        let arrived = eventually("all that was acknowledged", || {
            let mut first_seen = Vec::new();
            let mut known: HashMap<i64, u64> = HashMap::new();
            for series in sink.series().iter().filter(|series| series.labels.starts_with(&name)) {
                for (value, timestamp) in &series.samples {
                    assert_eq!(*value, (*timestamp as f64).to_bits());
                    let times = known.entry(*timestamp).or_default();
                    *times += 1;
                    if *times == 1 {
                        first_seen.push(*timestamp);
                    }
                    // What was under way when it was killed may come again, and nothing else.
                    assert!(*times <= 1 + rounds, "{name}{timestamp} came {times} times");
                }
            }
            numbers.iter().all(|number| known.contains_key(number)).then_some(first_seen)
        });
        assert!(arrived.is_sorted(), "sender {sender}: order is lost");
    }
}
