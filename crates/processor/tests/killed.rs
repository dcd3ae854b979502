//! `kill -9` at any moment: nothing that was acknowledged is lost, and order is kept.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use support::process::ProcessorProcess;
use support::sink::Sink;
use support::write::try_write;

#[test]
fn what_was_acknowledged_arrives_in_order_however_often_the_processor_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let sink = Sink::start();
    let mut processor = ProcessorProcess::start(folder.path(), &sink.url(), "");
    let address = processor.address;
    let finished = AtomicBool::new(false);

    let acknowledged: Vec<Vec<i64>> = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..3)
            .map(|sender| {
                let finished = &finished;
                scope.spawn(move || {
                    let name = format!("from_{sender}");
                    let labels =
                        [("__name__", name.as_str()), ("namespace", "ml"), ("pod", "train-0")];
                    let mut acknowledged = Vec::new();
                    let mut number = 0;
                    // As real senders do: the same sample again until it is taken, then the next.
                    while !finished.load(Ordering::Relaxed) {
                        match try_write(address, &[(&labels, &[(number as f64, number)])]) {
                            Some(answer) if answer.status == 204 => {
                                acknowledged.push(number);
                                number += 1;
                            }
                            _ => support::pace(Duration::from_millis(5)),
                        }
                    }
                    acknowledged
                })
            })
            .collect();
        for round in 0..8u64 {
            // Stores come and go too, so that blocks wait on disk when the next kill comes.
            sink.answer_always((round % 2 == 1).then_some("503 Away"));
            support::pace(Duration::from_millis(100 + 37 * round));
            processor.kill();
            processor.restart();
        }
        sink.answer_always(None);
        finished.store(true, Ordering::Relaxed);
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    });

    for (sender, numbers) in acknowledged.iter().enumerate() {
        assert!(numbers.len() > 10, "sender {sender} got only {} through", numbers.len());
        let name = format!("__name__=workload_from_{sender} ");
        let arrived = support::eventually("all that was acknowledged", || {
            let mut first_seen = Vec::new();
            let mut known = HashMap::new();
            for series in sink.series().iter().filter(|series| series.labels.starts_with(&name)) {
                for (value, timestamp) in &series.samples {
                    assert_eq!(*value, (*timestamp as f64).to_bits());
                    if known.insert(*timestamp, ()).is_none() {
                        first_seen.push(*timestamp);
                    }
                }
            }
            numbers.iter().all(|number| known.contains_key(number)).then_some(first_seen)
        });
        assert!(arrived.is_sorted(), "sender {sender}: order is lost");
    }
}
