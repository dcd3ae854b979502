//! Two processors behind a balancer, with one PostgreSQL and one store.
#![allow(clippy::unwrap_used)]

#[path = "../../store/tests/servers/mod.rs"]
#[allow(dead_code)]
mod servers;
mod support;

use std::collections::BTreeMap;

use crosstalk_processor::config::{Endpoint, Period, Secret};
use serde_json::{Value, json};
use support::Service;
use support::http::{get, send};
use support::sink::Sink;

const ITERATIONS: i64 = 60;

fn post(service: &Service, iteration: i64) {
    let record = json!({"date": 1766652000 + iteration, "log": format!("step: {iteration} loss: 2.5"),
                        "kubernetes": {"namespace_name": "ml", "pod_name": "p"}});
    let answer = send(service.address, "POST", "/logs", &[], record.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// What one sender's round of remote write is: series of both pods, kept with one instance as a balancer does.
fn write(service: &Service, sender: usize, round: i64) {
    let sender = sender.to_string();
    let of = |namespace| {
        [("__name__", "up"), ("namespace", namespace), ("pod", "train-0"), ("sender", &*sender)]
    };
    let (ml, other, samples) = (of("ml"), of("other"), [(round as f64, round)]);
    let series: [support::write::Given<'_>; 2] = [(&ml, &samples), (&other, &samples)];
    support::eventually("a sender tries until it is taken", || {
        let answer = support::write::try_write(service.address, &series)?;
        assert!([204, 429, 503].contains(&answer.status), "{}", answer.text());
        (answer.status == 204).then_some(())
    });
}

fn iterations(training: &Value) -> Vec<i64> {
    let points = training["points"].as_array().into_iter().flatten();
    points.filter_map(|point| point["iteration"].as_i64()).collect()
}

#[test]
fn two_processors_fill_one_postgresql_and_one_store_without_a_gap_or_a_double() {
    let server = servers::Server::postgres();
    let url = format!("{}{}", server.url, server.first_database);
    let sink = Sink::start();
    let start = || {
        Service::start(|config| {
            config.database = Secret::new(url.clone());
            let pods = config.data_dir.with_file_name("pods.yaml");
            std::fs::write(&pods, support::PODS).unwrap();
            config.cache.static_file = Some(pods);
            let max_backoff = Period::millis(200);
            config.endpoints = vec![Endpoint { max_backoff, ..Endpoint::new("store", sink.url()) }];
        })
    };
    // Both make the tables.
    let both = std::thread::scope(|scope| {
        let starting = [scope.spawn(start), scope.spawn(start)];
        starting.map(|starting| starting.join().unwrap())
    });
    // Each gets every other line of one pod, and each third comes again to the other one. The store fails now and then.
    std::thread::scope(|scope| {
        for (place, service) in both.iter().enumerate() {
            let sink = &sink;
            scope.spawn(move || {
                for iteration in 1..=ITERATIONS {
                    if iteration % 2 == place as i64 || iteration % 3 == 0 {
                        post(service, iteration);
                    }
                    if iteration % 7 == 0 {
                        sink.answer_next("503 Busy");
                    }
                    write(service, place, iteration);
                }
            });
        }
    });
    let expected: Vec<i64> = (1..=ITERATIONS).collect();
    let of_senders = |name: &str| {
        let mut of_series: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for arrived in sink.series() {
            if arrived.labels.contains(&format!("__name__={name} ")) {
                let times = arrived.samples.iter().map(|(_, time)| *time);
                of_series.entry(arrived.labels).or_default().extend(times);
            }
        }
        of_series
    };
    let arrived = support::eventually("every sample is at the store", || {
        let arrived = of_senders("workload_up");
        (arrived.values().map(Vec::len).sum::<usize>() >= 4 * expected.len()).then_some(arrived)
    });
    assert_eq!(arrived.len(), 4, "two senders with two pods: {:?}", arrived.keys());
    for (labels, times) in arrived {
        assert_eq!(times, expected, "{labels}");
        let owner = if labels.contains("namespace=ml ") { "w-ml" } else { "w-other" };
        assert!(labels.contains(&format!("workload_uid={owner} ")), "{labels}");
    }
    for service in &both {
        let training = support::eventually("everything is stored", || {
            let training = get(service.address, "/workloads/ml:p/training");
            (training.status == 200).then(|| training.json()).filter(|t| iterations(t) == expected)
        });
        assert_eq!(training["runs"].as_array().unwrap().len(), 1, "{training}");
        let workloads = get(service.address, "/workloads").json();
        assert_eq!(workloads["items"].as_array().unwrap().len(), 1, "{workloads}");
    }
}
