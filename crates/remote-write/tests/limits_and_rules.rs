//! One bad series costs only itself; a limit that is broken is named.

#![allow(clippy::unwrap_used)]

mod oracle;

use crosstalk_remote_write::{
    Decoder, Encoder, Error, Label, Limits, Metadata, Outcome, Protocol, Receiver,
    STALE_MARKER_BITS, Sample, Series,
};
use oracle::{v1, v2};
use prost::Message;

struct Ignore;
impl<'b> Receiver<'b> for Ignore {
    fn series(&mut self, _: &Series<'_, 'b>) {}
    fn metadata(&mut self, _: &Metadata<'b>) {}
}

fn series(labels: &[(&str, &str)]) -> v1::TimeSeries {
    let label =
        |&(name, value): &(&str, &str)| v1::Label { name: name.into(), value: value.into() };
    v1::TimeSeries {
        labels: labels.iter().map(label).collect(),
        samples: vec![v1::Sample { value: 1.0, timestamp: 1 }],
        ..Default::default()
    }
}

fn decode_v1(timeseries: Vec<v1::TimeSeries>, limits: Limits) -> Result<Outcome, Error> {
    let body = v1::WriteRequest { timeseries, metadata: vec![] }.encode_to_vec();
    Decoder::new(limits).decode(Protocol::V1, &body, &mut Ignore)
}

#[test]
fn a_bad_series_is_left_out_and_the_others_are_kept() {
    let good = series(&[("__name__", "up")]);
    let long = "x".repeat(5000);
    let many: Vec<(String, String)> = (0..10_000).map(|n| (format!("l{n}"), "v".into())).collect();
    let mut many: Vec<(&str, &str)> = many.iter().map(|(n, v)| (&n[..], &v[..])).collect();
    many.push(("__name__", "many"));
    let cases = [
        (series(&[("a", "b")]), "no metric name"),
        (series(&[("__name__", "")]), "no metric name"),
        (series(&[("__name__", "up"), ("", "x")]), "empty name"),
        (series(&[("__name__", "up"), ("a", "1"), ("a", "2")]), "appears twice"),
        (series(&[("__name__", "up"), ("a", &long)]), "max_label_value_bytes (4096)"),
        (series(&[("__name__", "up"), (&long, "a")]), "max_label_name_bytes (256)"),
        (series(&many), "10001 labels, more than max_labels (64)"),
    ];
    for (bad, reason) in cases {
        let outcome = decode_v1(vec![good.clone(), bad, good.clone()], Limits::default()).unwrap();
        assert_eq!((outcome.written.samples, outcome.rejected), (2, 1), "{reason}");
        let text = outcome.examples[0].reason.to_string();
        assert!(text.contains(reason), "{text:?} should say {reason:?}");
        assert!(outcome.examples[0].series.len() < 500);
    }
}

#[test]
fn samples_must_go_forward_in_time() {
    let sample = |value, timestamp| v1::Sample { value, timestamp };
    let with = |samples| v1::TimeSeries { samples, ..series(&[("__name__", "up")]) };
    let rejected = |samples| decode_v1(vec![with(samples)], Limits::default()).unwrap().rejected;
    assert_eq!(rejected(vec![sample(1.0, 1), sample(2.0, 2)]), 0);
    assert_eq!(rejected(vec![sample(1.0, 1), sample(1.0, 1)]), 0);
    assert_eq!(rejected(vec![sample(1.0, 1), sample(2.0, 1)]), 1);
    assert_eq!(rejected(vec![sample(1.0, 2), sample(2.0, 1)]), 1);
}

#[test]
fn limits_on_the_whole_request_are_413_and_named() {
    let many = vec![series(&[("__name__", "up")]); 11];
    let cases = [
        (Limits { max_series: 10, ..Limits::default() }, "max_series (10)"),
        (Limits { max_samples: 10, ..Limits::default() }, "max_samples (10)"),
        (Limits { max_decoded_bytes: 10, ..Limits::default() }, "max_decoded_bytes (10)"),
    ];
    for (limits, name) in cases {
        let error = decode_v1(many.clone(), limits).unwrap_err();
        assert_eq!(error.status(), 413);
        assert!(error.to_string().contains(name), "{error}");
    }
    let symbols = vec![String::new(); 11];
    let body = v2::Request { symbols, timeseries: vec![] }.encode_to_vec();
    let limits = Limits { max_symbols: 10, ..Limits::default() };
    let error = Decoder::new(limits).decode(Protocol::V2, &body, &mut Ignore).unwrap_err();
    assert!(error.to_string().contains("max_symbols (10)"));
}

#[test]
fn rules_of_2_0_are_kept() {
    let sample = v2::Sample { value: 1.0, timestamp: 1, start_timestamp: 0 };
    let good =
        v2::TimeSeries { labels_refs: vec![1, 2], samples: vec![sample], ..Default::default() };
    let histograms = vec![oracle::Histogram::default()];
    let cases = [
        (v2::TimeSeries { samples: vec![], ..good.clone() }, "neither samples nor histograms"),
        (v2::TimeSeries { histograms, ..good.clone() }, "both samples and histograms"),
        (v2::TimeSeries { labels_refs: vec![1, 2, 3], ..good.clone() }, "odd number"),
        (v2::TimeSeries { labels_refs: vec![1, 9], ..good.clone() }, "reference 9 is out of range"),
        (
            v2::TimeSeries {
                metadata: Some(v2::Metadata { help_ref: 9, ..Default::default() }),
                ..good.clone()
            },
            "out of range",
        ),
    ];
    for (bad, reason) in cases {
        let symbols = ["", "__name__", "up", "x"].map(str::to_owned).to_vec();
        let body = v2::Request { symbols, timeseries: vec![bad, good.clone()] }.encode_to_vec();
        let outcome =
            Decoder::new(Limits::default()).decode(Protocol::V2, &body, &mut Ignore).unwrap();
        assert_eq!((outcome.written.samples, outcome.rejected), (1, 1), "{reason}");
        let text = outcome.examples[0].reason.to_string();
        assert!(text.contains(reason), "{text:?} should say {reason:?}");
    }
}

#[test]
fn a_body_of_the_other_protocol_is_refused_not_taken_for_an_empty_one() {
    let labels = [Label { name: "__name__", value: "up" }];
    let samples = [Sample::new(1.0, 1)];
    for (sent, said) in [(Protocol::V1, Protocol::V2), (Protocol::V2, Protocol::V1)] {
        let mut encoder = Encoder::new(sent);
        encoder.series("", &labels, &Series::of_samples(&labels, &samples));
        let error = Decoder::default().decode(said, encoder.finish(), &mut Ignore).unwrap_err();
        assert_eq!(error.status(), 400);
        assert!(error.to_string().contains(sent.content_type()), "{error}");
    }
    let about = v1::MetricMetadata { metric_family_name: "up".into(), ..Default::default() };
    let body = v1::WriteRequest { metadata: vec![about], ..Default::default() }.encode_to_vec();
    let error = Decoder::default().decode(Protocol::V2, &body, &mut Ignore).unwrap_err();
    assert_eq!(error.status(), 400);
}

/// Keeps the bits of every value it sees.
#[derive(Default)]
struct Bits(Vec<u64>);
impl<'b> Receiver<'b> for Bits {
    fn series(&mut self, series: &Series<'_, 'b>) {
        self.0.extend(series.samples.iter().map(|sample| sample.value.to_bits()));
    }
    fn metadata(&mut self, _: &Metadata<'b>) {}
}

#[test]
fn every_bit_of_a_value_survives_both_protocols() {
    let bits = [STALE_MARKER_BITS, (-0.0f64).to_bits(), 0, 1, u64::MAX, 0x7ff8_0000_0000_0001];
    let samples: Vec<Sample> =
        bits.iter().zip(0..).map(|(&bits, at)| Sample::new(f64::from_bits(bits), at)).collect();
    let labels = [Label { name: "__name__", value: "up" }];
    for protocol in [Protocol::V1, Protocol::V2] {
        let mut encoder = Encoder::new(protocol);
        encoder.series("", &labels, &Series::of_samples(&labels, &samples));
        let mut seen = Bits::default();
        Decoder::default().decode(protocol, encoder.finish(), &mut seen).unwrap();
        assert_eq!(seen.0, bits, "{protocol:?}");
    }
}
