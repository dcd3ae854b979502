use super::*;
use crate::roster::Member;
use crosstalk_host::{ControlGroup, HostRoot};
use crosstalk_interference::Signal;
use std::cell::RefCell;
use std::rc::Rc;

/// Writes down what is done to it.
struct Noted {
    name: &'static str,
    offered: bool,
    log: Rc<RefCell<Vec<String>>>,
}

impl Lever for Noted {
    fn name(&self) -> &'static str {
        self.name
    }

    fn pull(&mut self, pair: &Pair<'_>) -> Result<Option<String>, Error> {
        if !self.offered {
            return Ok(None);
        }
        self.log.borrow_mut().push(format!("pull {} {}", self.name, pair.aggressor.name));
        Ok(Some("held".to_owned()))
    }

    fn release(&mut self, aggressor: &Member) -> Result<(), Error> {
        self.log.borrow_mut().push(format!("release {} {}", self.name, aggressor.name));
        Ok(())
    }
}

struct World {
    adaptive: Adaptive,
    log: Rc<RefCell<Vec<String>>>,
    done: f64,
    seconds: u64,
}

fn member(index: u32, name: &str) -> Member {
    let nowhere = HostRoot::new("/nonexistent");
    Member {
        index,
        name: name.into(),
        round: 0,
        group: ControlGroup::named(&nowhere, name),
        group_id: None,
        network_of: None,
    }
}

impl World {
    fn new(levers: &[(&'static str, bool)], ranks: [(bool, i64); 2]) -> Self {
        let log = Rc::new(RefCell::new(Vec::new()));
        let levers = levers.iter().map(|(name, offered)| -> Box<dyn Lever> {
            Box::new(Noted { name, offered: *offered, log: Rc::clone(&log) })
        });
        let mut adaptive = Adaptive::new(levers.collect(), &[]);
        adaptive.ranks = (0..).zip(ranks).collect();
        Self { adaptive, log, done: 0.0, seconds: 0 }
    }

    /// A second in which the victim does `speed` and is seen to lose `loss`.
    fn second(&mut self, speed: f64, loss: Option<f64>) -> Vec<Decision> {
        self.done += speed;
        self.seconds += 1;
        let at_ns = self.seconds * 1_000_000_000;
        let victim = Vitals { at_ns, done: Some((at_ns, self.done)), ..Vitals::default() };
        let aggressor = Vitals { at_ns, on_cpu_ns: at_ns, ..Vitals::default() };
        let slowed = loss.map(|slowdown| Slowed {
            victim: 0,
            aggressors: vec![1],
            slowdown,
            low: slowdown - 0.02,
            high: slowdown + 0.02,
            resource: Resource::CpuTime,
            signal: Signal::RunQueueWait,
            confidence: 0.99,
        });
        let view = View {
            running: vec![member(0, "victim"), member(1, "noisy")],
            slowed: slowed.into_iter().collect(),
            vitals: [(0, victim), (1, aggressor)].into(),
        };
        self.adaptive.look(Duration::from_secs(self.seconds), &view)
    }

    fn until_decided(&mut self, speed: f64, loss: Option<f64>) -> Decision {
        for _ in 0..30 {
            if let Some(decision) = self.second(speed, loss).pop() {
                return decision;
            }
        }
        panic!("nothing was decided: {:?}", self.log.borrow());
    }
}

const OVER: [(bool, i64); 2] = [(true, 0), (false, 0)];

#[test]
fn a_lever_that_helps_stays() {
    let mut world = World::new(&[("mask", false), ("pinning", true), ("quota", true)], OVER);
    (0..4).for_each(|_| assert!(world.second(100.0, None).is_empty()));
    let acted = world.until_decided(50.0, Some(0.5));
    assert_eq!((acted.what.as_str(), acted.container.as_deref()), ("acted", Some("noisy")));
    assert!(acted.evidence["slowdown"] == 0.5 && acted.told.contains("pinning"), "{acted:?}");
    let kept = world.until_decided(95.0, Some(0.5));
    assert_eq!(kept.what, "kept");
    assert!(kept.evidence["recovered"].as_f64().unwrap() > 0.8, "{kept:?}");
    (0..20).for_each(|_| assert!(world.second(95.0, Some(0.4)).is_empty(), "it is settled"));
    assert_eq!(*world.log.borrow(), ["pull pinning noisy"]);
}

#[test]
fn a_lever_that_does_not_help_is_taken_back_and_the_next_is_tried_until_none_is_left() {
    let mut world = World::new(&[("pinning", true), ("quota", true)], OVER);
    let told: Vec<String> = (0..5).map(|_| world.until_decided(50.0, Some(0.5)).what).collect();
    assert_eq!(told, ["acted", "rolled back", "acted", "rolled back", "gave up"]);
    let expected =
        ["pull pinning noisy", "release pinning noisy", "pull quota noisy", "release quota noisy"];
    assert_eq!(*world.log.borrow(), expected);
    (0..20).for_each(|_| assert!(world.second(50.0, Some(0.5)).is_empty(), "it gave up"));
}

#[test]
fn a_loss_that_is_small_short_or_among_equals_changes_nothing() {
    let mut world = World::new(&[("quota", true)], OVER);
    for second in 0..40 {
        // Never three looks in a row, and else too small.
        let loss = if second % 3 == 2 { 0.04 } else { 0.4 };
        assert!(world.second(90.0, Some(loss)).is_empty());
    }
    let mut equals = World::new(&[("quota", true)], [(false, 3), (false, 3)]);
    let mut below = World::new(&[("quota", true)], [(false, 1), (false, 3)]);
    let mut guarded = World::new(&[("quota", true)], [(true, 9), (true, 0)]);
    for _ in 0..20 {
        assert!(equals.second(50.0, Some(0.5)).is_empty());
        assert!(below.second(50.0, Some(0.5)).is_empty());
        assert!(guarded.second(50.0, Some(0.5)).is_empty(), "never against who is critical");
    }
    assert!(world.log.borrow().is_empty() && equals.log.borrow().is_empty());
}

#[test]
fn an_aggressor_that_ends_is_let_go() {
    let mut world = World::new(&[("quota", true)], OVER);
    world.until_decided(50.0, Some(0.5));
    world.adaptive.ended(&member(1, "noisy"));
    assert_eq!(world.log.borrow().last().unwrap(), "release quota noisy");
    assert!(world.adaptive.cases.is_empty());
}
