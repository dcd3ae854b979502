//! What logs say about training arrives in every store as series.
#![allow(clippy::unwrap_used)]

mod support;

use crosstalk_processor::config::{Endpoint, EndpointProtocol};
use serde_json::json;
use support::Service;
use support::http::send;
use support::sink::{Arrived, Sink};

fn body(iterations: std::ops::RangeInclusive<u32>) -> String {
    let record = |n: u32| {
        json!({"date": 1766652000 + n, "kubernetes": {"pod_name": "train-0", "namespace_name": "ml", "pod_id": "p-0", "host": "node-a",
               "labels": {"job-name": "demo"}},
               "log": format!("iteration {n}/50 | elapsed time per iteration (ms): 1500.0 | throughput per GPU (TFLOP/s/GPU): 310.5 | lm loss: {n}.5 | grad norm: nan |")})
    };
    json!(iterations.map(record).collect::<Vec<_>>()).to_string()
}

fn post(service: &Service, body: &str) -> u16 {
    send(service.address, "POST", "/logs", &[], body.as_bytes()).status
}

fn samples(series: &[Arrived], name: &str) -> Vec<(f64, i64)> {
    let named = series.iter().filter(|s| s.labels.contains(&format!("__name__={name} ")));
    named.flat_map(|s| &s.samples).map(|(bits, at)| (f64::from_bits(*bits), *at)).collect()
}

#[test]
fn every_endpoint_gets_each_sample_once_with_the_workload_on_it() {
    let sinks = [Sink::start(), Sink::start()];
    let service = Service::start(|config| {
        config.endpoints =
            vec![Endpoint::new("one", sinks[0].url()), Endpoint::new("two", sinks[1].url())];
        config.endpoints[1].protocol = EndpointProtocol::V2;
    });
    assert_eq!(post(&service, &body(1..=3)), 200);
    // A log shipper that got no answer sends again, and goes on.
    assert_eq!(post(&service, &body(2..=4)), 200);
    for sink in &sinks {
        let series = support::eventually("iteration 4", || {
            let series = sink.series();
            let loss = samples(&series, "workload_training_loss");
            (loss.len() >= 4).then_some(series)
        });
        let expected: Vec<_> = (1..=4)
            .map(|n| (f64::from(n) + 0.5, 1_766_652_000_000 + i64::from(n) * 1000))
            .collect();
        assert_eq!(samples(&series, "workload_training_loss"), expected);
        let seconds = samples(&series, "workload_training_iteration_seconds");
        assert!(
            seconds.iter().all(|(value, _)| *value == 1.5) && seconds.len() == 4,
            "{seconds:?}"
        );
        assert_eq!(samples(&series, "workload_training_tflops").len(), 4);
        assert_eq!(samples(&series, "workload_training_target_iteration")[0].0, 50.0);
        assert!(
            samples(&series, "workload_training_grad_norm").iter().all(|(value, _)| value.is_nan())
        );
        // What no line says is no series.
        assert_eq!(samples(&series, "workload_training_learning_rate"), []);
        let labels = "job=crosstalk-processor namespace=ml node=node-a pod_name=train-0 pod_uid=p-0 \
                      workload_group_name=demo workload_group_uid=ml:demo workload_kind=Job workload_name=demo workload_uid=ml:demo ";
        assert!(series.iter().all(|s| s.labels.ends_with(labels)), "{series:?}");
    }
    assert_eq!(service.metric("crosstalk_processor_dropped_samples_total{reason=\"late\"}"), 12.0);
}

#[test]
fn series_are_left_out_where_they_are_not_wanted() {
    let sink = Sink::start();
    let service = Service::start(|config| {
        config.endpoints = vec![Endpoint::new("one", sink.url())];
        config.logs.series = false;
    });
    assert_eq!(post(&service, &body(1..=3)), 200);
    assert_eq!(service.metric("crosstalk_processor_queue_bytes{endpoint=\"one\"}"), 0.0);
    assert!(sink.series().is_empty());
}
