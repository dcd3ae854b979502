//! Whose progress it is: known before the rows are read for good, so that a wrong name is told with the right ones.

use super::Progress;
use crate::decode;
use crate::subjects::Subjects;
use crate::time::clock;
use arrow_array::RecordBatch;
use crosstalk_interference::{Activity, Subject};
use std::collections::HashMap;

/// Names that a message lists.
const LISTED: usize = 6;
/// Of several with one name, one is meant that has this share of their time.
const MEANT: f64 = 0.9;
const MOST_PIDS: usize = 200_000;

/// Who ran, for how long, and which process was whose.
#[derive(Debug, Default)]
pub(crate) struct Census {
    on_cpu_ns: HashMap<Subject, u64>,
    pids: HashMap<i64, Subject>,
    span: Option<(u64, u64)>,
}

impl Census {
    pub(crate) const COLUMNS: &'static [&'static str] =
        &["slot_start_ns", "pid", "process_start_ns", "comm", "core", "on_cpu_ns"];

    pub(crate) fn take(&mut self, batch: &RecordBatch, subjects: &mut Subjects) {
        let Self { on_cpu_ns, pids, span } = self;
        let number = |who: &crate::subjects::Identity<'_>| {
            let subject = subjects.number(who);
            if pids.len() < MOST_PIDS {
                pids.insert(who.pid, subject);
            }
            subject
        };
        let take = |slot_ns: u64, activity: Activity| {
            *on_cpu_ns.entry(activity.subject).or_default() += activity.on_cpu_ns;
            let (from, to) = span.get_or_insert((slot_ns, slot_ns));
            (*from, *to) = (slot_ns.min(*from), slot_ns.max(*to));
        };
        // What is wrong with a file is said when it is read for good.
        let _ = decode::tasks(batch, number, take);
    }
}

/// The subject whose progress this is.
pub(crate) fn whose(
    progress: &Progress,
    census: &Census,
    subjects: &Subjects,
) -> Result<Subject, String> {
    let (from, to) = census.span.ok_or("nobody ran")?;
    let (first, last) = progress.span().ok_or("it is empty")?;
    if last < from || first > to {
        return Err(format!(
            "its times, {} to {}, lie outside the recording's, {} to {}{}",
            clock(first),
            clock(last),
            clock(from),
            clock(to),
            zone_hint(first, last, from, to)
        ));
    }
    let pid = match &progress.name {
        Some(name) => name.parse().ok(),
        None => progress.pid,
    };
    if let Some(pid) = pid {
        let busiest = || busiest(census, subjects, &|_| true);
        return census.pids.get(&pid).copied().ok_or_else(|| {
            format!("no process {pid} ran in the recording; the busiest: {}", busiest())
        });
    }
    let wanted = progress.name.as_deref().unwrap_or_default();
    let is_meant = |subject: Subject| is_called(subjects.name(subject), wanted);
    let mut meant: Vec<(Subject, u64)> =
        census.on_cpu_ns.iter().map(|(s, ns)| (*s, *ns)).filter(|(s, _)| is_meant(*s)).collect();
    meant.sort_by_key(|(subject, ns)| (std::cmp::Reverse(*ns), *subject));
    let total: u64 = meant.iter().map(|(_, ns)| ns).sum();
    match meant[..] {
        [] => Err(format!(
            "nobody is called {wanted:?}; the busiest: {}",
            busiest(census, subjects, &|_| true)
        )),
        [(first, ns), ..] if ns as f64 >= MEANT * total as f64 => Ok(first),
        _ => Err(format!(
            "{} are called {wanted:?}; name one by its process id, or take them together with --subject container, pod \
             or workload: {}",
            meant.len(),
            busiest(census, subjects, &is_meant)
        )),
    }
}

/// By its whole name, its name without the process id, or a pod's without its namespace.
fn is_called(name: &str, wanted: &str) -> bool {
    name == wanted
        || name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with(" ("))
        || name.strip_suffix(wanted).is_some_and(|rest| rest.ends_with('/'))
}

fn busiest(census: &Census, subjects: &Subjects, among: &dyn Fn(Subject) -> bool) -> String {
    let mut all: Vec<(&Subject, &u64)> =
        census.on_cpu_ns.iter().filter(|(subject, _)| among(**subject)).collect();
    all.sort_by_key(|(subject, ns)| (std::cmp::Reverse(**ns), **subject));
    let names = all.iter().take(LISTED).map(|(subject, _)| subjects.name(**subject));
    names.collect::<Vec<_>>().join(", ")
}

/// Log times that are off by whole quarters of an hour are of another zone.
fn zone_hint(first: u64, last: u64, from: u64, to: u64) -> &'static str {
    let apart = (first / 2 + last / 2).abs_diff(from / 2 + to / 2);
    let within_a_day = apart < 26 * 3_600_000_000_000;
    if within_a_day { "; times without a zone are taken as UTC: see --log-zone" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_leave_out_the_process_id_and_the_namespace() {
        for (name, wanted, is) in [
            ("chase (7)", "chase", true),
            ("chase (7)", "chase (7)", true),
            ("chaser (7)", "chase", false),
            ("ml/train-0", "train-0", true),
            ("ml/train-0", "0", false),
        ] {
            assert_eq!(is_called(name, wanted), is, "{name} {wanted}");
        }
    }
}
