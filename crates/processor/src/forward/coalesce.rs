//! Small blocks sent as one.
//!
//! Prometheus sends a few hundred samples a request. One request at a time keeps the order of every series, so over a
//! distance the round trip would be the limit; when blocks wait, they travel together instead. A 1.0 body is a list of
//! fields, so bodies put one after another are a body again, compressed or not. 2.0 has a symbol table of its own in each: those
//! are read, and written as one.

use bytes::Bytes;
use crosstalk_remote_write::{
    Compression, Compressor, Decoder, Decompressor, Encoder, Limits, Metadata, Pieces, Protocol,
    Receiver, Series,
};

use crate::ingest::block_protocol;
use crate::queue::Entry;

/// Blocks of at least this size are not small.
const SMALL_BYTES: usize = 192 << 10;

/// Bytes and blocks of one joint request at most.
const MAX_BYTES: usize = 384 << 10;
const MAX_BLOCKS: usize = 64;

/// What was taken in by then is not refused for its size.
const NO_LIMITS: Limits = Limits {
    max_body_bytes: usize::MAX,
    max_decoded_bytes: usize::MAX,
    max_series: usize::MAX,
    max_samples: usize::MAX,
    max_symbols: usize::MAX,
    max_labels: usize::MAX,
    max_label_name_bytes: usize::MAX,
    max_label_value_bytes: usize::MAX,
};

fn is_small(entry: &Entry) -> bool {
    entry.block.payload.len() < SMALL_BYTES
}

/// Whether another block may join these. The block that is then read joins whatever its size: reading cannot be undone.
pub(super) fn takes_more(entries: &[Entry]) -> bool {
    let bytes: usize = entries.iter().map(|entry| entry.block.payload.len()).sum();
    entries.len() < MAX_BLOCKS && bytes < MAX_BYTES && entries.iter().all(is_small)
}

/// The blocks as one, or `None` when they cannot be joined.
pub(super) async fn join(entries: &[Entry]) -> Option<Bytes> {
    let kind = entries.first()?.block.kind;
    if entries.iter().any(|entry| entry.block.kind != kind) {
        return None;
    }
    let bodies: Vec<Bytes> = entries.iter().map(|entry| entry.block.payload.clone()).collect();
    match block_protocol(kind)? {
        Protocol::V1 => one_after_another(&bodies),
        Protocol::V2 => tokio::task::spawn_blocking(move || written_anew(&bodies)).await.ok()?,
    }
}

fn one_after_another(bodies: &[Bytes]) -> Option<Bytes> {
    let mut joined = Pieces::default();
    for body in bodies {
        joined.append(body).ok()?;
    }
    Some(Bytes::copy_from_slice(joined.finish()))
}

fn written_anew(bodies: &[Bytes]) -> Option<Bytes> {
    let mut joined = Joined(Encoder::new(Protocol::V2));
    let (mut decompressor, mut decoder) = (Decompressor::default(), Decoder::new(NO_LIMITS));
    for body in bodies {
        let plain = decompressor.decompress(Compression::Snappy, body, &NO_LIMITS).ok()?;
        let outcome = decoder.decode(Protocol::V2, plain, &mut joined).ok()?;
        if outcome.rejected > 0 {
            return None;
        }
    }
    let mut compressor = Compressor::default();
    Some(Bytes::copy_from_slice(compressor.compress(Compression::Snappy, joined.0.finish())))
}

struct Joined(Encoder);

impl<'b> Receiver<'b> for Joined {
    fn series(&mut self, series: &Series<'_, 'b>) {
        self.0.series("", series.labels, series);
    }

    /// 2.0 has it in the series.
    fn metadata(&mut self, _: &Metadata<'b>) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_remote_write::{Label, Sample};

    /// What a body says, series by series.
    #[derive(Default)]
    struct Said(Vec<String>);

    impl<'b> Receiver<'b> for Said {
        fn series(&mut self, series: &Series<'_, 'b>) {
            let exemplars: Vec<String> = series.exemplars().map(|e| format!("{e:?}")).collect();
            let Series { labels, samples, histograms, metadata, .. } = series;
            self.0
                .push(format!("{labels:?} {samples:?} {histograms:?} {metadata:?} {exemplars:?}"));
        }
        fn metadata(&mut self, _: &Metadata<'b>) {}
    }

    fn said(body: &[u8]) -> Vec<String> {
        let mut decompressor = Decompressor::default();
        let plain = decompressor.decompress(Compression::Snappy, body, &NO_LIMITS).unwrap();
        let mut said = Said::default();
        Decoder::new(NO_LIMITS).decode(Protocol::V2, plain, &mut said).unwrap();
        said.0
    }

    #[test]
    fn bodies_of_2_0_become_one_that_says_the_same_in_the_same_order() {
        let body = |number: usize| {
            let mut encoder = Encoder::new(Protocol::V2);
            for metric in ["a", "b"] {
                let value = number.to_string();
                let labels = [
                    Label { name: "__name__", value: metric },
                    Label { name: "number", value: &value },
                ];
                let samples = [Sample::new(number as f64, number as i64)];
                encoder.series("", &labels, &Series::of_samples(&labels, &samples));
            }
            let mut compressor = Compressor::default();
            Bytes::copy_from_slice(compressor.compress(Compression::Snappy, encoder.finish()))
        };
        let bodies: Vec<Bytes> = (0..20).map(body).collect();
        let joined = written_anew(&bodies).unwrap();
        let apart: Vec<String> = bodies.iter().flat_map(|body| said(body)).collect();
        assert_eq!(apart.len(), 40);
        assert_eq!(said(&joined), apart);
        assert!(written_anew(&[bodies[0].clone(), Bytes::from_static(b"?")]).is_none());
    }
}
