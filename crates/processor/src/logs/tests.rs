use super::*;
use crate::cache::{Cache, LabelNames};
use crosstalk_inventory::{Facts, NearestOwner, Pod, Workload};
use serde_json::json;

fn snapshot_of(pods: Vec<Pod>) -> Snapshot {
    let cache = Cache::new(LabelNames::default(), std::time::Duration::ZERO);
    cache.update("static", Facts { pods, ..Facts::default() });
    cache.snapshot()
}

fn snapshot() -> Snapshot {
    let workload = |name: &str| Workload {
        name: name.into(),
        uid: format!("{name}-uid").into(),
        ..Default::default()
    };
    let pod = Pod {
        name: "train-0".into(),
        namespace: "ml".into(),
        uid: "pod-1".into(),
        workloads: vec![workload("train"), workload("sweep")],
        ..Default::default()
    };
    snapshot_of(vec![pod])
}

const LINE: &str =
    "iteration 2/ 50 | consumed samples: 256 | lm loss: 1.18E+01 | loss scale: 1.0 |";

fn record(pod: &str, message: &str) -> serde_json::Value {
    json!({
        "date": 1761223152.5, "stream": "stdout", "logtag": "F", "message": message,
        "kubernetes": {"pod_name": pod, "namespace_name": "ml", "pod_id": format!("{pod}-id"), "host": "n1", "container_name": "main"},
    })
}

fn intake() -> LogIntake {
    LogIntake::new(&Logs::default(), &RequestLimits::default()).unwrap()
}

fn read(body: &str) -> Result<(Batch, Metrics), Refusal> {
    read_with(body.as_bytes(), &snapshot())
}

fn read_with(body: &[u8], snapshot: &Snapshot) -> Result<(Batch, Metrics), Refusal> {
    let metrics = Metrics::default();
    let intake = intake();
    let batch = intake.read(body, snapshot, &metrics)?;
    Ok((batch, metrics))
}

/// Workload and pod of each observation.
fn owners(batch: &Batch) -> Vec<(&str, &str)> {
    batch.observations.iter().map(|o| (o.workload_uid.as_str(), o.pod_uid.as_str())).collect()
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
    assert_eq!(owners(&batch), [("train-uid", "pod-1"), ("sweep-uid", "pod-1")]);
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
fn a_run_is_of_the_nearest_owner_and_its_group_is_the_top() {
    let workload = |name: &str, kind: &str| Workload {
        name: name.into(),
        uid: format!("{name}-uid").into(),
        kind: kind.into(),
    };
    let nearest = NearestOwner { owner: workload("trial", "Job"), top_uid: "sweep-uid".into() };
    let pod = Pod {
        name: "trial-0".into(),
        namespace: "ml".into(),
        workloads: vec![workload("billing", ""), workload("sweep", "Experiment")],
        nearest_owner: Some(nearest),
        ..Default::default()
    };
    let body = json!([record("trial-0", LINE)]).to_string();
    let (batch, _) = read_with(body.as_bytes(), &snapshot_of(vec![pod])).unwrap();
    let told: Vec<_> = batch
        .observations
        .iter()
        .map(|o| (&*o.workload_uid, o.workload_kind.as_deref(), o.group.as_ref().map(|g| &*g.uid)))
        .collect();
    assert_eq!(told, [("billing-uid", None, None), ("trial-uid", Some("Job"), Some("sweep-uid"))]);
    // Without an inventory, as far as labels tell.
    let mut labelled = record("x", LINE);
    labelled["kubernetes"]["labels"] = json!({"jobset.sigs.k8s.io/jobset-name": "set", "batch.kubernetes.io/job-name": "set-workers-0"});
    let (batch, _) = read(&json!([labelled]).to_string()).unwrap();
    let told = &batch.observations[0];
    assert_eq!(
        (&*told.workload_uid, &*told.group.as_ref().unwrap().uid),
        ("ml:set-workers-0", "ml:set")
    );
}

#[test]
fn our_own_pods_are_skipped() {
    let (batch, metrics) =
        read(&json!([record("crosstalk-processor-7f", LINE)]).to_string()).unwrap();
    assert_eq!((batch.accepted, batch.observations.len()), (1, 0));
    assert_eq!(metrics.log_analysis.get(["skipped"]), 1);
}

#[test]
fn a_body_that_holds_no_record_gives_none() {
    for body in ["", " \n"] {
        assert!(read(body).is_err(), "{body:?}");
    }
    for (body, rejected) in [("not json\n{}", 2), ("[{\"date\": 1,", 1), ("[1,", 2), ("[", 1)] {
        let (batch, _) = read(body).unwrap();
        assert_eq!((batch.accepted, batch.rejected), (0, rejected), "{body:?}");
    }
}

#[test]
fn of_several_times_and_messages_in_a_record_the_best_counts() {
    let pod = r#""kubernetes": {"pod_name": "a", "namespace_name": "ml", "pod_id": "a-id"}"#;
    let times = r#""time": "2025-10-23T12:39:12.5Z""#;
    for record in [
        // Fluent Bit's `Time_Keep On`: its own date beside the input's time.
        format!(r#"{{"date": 1761223152.5, {times}, "log": "{LINE}", {pod}}}"#),
        format!(r#"{{{times}, "date": 1761223152.5, "log": "{LINE}", {pod}}}"#),
        format!(
            r#"{{"@timestamp": "2020-01-01T00:00:00Z", "date": 1761223152.5, "log": "{LINE}", {pod}}}"#
        ),
        // Both the line and what a parser made of it; a name twice; a date that is none.
        format!(r#"{{"date": 1761223152.5, "log": "raw", "message": "{LINE}", {pod}}}"#),
        format!(r#"{{"date": 1761223152.5, "log": "{LINE}", "log": "again", {pod}}}"#),
        format!(r#"{{"date": "soon", {times}, "log": "{LINE}", {pod}}}"#),
        format!(r#"{{"date": null, {times}, "message": null, "log": "{LINE}", {pod}}}"#),
        format!(r#"{{"date": 1761223152.5, "message": {{"level": 3}}, "log": "{LINE}", {pod}}}"#),
    ] {
        let (batch, _) = read(&record).unwrap();
        assert_eq!((batch.accepted, batch.examples.len()), (1, 0), "{record} {:?}", batch.examples);
        assert_eq!(batch.observations.len(), 1, "{record}");
        assert_eq!(batch.observations[0].at, 1_761_223_152_500_000_000, "{record}");
    }
}

#[test]
fn metadata_of_any_type_costs_no_record() {
    let mut null_id = record("a", LINE);
    null_id["kubernetes"]["pod_id"] = json!(null);
    null_id["kubernetes"]["labels"] = json!({"job-name": 7, "x": null, "y": {"z": [1]}});
    let mut odd = record("b", LINE);
    odd["kubernetes"]["host"] = json!(12);
    odd["kubernetes"]["namespace_name"] = json!(null);
    odd["kubernetes"]["labels"] = json!("none");
    odd["kubernetes"]["annotations"] = json!({"a": 1});
    let (batch, _) = read(&json!([null_id, odd]).to_string()).unwrap();
    assert_eq!((batch.accepted, batch.rejected), (2, 0), "{:?}", batch.examples);
    assert_eq!(owners(&batch), [("ml:7", "ml:a"), ("b-id", "b-id")]);
}

#[test]
fn one_bad_byte_costs_at_most_its_record() {
    let good = record("a", LINE).to_string();
    let other = record("b", &format!("{LINE} X")).to_string();
    for (separators, bad) in
        [(["[", ",", "]"], 0xff), (["", "\n", ""], 0xff), (["[", ",", "]"], 0x01)]
    {
        let [open, between, close] = separators;
        let body = format!("{open}{good}{between}{other}{between}{good}{close}").into_bytes();
        let body: Vec<u8> = body.into_iter().map(|b| if b == b'X' { bad } else { b }).collect();
        let (batch, _) = read_with(&body, &snapshot()).unwrap();
        assert_eq!(batch.accepted + batch.rejected, 3);
        let kept = if bad == 0xff { 3 } else { 2 };
        assert_eq!(
            (batch.accepted, batch.observations.len()),
            (kept, kept),
            "{:?}",
            batch.examples
        );
    }
    // The array cut off in its third record.
    let cut = format!("[{good},{good},{}", &good[..20]);
    let (batch, _) = read(&cut).unwrap();
    assert_eq!((batch.accepted, batch.rejected, batch.examples[0].index), (2, 1, 2));
}

#[test]
fn no_records_are_no_error() {
    for body in ["[]", " [ ] \n"] {
        let (batch, _) = read(body).unwrap();
        assert_eq!((batch.accepted, batch.rejected), (0, 0), "{body:?}");
    }
}

#[test]
fn a_training_line_of_no_pod_is_rejected_with_the_reason() {
    let nobody = json!({"date": 1761223152.5, "message": format!("{LINE}\n{LINE}")});
    let other = json!({"date": 1761223152.5, "message": "hello"});
    let (batch, metrics) = read(&json!([other, nobody, record("a", LINE)]).to_string()).unwrap();
    assert_eq!((batch.accepted, batch.rejected, batch.observations.len()), (2, 1, 1));
    assert_eq!(batch.examples[0].index, 1);
    assert!(batch.examples[0].reason.contains("kubernetes.pod_name"), "{:?}", batch.examples);
    assert_eq!(metrics.log_rejected.get(["no_pod"]), 2);
    let (batch, _) = read(&json!([other, nobody]).to_string()).unwrap();
    assert!(!batch.doubtful, "no source will ever know whose it is");
}

#[test]
fn an_observation_that_cannot_be_stored_is_told_by_its_record() {
    let mut known = record("train-0", LINE);
    known["kubernetes"]["pod_id"] = json!("pod-1");
    let (mut batch, _) = read(&json!([record("a", "hello"), known]).to_string()).unwrap();
    assert_eq!((batch.accepted, batch.observations.len()), (2, 2));
    // Both of its workloads' rows.
    batch.reject_observation(0, "too long".to_owned());
    batch.reject_observation(1, "too long".to_owned());
    assert_eq!((batch.accepted, batch.rejected), (1, 1));
    assert_eq!(batch.examples, [RejectedRecord { index: 1, reason: "too long".to_owned() }]);
}

#[test]
fn a_pod_is_found_as_for_metrics() {
    const UID: &str = "11111111-1111-1111-1111-111111111111";
    let other_uid = UID.replace('1', "9");
    let workload = |uid: &str| Workload { name: uid.into(), uid: uid.into(), ..Default::default() };
    let pod = |namespace: &str, name: &str, uid: &str, owner: &str| Pod {
        name: name.into(),
        namespace: namespace.into(),
        uid: uid.into(),
        workloads: vec![workload(owner)],
        ..Default::default()
    };
    let pods = vec![
        pod("a", "p", UID, "ua"),
        pod("", "bare", "", "ubare"),
        pod("a", "twice", "", "u1"),
        pod("b", "twice", "", "u2"),
    ];
    let snapshot = snapshot_of(pods);
    for (namespace, name, uid, expected) in [
        ("a", "p", UID, ("ua", UID)),
        ("a", "p", "", ("ua", UID)),
        ("", "p", "", ("ua", UID)),
        ("", "", UID, ("ua", UID)),
        // Another pod of the same name, which the caches do not know yet.
        ("a", "p", &*other_uid, (&*other_uid, &*other_uid)),
        // A UID that is another pod's.
        ("b", "q", UID, (UID, UID)),
        ("c", "p", "", ("c:p", "c:p")),
        ("ml", "bare", "bare-id", ("ubare", "bare-id")),
        ("b", "twice", "", ("u2", "b:twice")),
        ("", "twice", "", (":twice", ":twice")),
    ] {
        let mut said = record(name, LINE);
        said["kubernetes"]["namespace_name"] = json!(namespace);
        said["kubernetes"]["pod_id"] = json!(uid);
        let (batch, _) = read_with(said.to_string().as_bytes(), &snapshot).unwrap();
        assert_eq!(owners(&batch), [expected], "{namespace}/{name} {uid}");
    }
}

#[test]
fn what_short_lines_say_is_charged_by_what_it_takes_and_not_by_their_length() {
    let about = About { workload: Some("w".into()), ..About::default() };
    let body = "step: 1 loss: 2.5\n".repeat(1000);
    let batch =
        intake().read_lines(body.as_bytes(), &about, &snapshot(), &Metrics::default()).unwrap();
    assert_eq!(batch.observations.len(), 1000);
    let each = size_of::<Observation>() + size_of::<crosstalk_training_log::Performance>();
    assert!(batch.bytes() > 1000 * each && batch.bytes() > 10 * body.len(), "{}", batch.bytes());
    assert_eq!(Batch::default().bytes(), 0);
}

#[test]
fn a_line_goes_to_whoever_had_the_name_when_it_was_written() {
    let second = 1_000_000_000;
    let pod = |uid: &str, from: u64, to: Option<u64>| {
        let workload = format!("{uid}-job");
        let workload =
            Workload { name: workload.as_str().into(), uid: workload.into(), ..Default::default() };
        let mut pod = Pod {
            name: "train-0".into(),
            namespace: "ml".into(),
            uid: uid.into(),
            workloads: vec![workload],
            ..Default::default()
        };
        pod.valid.valid_from_ns = from * second;
        pod.valid.valid_to_ns = to.map(|to| to * second);
        pod
    };
    let (first, second_one) = (1_794_780_000, 1_794_785_000);
    let again = pod("second", second_one, None);
    let snapshot = snapshot_of(vec![pod("first", first, Some(second_one - 10)), again]);
    for (at, expected) in [
        (second_one - 600, ("first-job", "first")),
        (second_one + 600, ("second-job", "second")),
        // Nobody is known to have had it then.
        (first - 600, ("ml:train-0", "ml:train-0")),
    ] {
        let mut said = record("train-0", LINE);
        said["date"] = json!(at);
        said["kubernetes"].as_object_mut().unwrap().remove("pod_id");
        let (batch, _) = read_with(said.to_string().as_bytes(), &snapshot).unwrap();
        assert_eq!(owners(&batch), [expected], "{at}");
    }
}
