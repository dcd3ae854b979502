//! Sources that fail are started anew; consumers that are slow lose their own and nobody else's.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

use crosstalk_collect::{About, Collect, Consumer, Delivery, Loss, Message, Outlet, Source, Wants};
use crosstalk_host::{Capability, Clock, Verdict};
use crosstalk_model::metric::CPU_UTIL;
use crosstalk_model::{Row, SlotCoverage, StealRow};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

static MOODY: About =
    About { name: "moody", datasets: &[SlotCoverage::DATASET], metrics: &[], subjects: &[] };
const SOON: Duration = Duration::from_secs(10);

fn slot(number: u64) -> SlotCoverage {
    SlotCoverage::lost(number, 0, 0)
}

/// Panics, then fails, then works until it is stopped.
struct Moody {
    turn: u32,
    told: Sender<u32>,
}

impl Source for Moody {
    fn about(&self) -> &'static About {
        &MOODY
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        self.turn += 1;
        let _ = self.told.send(self.turn);
        match self.turn {
            1 => panic!("on purpose"),
            2 => Err(Capability::new("", Verdict::Failing, "still not").fix("try later")),
            _ => {
                out.report(Verdict::Ok, "works");
                while !out.pause(SOON) {}
                Ok(())
            }
        }
    }
}

#[test]
fn a_source_that_panics_and_fails_is_started_anew_and_each_is_counted() {
    let (told, turns) = channel();
    let mut collect = Collect::new(Clock::measure());
    let status = collect.start(Box::new(Moody { turn: 0, told })).unwrap();
    assert_eq!((turns.recv(), turns.recv()), (Ok(1), Ok(2)));
    while status.errors() < 2 {
        std::thread::yield_now();
    }
    let failing = status.standing().capability;
    assert_eq!((failing.verdict, failing.fix.as_deref()), (Verdict::Failing, Some("try later")));
    assert_eq!(turns.recv(), Ok(3));
    while !status.standing().works() {
        std::thread::yield_now();
    }
    assert_eq!((status.errors(), status.restarts()), (2, 2));
    collect.stop();
}

/// Works, finds that what it reads is gone, and works again.
struct Interrupted(u32);

impl Source for Interrupted {
    fn about(&self) -> &'static About {
        &MOODY
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        self.0 += 1;
        out.describe("turn", self.0);
        out.describe("moody", "whole");
        out.report(Verdict::Ok, "works");
        if self.0 == 1 {
            return Err(Capability::new("", Verdict::Absent, "the mount is gone"));
        }
        while !out.pause(SOON) {}
        Ok(())
    }
}

#[test]
fn a_source_that_worked_and_lost_what_it_reads_is_started_anew_and_remembers_the_gap() {
    let mut collect = Collect::new(Clock::measure());
    let status = collect.start(Box::new(Interrupted(0))).unwrap();
    while status.gaps().first().is_none_or(|gap| gap.to_ns.is_none()) {
        std::thread::yield_now();
    }
    assert_eq!((status.errors(), status.restarts()), (0, 1), "what is gone is no error of ours");
    let gap = &status.gaps()[0];
    assert_eq!(gap.why, "the mount is gone");
    assert!(gap.to_ns.unwrap() - gap.from_ns >= 500_000_000, "{gap:?}");
    collect.stop();
    assert_eq!(status.gaps().len(), 1);
}

#[test]
fn what_a_source_says_of_itself_bears_its_name() {
    let mut collect = Collect::new(Clock::measure());
    let status = collect.start(Box::new(Interrupted(0))).unwrap();
    status.wait_until_started(SOON);
    collect.stop();
    assert_eq!(status.described().keys().collect::<Vec<_>>(), ["moody", "moody_turn"]);
}

/// Delivers ten batches of three rows and ends.
struct Busy;

impl Source for Busy {
    fn about(&self) -> &'static About {
        &MOODY
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        (0..10).for_each(|number| out.deliver(vec![slot(number); 3]));
        out.report(Verdict::Ok, "done");
        Ok(())
    }
}

#[test]
fn a_full_queue_costs_its_consumer_what_did_not_fit_which_is_counted_and_nobody_else_anything() {
    let mut collect = Collect::new(Clock::measure());
    let quick = collect.subscribe("quick", 16, Wants::Rows);
    let slow = collect.subscribe("slow", 4, Wants::Rows);
    let other = collect.subscribe("other", 1, Wants::Dataset("tasks"));
    let status = collect.start(Box::new(Busy)).unwrap();
    assert!(status.wait_until_started(SOON).works());
    assert_eq!(quick.waiting().count(), 10);
    assert_eq!(slow.waiting().count(), 4);
    assert_eq!(other.waiting().count(), 0);
    assert_eq!(
        collect.overview().losses().all(),
        [Loss { dataset: "slots", place: "slow", rows: 18 }]
    );
}

/// Two rounds of rows with what makes them whole.
struct Rounds;

impl Source for Rounds {
    fn about(&self) -> &'static About {
        &MOODY
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        for round in 0..2 {
            let stolen = StealRow { slot_start_ns: round, core: 0, covers_ns: 1, stolen_ns: round };
            out.deliver_whole(vec![stolen], vec![slot(round)]);
        }
        out.report(Verdict::Ok, "works");
        while !out.pause(SOON) {}
        Ok(())
    }
}

#[test]
fn who_missed_rows_is_not_told_that_their_time_is_whole() {
    let mut collect = Collect::new(Clock::measure());
    let all = collect.subscribe("all", 8, Wants::Rows);
    let small = collect.subscribe("small", 2, Wants::Rows);
    let slots = collect.subscribe("slots", 8, Wants::Dataset("slots"));
    let status = collect.start(Box::new(Rounds)).unwrap();
    assert!(status.wait_until_started(SOON).works());
    assert_eq!((all.waiting().count(), slots.waiting().count()), (4, 2));
    let names = |message: Message| match message.delivery {
        Delivery::Rows(batch) => batch.dataset().name,
        _ => "a sample",
    };
    assert_eq!(small.waiting().map(names).collect::<Vec<_>>(), ["steal", "slots"]);
    let lost = |dataset| Loss { dataset, place: "small", rows: 1 };
    assert_eq!(collect.overview().losses().all(), [lost("slots"), lost("steal")]);
}

static SAMPLED: About =
    About { name: "sampled", datasets: &[], metrics: &[CPU_UTIL], subjects: &[] };

#[test]
fn a_source_is_wanted_where_somebody_subscribed_to_what_it_can_have() {
    let mut collect = Collect::new(Clock::measure());
    assert!(!collect.is_wanted(&MOODY) && !collect.is_wanted(&SAMPLED));
    let _steal = collect.subscribe("steal", 1, Wants::Datasets(&[StealRow::DATASET]));
    assert!(!collect.is_wanted(&MOODY) && !collect.is_wanted(&SAMPLED));
    let samples = collect.subscribe("samples", 16, Wants::Samples(&[StealRow::DATASET]));
    assert!(!collect.is_wanted(&MOODY) && collect.is_wanted(&SAMPLED));
    let slots = collect.subscribe("slots", 16, Wants::Datasets(&[SlotCoverage::DATASET]));
    assert!(collect.is_wanted(&MOODY));
    let status = collect.start(Box::new(Rounds)).unwrap();
    assert!(status.wait_until_started(SOON).works());
    assert_eq!((samples.waiting().count(), slots.waiting().count()), (2, 2), "each its own");
}

#[test]
fn a_consumer_that_wants_nothing_for_now_loses_nothing() {
    let mut collect = Collect::new(Clock::measure());
    let resting = collect.subscribe("resting", 4, Wants::Rows);
    resting.pause(true);
    let status = collect.start(Box::new(Busy)).unwrap();
    assert!(status.wait_until_started(SOON).works());
    assert_eq!((resting.waiting().count(), collect.overview().losses().all().len()), (0, 0));
}

#[test]
fn consumers_get_all_that_was_delivered_and_then_the_end() {
    let mut collect = Collect::new(Clock::measure());
    let all = collect.subscribe("all", 16, Wants::Everything);
    collect.start(Box::new(Busy)).unwrap();
    collect.stop();
    let mut rows = 0;
    while let Ok(message) = all.recv(SOON) {
        let Delivery::Rows(batch) = message.delivery else { panic!("no samples were sent") };
        rows += batch.rows::<SlotCoverage>().unwrap().len();
    }
    assert_eq!(rows, 30);
}

#[test]
fn a_consumer_that_gathers_gets_everything_at_once_and_then_the_end() {
    let mut collect = Collect::new(Clock::measure());
    let all = collect.subscribe("all", 16, Wants::Rows);
    let status = collect.start(Box::new(Busy)).unwrap();
    assert!(status.wait_until_started(SOON).works());
    let pace = Duration::from_millis(1);
    assert_eq!(all.gather(pace).map(|messages| messages.len()), Some(10));
    assert_eq!(all.gather(pace).map(|messages| messages.len()), Some(0), "nothing came");
    collect.stop();
    assert!(all.gather(pace).is_none(), "all sources have ended");
}

/// Delivers three rows whenever it is told to.
struct Bidden(Receiver<()>);

impl Source for Bidden {
    fn about(&self) -> &'static About {
        &MOODY
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        while self.0.recv().is_ok() {
            out.deliver(vec![slot(0); 3]);
        }
        Ok(())
    }
}

/// Panics at the first rows that the first of its kind sees.
struct Touchy {
    kind: u32,
    took: Sender<(u32, usize)>,
}

impl Consumer for Touchy {
    fn take(&mut self, messages: &[Message]) {
        if messages.is_empty() {
            return;
        }
        let _ = self.took.send((self.kind, messages.len()));
        assert!(self.kind > 1, "on purpose");
    }
}

#[test]
fn a_consumer_that_panics_is_made_anew_and_what_it_held_is_counted_as_lost() {
    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let (bid, bids) = channel();
    let (took, taken) = channel();
    let mut collect = Collect::new(Clock::measure());
    let queue = collect.subscribe("touchy", 16, Wants::Rows);
    let mut kind = 0;
    let make = move || {
        kind += 1;
        Touchy { kind, took: took.clone() }
    };
    let tell =
        |news: &Capability| TOLD.lock().unwrap().push(format!("{}: {}", news.name, news.found));
    let thread = queue.consume(Duration::from_millis(1), tell, make).unwrap();
    collect.start(Box::new(Bidden(bids))).unwrap();
    bid.send(()).unwrap();
    assert_eq!(taken.recv_timeout(SOON), Ok((1, 1)));
    bid.send(()).unwrap();
    assert_eq!(taken.recv_timeout(SOON), Ok((2, 1)));
    let lost = Loss { dataset: "slots", place: "touchy", rows: 3 };
    assert_eq!(collect.overview().losses().all(), [lost]);
    assert_eq!(*TOLD.lock().unwrap(), ["touchy: it panicked and was made anew: on purpose"]);
    drop(bid);
    collect.stop();
    thread.join().unwrap();
}
