//! Findings of the core, with their names back on.

use crate::report::{Evidence, NamedVerdict, RunReport, SmallLosses, Unsaid};
use crate::subjects::Subjects;
use crosstalk_interference::{Findings, Subject, Verdict};

/// Share of a run's length below which a loss is counted, not told: who waited a moment for each of a thousand
/// short-lived processes has a thousand true verdicts that nobody can use.
const LEAST: f64 = 0.001;

pub(crate) fn conclude(report: &mut RunReport, findings: &Findings, subjects: &Subjects) {
    let name = |subject: &Subject| subjects.name(*subject).to_owned();
    let least = LEAST * report.seconds();
    let (large, small): (Vec<&Verdict>, Vec<&Verdict>) =
        findings.verdicts.iter().partition(|verdict| verdict.lost_seconds >= least);
    report.small_losses = SmallLosses {
        below_seconds: least,
        verdicts: small.len(),
        lost_seconds: small.iter().map(|verdict| verdict.lost_seconds).sum(),
    };
    report.verdicts = large
        .iter()
        .map(|v| NamedVerdict {
            node: report.node.clone(),
            run: report.run.clone(),
            victim: name(&v.victim),
            aggressor: v.aggressors.iter().map(name).collect::<Vec<_>>().join(" + "),
            aggressors: v.aggressors.iter().map(name).collect(),
            from_ns: v.from_ns,
            to_ns: v.to_ns,
            slowdown: v.slowdown,
            low: v.low,
            high: v.high,
            lost_seconds: v.lost_seconds,
            resource: v.resource.name(),
            signal: v.signal.name(),
            confidence: v.confidence,
            evidence: Evidence {
                bins: v.evidence.bins,
                exposure: v.evidence.exposure,
                effect_per_core: v.evidence.effect_per_core,
                t: v.evidence.t,
                misses_t: v.evidence.misses_t,
                probe_t: v.evidence.probe_t,
            },
        })
        .collect();
    report.cannot_tell = findings
        .cannot_tell
        .iter()
        .map(|c| Unsaid {
            node: report.node.clone(),
            run: report.run.clone(),
            victim: name(&c.victim),
            neighbours: c.neighbours.iter().map(name).collect(),
            because: c.because.words(),
        })
        .collect();
}
