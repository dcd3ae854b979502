//! A round that fails takes everything back, and says what it cannot, whoever made the runtime and the scheduler.
#![allow(clippy::unwrap_used)]

mod support;

use crosstalk_bench::experiment::Container;
use crosstalk_bench::live::Silent;
use crosstalk_bench::runtime::{Order, Runtime, Workload};
use crosstalk_bench::scheduler::{Decision, Offered, Scheduler};
use crosstalk_bench::store::Outcome;
use crosstalk_bench::{Cleaned, Error, Member, Whose};
use crosstalk_host::{ControlGroup, HostRoot};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use support::{Bench, PLAIN};

/// How often a scheduler was told that a round is over.
static FINISHED: AtomicU32 = AtomicU32::new(0);

static OFFERED: Offered =
    Offered { name: "clumsy", needs_rdt: false, make: |_, _| Ok(Box::new(Clumsy)) };

fn refused(who: &str, reason: &str) -> Error {
    Error::Container { container: who.to_owned(), reason: reason.to_owned() }
}

/// Cannot place who is called so, and leaves something behind.
struct Clumsy;

impl Scheduler for Clumsy {
    fn place(&mut self, _: &Member, container: &Container) -> Result<Vec<Decision>, Error> {
        match container.name.as_str() {
            "place" => Err(refused("place", "it has no place")),
            _ => Ok(Vec::new()),
        }
    }

    fn finish(&mut self) -> Result<(), Error> {
        FINISHED.fetch_add(1, Ordering::Relaxed);
        Err(refused("clumsy", "a group of it stays"))
    }
}

/// Fails where a container's name says, and removes nothing.
struct Stubborn(HostRoot);

impl Runtime for Stubborn {
    fn name(&self) -> &'static str {
        "process"
    }

    fn fetch(&self, _: &Container, _: &AtomicBool) -> Result<(), Error> {
        Ok(())
    }

    fn prepare(&self, order: &Order<'_>) -> Result<Box<dyn Workload>, Error> {
        let name = order.container.name.clone();
        match name.as_str() {
            "prepare" => Err(refused("prepare", "it is not made")),
            _ => Ok(Box::new(Stays { name, host: self.0.clone() })),
        }
    }

    fn clean(&self, _: Whose, _: &AtomicBool) -> Cleaned {
        Cleaned::default()
    }
}

struct Stays {
    name: String,
    host: HostRoot,
}

impl Workload for Stays {
    fn start(&mut self) -> Result<bool, Error> {
        match self.name.as_str() {
            "start" => Err(refused("start", "it does not start")),
            _ => Ok(true),
        }
    }

    fn ask_to_stop(&mut self) -> bool {
        true
    }

    fn kill(&mut self) {}

    fn group(&self) -> Option<ControlGroup> {
        Some(ControlGroup::named(&self.host, "crosstalk-no-such-group"))
    }

    fn network_of(&self) -> Option<u32> {
        None
    }

    fn remove(&mut self) -> Result<(), Error> {
        Err(refused(&self.name, "it stays"))
    }
}

#[test]
fn wherever_a_round_fails_the_scheduler_is_finished_and_what_is_left_is_told() {
    for (fails, expected) in [
        ("prepare", "prepare: it is not made; also: cannot run first: it stays"),
        (
            "place",
            "place: it has no place; also: cannot run first: it stays; also: cannot run place: it stays",
        ),
        (
            "start",
            "start: it does not start; also: cannot run first: it stays; also: cannot run start: it stays",
        ),
    ] {
        let mut bench = Bench::new();
        bench.options.runtimes = vec![Box::new(Stubborn(HostRoot::default()))];
        let text = format!(
            "benchmark: {{name: fails, max_t: 9, {PLAIN}}}\n\
             first: {{index: 0, command: \"true\"}}\n{fails}: {{index: 1, command: \"true\"}}\n"
        );
        let mut experiment = support::parse(&text);
        experiment.schedule_with(&OFFERED).unwrap();
        let before = FINISHED.load(Ordering::Relaxed);
        let failed = crosstalk_bench::run(&experiment, &text, &bench.options, &mut Silent);
        let told = failed.unwrap_err().to_string();
        assert_eq!(
            told,
            format!("cannot run {expected}; also: cannot run clumsy: a group of it stays")
        );
        assert_eq!(FINISHED.load(Ordering::Relaxed), before + 1, "{fails}");
        let (_, record) = bench.options.runs.find("last").unwrap();
        assert_eq!(record.outcome, Some(Outcome::Failed(told)));
    }
}
