//! How right verdicts are: regenerates docs/accuracy.md.
//!
//! `make accuracy` judges 204 simulated scenarios, each with and without counters, as a recording and as the agent sees it
//! live, and 40 real recordings of this machine. `-- --simulated 17` says how many of each kind, `--real 40` how many trials, `--seconds 60` how long each,
//! `--results FILE` where each trial's outcome is kept as it ends: an interrupted run of the same build on the same
//! machine goes on where it stopped, and the page is made from what is there. `--keep DIR` keeps what was recorded and
//! what the loads said, to look into a verdict that was wrong. `--seed N` draws others than the published. `--write FILE`
//! writes the page.

mod trial;

use crosstalk_accuracy::page::{self, Simulated};
use crosstalk_accuracy::real::{Outcome, Plan};
use crosstalk_accuracy::simulated::View;
use crosstalk_accuracy::{Kind, Score, simulated};
use std::error::Error;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Of the published page. Thresholds were chosen with others.
const SEED: u64 = 90_000;
const SIMULATED_SECONDS: f64 = 60.0;

fn main() -> Result<(), Box<dyn Error>> {
    if !crosstalk_figure::is_asked_for() {
        return Ok(());
    }
    let number = |name: &str, default: u64| argument(name).map_or(Ok(default), |text| text.parse());
    let seed = number("--seed", SEED)?;
    let tables = simulate(number("--simulated", 17)?, seed);
    let results =
        argument("--results").map_or_else(|| PathBuf::from("target/accuracy.jsonl"), PathBuf::from);
    let trials = number("--real", 40)?;
    let seconds = number("--seconds", 60)?;
    let keep_in = argument("--keep").map(PathBuf::from);
    let about = (crosstalk_figure::machine(), build()?);
    let mut outcomes = kept(&results, seed, trials, &about);
    for trial in 0..trials {
        if outcomes.iter().any(|one| one.number == trial) {
            continue;
        }
        // A trial that fails costs itself, not the run.
        match trial::run(&Plan::draw(seed, trial), seconds, keep_in.as_deref()) {
            Ok(mut outcome) => {
                (outcome.machine, outcome.build) = about.clone();
                keep(&results, &outcome)?;
                eprintln!("trial {trial} of {trials}: {}", summary(&outcome));
                outcomes.push(outcome);
            }
            Err(error) => eprintln!("trial {trial} of {trials} failed: {error}"),
        }
    }
    outcomes.sort_by_key(|one| one.number);
    let page = whole(&tables, &outcomes, seed);
    println!("{page}");
    if let Some(path) = argument("--write") {
        fs::write(path, page)?;
    }
    Ok(())
}

fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

fn whole(tables: &[Simulated], outcomes: &[Outcome], seed: u64) -> String {
    let mut page = "# How right verdicts are\n\n`make accuracy` measures and writes this page; it takes about an hour. \
                    How verdicts are made, and what they cannot tell, is in [verdicts.md](verdicts.md).\n\n"
        .to_owned();
    page += &page::targets(tables, outcomes);
    page += "\n";
    page += &page::simulated(tables, SIMULATED_SECONDS, seed);
    if !outcomes.is_empty() {
        page += "\n";
        page += &page::real(outcomes, &crosstalk_figure::machine());
    }
    page
}

/// Every kind so many times, with counters and without, recorded and live, on all cores.
fn simulate(times: u64, seed: u64) -> Vec<Simulated> {
    let mut tables = Vec::new();
    let views = [
        ("With counters", true, View::RECORDED),
        ("Without counters", false, View::RECORDED),
        ("Live, with counters", true, View::live()),
        ("Live, without counters", false, View::live()),
    ];
    for (title, counters, view) in views {
        if times == 0 {
            continue;
        }
        let one = |kind: Kind, seed: u64| {
            simulated::judge(kind, seed, SIMULATED_SECONDS, counters, &view)
        };
        let mut kinds = Vec::new();
        for kind in Kind::ALL {
            let seeds: Vec<u64> = (0..times).map(|at| seed + at * 16 + kind as u64).collect();
            let (mine, theirs) = seeds.split_at(seeds.len() / 2);
            let half = |seeds: &[u64]| {
                let mut sum = Score::default();
                seeds.iter().for_each(|seed| sum += one(kind, *seed));
                sum
            };
            let sum = std::thread::scope(|scope| {
                let other = scope.spawn(|| half(theirs));
                let mut sum = half(mine);
                sum += other.join().expect("judging does not panic");
                sum
            });
            eprintln!(
                "{title}, {}: precision {:.3}, recall {:.3}",
                kind.name(),
                sum.precision(),
                sum.recall()
            );
            if crosstalk_figure::has("--wrong") {
                sum.wrong.iter().for_each(|wrong| eprintln!("    {wrong}"));
            }
            kinds.push((kind, sum));
        }
        tables.push(Simulated { title, kinds });
    }
    tables
}

/// What tells this build from another: both who records and who judges are in the target folder's programs.
fn build() -> Result<String, Box<dyn Error>> {
    let mut hash = DefaultHasher::new();
    for program in [std::env::current_exe()?, PathBuf::from(trial::binary())] {
        hash.write(&fs::read(program)?);
    }
    Ok(format!("{:016x}", hash.finish()))
}

/// Outcomes of trials of this seed that an earlier run of this build kept on this machine; a line that was cut off is
/// not one.
fn kept(results: &Path, seed: u64, trials: u64, about: &(String, String)) -> Vec<Outcome> {
    let text = fs::read_to_string(results).unwrap_or_default();
    let all = text.lines().filter_map(|line| serde_json::from_str::<Outcome>(line).ok());
    let mut outcomes: Vec<Outcome> = all
        .filter(|one| one.number < trials && one.seed == Plan::draw(seed, one.number).seed)
        .filter(|one| (&one.machine, &one.build) == (&about.0, &about.1))
        .collect();
    outcomes.sort_by_key(|one| one.number);
    outcomes.dedup_by_key(|one| one.number);
    outcomes
}

fn keep(results: &Path, outcome: &Outcome) -> Result<(), Box<dyn Error>> {
    if let Some(folder) = results.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = fs::OpenOptions::new().create(true).append(true).open(results)?;
    writeln!(file, "{}", serde_json::to_string(outcome)?)?;
    Ok(())
}

fn summary(outcome: &Outcome) -> String {
    let pairs = outcome.pairs.iter().map(|pair| {
        let said = pair.said.as_ref().map_or("-".to_owned(), |said| {
            format!(
                "{:.1} ({:.1} to {:.1})",
                100.0 * said.slowdown,
                100.0 * said.low,
                100.0 * said.high
            )
        });
        format!(
            "\n    {} beside {}: truth {:+.1} % on, {:.1} % lost; said {said}{}",
            pair.victim,
            pair.neighbour,
            100.0 * pair.truth.effect,
            100.0 * pair.truth.lost,
            pair.waited
                .as_ref()
                .map_or(String::new(), |w| format!(", waited {:.1} %", 100.0 * w.slowdown)),
        )
    });
    let strangers = outcome.strangers.iter().map(|said| format!("\n    stranger: {said:?}"));
    pairs.chain(strangers).collect()
}
