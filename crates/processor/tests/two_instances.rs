//! Two processors behind a balancer, with one PostgreSQL.
#![allow(clippy::unwrap_used)]

#[path = "../../store/tests/servers/mod.rs"]
#[allow(dead_code)]
mod servers;
mod support;

use crosstalk_processor::config::Secret;
use serde_json::{Value, json};
use support::Service;
use support::http::{get, send};

const ITERATIONS: i64 = 60;

fn post(service: &Service, iteration: i64) {
    let record = json!({"date": 1766652000 + iteration, "log": format!("step: {iteration} loss: 2.5"),
                        "kubernetes": {"namespace_name": "ml", "pod_name": "p"}});
    let answer = send(service.address, "POST", "/logs", &[], record.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn iterations(training: &Value) -> Vec<i64> {
    let points = training["points"].as_array().into_iter().flatten();
    points.filter_map(|point| point["iteration"].as_i64()).collect()
}

#[test]
fn two_processors_fill_one_postgresql_without_a_gap_or_a_double() {
    let server = servers::Server::postgres();
    let url = format!("{}{}", server.url, server.first_database);
    let start = || {
        Service::start(|config| {
            config.database = Secret::new(url.clone());
        })
    };
    // Both make the tables.
    let both = std::thread::scope(|scope| {
        let starting = [scope.spawn(start), scope.spawn(start)];
        starting.map(|starting| starting.join().unwrap())
    });
    // Each gets every other line of one pod, and each third comes again to the other one.
    std::thread::scope(|scope| {
        for (place, service) in both.iter().enumerate() {
            scope.spawn(move || {
                for iteration in 1..=ITERATIONS {
                    if iteration % 2 == place as i64 || iteration % 3 == 0 {
                        post(service, iteration);
                    }
                }
            });
        }
    });
    let expected: Vec<i64> = (1..=ITERATIONS).collect();
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
