//! Sources that fail are started anew; consumers that are slow lose their own and nobody else's.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

use crosstalk_collect::{About, Collect, Delivery, Loss, Outlet, Source, Wants};
use crosstalk_host::{Capability, Clock, Verdict};
use crosstalk_model::{Row, SlotCoverage};
use std::sync::mpsc::{Sender, channel};
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
