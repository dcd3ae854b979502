//! Random requests: mostly well formed, often enough not.

use super::{BucketSpan, Count, Histogram, ZeroCount, v1, v2};
use proptest::collection::vec;
use proptest::prelude::*;

/// Values with the bits that get lost most easily; not -0.0, which prost itself loses (it has a test of its own).
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        Just(f64::from_bits(crosstalk_remote_write::STALE_MARKER_BITS)),
        Just(0.0),
        -10.0..10.0f64,
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[a-e]",
        4 => Just("__name__".to_owned()),
        2 => "[a-z_]{1,12}",
        1 => Just(String::new()),
        1 => "\\PC{0,6}",
    ]
}

fn label() -> impl Strategy<Value = v1::Label> {
    (name(), "\\PC{0,9}").prop_map(|(name, value)| v1::Label { name, value })
}

/// Labels as senders give them (named, distinct, sorted or not) or any at all.
fn labels() -> impl Strategy<Value = Vec<v1::Label>> {
    let distinct = prop::sample::subsequence(vec!["a", "b", "c", "pod", "zone"], 0..=5)
        .prop_shuffle()
        .prop_flat_map(|names| (Just(names), vec("[a-zé]{1,8}", 6)))
        .prop_map(|(names, values)| {
            std::iter::once("__name__")
                .chain(names)
                .zip(values)
                .map(|(name, value)| v1::Label { name: name.to_owned(), value })
                .collect()
        });
    prop_oneof![3 => distinct, 1 => vec(label(), 0..6)]
}

pub fn histogram() -> impl Strategy<Value = Histogram> {
    let spans = || vec((any::<i32>(), any::<u32>()), 0..3);
    let count = prop_oneof![
        Just(None),
        any::<u64>().prop_map(|n| Some(Count::Int(n))),
        value().prop_map(|n| Some(Count::Float(n)))
    ];
    (
        (count, value(), -9..9i32, value(), any::<Option<u64>>()),
        (spans(), vec(any::<i64>(), 0..4), vec(value(), 0..4)),
        (spans(), vec(any::<i64>(), 0..4), vec(value(), 0..4)),
        (0..4i32, 0..20i64, vec(value(), 0..3)),
    )
        .prop_map(|(head, negative, positive, tail)| {
            let to_spans = |spans: Vec<(i32, u32)>| {
                spans.into_iter().map(|(offset, length)| BucketSpan { offset, length }).collect()
            };
            Histogram {
                count: head.0,
                sum: head.1,
                schema: head.2,
                zero_threshold: head.3,
                zero_count: head.4.map(ZeroCount::Int),
                negative_spans: to_spans(negative.0),
                negative_deltas: negative.1,
                negative_counts: negative.2,
                positive_spans: to_spans(positive.0),
                positive_deltas: positive.1,
                positive_counts: positive.2,
                reset_hint: tail.0,
                timestamp: tail.1,
                custom_values: tail.2,
            }
        })
}

fn timestamp() -> impl Strategy<Value = i64> {
    prop_oneof![4 => 0..30i64, 1 => any::<i64>()]
}

fn v1_series() -> impl Strategy<Value = v1::TimeSeries> {
    let sample = (value(), timestamp());
    let samples = vec(sample, 0..4).prop_map(|samples| {
        samples.into_iter().map(|(value, timestamp)| v1::Sample { value, timestamp }).collect()
    });
    let exemplar = (vec(label(), 0..3), value(), any::<i64>())
        .prop_map(|(labels, value, timestamp)| v1::Exemplar { labels, value, timestamp });
    (labels(), samples, vec(exemplar, 0..2), vec(histogram(), 0..2)).prop_map(
        |(labels, samples, exemplars, histograms)| v1::TimeSeries {
            labels,
            samples,
            exemplars,
            histograms,
        },
    )
}

pub fn v1_request() -> impl Strategy<Value = v1::WriteRequest> {
    let metadata = (0..8i32, "[a-z_]{0,9}", "\\PC{0,9}", "[a-z]{0,5}").prop_map(
        |(kind, metric_family_name, help, unit)| v1::MetricMetadata {
            kind,
            metric_family_name,
            help,
            unit,
        },
    );
    (vec(v1_series(), 0..5), vec(metadata, 0..3))
        .prop_map(|(timeseries, metadata)| v1::WriteRequest { timeseries, metadata })
}

/// References mostly within the table below, sometimes past it.
fn references() -> impl Strategy<Value = Vec<u32>> {
    let named = vec((3..8u32, 8..14u32), 0..3).prop_map(|pairs| {
        let rest = pairs.into_iter().flat_map(|(name, value)| [name, value]);
        [1, 2].into_iter().chain(rest).collect()
    });
    prop_oneof![4 => named, 1 => vec(0..16u32, 0..6)]
}

fn v2_series() -> impl Strategy<Value = v2::TimeSeries> {
    let sample =
        || {
            (value(), timestamp(), 0..3i64).prop_map(|(value, timestamp, start_timestamp)| {
                v2::Sample { value, timestamp, start_timestamp }
            })
        };
    let exemplar = (references(), value(), any::<i64>())
        .prop_map(|(labels_refs, value, timestamp)| v2::Exemplar { labels_refs, value, timestamp });
    let metadata = (0..8i32, 0..15u32, 0..15u32)
        .prop_map(|(kind, help_ref, unit_ref)| v2::Metadata { kind, help_ref, unit_ref });
    let contents = prop_oneof![
        4 => vec(sample(), 1..4).prop_map(|samples| (samples, vec![])),
        2 => vec(histogram(), 1..3).prop_map(|histograms| (vec![], histograms)),
        1 => (vec(sample(), 0..2), vec(histogram(), 0..2)),
    ];
    (references(), contents, vec(exemplar, 0..2), prop::option::of(metadata)).prop_map(
        |(labels_refs, (samples, histograms), exemplars, metadata)| v2::TimeSeries {
            labels_refs,
            samples,
            histograms,
            exemplars,
            metadata,
        },
    )
}

pub fn v2_request() -> impl Strategy<Value = v2::Request> {
    let first = prop_oneof![9 => Just(String::new()), 1 => Just("x".to_owned())];
    (first, "\\PC{1,5}", vec(v2_series(), 0..5)).prop_map(|(first, text, timeseries)| {
        let names = ["__name__", "up", "a", "b", "c", "d", "", "v1", "v2", "v3", "", "ünï"];
        let symbols = std::iter::once(first)
            .chain(names.map(str::to_owned))
            .chain(std::iter::once(text))
            .collect();
        v2::Request { symbols, timeseries }
    })
}
