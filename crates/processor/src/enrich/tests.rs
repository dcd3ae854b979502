use super::*;
use crate::cache::{Cache, LabelNames};
use crate::config::Enrichment;
use crosstalk_inventory::{Facts, Workload};
use crosstalk_remote_write::{Decoder, Limits, Protocol, STALE_MARKER_BITS};
use proptest::prelude::*;

/// Labels and values of every series, as a store would see them.
#[derive(Debug, Default, PartialEq)]
struct Stored(Vec<(Labels, Vec<u64>)>, Vec<String>);

type Labels = Vec<(String, String)>;
type Given<'a> = (&'a [(&'a str, &'a str)], &'a [f64]);

impl<'b> Receiver<'b> for Stored {
    fn series(&mut self, series: &Series<'_, 'b>) {
        let labels = series.labels.iter().map(|l| (l.name.to_owned(), l.value.to_owned()));
        let values = series.samples.iter().map(|sample| sample.value.to_bits());
        self.0.push((labels.collect(), values.collect()));
    }
    fn metadata(&mut self, metadata: &Metadata<'b>) {
        self.1.push(metadata.family.to_owned());
    }
}

fn snapshot() -> Snapshot {
    let workload = |name: &str| Workload {
        name: name.into(),
        uid: format!("{name}-uid").into(),
        kind: "Job".into(),
    };
    let pod = Pod {
        name: "p".into(),
        namespace: "ns".into(),
        uid: "p-uid".into(),
        node: "n".into(),
        workloads: vec![workload("w1"), workload("w2")],
        ..Pod::default()
    };
    let cache = Cache::new(LabelNames::default(), std::time::Duration::ZERO);
    cache.update("static", Facts { pods: vec![pod], ..Facts::default() });
    cache.snapshot()
}

fn enrich(enrichment: &Enrichment, series: &[Given<'_>]) -> (Stored, Counts) {
    let rules = Rules::new(enrichment);
    let snapshot = snapshot();
    let mut outputs = [Output::new(Protocol::V1, 1)];
    let mut buffers = Buffers::default();
    let mut enricher = Enricher {
        rules: &rules,
        snapshot: &snapshot,
        memory: None,
        outputs: &mut outputs,
        buffers: &mut buffers,
        counts: Counts::default(),
    };
    for (labels, values) in series {
        let mut labels: Vec<Label<'_>> =
            labels.iter().map(|&(name, value)| Label { name, value }).collect();
        labels.sort_unstable();
        let samples: Vec<Sample> =
            values.iter().zip(1..).map(|(&value, at)| Sample::new(value, at)).collect();
        enricher.series(&Series::of_samples(&labels, &samples));
    }
    enricher.metadata(&Metadata { family: "up", ..Default::default() });
    let counts = std::mem::take(&mut enricher.counts);
    drop(enricher);
    let mut stored = Stored::default();
    // The decoder checks once more that labels are sorted and unique.
    let outcome = Decoder::new(Limits::default())
        .decode(Protocol::V1, &outputs[0].plain(), &mut stored)
        .unwrap();
    assert_eq!(outcome.rejected, 0, "{:?}", outcome.examples);
    (stored, counts)
}

fn text(labels: &[(String, String)]) -> String {
    labels.iter().map(|(name, value)| format!("{name}={value} ")).collect()
}

#[test]
fn one_series_comes_out_for_each_workload_of_the_pod() {
    let labels =
        [("__name__", "up"), ("pod", "p"), ("namespace", "ns"), ("job", "kubelet"), ("zone", "z")];
    let (stored, counts) = enrich(&Enrichment::default(), &[(&labels, &[1.0])]);
    assert_eq!(stored.0.len(), 2);
    assert_eq!(
        text(&stored.0[0].0),
        "__name__=workload_up exported_job=kubelet job=crosstalk-processor namespace=ns pod=p pod_name=p \
         pod_uid=p-uid workload_name=w1 workload_uid=w1-uid zone=z "
    );
    assert!(text(&stored.0[1].0).contains("workload_name=w2 workload_uid=w2-uid"));
    assert_eq!(stored.1, ["workload_up"]);
    assert_eq!(counts.enriched, 1);
}

#[test]
fn labels_a_series_brings_under_our_names_are_kept_under_others() {
    let labels = [
        ("__name__", "up"),
        ("pod_name", "p"),
        ("pod_uid", ""),
        ("workload_uid", "lie"),
        ("workload_name", "lie"),
        ("exported_workload_name", "older lie"),
    ];
    let (stored, _) = enrich(&Enrichment::default(), &[(&labels, &[1.0])]);
    assert_eq!(
        text(&stored.0[0].0),
        "__name__=workload_up exported_exported_workload_name=older lie exported_pod_name=p \
         exported_workload_name=lie exported_workload_uid=lie job=crosstalk-processor pod_name=p pod_uid=p-uid \
         workload_name=w1 workload_uid=w1-uid "
    );
}

#[test]
fn series_that_differ_in_what_we_replace_stay_apart() {
    let names = ["job", "exported_job", "exported_exported_job", "pod_name", "exported_pod_name"];
    let mut given: Vec<Vec<(&str, &str)>> = Vec::new();
    for set in 0..1 << names.len() {
        let mut labels = vec![("__name__", "up"), ("pod", "p")];
        let chosen = names.iter().enumerate().filter(|(bit, _)| set >> bit & 1 == 1);
        labels.extend(chosen.map(|(_, name)| (*name, "p")));
        given.push(labels);
    }
    let series: Vec<Given<'_>> = given.iter().map(|labels| (&labels[..], &[1.0][..])).collect();
    let (stored, counts) = enrich(&Enrichment::default(), &series);
    let mut distinct: Vec<String> = stored.0.iter().map(|(labels, _)| text(labels)).collect();
    distinct.sort();
    distinct.dedup();
    assert_eq!((distinct.len(), counts.collided_samples), (2 * given.len(), 0));
}

#[test]
fn series_that_would_become_one_are_counted_and_told_and_only_the_first_is_sent() {
    let rules = Enrichment { original_job_label: String::new(), ..Default::default() };
    let one: &[(&str, &str)] = &[("__name__", "up"), ("job", "a"), ("pod", "p")];
    let other: &[(&str, &str)] = &[("__name__", "up"), ("job", "b"), ("pod", "p")];
    let third: &[(&str, &str)] = &[("__name__", "down"), ("job", "b"), ("pod", "p")];
    let (stored, counts) = enrich(&rules, &[(one, &[1.0]), (other, &[2.0]), (third, &[3.0])]);
    let values: Vec<u64> = stored.0.iter().map(|(_, values)| values[0]).collect();
    assert_eq!(values, [1.0, 1.0, 3.0, 3.0].map(f64::to_bits), "two workloads each");
    assert_eq!((counts.collided_samples, counts.collided.as_deref()), (2, Some("up")));
}

#[test]
fn a_series_that_is_remembered_still_meets_one_that_would_become_the_same() {
    let enrichment = Enrichment { original_job_label: String::new(), ..Default::default() };
    let (rules, snapshot) = (Rules::new(&enrichment), snapshot());
    let memory = Memory::new(&rules, true);
    let label = |name: &'static str, value: &'static str| Label { name, value };
    let bare = [label("__name__", "up"), label("pod", "p")];
    let with_job = [label("__name__", "up"), label("job", "a"), label("pod", "p")];
    let samples = [Sample::new(1.0, 10)];
    let mut encoder = crosstalk_remote_write::Encoder::new(Protocol::V1);
    for labels in [&bare[..], &with_job] {
        encoder.series("", labels, &Series::of_samples(labels, &samples));
    }
    let body = encoder.finish();
    for request in 1..=3 {
        let (mut outputs, mut buffers) = ([Output::new(Protocol::V1, 1)], Buffers::default());
        let mut enricher = Enricher {
            rules: &rules,
            snapshot: &snapshot,
            memory: Some(memory.recollection()),
            outputs: &mut outputs,
            buffers: &mut buffers,
            counts: Counts::default(),
        };
        Decoder::new(Limits::default()).decode(Protocol::V1, body, &mut enricher).unwrap();
        // Once for each of two workloads.
        assert_eq!(enricher.counts.collided_samples, 2, "request {request}");
    }
}

#[test]
fn the_end_for_a_former_holder_is_told_again_until_it_is_on_disk() {
    let rules = Rules::new(&Enrichment::default());
    let memory = Memory::new(&rules, true);
    let cache = Cache::new(LabelNames::default(), std::time::Duration::ZERO);
    let hold = |name: &str| {
        let workload = Workload { name: name.into(), uid: name.into(), ..Workload::default() };
        let pod = Pod {
            name: name.into(),
            uid: name.into(),
            workloads: vec![workload],
            ..Pod::default()
        };
        let device = crosstalk_inventory::Device {
            node: "n".into(),
            label: "gpu_id".into(),
            device: "0".into(),
            pod_uid: name.into(),
            ..Default::default()
        };
        cache
            .update("static", Facts { pods: vec![pod], devices: vec![device], ..Facts::default() });
    };
    let label = |name: &'static str, value: &'static str| Label { name, value };
    for name in ["util", "gpu_utilization"] {
        let labels = [label("__name__", name), label("gpu_id", "0"), label("node", "n")];
        let send = |kept: bool| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            let samples = [Sample::new(1.0, now.as_millis() as i64 + 1)];
            let snapshot = cache.snapshot();
            let (mut outputs, mut buffers) = ([Output::new(Protocol::V1, 1)], Buffers::default());
            let mut enricher = Enricher {
                rules: &rules,
                snapshot: &snapshot,
                memory: Some(memory.recollection()),
                outputs: &mut outputs,
                buffers: &mut buffers,
                counts: Counts::default(),
            };
            enricher.series(&Series::of_samples(&labels, &samples));
            assert_eq!(enricher.counts.enriched, 1);
            let handed = enricher.memory.take().unwrap().handed();
            let told = enricher.counts.handed_over;
            drop(enricher);
            if kept {
                memory.commit(handed);
            }
            told
        };
        hold("a");
        assert_eq!(send(true), 0, "{name}");
        hold("b");
        assert_eq!(send(false), 1, "{name}: refused, and sent again");
        assert_eq!(send(true), 1, "{name}: taken");
        assert_eq!(send(true), 0, "{name}: told");
    }
}

#[test]
fn a_series_without_a_workload_goes_by_the_policy() {
    let labels: &[(&str, &str)] = &[("__name__", "up"), ("pod", "nobody"), ("job", "j")];
    let with =
        |missing| enrich(&Enrichment { missing, ..Default::default() }, &[(labels, &[1.0, 2.0])]);
    let (stored, counts) = with(Missing::Drop);
    assert_eq!(stored.0.len(), 0);
    assert_eq!((counts.misses[Miss::UnknownPod as usize], counts.dropped_samples), (1, 2));
    let (stored, _) = with(Missing::Pass);
    assert_eq!(text(&stored.0[0].0), "__name__=up job=j pod=nobody ");
    assert_eq!(stored.1, ["workload_up", "up"]);
    let (stored, _) = with(Missing::Tag);
    assert_eq!(text(&stored.0[0].0), "__name__=up job=j pod=nobody workload_missing=unknown_pod ");
}

#[test]
fn negative_samples_are_left_out_and_counted_unless_a_rule_keeps_them() {
    let stale = f64::from_bits(STALE_MARKER_BITS);
    let values = [1.0, -1.0, -0.0, stale, f64::NEG_INFINITY, f64::NAN];
    let labels: &[(&str, &str)] = &[("__name__", "temperature"), ("pod", "p")];
    let (stored, counts) = enrich(&Enrichment::default(), &[(labels, &values)]);
    let kept = [1.0, -0.0, stale, f64::NAN].map(f64::to_bits);
    assert_eq!(stored.0[0].1, kept);
    assert_eq!(counts.negative_samples, 2);

    let (stored, counts) = enrich(&Enrichment::default(), &[(labels, &[-1.0])]);
    assert_eq!((stored.0.len(), counts.negative_samples), (0, 1));

    let mut keep = Enrichment::default();
    keep.negative.keep = vec!["temp*".into()];
    let (stored, counts) = enrich(&keep, &[(labels, &values)]);
    assert_eq!(stored.0[0].1, values.map(f64::to_bits));
    assert_eq!(counts.negative_samples, 0);
}

#[test]
fn negative_samples_are_left_out_of_series_without_a_workload_too() {
    let stray: &[(&str, &str)] = &[("__name__", "power"), ("pod", "nobody")];
    let known: &[(&str, &str)] = &[("__name__", "power"), ("pod", "p")];
    for missing in [Missing::Pass, Missing::Tag] {
        let mut rules = Enrichment { missing, keep_original: true, ..Default::default() };
        let series: [Given<'_>; 3] =
            [(stray, &[-1.0, 2.0]), (stray, &[-3.0]), (known, &[-1.0, 4.0])];
        let (stored, counts) = enrich(&rules, &series);
        let values: Vec<&[u64]> = stored.0.iter().map(|(_, values)| &values[..]).collect();
        // The stray one, then the known one as it came and for its two workloads.
        let (two, four) = ([2f64.to_bits()], [4f64.to_bits()]);
        assert_eq!(values, [&two[..], &four, &four, &four], "{missing:?}");
        assert_eq!((counts.negative_samples, counts.misses[Miss::UnknownPod as usize]), (3, 2));

        rules.negative.keep = vec!["power".into()];
        let (stored, counts) = enrich(&rules, &series);
        assert_eq!((stored.0.len(), counts.negative_samples), (5, 0));
    }
}

#[test]
fn the_original_series_and_job_can_be_kept() {
    let enrichment = Enrichment {
        keep_original: true,
        original_job_label: "exported_job".into(),
        ..Default::default()
    };
    let labels: &[(&str, &str)] = &[("__name__", "up"), ("pod", "p"), ("job", "j")];
    let (stored, _) = enrich(&enrichment, &[(labels, &[1.0])]);
    assert_eq!(text(&stored.0[0].0), "__name__=up job=j pod=p ");
    assert!(text(&stored.0[1].0).contains("exported_job=j job=crosstalk-processor "));
}

proptest! {
    #[test]
    fn whatever_the_labels_the_result_is_sorted_and_unique(
        names in proptest::collection::btree_set("[a-z_]{1,9}|job|pod_name|pod_uid|workload_name|workload_uid|__a", 0..12),
        keep_job in any::<bool>(),
    ) {
        let mut labels: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
        labels.retain(|(name, _)| !["uid", "namespace", "node", "pod", "pod_uid"].contains(name));
        labels.retain(|(name, _)| *name != "pod_name");
        labels.extend([("__name__", "m"), ("pod_name", "p")]);
        let original_job_label = if keep_job { "exported_job".to_owned() } else { String::new() };
        let enrichment = Enrichment { original_job_label, ..Default::default() };
        let (stored, _) = enrich(&enrichment, &[(&labels, &[1.0])]);
        prop_assert_eq!(stored.0.len(), 2);
        for (labels, _) in stored.0 {
            prop_assert!(labels.windows(2).all(|pair| pair[0].0 < pair[1].0), "{:?}", labels);
            for name in names.iter().filter(|name| !["pod_uid", "uid", "namespace", "node", "pod"].contains(&name.as_str())) {
                prop_assert!(labels.iter().any(|label| label.0 == *name));
            }
        }
        if keep_job {
            // Through the bytes too, as a sender writes them: the first time decoded, the second time known.
            prop_assert!(as_remembered(&labels).is_ok(), "{:?}", as_remembered(&labels));
        }
    }
}

/// Sends one series twice with what is remembered of it, and compares both with how it comes out without.
fn as_remembered(labels: &[(&str, &str)]) -> Result<usize, String> {
    let rules = Rules::new(&Enrichment::default());
    let memory = Memory::new(&rules, true);
    let snapshot = snapshot();
    let mut labels: Vec<Label<'_>> =
        labels.iter().map(|&(name, value)| Label { name, value }).collect();
    labels.sort_unstable();
    let samples = [Sample::new(1.5, 10), Sample::new(2.5, 20)];
    let mut encoder = crosstalk_remote_write::Encoder::new(Protocol::V1);
    encoder.series("", &labels, &Series::of_samples(&labels, &samples));
    let body = encoder.finish();
    let mut bodies = Vec::new();
    let mut known = 0;
    for memory in [None, Some(&memory), Some(&memory)] {
        let mut outputs = [Output::new(Protocol::V1, 1)];
        let mut buffers = Buffers::default();
        let mut enricher = Enricher {
            rules: &rules,
            snapshot: &snapshot,
            memory: memory.map(Memory::recollection),
            outputs: &mut outputs,
            buffers: &mut buffers,
            counts: Counts::default(),
        };
        let outcome = Decoder::new(Limits::default()).decode(Protocol::V1, body, &mut enricher);
        let outcome = outcome.map_err(|error| error.to_string())?;
        if (outcome.written.samples, enricher.counts.enriched) != (2, 1) {
            return Err(format!("{outcome:?} {:?}", enricher.counts));
        }
        drop(enricher);
        let knows = |memory: &Memory| memory.recollection().knows(&labels);
        known = usize::from(memory.is_some_and(knows));
        bodies.push(outputs[0].plain());
    }
    match bodies.iter().all(|body| *body == bodies[0]) {
        true => Ok(known),
        false => Err(format!("{bodies:?}")),
    }
}

#[test]
fn what_is_remembered_of_a_series_gives_the_very_bytes() {
    let plain: &[(&str, &str)] = &[("__name__", "up"), ("namespace", "ns"), ("pod", "p")];
    assert_eq!(as_remembered(plain), Ok(1));
    let usual: &[(&str, &str)] =
        &[("__name__", "up"), ("a", "1"), ("job", "kubelet"), ("pod", "p"), ("zone", "z")];
    assert_eq!(as_remembered(usual), Ok(1));
    let around: &[(&str, &str)] =
        &[("UUID", "x"), ("__name__", "up"), ("pod", "p"), ("pod_namespace", "ns"), ("x", "y")];
    assert_eq!(as_remembered(around), Ok(1));
    let odd: &[(&str, &str)] = &[("__name__", "up"), ("exported_job", "j"), ("pod", "p")];
    assert_eq!(as_remembered(odd), Ok(0), "goes the long way");
    let long = "v".repeat(125);
    let long: &[(&str, &str)] = &[("__name__", &long), ("pod", "p")];
    assert_eq!(as_remembered(long), Ok(0), "its lengths take two bytes");
}

/// Whom native histograms are billed to, and their times; ends of series as `stale`.
#[derive(Debug, Default)]
struct Histograms(Vec<(String, Vec<String>)>);

impl<'b> Receiver<'b> for Histograms {
    fn series(&mut self, series: &Series<'_, 'b>) {
        let owner = series.labels.iter().find(|label| label.name == "workload_uid");
        let stale = series.samples.iter().map(|sample| {
            assert!(sample.is_stale());
            format!("stale {}", sample.timestamp)
        });
        let times = series.histograms.iter().map(|own| own.timestamp.to_string());
        self.0.push((owner.unwrap().value.to_owned(), stale.chain(times).collect()));
    }
    fn metadata(&mut self, _: &Metadata<'b>) {}
}

#[test]
fn native_histograms_go_to_who_held_the_device_then_and_the_one_before_is_ended() {
    let rules = Rules::new(&Enrichment::default());
    let memory = Memory::new(&rules, true);
    let cache = Cache::new(LabelNames::default(), std::time::Duration::ZERO);
    let second = 1_000_000_000;
    let held = |name: &str, from: u64, to: Option<u64>| {
        let workload = Workload { name: name.into(), uid: name.into(), ..Workload::default() };
        let valid = crosstalk_inventory::Validity {
            valid_from_ns: from * second,
            valid_to_ns: to.map(|to| to * second),
        };
        let pod = Pod {
            name: name.into(),
            uid: name.into(),
            workloads: vec![workload],
            valid,
            ..Pod::default()
        };
        let device = crosstalk_inventory::Device {
            node: "n".into(),
            label: "gpu_id".into(),
            device: "0".into(),
            pod_uid: name.into(),
            valid,
            ..Default::default()
        };
        (pod, device)
    };
    let (pods, devices) = [held("a", 1000, Some(2000)), held("b", 2000, None)].into_iter().unzip();
    cache.update("static", Facts { pods, devices, ..Facts::default() });
    let snapshot = cache.snapshot();
    let label = |name: &'static str, value: &'static str| Label { name, value };
    let labels = [label("__name__", "util"), label("gpu_id", "0"), label("node", "n")];
    let send = |times: &[i64]| {
        let histograms: Vec<Histogram<'_>> = times.iter().map(|time| histogram(*time)).collect();
        let mut series = Series::of_samples(&labels, &[]);
        series.histograms = &histograms;
        let (mut outputs, mut buffers) = ([Output::new(Protocol::V1, 1)], Buffers::default());
        let mut enricher = Enricher {
            rules: &rules,
            snapshot: &snapshot,
            memory: Some(memory.recollection()),
            outputs: &mut outputs,
            buffers: &mut buffers,
            counts: Counts::default(),
        };
        enricher.series(&series);
        let handed = enricher.memory.take().unwrap().handed();
        drop(enricher);
        memory.commit(handed);
        let mut stored = Histograms::default();
        let plain = outputs[0].plain();
        let outcome = Decoder::new(Limits::default()).decode(Protocol::V1, &plain, &mut stored);
        assert_eq!(outcome.unwrap().rejected, 0);
        stored.0
    };
    let of = |owner: &str, times: &[&str]| {
        (owner.to_owned(), times.iter().map(|time| (*time).to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(send(&[1_500_000]), [of("a", &["1500000"])]);
    let across = send(&[1_999_000, 1_999_999, 2_000_000, 2_000_001]);
    assert_eq!(across, [of("a", &["1999000", "1999999"]), of("b", &["2000000", "2000001"])]);
    let after = send(&[2_100_000]);
    assert_eq!(after, [of("a", &["stale 2100000"]), of("b", &["2100000"])]);
    assert_eq!(send(&[2_200_000]), [of("b", &["2200000"])], "once");
}

/// A histogram that says nothing but its time.
fn histogram(time: i64) -> Histogram<'static> {
    let mut message = vec![15 << 3];
    let mut rest = time as u64;
    while rest >= 0x80 {
        message.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    message.push(rest as u8);
    Histogram { message: message.leak(), timestamp: time }
}
