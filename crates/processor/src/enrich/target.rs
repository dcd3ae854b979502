//! Whom a series is billed to, as the labels of its copies have it.

use std::ops::Range;

use crosstalk_inventory::Pod;
use crosstalk_remote_write::{Label, label_field};

use super::Rules;
use super::labels::OURS;
use crate::cache::Found;

/// A pod for a time, with the labels that its series get, encoded.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) pod: Pod,
    /// Samples from here on, before there: milliseconds since 1970.
    pub(super) times: Range<i64>,
    /// One for each workload of the pod.
    pub(super) copies: Vec<Copied>,
}

/// The fields of our labels in the order of [`OURS`], and where each ends.
#[derive(Debug)]
pub(super) struct Copied {
    bytes: Box<[u8]>,
    ends: [u16; OURS.len() + 1],
}

impl Target {
    pub(super) fn new(rules: &Rules, found: &Found<'_>) -> Self {
        let pod = found.pod.clone();
        let copies = pod.workloads.iter().map(|workload| {
            let values = [&*rules.job, &*pod.name, &*pod.uid, &*workload.name, &*workload.uid];
            let (mut bytes, mut ends) = (Vec::new(), [0; OURS.len() + 1]);
            for (place, ((name, _), value)) in OURS.iter().zip(values).enumerate() {
                if !value.is_empty() {
                    label_field(&mut bytes, &Label { name, value });
                }
                ends[place + 1] = bytes.len() as u16;
            }
            Copied { bytes: bytes.into(), ends }
        });
        let copies = copies.collect();
        Target { copies, times: times_of(found), pod }
    }

    /// Whether this is what `found` would become.
    pub(super) fn is(&self, found: &Found<'_>) -> bool {
        self.times == times_of(found) && self.bills(found.pod)
    }

    /// Whether series get the same labels as they would for `pod`.
    pub(super) fn bills(&self, pod: &Pod) -> bool {
        let Pod { name, uid, workloads, .. } = &self.pod;
        *name == pod.name && *uid == pod.uid && *workloads == pod.workloads
    }
}

fn times_of(found: &Found<'_>) -> Range<i64> {
    let ms = |ns: u64| i64::try_from(ns / 1_000_000).unwrap_or(i64::MAX);
    let until = if found.until_ns == u64::MAX { i64::MAX } else { ms(found.until_ns) };
    // What holds from as far back as anybody remembers holds before 1970 too.
    let from =
        if found.from_ns <= 1 { i64::MIN } else { ms(found.from_ns.saturating_add(999_999)) };
    from..until
}

impl Copied {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The fields of our labels from `first` to `last`.
    #[inline]
    pub(super) fn fields(&self, first: u8, last: u8) -> &[u8] {
        let (from, to) = (self.ends[usize::from(first)], self.ends[usize::from(last) + 1]);
        &self.bytes[usize::from(from)..usize::from(to)]
    }
}
