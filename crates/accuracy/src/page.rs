//! `docs/accuracy.md`.

use crate::real::{LEAST_GUILT, MUST_FIND, Outcome, Tally};
use crate::share;
use crate::{Kind, Score};
use std::cmp::Ordering;
use std::fmt::Write;

/// Simulated recordings of one sort: with or without counters.
#[derive(Clone, Debug, Default)]
pub struct Simulated {
    /// What the table is called.
    pub title: &'static str,
    /// Kind by kind.
    pub kinds: Vec<(Kind, Score)>,
}

impl Simulated {
    /// All kinds together.
    #[must_use]
    pub fn all(&self) -> Score {
        let mut sum = Score::default();
        for (_, score) in &self.kinds {
            sum += score.clone();
        }
        sum
    }
}

/// Says of a figure whether its target was met.
fn target(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}

fn of(part: u32, whole: u32) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.3}", share(part, whole)) }
}

fn points(error: Option<f64>) -> String {
    error.map_or("-".to_owned(), |error| format!("{:.2}", 100.0 * error))
}

/// The section on simulated recordings.
#[must_use]
pub fn simulated(tables: &[Simulated], seconds: f64, first_seed: u64) -> String {
    let mut text = format!(
        "## Simulated recordings\n\nOf {seconds:.0} s each, from the contention model of `crosstalk simulate`, which \
         shares no assumption with the estimator (a cache of random replacement with miss curves, memory as a queue, \
         turns on cores); seeds from {first_seed} on, which nothing was chosen with. A loss of 5 % and more of the \
         victim's time must be found; a neighbour is innocent if it really cost at most 0.1 %. `clean`: share of \
         recordings in which nobody innocent was named. `holds`: share of 95 % intervals that hold the truth. `error`: \
         median distance of the loss from the truth, in points of the victim's time. `through`: share of verdicts that \
         name one resource, and the right one. `recall` is of neighbours that rest for longer than milliseconds, `of all` of \
         every loss of that size there is, also where nothing could be compared and where it was a core's own cache that \
         had gone cold. A verdict on a group is right if one of its members is guilty; below the table they are counted one by one, and \
         so they are beside rivals. CPI2 and the fences learn what is normal for each victim from an earlier recording of the \
         same machine and workloads in which those who hurt it never run; ours needs none. \
         Live: the same recordings as the agent sees them at its defaults, in slots of 20 ms, the last minute.\n"
    );
    for table in tables {
        let _ = write!(
            text,
            "\n### {}\n\n| scenario | recordings | true pairs | precision | recall | of all | clean | holds | error | \
             through | CPI2: precision, recall | fences: precision, recall |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
            table.title
        );
        for (kind, score) in &table.kinds {
            row(&mut text, kind.name(), score);
        }
        row(&mut text, "**all**", &table.all());
        let all = table.all();
        let _ = writeln!(
            text,
            "\nWith every member of a group by itself, precision is {:.3}: {} of {} who are named are guilty.\n\nBesides, {} pairs with such a loss have a neighbour that rests for some milliseconds at a time only, so \
             that there is little to compare with: {} of them were found. {} more lose as much with what a core's own cache \
             costs after the other's turn on it, which no method here looks for: {} of them were named through caches or \
             memory. With both recall is {:.3}.\n\nWaits for a core are summed, not estimated: of {} verdicts on them {} are \
             within 5 % of the truth ({}), and {} intervals hold it ({}); they are about where within a slot a wait lay.",
            all.precision_by_member(),
            all.guilty_members,
            all.members,
            all.never_rested,
            all.found_never_rested,
            all.cold,
            all.found_cold,
            all.recall_of_all(),
            all.waits,
            all.waits_right,
            of(all.waits_right, all.waits),
            all.waits_holding,
            of(all.waits_holding, all.waits),
        );
    }
    text
}

fn row(text: &mut String, name: &str, score: &Score) {
    let rival = |at: usize| {
        let rival = score.rivals[at];
        format!("{}, {}", of(rival.rightly, rival.named), of(rival.found, score.true_pairs))
    };
    let (found, all) = score.of_all();
    let _ = writeln!(
        text,
        "| {name} | {} | {} | {} | {} | {} | {:.3} | {} | {} | {} | {} | {} |",
        score.recordings,
        score.true_pairs,
        of(score.rightly, score.named),
        of(score.found, score.true_pairs),
        of(found, all),
        score.unslandered(),
        of(score.holding, score.intervals),
        points(score.median_error()),
        of(score.resources_right, score.resources),
        rival(0),
        rival(1),
    );
}

/// The lines that hold the targets against what was measured.
#[must_use]
pub fn targets(tables: &[Simulated], outcomes: &[Outcome]) -> String {
    let mut text = "| what | target | measured | |\n|---|---|---|---|\n".to_owned();
    let mut line = |what: &str, target_text: &str, measured: String, met: bool| {
        let _ = writeln!(text, "| {what} | {target_text} | {measured} | {} |", target(met));
    };
    for (at, table) in tables.iter().enumerate() {
        let all = table.all();
        if at == 0 {
            let (precision, recall) = (all.precision(), all.recall());
            line(
                "simulated, with counters: precision",
                "0.95",
                format!("{precision:.3}"),
                precision >= 0.95,
            );
            let by_member = all.precision_by_member();
            line(
                "simulated, with counters: precision, every member of a group by itself",
                "0.95",
                format!("{by_member:.3}"),
                by_member >= 0.95,
            );
            let of_all = all.recall_of_all();
            let what = format!(
                "simulated, with counters: recall from 5 % on, of all pairs ({recall:.3} of neighbours that rest for longer than \
                 milliseconds)"
            );
            line(&what, "0.90", format!("{of_all:.3}"), of_all >= 0.9);
        }
        let worst = all.rivals.iter().map(|rival| all.f1_of(rival)).fold(0.0, f64::max);
        let what =
            format!("simulated, {}: better than both rivals (F1)", table.title.to_lowercase());
        line(&what, &format!("above {worst:.3}"), format!("{:.3}", all.f1()), all.f1() > worst);
        let what = format!(
            "simulated, {}: better than both rivals in every scenario",
            table.title.to_lowercase()
        );
        let (measured, met) = by_scenario(table);
        line(&what, &format!("{} of {0}", table.kinds.len()), measured, met);
    }
    if !outcomes.is_empty() {
        let tally = Tally::of(outcomes);
        let enough = outcomes.len() >= 40;
        let named = share(tally.found, tally.must);
        let clean = share(tally.clean, tally.trials);
        line("real: recordings", "40", outcomes.len().to_string(), enough);
        let what = "real: the aggressor named, of effects from 8 % on";
        line(what, "0.90", format!("{} of {} ({named:.2})", tally.found, tally.must), named >= 0.9);
        let what = "real: nobody innocent named";
        line(
            what,
            "0.95",
            format!("{} of {} ({clean:.2})", tally.clean, tally.trials),
            clean >= 0.95,
        );
        let error = tally.median_error();
        let met = error.is_some_and(|error| error <= 0.02);
        line("real: median error of the slowdown, points", "2", points(error), met);
        let holds = share(tally.holding, tally.intervals);
        let what = "real: intervals that hold the truth";
        line(
            what,
            "0.90",
            format!("{} of {} ({holds:.2})", tally.holding, tally.intervals),
            holds >= 0.9,
        );
        let f1 = |[named, rightly, found]: [u32; 3]| {
            let (p, r) = (share(rightly, named), share(found, tally.must));
            2.0 * p * r / (p + r).max(1e-9)
        };
        let ours = f1([tally.named, tally.rightly, tally.found]);
        let worst = f1(tally.cpi2).max(f1(tally.fences));
        line(
            "real: better than both rivals (F1)",
            &format!("above {worst:.3}"),
            format!("{ours:.3}"),
            ours > worst,
        );
    }
    text
}

/// In how many scenarios both rivals do worse, and in which one of them does not. As good is good enough only where
/// nothing was to be found and nobody was named for nothing.
fn by_scenario(table: &Simulated) -> (String, bool) {
    let beside = |score: &Score| score.rivals.iter().map(|one| score.beside(one)).min();
    let (mut better, mut equal, mut worse) = (0, 0, Vec::new());
    for (kind, score) in &table.kinds {
        let is_faultless = score.true_pairs == 0 && score.members == score.guilty_members;
        match beside(score) {
            Some(Ordering::Greater) | None => better += 1,
            Some(Ordering::Equal) if is_faultless => equal += 1,
            _ => worse.push(kind.name()),
        }
    }
    let mut text = format!("{better}");
    if equal > 0 {
        let _ = write!(
            text,
            ", and in {equal} there is nobody to find and nobody innocent is named by any"
        );
    }
    if !worse.is_empty() {
        let _ = write!(text, "; not in: {}", worse.join(", "));
    }
    (text, worse.is_empty())
}

/// The section on real recordings.
#[must_use]
pub fn real(outcomes: &[Outcome], machine: &str) -> String {
    let tally = Tally::of(outcomes);
    let seconds =
        outcomes.iter().map(|one| one.seconds).sum::<f64>() / outcomes.len().max(1) as f64;
    let mut text = format!(
        "## Real recordings\n\n{machine} {} recordings of {seconds:.0} s, without hardware counters. On core 0 a victim \
         that chases pointers through 2 to 32 MiB or serves requests out of them, and one that stays in 64 KiB; on core \
         1 streams, thrashers and computers, on and off for 0.2 to 2 s by a random schedule of their own. The truth is \
         what the victim itself says: medians of its busy time for a piece of work in bins of 50 ms, the neighbour on \
         against off with all others alike; it is measured too, and has an interval of its own (resampled seconds). A \
         neighbour is guilty where that interval is above 0, and from {:.0} % on it must be found; it is innocent where \
         the interval ends below {:.0} %; of the rest the truth is not known, and they count neither way. CPI2's rule and the fences would learn what is normal \
         from a quiet recording of the same victim; here they have none, and take the recording itself for it.\n\n",
        outcomes.len(),
        100.0 * MUST_FIND,
        100.0 * LEAST_GUILT,
    );
    let _ = write!(
        text,
        "| | precision | recall from 8 % on |\n|---|---|---|\n| Crosstalk | {} | {} |\n| CPI2's rule | {} | {} |\n\
         | PRM's fences | {} | {} |\n\n",
        of(tally.rightly, tally.named),
        of(tally.found, tally.must),
        of(tally.cpi2[1], tally.cpi2[0]),
        of(tally.cpi2[2], tally.must),
        of(tally.fences[1], tally.fences[0]),
        of(tally.fences[2], tally.must),
    );
    let mut effects: Vec<f64> = outcomes
        .iter()
        .flat_map(|one| &one.pairs)
        .filter(|pair| pair.neighbour != "compute" && !pair.victim.ends_with("64 KiB"))
        .map(|pair| pair.truth.effect)
        .collect();
    effects.sort_by(f64::total_cmp);
    let quantile =
        |share: f64| effects.get((share * effects.len() as f64) as usize).copied().unwrap_or(0.0);
    let _ = write!(
        text,
        "True effects of streams and thrashers on the large victims: {:.1} % at the median, {:.1} to {:.1} % in the \
         middle half; {} pairs had to be found, {} are innocent, of {} the truth is not known ({} of these were named). Of {} intervals {} hold the truth and {} overlap its \
         interval. Neighbours on the victim's own core: {}, of which {} were named for the time they held it.\n\n",
        100.0 * quantile(0.5),
        100.0 * quantile(0.25),
        100.0 * quantile(0.75),
        tally.must,
        tally.innocent,
        tally.unclear[0],
        tally.unclear[1],
        tally.intervals,
        tally.holding,
        tally.overlapping,
        tally.same_core[0],
        tally.same_core[1],
    );
    let probe = tally.probe;
    let said = probe.contended_on + probe.contended_off + probe.quiet_on + probe.quiet_off;
    let right = probe.contended_on + probe.quiet_off;
    let _ = write!(
        text,
        "The memory probe beside the schedule, burst by burst: of {} bursts {} said nothing; of the others {:.0} % agree \
         with what was on in the second before (contended {} of {} with a stream or thrasher on, quiet {} of {} with none).\n\n",
        said + probe.unknown,
        probe.unknown,
        100.0 * right as f64 / said.max(1) as f64,
        probe.contended_on,
        probe.contended_on + probe.quiet_on,
        probe.quiet_off,
        probe.contended_off + probe.quiet_off,
    );
    text += "| trial | victim | neighbour | truth: effect while on | truth: share lost | verdict: share (95 %) | through |\n\
             |---|---|---|---|---|---|---|\n";
    for outcome in outcomes {
        for pair in &outcome.pairs {
            let (truth, percent) = (pair.truth, |value: f64| format!("{:.1}", 100.0 * value));
            let said = pair.said.as_ref().or(pair.waited.as_ref());
            let (verdict, through) = said.map_or(("none".to_owned(), String::new()), |said| {
                let (low, high) = (percent(said.low), percent(said.high));
                (format!("{} ({low} to {high})", percent(said.slowdown)), said.resource.clone())
            });
            let _ = writeln!(
                text,
                "| {} | {} | {}{} | {} ({} to {}) | {} | {verdict} | {through} |",
                outcome.number,
                pair.victim,
                pair.neighbour,
                if pair.same_core { ", same core" } else { "" },
                percent(truth.effect),
                percent(truth.low),
                percent(truth.high),
                percent(truth.lost),
            );
        }
        for said in &outcome.strangers {
            let _ = writeln!(
                text,
                "| {} | | {}, no part of the trial | | | {:.1} | {} |",
                outcome.number,
                said.aggressor,
                100.0 * said.slowdown,
                said.resource
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rival;

    /// A scenario in which both rivals name so many, rightly so many, of four.
    fn scenario(kind: Kind, true_pairs: u32, rival: [u32; 2]) -> (Kind, Score) {
        let [named, rightly] = rival;
        let rival = Rival { named, rightly, found: rightly };
        let ours = Score { true_pairs, found: true_pairs, named: true_pairs, ..Score::default() };
        let ours = Score { members: true_pairs, guilty_members: true_pairs, ..ours };
        let score = Score { rightly: true_pairs, rivals: [rival; 2], waits: 4, ..ours };
        (kind, Score { waits_right: 3, waits_holding: 2, cold: 1, recordings: 1, ..score })
    }

    #[test]
    fn a_scenario_in_which_a_rival_does_as_well_is_named_and_waits_and_all_losses_are_published() {
        let kinds = vec![
            scenario(Kind::NoInterference, 0, [0, 0]),
            scenario(Kind::OneAggressor, 4, [4, 2]),
            scenario(Kind::StolenTime, 0, [2, 0]),
        ];
        let mut table = Simulated { title: "With counters", kinds };
        let lines = targets(std::slice::from_ref(&table), &[]);
        let line = "better than both rivals in every scenario | 3 of 3 | 2, and in 1 there is nobody to find";
        assert!(
            lines.contains(line) && lines.contains("recall from 5 % on, of all pairs"),
            "{lines}"
        );
        table.kinds.push(scenario(Kind::Twins, 4, [4, 4]));
        let lines = targets(std::slice::from_ref(&table), &[]);
        assert!(lines.contains("; not in: an aggressor and its shadow | missed |"), "{lines}");
        let text = simulated(&[table], 60.0, 1);
        assert!(text.contains("precision is 1.000: 8 of 8 who are named are guilty"), "{text}");
        assert!(text.contains("| **all** | 4 | 8 | 1.000 | 1.000 | 0.667 | "), "{text}");
        assert!(text.contains(
            "of 16 verdicts on them 12 are within 5 % of the truth (0.750), and 8 intervals"
        ));
    }
}
