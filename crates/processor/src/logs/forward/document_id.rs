//! The id of a log record in a document store: what is sent again is the same document.

use std::collections::HashMap;

use crate::enrich::Fingerprint;
use crate::logs::record::Record;
use crate::logs::workload::Owner;

/// Gives the ids of one request's documents.
///
/// A sender that got no answer sends its request again, perhaps to another instance, so an id follows from what the record
/// says alone, and for records that say the same from how many such were before it in the request. Two equal lines of one moment in
/// different requests are one document.
#[derive(Debug, Default)]
pub(super) struct DocumentIds {
    seen: HashMap<u128, u32>,
}

impl DocumentIds {
    pub(super) fn next(&mut self, record: &Record<'_>, owner: Option<&Owner>) -> String {
        let said = u128::from(hash(1, record, owner)) << 64 | u128::from(hash(2, record, owner));
        let ordinal = self.seen.entry(said).or_default();
        let id = said.wrapping_add(u128::from(*ordinal));
        *ordinal += 1;
        format!("{id:032x}")
    }
}

/// The key is known, so whoever writes lines could make two of them meet. The pod comes behind the line: only their own.
fn hash(state: u64, record: &Record<'_>, owner: Option<&Owner>) -> u64 {
    let pod = &record.kubernetes;
    let (workload, pod_uid) = owner.map_or(("", ""), |owner| (&*owner.uid, &*owner.pod_uid));
    let parts = [
        &*record.message,
        &*record.stream,
        &*pod.container_name,
        &*pod.host,
        &*pod.namespace_name,
        &*pod.pod_name,
        &*pod.pod_id,
        pod_uid,
        workload,
    ];
    let prints = Fingerprint::fixed();
    let state = parts.iter().fold(state, |state, part| prints.fold(state, part.as_bytes()));
    prints.fold(state, &record.at.to_le_bytes())
}
