use super::*;
use crate::cache::{Inventory, LabelNames, Pod, Workload};
use serde_json::json;

fn snapshot() -> Snapshot {
    let workload = |name: &str| Workload {
        name: name.into(),
        uid: format!("{name}-uid"),
        kind: String::new(),
    };
    let pod = Pod {
        name: "train-0".into(),
        namespace: "ml".into(),
        uid: "pod-1".into(),
        workloads: vec![workload("train"), workload("sweep")],
        ..Default::default()
    };
    let inventory = Inventory { pods: vec![pod], devices: vec![] };
    Snapshot::build(&inventory, &Inventory::default(), &LabelNames::default())
}

const LINE: &str =
    "iteration 2/ 50 | consumed samples: 256 | lm loss: 1.18E+01 | loss scale: 1.0 |";

fn record(pod: &str, message: &str) -> serde_json::Value {
    json!({
        "date": 1761223152.5, "stream": "stdout", "logtag": "F", "message": message,
        "kubernetes": {"pod_name": pod, "namespace_name": "ml", "pod_id": format!("{pod}-id"), "host": "n1", "container_name": "main"},
    })
}

fn read(body: &str) -> Result<(Batch, Metrics), String> {
    let metrics = Metrics::default();
    let intake = LogIntake::new(&Logs::default()).unwrap();
    let batch = intake.read(body.as_bytes(), &snapshot(), &metrics)?;
    Ok((batch, metrics))
}

#[test]
fn an_array_and_lines_give_the_same() {
    let records = [record("a", LINE), record("b", "hello"), record("a", "training ...")];
    let lines = records.iter().map(|r| format!("{r}\n")).collect::<String>();
    for body in [json!(records).to_string(), lines] {
        let (batch, metrics) = read(&body).unwrap();
        assert_eq!((batch.accepted, batch.rejected, batch.observations.len()), (3, 0, 2));
        assert_eq!(batch.observations[0].at, 1_761_223_152_500_000_000);
        assert_eq!(metrics.log_analysis.get(["training"]), 1);
        assert_eq!(metrics.log_analysis.get(["start"]), 1);
        assert_eq!(metrics.log_analysis.get(["other"]), 1);
    }
}

#[test]
fn a_record_that_cannot_be_read_costs_only_itself() {
    let records = [
        record("a", LINE),
        json!({"date": "never", "message": LINE}),
        json!({"message": LINE}),
        json!({"date": 1}),
        json!("text"),
        json!(null),
        record("a", LINE),
    ];
    let (batch, _) = read(&json!(records).to_string()).unwrap();
    assert_eq!((batch.accepted, batch.rejected), (2, 5));
    let places: Vec<usize> = batch.examples.iter().map(|example| example.index).collect();
    assert_eq!(places, [1, 2, 3, 4, 5]);
    assert!(batch.examples[1].reason.contains("date is missing"), "{:?}", batch.examples[1]);
}

#[test]
fn a_known_pod_speaks_for_all_its_workloads() {
    let mut known = record("train-0", LINE);
    known["kubernetes"]["pod_id"] = json!("pod-1");
    let (batch, _) = read(&json!([known]).to_string()).unwrap();
    let owners: Vec<(&str, &str)> =
        batch.observations.iter().map(|o| (o.workload_uid.as_str(), o.pod_uid.as_str())).collect();
    assert_eq!(owners, [("train-uid", "pod-1"), ("sweep-uid", "pod-1")]);
}

#[test]
fn an_unknown_pod_speaks_for_the_job_its_labels_name_or_for_itself() {
    let mut labelled = record("x", LINE);
    labelled["kubernetes"]["labels"] = json!({"training.kubeflow.org/job-name": "job-1"});
    let (batch, _) = read(&json!([labelled, record("y", LINE)]).to_string()).unwrap();
    let owners: Vec<(&str, Option<&str>)> = batch
        .observations
        .iter()
        .map(|o| (o.workload_uid.as_str(), o.workload_name.as_deref()))
        .collect();
    assert_eq!(owners, [("ml:job-1", Some("job-1")), ("y-id", Some("y"))]);
}

#[test]
fn our_own_pods_are_skipped() {
    let (batch, metrics) =
        read(&json!([record("crosstalk-processor-7f", LINE)]).to_string()).unwrap();
    assert_eq!((batch.accepted, batch.observations.len()), (1, 0));
    assert_eq!(metrics.log_analysis.get(["skipped"]), 1);
}

#[test]
fn a_body_that_is_no_list_of_records_is_refused_whole() {
    for body in ["", " \n", "[{\"date\": 1,", "[1,"] {
        assert!(read(body).is_err(), "{body:?}");
    }
    let (batch, _) = read("not json\n{}").unwrap();
    assert_eq!((batch.accepted, batch.rejected), (0, 2));
}
