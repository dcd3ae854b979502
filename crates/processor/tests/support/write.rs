//! Remote write requests.

use std::net::SocketAddr;

use super::http::{Answer, send, try_send};
use crosstalk_remote_write::{Compression, Compressor, Encoder, Label, Protocol, Sample, Series};

pub const SNAPPY: [(&str, &str); 2] =
    [("Content-Type", "application/x-protobuf"), ("Content-Encoding", "snappy")];

/// One series: labels, and samples as value and timestamp.
pub type Given<'a> = (&'a [(&'a str, &'a str)], &'a [(f64, i64)]);

pub fn encode(protocol: Protocol, series: &[Given<'_>]) -> Vec<u8> {
    let mut encoder = Encoder::new(protocol);
    for (labels, samples) in series {
        let labels: Vec<Label<'_>> =
            labels.iter().map(|&(name, value)| Label { name, value }).collect();
        let samples: Vec<Sample> =
            samples.iter().map(|&(value, at)| Sample::new(value, at)).collect();
        encoder.series("", &labels, &Series::of_samples(&labels, &samples));
    }
    encoder.finish().to_vec()
}

pub fn snappy(plain: &[u8]) -> Vec<u8> {
    Compressor::default().compress(Compression::Snappy, plain).to_vec()
}

pub fn body(series: &[Given<'_>]) -> Vec<u8> {
    snappy(&encode(Protocol::V1, series))
}

pub fn write(address: SocketAddr, series: &[Given<'_>]) -> Answer {
    send(address, "POST", "/prometheus", &SNAPPY, &body(series))
}

pub fn try_write(address: SocketAddr, series: &[Given<'_>]) -> Option<Answer> {
    try_send(address, "POST", "/prometheus", &SNAPPY, &body(series))
}
