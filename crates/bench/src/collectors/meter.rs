//! What a workload says it got done, from its output or an address.

use super::ProgressRow;
use crate::experiment::{Container, Progress};
use crosstalk_host::Clock;
use crosstalk_model::SlotLength;
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Rows that may wait for the source; more than a burst of output has.
const WAITING: usize = 65_536;
/// Of a workload that says on its output what it got done, a row at most this often: how often it does is its own affair, and
/// every row is kept.
const ROWS_EVERY_NS: u64 = 50_000_000;

/// The meters of all containers. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Meters(Arc<Mutex<Shared>>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Vec<ProgressRow>,
    lost: u64,
    addresses: Vec<(String, Option<String>, Meter)>,
}

/// Counts for one container in one round.
#[derive(Clone, Debug)]
pub struct Meter {
    meters: Meters,
    clock: Clock,
    how: Progress,
    round: u32,
    index: u32,
    name: Arc<str>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    done: Option<f64>,
    lines: u64,
    reported_ns: u64,
    /// When there was a row last, and whether it said more since.
    row_ns: u64,
    is_ahead: bool,
    /// The round is over: what is heard from now on is of another.
    is_over: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Meters {
    /// A meter for a container; `None` when it says nothing of its progress.
    pub fn meter(&self, container: &Container, round: u32, clock: &Clock) -> Option<Meter> {
        let how = container.progress.clone().or_else(|| built_in(container))?;
        let meter = Meter {
            meters: self.clone(),
            clock: clock.clone(),
            how,
            round,
            index: container.index,
            name: container.name.as_str().into(),
            state: Arc::default(),
        };
        if let Progress::Url { url, after } = &meter.how {
            locked(&self.0).addresses.push((url.clone(), after.clone(), meter.clone()));
        }
        Some(meter)
    }

    pub(super) fn take(&self) -> (Vec<ProgressRow>, u64) {
        let mut shared = locked(&self.0);
        (std::mem::take(&mut shared.waiting), std::mem::take(&mut shared.lost))
    }

    /// A round is over: nobody asks at its addresses any more. The next may have a meter at the same one.
    pub fn end_round(&self, round: u32) {
        locked(&self.0).addresses.retain(|(_, _, meter)| {
            if meter.round == round {
                locked(&meter.state).is_over = true;
            }
            meter.round != round
        });
    }

    pub(super) fn addresses(&self) -> Vec<(String, Option<String>, Meter)> {
        locked(&self.0).addresses.clone()
    }
}

/// What our own victims and aggressors say.
fn built_in(container: &Container) -> Option<Progress> {
    let is_ours =
        container.image.is_none() && container.command.iter().take(2).eq(["crosstalk", "workload"]);
    is_ours.then(|| Progress::Json("pieces".to_owned()))
}

impl Meter {
    /// Hears a line of the workload's output.
    pub fn hear(&self, line: &str) {
        let now_ns = self.clock.now_unix_ns();
        let done = match &self.how {
            Progress::Lines => {
                let mut state = locked(&self.state);
                state.lines += 1;
                Some(state.lines as f64)
            }
            Progress::Number(word) => number_after(line, word),
            Progress::Json(key) => json(line, key),
            Progress::Url { .. } => None,
        };
        let Some(done) = done else { return };
        {
            let mut state = locked(&self.state);
            if now_ns.saturating_sub(state.row_ns) < ROWS_EVERY_NS {
                (state.done, state.reported_ns, state.is_ahead) = (Some(done), now_ns, true);
                return;
            }
        }
        self.tell(now_ns, done);
    }

    /// The output is over: what was said last is told, if it was not yet.
    pub fn end(&self) {
        let state = locked(&self.state);
        let last = state.done.filter(|_| state.is_ahead).map(|done| (state.reported_ns, done));
        drop(state);
        if let Some((reported_ns, done)) = last {
            self.tell(reported_ns, done);
        }
    }

    /// So much is done so far.
    pub fn tell(&self, now_ns: u64, done: f64) {
        {
            let mut state = locked(&self.state);
            if state.is_over {
                return;
            }
            (state.done, state.reported_ns) = (Some(done), now_ns);
            (state.row_ns, state.is_ahead) = (now_ns, false);
        }
        let row = ProgressRow {
            slot_start_ns: SlotLength::MILLISECOND.floor(now_ns),
            round: self.round,
            index: self.index,
            container: Arc::clone(&self.name),
            done,
        };
        let mut shared = locked(&self.meters.0);
        if shared.waiting.len() < WAITING {
            shared.waiting.push(row);
        } else {
            shared.lost += 1;
        }
    }

    /// What is done so far, if it was ever said.
    pub fn done(&self) -> Option<f64> {
        locked(&self.state).done
    }

    /// When that was said, Unix nanoseconds.
    pub fn reported_ns(&self) -> u64 {
        locked(&self.state).reported_ns
    }
}

/// The number behind a word: `done: 12.5` behind `done`.
pub(super) fn number_after(line: &str, word: &str) -> Option<f64> {
    number_at(line.split_once(word)?.1)
}

fn number_at(rest: &str) -> Option<f64> {
    let rest = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ':' | '=' | '"'));
    let end = rest.find(|c: char| !matches!(c, '0'..='9' | '.' | '-' | '+' | 'e' | 'E'));
    let number: f64 = rest[..end.unwrap_or(rest.len())].parse().ok()?;
    number.is_finite().then_some(number)
}

/// The first number behind a word on a page: `done 12.5`, and as Prometheus writes it, `done{kind="x"} 12.5`. Comments
/// name a metric before it has its number, and another metric's name may end with the word; neither is meant.
pub(super) fn number_on_page(page: &str, word: &str) -> Option<f64> {
    let in_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':');
    let lines = page.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.into_iter().find_map(|line| {
        let mut places = line.match_indices(word);
        places.find_map(|(at, _)| {
            let is_whole = !word.starts_with(in_name) || !line[..at].ends_with(in_name);
            let rest = &line[at + word.len()..];
            let labels = rest.strip_prefix('{').and_then(|rest| rest.rsplit_once('}'));
            is_whole.then(|| number_at(labels.map_or(rest, |(_, rest)| rest)))?
        })
    })
}

fn json(line: &str, key: &str) -> Option<f64> {
    // Lines without the key are not worth parsing.
    if !line.contains(key) {
        return None;
    }
    let value: Value = serde_json::from_str(line).ok()?;
    value.get(key)?.as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, Surroundings, Variables};

    #[test]
    fn however_often_it_is_said_rows_are_few_and_the_last_is_not_lost() {
        let around = Surroundings {
            cpus: [0].into_iter().collect(),
            path: vec!["/bin".into(), "/usr/bin".into()],
        };
        for (progress, line) in
            [("lines", "x"), ("{number: done}", "done 1"), ("{json: done}", "{\"done\": 1}")]
        {
            let text = format!(
                "benchmark: {{name: x}}\na: {{index: 0, command: sh, progress: {progress}}}\n"
            );
            let read = Experiment::parse("e.yaml", &text, &Variables::default(), &around).unwrap();
            let (meters, clock) = (Meters::default(), Clock::measure());
            let meter = meters.meter(&read.containers[0], 0, &clock).unwrap();
            let began_ns = clock.now_unix_ns();
            let mut said = 0;
            while clock.now_unix_ns() < began_ns + 3 * ROWS_EVERY_NS {
                said += 1;
                meter.hear(&line.replace('1', &said.to_string()));
            }
            assert_eq!(
                meter.done(),
                Some(f64::from(said)),
                "{progress}: what is known is the newest"
            );
            meter.end();
            let (rows, lost) = meters.take();
            let took = (clock.now_unix_ns() - began_ns) / ROWS_EVERY_NS;
            assert!(lost == 0 && said > 100, "{progress}: {said}");
            assert!((3..=took as usize + 2).contains(&rows.len()), "{progress}: {}", rows.len());
            assert_eq!(rows.last().unwrap().done, f64::from(said), "{progress}");
            assert!(rows.is_sorted_by(|a, b| a.done < b.done), "{progress}: {rows:?}");
        }
    }

    #[test]
    fn a_number_is_found_behind_its_word_and_text_is_none() {
        assert_eq!(number_after("step=12 done: 3.5, left 9", "done"), Some(3.5));
        assert_eq!(number_after("requests_total 1e3\n", "requests_total"), Some(1000.0));
        assert_eq!(number_after("done: soon", "done"), None);
        assert_eq!(number_after("nothing", "done"), None);
        let page = "# HELP done Things done.\n# TYPE done counter\nnot_done 3\ndone_total 4\ndone{a=\"}\"} 5 1700\n";
        assert_eq!(number_on_page(page, "done"), Some(5.0));
        assert_eq!(number_on_page(page, "done_total"), Some(4.0));
        assert_eq!(number_on_page("{\"left\": 1, \"done\": 6}", "done"), Some(6.0));
        assert_eq!(number_on_page("done{a=\"x\"} 1\ndone{a=\"y\"} 2", "done{a=\"y\"}"), Some(2.0));
        assert_eq!(number_on_page("# done 7", "done"), None);
        assert_eq!(json("{\"event\":\"progress\",\"pieces\":7}", "pieces"), Some(7.0));
        assert_eq!(json("pieces of text", "pieces"), None);
    }
}
