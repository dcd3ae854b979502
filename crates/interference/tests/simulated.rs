//! Verdicts on recordings whose truth is known, beside the rules of others. `--nocapture` prints the table.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod simulation;

use crosstalk_interference::comparators::{Cpi2, Fences, Named, cpi2, fences};
use crosstalk_interference::{Findings, Resource, Signal, Subject, Verdict, VictimBins};
use simulation::{KINDS, Kind, Truth, record};
use std::collections::BTreeSet;
use std::ops::AddAssign;

const SEEDS_A_KIND: u64 = 20;
/// Not those the thresholds were chosen with.
const FIRST_SEED: u64 = 50_000;
const SECONDS: f64 = 60.0;
/// From this share on a loss must be found.
const MATTERS: f64 = 0.05;
/// Up to this share the neighbour is innocent.
const INNOCENT: f64 = 0.001;

#[derive(Clone, Debug, Default)]
struct Score {
    recordings: u32,
    slandered: u32,
    true_pairs: u32,
    found: u32,
    named: u32,
    rightly: u32,
    intervals: u32,
    holding: u32,
    resources: u32,
    errors: Vec<f64>,
    rivals: [Rival; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Rival {
    named: u32,
    rightly: u32,
    found: u32,
}

impl AddAssign for Score {
    fn add_assign(&mut self, other: Self) {
        self.recordings += other.recordings;
        self.slandered += other.slandered;
        self.true_pairs += other.true_pairs;
        self.found += other.found;
        self.named += other.named;
        self.rightly += other.rightly;
        self.intervals += other.intervals;
        self.holding += other.holding;
        self.resources += other.resources;
        self.errors.extend(other.errors);
        for (mine, theirs) in self.rivals.iter_mut().zip(other.rivals) {
            mine.named += theirs.named;
            mine.rightly += theirs.rightly;
            mine.found += theirs.found;
        }
    }
}

fn share(part: u32, whole: u32) -> f64 {
    if whole == 0 { 1.0 } else { f64::from(part) / f64::from(whole) }
}

impl Score {
    fn precision(&self) -> f64 {
        share(self.rightly, self.named)
    }

    fn recall(&self) -> f64 {
        share(self.found, self.true_pairs)
    }

    fn unslandered(&self) -> f64 {
        1.0 - f64::from(self.slandered) / f64::from(self.recordings.max(1))
    }

    fn coverage(&self) -> f64 {
        share(self.holding, self.intervals)
    }

    fn median_error(&self) -> f64 {
        let mut errors = self.errors.clone();
        errors.sort_by(f64::total_cmp);
        errors.get(errors.len() / 2).copied().unwrap_or(0.0)
    }

    /// Harmonic mean of precision and recall, against the rivals'.
    fn beats_rivals(&self) {
        let both = |p: f64, r: f64| 2.0 * p * r / (p + r).max(1e-9);
        let ours = both(self.precision(), self.recall());
        for r in &self.rivals {
            let theirs = both(share(r.rightly, r.named), share(r.found, self.true_pairs));
            assert!(theirs < ours, "{theirs} against {ours}");
        }
    }

    fn print(&self, name: &str) {
        let of = |part: u32, whole: u32| match whole {
            0 => "    -".to_owned(),
            _ => format!("{:.3}", share(part, whole)),
        };
        let rival =
            |r: &Rival| format!("{} {}", of(r.rightly, r.named), of(r.found, self.true_pairs));
        println!(
            "{name:<22} {:>4} {:>4} {:>5}  {} {}  {:.3}  {} {:>5.2}  {}    {}  {}",
            self.recordings,
            self.true_pairs,
            self.named,
            of(self.rightly, self.named),
            of(self.found, self.true_pairs),
            self.unslandered(),
            of(self.holding, self.intervals),
            100.0 * self.median_error(),
            of(self.resources, self.intervals),
            rival(&self.rivals[0]),
            rival(&self.rivals[1]),
        );
    }
}

/// Pairs whose loss through cache and memory can be measured at all: without counters only who sleeps has a signal.
fn pairs(truth: &Truth, counters: bool, least: f64) -> BTreeSet<(u32, u32)> {
    let victims = if counters { 0..5_usize } else { 0..2_usize };
    let mut pairs = BTreeSet::new();
    for victim in victims {
        for other in 0..5 {
            if truth.lost_s[victim][other] > least * truth.on_cpu_s[victim].max(1e-9) {
                pairs.insert((victim as u32, other as u32));
            }
        }
    }
    pairs
}

fn through_memory(verdict: &&Verdict) -> bool {
    verdict.resource != Resource::CpuTime
}

fn judge(kind: Kind, seed: u64, counters: bool, earlier: &[VictimBins<'_>]) -> Score {
    let (observer, truth) = record(kind, seed, SECONDS, counters);
    let findings = observer.findings();
    let victims = observer.victims();
    let guilty = pairs(&truth, true, INNOCENT);
    let must = pairs(&truth, counters, MATTERS);
    let mut score = Score { recordings: 1, true_pairs: must.len() as u32, ..Score::default() };
    score_verdicts(&findings, &truth, &guilty, &must, &mut score);
    let rivals =
        [cpi2(&victims, earlier, &Cpi2::default()), fences(&victims, earlier, &Fences::default())];
    for (rival, named) in score.rivals.iter_mut().zip(rivals) {
        // Twins cannot be told apart by anybody: naming either is right.
        let twin = |n: &Named| kind == Kind::Twins && n.aggressor == Subject(3);
        let right = |n: &&Named| {
            guilty.contains(&(n.victim.0, n.aggressor.0))
                || twin(n) && guilty.contains(&(n.victim.0, 2))
        };
        rival.named = named.len() as u32;
        rival.rightly = named.iter().filter(right).count() as u32;
        let names = |&&(v, a): &&(u32, u32)| {
            named.iter().any(|n| n.victim.0 == v && (n.aggressor.0 == a || twin(n) && a == 2))
        };
        rival.found = must.iter().filter(names).count() as u32;
    }
    score
}

fn score_verdicts(
    findings: &Findings,
    truth: &Truth,
    guilty: &BTreeSet<(u32, u32)>,
    must: &BTreeSet<(u32, u32)>,
    score: &mut Score,
) {
    let verdicts = || findings.verdicts.iter().filter(through_memory);
    for verdict in verdicts() {
        let victim = verdict.victim.0;
        let right = verdict.aggressors.iter().any(|who| guilty.contains(&(victim, who.0)));
        score.named += 1;
        score.rightly += u32::from(right);
        let lost_s = match verdict.aggressors[..] {
            [one] => truth.lost_s[victim as usize][one.0 as usize],
            [Subject(2), Subject(3)] => truth.lost_to_twins_s[victim as usize],
            _ => continue,
        };
        if !right {
            println!(
                "    wrong: {:?}",
                (
                    verdict.victim,
                    &verdict.aggressors,
                    verdict.slowdown,
                    verdict.low,
                    verdict.signal
                )
            );
            continue;
        }
        let scale = verdict.lost_seconds / verdict.slowdown;
        let holds = (verdict.low * scale..=verdict.high * scale).contains(&lost_s);
        score.intervals += 1;
        score.holding += u32::from(holds);
        score.errors.push((verdict.lost_seconds - lost_s).abs() / truth.on_cpu_s[victim as usize]);
        let expected = truth.resource(verdict.aggressors[0].0 as usize);
        score.resources += u32::from(verdict.resource == expected);
    }
    let wrong = |v: &Verdict| !v.aggressors.iter().any(|who| guilty.contains(&(v.victim.0, who.0)));
    score.slandered = u32::from(verdicts().any(wrong));
    let names = |pair: &&(u32, u32)| {
        verdicts().any(|v| v.victim.0 == pair.0 && v.aggressors.contains(&Subject(pair.1)))
    };
    score.found = must.iter().filter(names).count() as u32;
}

fn table(counters: bool) -> Score {
    println!("\n{}", if counters { "with counters" } else { "without counters" });
    println!(
        "{:<22} rec. true named  prec. recall nobody holds error resource  cpi2 (p r)   fences (p r)",
        "scenario"
    );
    let mut all = Score::default();
    // The rivals learn what is normal from a quiet recording; ours needs none.
    let (quiet, _) = record(Kind::NoInterference, 1, SECONDS, counters);
    let earlier = quiet.victims();
    for kind in KINDS {
        let half = |part: u64| {
            let mut sum = Score::default();
            for seed in (0..SEEDS_A_KIND).filter(|seed| seed % 2 == part) {
                sum += judge(kind, FIRST_SEED + seed * 16 + kind as u64, counters, &earlier);
            }
            sum
        };
        let mut sum = std::thread::scope(|scope| {
            let other = scope.spawn(|| half(1));
            let mut mine = half(0);
            mine += other.join().unwrap();
            mine
        });
        sum.print(&format!("{kind:?}"));
        sum.errors.sort_by(f64::total_cmp);
        all += sum;
    }
    all.print("all");
    all
}

#[test]
fn with_counters_culprits_are_named_and_the_innocent_are_not() {
    let all = table(true);
    assert!(all.recordings >= 200);
    assert!(all.precision() >= 0.95, "precision {}", all.precision());
    assert!(all.recall() >= 0.90, "recall {}", all.recall());
    assert!(all.coverage() >= 0.90, "coverage {}", all.coverage());
    assert!(all.unslandered() >= 0.95, "innocent named in {} recordings", all.slandered);
    all.beats_rivals();
}

#[test]
fn without_counters_time_per_wakeup_names_culprits_too() {
    let all = table(false);
    assert!(all.precision() >= 0.95, "precision {}", all.precision());
    assert!(all.recall() >= 0.90, "recall {}", all.recall());
    assert!(all.coverage() >= 0.90, "coverage {}", all.coverage());
    assert!(all.unslandered() >= 0.95, "innocent named in {} recordings", all.slandered);
    all.beats_rivals();
}

#[test]
fn waiting_for_a_core_is_charged_to_its_holder_within_2_per_cent() {
    for seed in 0..10 {
        let (observer, truth) = record(Kind::CpuContention, seed, 20.0, false);
        let findings = observer.findings();
        let verdict = findings
            .verdicts
            .iter()
            .find(|v| v.victim == Subject(0) && v.resource == Resource::CpuTime)
            .unwrap();
        assert_eq!(verdict.signal, Signal::RunQueueWait);
        assert_eq!(verdict.aggressors, [Subject(2)]);
        let lost = truth.waited_s[0][2];
        assert!((verdict.lost_seconds / lost - 1.0).abs() < 0.02, "{verdict:?} truth {lost}");
        assert!(verdict.low <= verdict.slowdown && verdict.slowdown <= verdict.high);
    }
}
