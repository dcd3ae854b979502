//! Series as plain owned values, so that what two decoders read can be compared.

use super::{v1, v2};
use crosstalk_remote_write::{Metadata, Receiver, Series};
use prost::Message;

pub type Labels = Vec<(String, String)>;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plain {
    pub labels: Labels,
    /// Value bits, timestamp, start timestamp.
    pub samples: Vec<(u64, i64, i64)>,
    pub histograms: Vec<Vec<u8>>,
    pub exemplars: Vec<(Labels, u64, i64)>,
    pub metadata: (i32, String, String),
}

/// Everything a decoder handed on.
#[derive(Debug, Default, PartialEq)]
pub struct Collected {
    pub series: Vec<Plain>,
    pub metadata: Vec<(i32, String, String, String)>,
}

fn owned(labels: &[crosstalk_remote_write::Label<'_>]) -> Labels {
    labels.iter().map(|label| (label.name.to_owned(), label.value.to_owned())).collect()
}

/// Histograms are compared as prost reads and writes them: the oracle's own bytes.
pub fn canonical_histogram(message: &[u8]) -> Vec<u8> {
    super::Histogram::decode(message).expect("our decoder checked it").encode_to_vec()
}

impl<'b> Receiver<'b> for Collected {
    fn series(&mut self, series: &Series<'_, 'b>) {
        let about = series.metadata;
        self.series.push(Plain {
            labels: owned(series.labels),
            samples: series
                .samples
                .iter()
                .map(|s| (s.value.to_bits(), s.timestamp, s.start_timestamp))
                .collect(),
            histograms: series.histograms.iter().map(|h| canonical_histogram(h.message)).collect(),
            exemplars: series
                .exemplars()
                .map(|e| (owned(e.labels), e.value.to_bits(), e.timestamp))
                .collect(),
            metadata: (about.kind, about.help.to_owned(), about.unit.to_owned()),
        });
    }

    fn metadata(&mut self, metadata: &Metadata<'b>) {
        let about = metadata.about;
        self.metadata.push((
            about.kind,
            metadata.family.to_owned(),
            about.help.to_owned(),
            about.unit.to_owned(),
        ));
    }
}

/// The rules of a series, written a second time and differently: all must hold, the order of labels does not matter.
fn keeps_rules(series: &Plain) -> bool {
    let names: std::collections::BTreeSet<_> = series.labels.iter().map(|l| &l.0).collect();
    let exemplar_names = series.exemplars.iter().flat_map(|e| e.0.iter().map(|l| &l.0));
    let forward = series
        .samples
        .iter()
        .zip(series.samples.iter().skip(1))
        .all(|(a, b)| a.1 < b.1 || (a.1 == b.1 && a.0 == b.0));
    let times: Vec<i64> = series
        .histograms
        .iter()
        .map(|h| super::Histogram::decode(&h[..]).unwrap().timestamp)
        .collect();
    names.len() == series.labels.len()
        && names.iter().all(|name| !name.is_empty())
        && exemplar_names.into_iter().all(|name| !name.is_empty())
        && series.labels.iter().any(|(name, value)| name == "__name__" && !value.is_empty())
        && forward
        && times.is_sorted()
}

fn sorted(mut series: Plain) -> Plain {
    series.labels.sort();
    series
}

pub fn from_v1(request: &v1::WriteRequest) -> Collected {
    let labels = |labels: &[v1::Label]| {
        labels.iter().map(|l| (l.name.clone(), l.value.clone())).collect::<Vec<_>>()
    };
    let series = request.timeseries.iter().map(|ts| Plain {
        labels: labels(&ts.labels),
        samples: ts.samples.iter().map(|s| (s.value.to_bits(), s.timestamp, 0)).collect(),
        histograms: ts.histograms.iter().map(Message::encode_to_vec).collect(),
        exemplars: ts
            .exemplars
            .iter()
            .map(|e| (labels(&e.labels), e.value.to_bits(), e.timestamp))
            .collect(),
        metadata: Default::default(),
    });
    Collected {
        series: series.filter(keeps_rules).map(sorted).collect(),
        metadata: request
            .metadata
            .iter()
            .map(|m| (m.kind, m.metric_family_name.clone(), m.help.clone(), m.unit.clone()))
            .collect(),
    }
}

/// `None` when the body as a whole breaks a rule.
pub fn from_v2(request: &v2::Request) -> Option<Collected> {
    if request.symbols.first().is_some_and(|first| !first.is_empty()) {
        return None;
    }
    let symbol = |reference: u32| request.symbols.get(reference as usize).cloned();
    let labels = |references: &[u32]| -> Option<Labels> {
        if references.len() % 2 == 1 {
            return None;
        }
        references.chunks(2).map(|pair| Some((symbol(pair[0])?, symbol(pair[1])?))).collect()
    };
    let plain = |ts: &v2::TimeSeries| -> Option<Plain> {
        // A metadata field that is absent references nothing, even when there are no symbols at all.
        let text = |reference| if reference == 0 { Some(String::new()) } else { symbol(reference) };
        let about = ts.metadata.unwrap_or_default();
        let mut exemplars = Vec::new();
        for exemplar in &ts.exemplars {
            exemplars.push((
                labels(&exemplar.labels_refs)?,
                exemplar.value.to_bits(),
                exemplar.timestamp,
            ));
        }
        (ts.samples.is_empty() != ts.histograms.is_empty()).then_some(())?;
        Some(Plain {
            labels: labels(&ts.labels_refs)?,
            samples: ts
                .samples
                .iter()
                .map(|s| (s.value.to_bits(), s.timestamp, s.start_timestamp))
                .collect(),
            histograms: ts.histograms.iter().map(Message::encode_to_vec).collect(),
            exemplars,
            metadata: (about.kind, text(about.help_ref)?, text(about.unit_ref)?),
        })
    };
    let series = request.timeseries.iter().filter_map(plain);
    Some(Collected {
        series: series.filter(keeps_rules).map(sorted).collect(),
        metadata: Vec::new(),
    })
}
