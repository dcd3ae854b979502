//! Our decoder and encoder beside prost's, on random requests and on damaged ones.

#![allow(clippy::unwrap_used)]

mod oracle;

use std::collections::BTreeMap;

use crosstalk_remote_write::{
    Decoder, Encoder, Error, Label, Limits, Metadata, Protocol, Receiver, Series,
};
use oracle::plain::{Collected, from_v1, from_v2};
use oracle::{generate, started, v1, v2};
use proptest::prelude::*;
use prost::Message;

fn roomy() -> Limits {
    Limits {
        max_labels: usize::MAX,
        max_label_name_bytes: usize::MAX,
        max_label_value_bytes: usize::MAX,
        ..Limits::default()
    }
}

fn decode(protocol: Protocol, body: &[u8]) -> Result<Collected, Error> {
    let mut collected = Collected::default();
    Decoder::new(roomy()).decode(protocol, body, &mut collected)?;
    Ok(collected)
}

/// Writes every series again, as a forwarder does.
struct Again(Encoder);

impl<'b> Receiver<'b> for Again {
    fn series(&mut self, series: &Series<'_, 'b>) {
        self.0.series("", series.labels, series);
    }
    fn metadata(&mut self, metadata: &Metadata<'b>) {
        self.0.metadata("", metadata);
    }
}

fn reencode(from: Protocol, to: Protocol, body: &[u8]) -> Vec<u8> {
    let mut again = Again(Encoder::new(to));
    Decoder::new(roomy()).decode(from, body, &mut again).unwrap();
    again.0.finish().to_vec()
}

/// Writes every series with two labels more.
struct Adding(Encoder);

const ADDED: [Label<'static>; 2] =
    [Label { name: "b", value: "ours" }, Label { name: "pod_name", value: "p" }];

impl<'b> Receiver<'b> for Adding {
    fn series(&mut self, series: &Series<'_, 'b>) {
        self.0.series_adding("workload_", series, &ADDED);
    }
    fn metadata(&mut self, _: &Metadata<'b>) {}
}

/// What adding those labels means, said plainly.
fn with_added(mut collected: Collected) -> Collected {
    for series in &mut collected.series {
        let mut labels: BTreeMap<String, String> = series.labels.drain(..).collect();
        labels.extend(ADDED.map(|label| (label.name.to_owned(), label.value.to_owned())));
        labels.entry("__name__".to_owned()).and_modify(|name| name.insert_str(0, "workload_"));
        series.labels = labels.into_iter().collect();
    }
    collected.metadata.clear();
    collected
}

/// An empty value is the same as no label, and is not written.
fn without_empty_labels(mut collected: Collected) -> Collected {
    for series in &mut collected.series {
        series.labels.retain(|label| !label.1.is_empty());
        for exemplar in &mut series.exemplars {
            exemplar.0.retain(|label| !label.1.is_empty());
        }
    }
    collected
}

proptest! {
    #[test]
    fn decoding_1_0_agrees(request in generate::v1_request()) {
        prop_assert_eq!(decode(Protocol::V1, &request.encode_to_vec()).unwrap(), from_v1(&request));
    }

    #[test]
    fn decoding_2_0_agrees(request in generate::v2_request()) {
        let ours = decode(Protocol::V2, &request.encode_to_vec());
        match from_v2(&request) {
            Some(theirs) => prop_assert_eq!(ours.unwrap(), theirs),
            None => prop_assert_eq!(ours.unwrap_err(), Error::FirstSymbolNotEmpty),
        }
    }

    #[test]
    fn what_we_encode_as_1_0_the_oracle_reads(request in generate::v1_request()) {
        let body = reencode(Protocol::V1, Protocol::V1, &request.encode_to_vec());
        let read = v1::WriteRequest::decode(&body[..]).unwrap();
        prop_assert_eq!(from_v1(&read), without_empty_labels(from_v1(&request)));
    }

    #[test]
    fn what_we_encode_as_2_0_the_oracle_reads(request in generate::v2_request()) {
        if let Some(expected) = from_v2(&request) {
            let body = reencode(Protocol::V2, Protocol::V2, &request.encode_to_vec());
            let read = from_v2(&v2::Request::decode(&body[..]).unwrap()).unwrap();
            prop_assert_eq!(read, without_empty_labels(expected));
        }
    }

    #[test]
    fn from_2_0_to_1_0_only_start_times_are_lost(request in generate::v2_request()) {
        if let Some(mut expected) = from_v2(&request) {
            let body = reencode(Protocol::V2, Protocol::V1, &request.encode_to_vec());
            let read = from_v1(&v1::WriteRequest::decode(&body[..]).unwrap());
            for series in &mut expected.series {
                series.samples.iter_mut().for_each(|sample| sample.2 = 0);
                series.metadata = Default::default();
            }
            prop_assert_eq!(&read.series, &without_empty_labels(expected).series);
        }
    }

    #[test]
    fn labels_are_added_whether_the_others_are_copied_or_not(request in generate::v1_request()) {
        let body = request.encode_to_vec();
        let expected = without_empty_labels(with_added(from_v1(&request)));
        let mut adding = Adding(Encoder::new(Protocol::V1));
        Decoder::new(roomy()).decode(Protocol::V1, &body, &mut adding).unwrap();
        let read = v1::WriteRequest::decode(adding.0.finish()).unwrap();
        prop_assert_eq!(&from_v1(&read), &expected);
        let mut adding = Adding(Encoder::new(Protocol::V2));
        Decoder::new(roomy()).decode(Protocol::V1, &body, &mut adding).unwrap();
        let read = v2::Request::decode(adding.0.finish()).unwrap();
        let read_labels: Vec<_> = read
            .timeseries
            .iter()
            .map(|ts| ts.labels_refs.iter().map(|r| &read.symbols[*r as usize]).collect::<Vec<_>>())
            .collect();
        let expected_labels: Vec<_> = expected
            .series
            .iter()
            .map(|s| s.labels.iter().flat_map(|(name, value)| [name, value]).collect::<Vec<_>>())
            .collect();
        prop_assert_eq!(read_labels, expected_labels);
    }

    #[test]
    fn damaged_1_0_bodies_fail_where_the_oracle_fails(
        request in generate::v1_request(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let body = damaged(request.encode_to_vec(), &damage, cut);
        match (decode(Protocol::V1, &body), v1::WriteRequest::decode(&body[..])) {
            (Ok(ours), Ok(theirs)) => prop_assert_eq!(ours, from_v1(&theirs)),
            // The oracle skips fields of the other protocol as unknown.
            (Err(Error::OtherProtocol { .. }), _) | (Err(_), Err(_)) => {}
            (ours, theirs) => prop_assert!(false, "ours {ours:?}, theirs {theirs:?}"),
        }
    }

    #[test]
    fn damaged_2_0_bodies_fail_where_the_oracle_fails(
        request in generate::v2_request(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let body = damaged(request.encode_to_vec(), &damage, cut);
        let has_started = started::Request::decode(&body[..]).is_ok();
        let theirs = v2::Request::decode(&body[..]).ok().filter(|_| has_started);
        let theirs = theirs.and_then(|request| from_v2(&request));
        match (decode(Protocol::V2, &body), theirs) {
            (Ok(ours), Some(theirs)) => prop_assert_eq!(ours, theirs),
            (Err(Error::OtherProtocol { .. }), _) | (Err(_), None) => {}
            (ours, theirs) => prop_assert!(false, "ours {ours:?}, theirs {theirs:?}"),
        }
    }

    #[test]
    fn no_bytes_make_us_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(Protocol::V1, &body);
        let _ = decode(Protocol::V2, &body);
    }
}

/// Overwrites some bytes and, half of the time, cuts the end off.
fn damaged(
    mut body: Vec<u8>,
    damage: &[(prop::sample::Index, u8)],
    cut: prop::sample::Index,
) -> Vec<u8> {
    if !body.is_empty() {
        for (place, byte) in damage {
            let place = place.index(body.len());
            body[place] = *byte;
        }
        let cut = cut.index(body.len() * 2);
        body.truncate(cut.max(1));
    }
    body
}
