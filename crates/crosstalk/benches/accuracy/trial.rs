//! One real recording with known victims and neighbours.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use crosstalk_accuracy::real::{
    Diary, NamedPair, Outcome, PairOutcome, Plan, PlannedLoad, ProbeCounts, Said, effect,
};
use crosstalk_analysis::{NamedVerdict, Question, analyze_with};
use crosstalk_interference::comparators::{Cpi2, Fences, Named, cpi2, fences};
use crosstalk_recording::Reader;
use std::error::Error;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Loads run for so long before the recording begins and after it ends.
const AROUND: Duration = Duration::from_secs(2);
/// The probe speaks of this much time before a burst.
const PROBE_NS: u64 = 1_000_000_000;

struct Player<'a> {
    load: &'a PlannedLoad,
    child: Child,
    diary: Diary,
}

impl Drop for Player<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Plays a trial, records it and judges the recording; both stay in a folder of `keep_in`, or go.
pub(crate) fn run(
    plan: &Plan,
    seconds: u64,
    keep_in: Option<&Path>,
) -> Result<Outcome, Box<dyn Error>> {
    let mut folder = tempfile::tempdir()?;
    if let Some(keep_in) = keep_in {
        fs::create_dir_all(keep_in)?;
        let prefix = format!("trial-{}-", plan.number);
        folder =
            tempfile::Builder::new().prefix(&prefix).disable_cleanup(true).tempdir_in(keep_in)?;
    }
    let mut players = Vec::new();
    for (at, load) in plan.loads.iter().enumerate() {
        let says = File::create(folder.path().join(format!("load-{at}")))?;
        let child = Command::new(binary())
            .args(load.arguments(seconds + 120))
            .stdout(says)
            .stderr(Stdio::null())
            .spawn()?;
        players.push(Player { load, child, diary: Diary::default() });
    }
    #[allow(clippy::disallowed_methods)]
    // memory is filled and phases have begun when the recording does
    std::thread::sleep(AROUND);
    let before = stolen_ticks();
    let out = folder.path().join("rec");
    let status = Command::new(binary())
        .args(["record", "--duration", &format!("{seconds}s"), "--out"])
        .arg(&out)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if !status.success() {
        return Err(format!("crosstalk record ended with {status}").into());
    }
    let stolen = stolen_ticks().zip(before).map(|(after, before)| {
        let (stolen, all) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
        stolen as f64 / all.max(1) as f64
    });
    for (at, player) in players.iter_mut().enumerate() {
        if let Some(status) = player.child.try_wait()? {
            return Err(format!("a load ended early with {status}").into());
        }
        player.child.kill()?;
        player.child.wait()?;
        player.diary = Diary::read(&fs::read_to_string(folder.path().join(format!("load-{at}")))?);
    }
    let mut outcome = judge(&players, &out)?;
    (outcome.number, outcome.seed, outcome.stolen) = (plan.number, plan.seed, stolen);
    Ok(outcome)
}

pub(crate) fn binary() -> String {
    std::env::var("CROSSTALK").unwrap_or_else(|_| env!("CARGO_BIN_EXE_crosstalk").to_owned())
}

fn stolen_ticks() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<u64> = text
        .lines()
        .next()?
        .split_whitespace()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal; guest time is in user already.
    Some((*fields.get(7)?, fields.iter().take(8).sum()))
}

fn words(load: &PlannedLoad) -> String {
    let size = if load.kib >= 1024 {
        format!("{} MiB", load.kib >> 10)
    } else {
        format!("{} KiB", load.kib)
    };
    if load.victim { format!("{} {size}", load.kind) } else { load.kind.clone() }
}

fn judge(players: &[Player<'_>], out: &Path) -> Result<Outcome, Box<dyn Error>> {
    let place = [out.display().to_string()];
    let question = Question::default();
    let mut rivals: [Vec<(String, String)>; 2] = Default::default();
    let report = analyze_with(&place, &question, |_| {}, &mut |observer, name| {
        let victims = observer.victims();
        let named =
            [cpi2(&victims, &[], &Cpi2::default()), fences(&victims, &[], &Fences::default())];
        let words = |pair: &Named| (name(pair.victim), name(pair.aggressor));
        rivals = named.map(|pairs| pairs.iter().map(words).collect());
    })?;
    let run = report.runs.first().ok_or("nothing was recorded")?;
    let is = |player: &Player<'_>, name: &str| name.contains(&format!("({})", player.child.id()));
    let victims = || players.iter().filter(|player| player.load.victim);
    let neighbours: Vec<&Player<'_>> =
        players.iter().filter(|player| !player.load.victim).collect();
    let diaries: Vec<&Diary> = neighbours.iter().map(|player| &player.diary).collect();
    let mut outcome = Outcome {
        seconds: run.to_ns.saturating_sub(run.from_ns) as f64 / 1e9,
        rows: run.rows,
        probe: probe(players, out)?,
        ..Outcome::default()
    };
    for victim in victims() {
        for (which, neighbour) in neighbours.iter().enumerate() {
            let about = |told: &&&NamedVerdict, waits: bool| {
                let names = told.aggressors.iter().any(|name| is(neighbour, name));
                is(victim, &told.victim) && names && (told.resource == "cpu time") == waits
            };
            let verdicts = report.verdicts();
            let said = verdicts.iter().find(|told| about(told, false));
            let time = said.map_or((run.from_ns, run.to_ns), |told| (told.from_ns, told.to_ns));
            let Some(truth) = effect(&victim.diary, &diaries, which, time) else { continue };
            let rival = |at: usize| {
                rivals[at].iter().any(|(who, whom)| is(victim, who) && is(neighbour, whom))
            };
            outcome.pairs.push(PairOutcome {
                victim: words(victim.load),
                neighbour: words(neighbour.load),
                same_core: victim.load.core == neighbour.load.core,
                truth,
                said: said.map(|told| saying(told)),
                waited: verdicts.iter().find(|told| about(told, true)).map(|told| saying(told)),
                cpi2: rival(0),
                fences: rival(1),
            });
        }
    }
    for told in report.verdicts() {
        if !victims().any(|victim| is(victim, &told.victim)) {
            outcome.beyond += 1;
        } else if told.resource != "cpu time"
            && !told.aggressors.iter().any(|name| neighbours.iter().any(|one| is(one, name)))
        {
            outcome.strangers.push(saying(told));
        }
    }
    let ours = |name: &str| victims().any(|victim| is(victim, name));
    outcome.cannot_tell = run
        .cannot_tell
        .iter()
        .filter(|one| ours(&one.victim))
        .map(|one| one.because.to_string())
        .collect();
    let named = |pairs: &[(String, String)]| {
        let word = |name: &str| {
            players.iter().find(|player| is(player, name)).map(|player| words(player.load))
        };
        let pair = |(who, whom): &(String, String)| {
            let neighbour = word(whom).unwrap_or_else(|| "stranger".to_owned());
            Some(NamedPair {
                victim: victims().find(|victim| is(victim, who)).map(|one| words(one.load))?,
                neighbour,
            })
        };
        pairs.iter().filter_map(pair).collect()
    };
    (outcome.cpi2, outcome.fences) = (named(&rivals[0]), named(&rivals[1]));
    Ok(outcome)
}

fn saying(told: &NamedVerdict) -> Said {
    Said {
        aggressor: told.aggressor.clone(),
        group: told.aggressors.len(),
        slowdown: told.slowdown,
        low: told.low,
        high: told.high,
        resource: told.resource.to_string(),
        signal: told.signal.to_string(),
    }
}

/// What the probe said, against whether somebody took memory in the second before.
fn probe(players: &[Player<'_>], out: &Path) -> Result<ProbeCounts, Box<dyn Error>> {
    let takes = |player: &&Player<'_>| matches!(player.load.kind.as_str(), "stream" | "thrash");
    let takers: Vec<&Diary> = players.iter().filter(takes).map(|player| &player.diary).collect();
    let mut counts = ProbeCounts::default();
    let reader = Reader::open([out.display().to_string()])?;
    for piece in reader.scan("probe").columns(["slot_start_ns", "state"]).pieces() {
        let batch = piece?.batch;
        let slots =
            batch.column_by_name("slot_start_ns").and_then(|c| c.as_primitive_opt::<Int64Type>());
        let states = batch.column_by_name("state").and_then(|c| c.as_string_opt::<i32>());
        let (Some(slots), Some(states)) = (slots, states) else { continue };
        for row in 0..slots.len() {
            let at_ns = slots.value(row).unsigned_abs();
            let on: f64 =
                takers.iter().map(|one| one.on(at_ns - PROBE_NS, at_ns)).fold(0.0, f64::max);
            match (states.value(row), on) {
                ("unknown", _) => counts.unknown += 1,
                ("contended", on) if on >= 0.8 => counts.contended_on += 1,
                ("contended", on) if on <= 0.2 => counts.contended_off += 1,
                ("quiet", on) if on >= 0.8 => counts.quiet_on += 1,
                ("quiet", on) if on <= 0.2 => counts.quiet_off += 1,
                _ => {}
            }
        }
    }
    Ok(counts)
}
