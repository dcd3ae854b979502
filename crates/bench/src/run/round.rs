//! One round: everybody made ready, one zero, everything on time, everybody gone.

use super::measure::Measure;
use super::{Options, runtime_for};
use crate::Error;
use crate::collectors::Meter;
use crate::experiment::{Container, Experiment};
use crate::identity::Driver;
use crate::live::{Live, Shown, State, Status};
use crate::plan::{Action, Planned, Round, RoundKind, Timeline};
use crate::roster::{Allocation, Member};
use crate::runtime::{Happened, News, Order, Output, Workload};
use crate::scheduler::{Decision, Scheduler, View};
use crate::store::{Event, EventKind, EventLog, RanRound, RunDir};
use crosstalk_host::UsageFiles;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A signal is noticed within this.
const LOOK: Duration = Duration::from_millis(20);
/// How often it is looked whether somebody came into a container from outside.
const TEND: Duration = Duration::from_millis(100);
/// Who ends so soon with one of the codes that shells and engines keep for it was never run at all.
const NOT_RUN: (Duration, [i32; 2]) = (Duration::from_secs(1), [126, 127]);
/// How often the timeline is drawn.
const DRAW: Duration = Duration::from_millis(250);

/// Keeps what is known of a round by now.
pub(super) type Note<'n> = dyn FnMut(RanRound) -> Result<(), Error> + 'n;

/// A round with all that takes part in it.
pub(super) struct Stage<'a> {
    round: &'a Round,
    options: &'a Options,
    measure: &'a Measure,
    log: &'a mut EventLog,
    actors: Vec<Actor<'a>>,
    timeline: Timeline,
    zero: Instant,
    zero_ns: u64,
    cgroup_ids: Vec<(String, u64)>,
    /// What was concluded when the scheduler last looked.
    conclusions: u64,
    tended: Instant,
    /// Whether all were told to end before their time.
    is_stopping: bool,
    /// Why the scheduler could not put newcomers where they belong, as it was last told.
    refusal: Option<String>,
}

struct Actor<'a> {
    container: &'a Container,
    planned: Planned,
    workload: Box<dyn Workload>,
    meter: Option<Meter>,
    member: Option<Member>,
    started: Option<Instant>,
    usage: Option<(UsageFiles, Instant, u64)>,
    shown: Shown,
}

impl<'a> Stage<'a> {
    /// Nobody is on it yet.
    pub(super) fn new(
        round: &'a Round,
        options: &'a Options,
        measure: &'a Measure,
        log: &'a mut EventLog,
    ) -> Self {
        measure.watch().into_iter().for_each(|watch| watch.begin(round.number));
        Self {
            round,
            options,
            measure,
            log,
            actors: Vec::new(),
            timeline: Timeline::new(round, options.grace, &BTreeMap::new()),
            zero: Instant::now(),
            zero_ns: 0,
            cgroup_ids: Vec::new(),
            conclusions: 0,
            tended: Instant::now(),
            is_stopping: false,
            refusal: None,
        }
    }

    /// Makes everybody ready; who tells what happens to them. If that fails for one, the others are for [`Self::remove`].
    pub(super) fn prepare(
        &mut self,
        experiment: &'a Experiment,
        dir: &RunDir,
        run: &str,
        scheduler: &mut dyn Scheduler,
        live: &mut dyn Live,
    ) -> Result<Receiver<News>, Error> {
        let (round, options, measure) = (self.round, self.options, self.measure);
        let (news, receiver) = channel();
        let driver = Driver::own(&options.host);
        for planned in &round.planned {
            let found = experiment.containers.iter().find(|c| c.index == planned.index);
            let Some(container) = found else { continue };
            let meter = measure.meters.meter(container, round.number, &measure.clock);
            let path = dir.output(round.number, &container.name);
            let output = Arc::new(Output::new(&path, meter.clone())?);
            let order =
                Order { container, driver, run, round: round.number, output, news: news.clone() };
            let workload = runtime_for(options, container)?.prepare(&order)?;
            let mut actor = Actor::new(container, *planned, workload, meter);
            // A process is in its cgroup already; of a container it is known when it has started.
            actor.member = actor.member(round.number);
            let member = actor.member.clone();
            // Before anything else can fail: who is on the stage is removed from it.
            self.actors.push(actor);
            if let Some(member) = member {
                let placed = place(scheduler, round, &member, container)?;
                self.cgroup_ids.extend(id_of(&member));
                self.decisions(placed, live)?;
            }
        }
        let lead = |actor: &Actor<'_>| (actor.container.index, actor.workload.lead());
        let leads = self.actors.iter().map(lead).collect();
        self.timeline = Timeline::new(round, options.grace, &leads);
        Ok(receiver)
    }

    /// Runs it to its end. `note` is told what is known of it when it begins, when more is, and when it is over: a driver that
    /// is killed meanwhile leaves what is known by then.
    pub(super) fn execute(
        &mut self,
        news: &Receiver<News>,
        of: u32,
        scheduler: &mut dyn Scheduler,
        live: &mut dyn Live,
        note: &mut Note<'_>,
    ) -> Result<(), Error> {
        let (began, until_zero) = (Instant::now(), self.timeline.zero());
        self.zero = began + until_zero;
        self.zero_ns = self.measure.clock.now_unix_ns() + until_zero.as_nanos() as u64;
        self.event(None, self.zero, EventKind::Round, live)?;
        note(self.ran(None))?;
        let (mut drawn, mut is_hurried) = (Instant::now(), false);
        while !self.timeline.is_over() {
            let now = began.elapsed();
            for action in self.timeline.take_due(now) {
                self.perform(action, live)?;
            }
            let message = self.options.stop.load(Ordering::Relaxed) || self.measure.has_failed();
            if message && !self.is_stopping {
                self.is_stopping = true;
                self.timeline.stop_all(now);
                continue;
            }
            if self.options.hurry.load(Ordering::Relaxed) && !is_hurried {
                is_hurried = true;
                self.timeline.kill_all(now);
                continue;
            }
            let known = self.cgroup_ids.len();
            self.place_late(scheduler, live)?;
            if self.cgroup_ids.len() > known {
                note(self.ran(None))?;
            }
            self.tend(scheduler, live)?;
            self.look(scheduler, live)?;
            if live.is_drawn() && drawn.elapsed() >= DRAW {
                drawn = Instant::now();
                live.draw(&self.status(of));
            }
            let due = self.timeline.next_due().map(|due| due.saturating_sub(began.elapsed()));
            match news.recv_timeout(due.unwrap_or(LOOK).min(LOOK)) {
                Ok(one) => self.hear(&one, scheduler, live)?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
        let at = Instant::now();
        self.event(None, at, EventKind::RoundOver, live)?;
        note(self.ran(Some(self.unix_ns(at))))
    }

    fn ran(&self, end_ns: Option<u64>) -> RanRound {
        RanRound {
            number: self.round.number,
            kind: self.round.kind,
            zero_ns: self.zero_ns,
            end_ns,
            cgroup_ids: self.cgroup_ids.clone(),
        }
    }

    fn perform(&mut self, action: Action, live: &mut dyn Live) -> Result<(), Error> {
        let (Action::Start(index)
        | Action::Stop(index)
        | Action::Kill(index)
        | Action::GiveUp(index)) = action;
        let Some(actor) = self.actors.iter_mut().find(|a| a.container.index == index) else {
            return Ok(());
        };
        let container = actor.container;
        match action {
            Action::Start(_) => match actor.workload.start()? {
                true => self.has_started(index, Instant::now(), live),
                false => Ok(()),
            },
            Action::Stop(_) => {
                actor.shown.state = State::Stopping;
                let at = Instant::now();
                match actor.workload.ask_to_stop() {
                    true => self.was_asked(index, at, live),
                    false => Ok(()),
                }
            }
            Action::Kill(_) => {
                actor.workload.kill();
                self.event(Some(&container.name), Instant::now(), EventKind::Kill, live)
            }
            Action::GiveUp(_) => {
                let reason = "it was killed and is not heard to have ended; does its engine hang?";
                Err(Error::Container {
                    container: container.name.clone(),
                    reason: reason.to_owned(),
                })
            }
        }
    }

    /// Takes what happened to somebody.
    fn hear(
        &mut self,
        news: &News,
        scheduler: &mut dyn Scheduler,
        live: &mut dyn Live,
    ) -> Result<(), Error> {
        if news.round != self.round.number {
            return Ok(());
        }
        match &news.what {
            Happened::Started => self.has_started(news.index, news.at, live),
            Happened::AskedToStop => self.was_asked(news.index, news.at, live),
            Happened::Ended { code } => self.has_ended(news.index, *code, news.at, scheduler, live),
            Happened::Failed { reason } => {
                let actor = self.actor(news.index);
                let container = actor.map(|actor| actor.container.name.clone()).unwrap_or_default();
                Err(Error::Container { container, reason: reason.clone() })
            }
        }
    }

    fn actor(&mut self, index: u32) -> Option<&mut Actor<'a>> {
        self.actors.iter_mut().find(|actor| actor.container.index == index)
    }

    fn has_started(&mut self, index: u32, at: Instant, live: &mut dyn Live) -> Result<(), Error> {
        let Some(actor) = self.actor(index) else { return Ok(()) };
        actor.started = Some(at);
        match actor.shown.state {
            State::Waiting => actor.shown.state = State::Running,
            // It was told to stop before there was anybody to hear it.
            State::Stopping => {
                let _ = actor.workload.ask_to_stop();
            }
            _ => {}
        }
        let (container, planned, member) =
            (actor.container, actor.planned.start, actor.member.clone());
        if let Some(member) = member {
            self.measure.roster.add(member);
        }
        let late_ms = late(self.zero, at, planned);
        self.event(Some(&container.name), at, EventKind::Start { late_ms }, live)
    }

    fn was_asked(&mut self, index: u32, at: Instant, live: &mut dyn Live) -> Result<(), Error> {
        let (end, is_stopping) = (self.round.end.after(), self.is_stopping);
        let Some(actor) = self.actor(index) else { return Ok(()) };
        let container = actor.container;
        // Who has no time of its own is stopped by the round's end. A signal that comes before is nobody's plan.
        let planned = [actor.planned.stop, end].into_iter().flatten().min();
        let now = at.saturating_duration_since(self.zero);
        let planned = planned.filter(|planned| !is_stopping || *planned <= now).unwrap_or(now);
        let late_ms = late(self.zero, at, planned);
        self.event(Some(&container.name), at, EventKind::Stop { late_ms }, live)
    }

    fn has_ended(
        &mut self,
        index: u32,
        code: Option<i32>,
        at: Instant,
        scheduler: &mut dyn Scheduler,
        live: &mut dyn Live,
    ) -> Result<(), Error> {
        self.timeline.ended(index);
        self.measure.roster.remove(index);
        let Some(actor) = self.actor(index) else { return Ok(()) };
        let was_asked = actor.shown.state == State::Stopping;
        let soon = actor.started.is_none_or(|then| at < then + NOT_RUN.0);
        let not_run = code.filter(|code| NOT_RUN.1.contains(code) && soon && !was_asked);
        actor.shown.state = State::Ended(code);
        // What it left running in the background ends with it, as in a container.
        actor.workload.kill();
        let container = actor.container;
        let decisions = actor.member.as_ref().map(|m| scheduler.ended(m)).unwrap_or_default();
        self.event(Some(&container.name), at, EventKind::Ended { code }, live)?;
        self.decisions(decisions, live)?;
        let Some(code) = not_run else { return Ok(()) };
        let name = &container.name;
        let log = format!("output/{}-{name}.log", self.round.number);
        let reason = format!("its command cannot be run (exit code {code}); see {log} of the run");
        Err(Error::Container { container: name.clone(), reason })
    }

    /// Takes up those who have a cgroup only some time after they were started.
    fn place_late(
        &mut self,
        scheduler: &mut dyn Scheduler,
        live: &mut dyn Live,
    ) -> Result<(), Error> {
        let mut placed = Vec::new();
        for actor in &mut self.actors {
            if actor.member.is_none() && actor.shown.state == State::Running {
                actor.member = actor.member(self.round.number);
                if let Some(member) = &actor.member {
                    placed.extend(place(scheduler, self.round, member, actor.container)?);
                    self.cgroup_ids.extend(id_of(member));
                    self.measure.roster.add(member.clone());
                }
            }
        }
        self.decisions(placed, live)
    }

    /// Lets the scheduler put newcomers where they belong. That it cannot is told once; the round goes on.
    fn tend(&mut self, scheduler: &mut dyn Scheduler, live: &mut dyn Live) -> Result<(), Error> {
        if self.tended.elapsed() < TEND {
            return Ok(());
        }
        self.tended = Instant::now();
        let Err(error) = scheduler.tend() else { return Ok(()) };
        let message = error.to_string();
        if self.refusal.as_ref() == Some(&message) {
            return Ok(());
        }
        self.refusal = Some(message.clone());
        let (what, evidence) = ("stuck".to_owned(), serde_json::json!({ "error": message }));
        self.decisions(
            vec![Decision { what, container: None, victim: None, message, evidence }],
            live,
        )
    }

    /// Lets the scheduler look whenever there is something new.
    fn look(&mut self, scheduler: &mut dyn Scheduler, live: &mut dyn Live) -> Result<(), Error> {
        let Some(watch) = self.measure.watch() else { return Ok(()) };
        let Some(known) = watch.known_since(self.conclusions) else { return Ok(()) };
        self.conclusions = known.conclusions;
        let mut view = View {
            running: self.measure.roster.members(),
            slowed: known.slowed,
            vitals: known.vitals,
        };
        for actor in &self.actors {
            let done = actor.meter.as_ref().and_then(|m| Some((m.reported_ns(), m.done()?)));
            if let Some(vitals) = view.vitals.get_mut(&actor.container.index) {
                vitals.done = done;
            }
        }
        let decisions = scheduler.look(self.zero.elapsed(), &view);
        self.decisions(decisions, live)
    }

    fn decisions(&mut self, all: Vec<Decision>, live: &mut dyn Live) -> Result<(), Error> {
        for decision in all {
            let container = decision.container.clone();
            let kind = EventKind::Decision(decision);
            self.event(container.as_deref(), Instant::now(), kind, live)?;
        }
        Ok(())
    }

    fn unix_ns(&self, at: Instant) -> u64 {
        self.zero_ns + at.saturating_duration_since(self.zero).as_nanos() as u64
    }

    fn event(
        &mut self,
        container: Option<&str>,
        at: Instant,
        kind: EventKind,
        live: &mut dyn Live,
    ) -> Result<(), Error> {
        let seconds = at.saturating_duration_since(self.zero).as_secs_f64();
        let unix_ns = match self.zero_ns {
            0 => self.measure.clock.now_unix_ns(),
            _ => self.unix_ns(at),
        };
        let container = container.map(str::to_owned);
        let event = Event { unix_ns, seconds, round: self.round.number, container, kind };
        live.event(&event);
        self.log.add(&event)
    }

    fn status(&mut self, of: u32) -> Status {
        self.actors.iter_mut().for_each(Actor::refresh);
        Status {
            round: self.round.number,
            rounds: of,
            kind: self.round.kind,
            now: self.zero.elapsed(),
            length: self.timeline.length(),
            shown: self.actors.iter().map(|actor| actor.shown.clone()).collect(),
        }
    }

    /// Removes everybody; what failed is told after all were tried.
    pub(super) fn remove(&mut self) -> Vec<Error> {
        let mut failed = Vec::new();
        for mut actor in self.actors.drain(..) {
            self.measure.roster.remove(actor.container.index);
            failed.extend(actor.workload.remove().err());
        }
        failed
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        self.measure.meters.end_round(self.round.number);
    }
}

/// Lets the scheduler put somebody where it belongs. Who runs alone is the baseline of what others cost it, and has all there is.
fn place(
    scheduler: &mut dyn Scheduler,
    round: &Round,
    member: &Member,
    container: &Container,
) -> Result<Vec<Decision>, Error> {
    match round.kind {
        RoundKind::Solo(_) => Ok(Vec::new()),
        RoundKind::Together => scheduler.place(member, container),
    }
}

/// The cgroup of a container in the data sets, where it has a number.
fn id_of(member: &Member) -> Option<(String, u64)> {
    Some((member.name.to_string(), member.group_id?))
}

/// How much after its plan something happened, ms; below 0 before it.
fn late(zero: Instant, at: Instant, planned: Duration) -> f64 {
    let planned = zero + planned;
    let after = at.saturating_duration_since(planned).as_secs_f64();
    (after - planned.saturating_duration_since(at).as_secs_f64()) * 1e3
}

impl<'a> Actor<'a> {
    fn new(
        container: &'a Container,
        planned: Planned,
        workload: Box<dyn Workload>,
        meter: Option<Meter>,
    ) -> Self {
        let shown = Shown::new(&container.name, planned.start, planned.stop);
        Self {
            container,
            planned,
            workload,
            meter,
            member: None,
            started: None,
            usage: None,
            shown,
        }
    }

    /// Who it is, once it has a cgroup.
    fn member(&self, round: u32) -> Option<Member> {
        let group = self.workload.group()?;
        Some(Member {
            index: self.container.index,
            name: self.container.name.as_str().into(),
            round,
            group_id: group.id(),
            group,
            network_of: self.workload.network_of(),
            id: self.workload.id().map(Into::into),
            data: self.container.data,
            allocation: Allocation::default(),
        })
    }

    /// Key figures for the live timeline.
    fn refresh(&mut self) {
        self.shown
            .note_progress(self.meter.as_ref().and_then(|m| Some((m.reported_ns(), m.done()?))));
        let Some(member) = self.member.as_ref().filter(|_| self.shown.state == State::Running)
        else {
            self.shown.cores = None;
            return;
        };
        let now = Instant::now();
        let (files, at, before) =
            self.usage.get_or_insert_with(|| (member.group.usage_files(), now, 0));
        let usage = files.read();
        let cpu_ns = usage.cpu_ns.unwrap_or(0);
        let passed = now.saturating_duration_since(*at).as_nanos() as f64;
        self.shown.cores =
            (*before > 0 && passed > 0.0).then(|| cpu_ns.saturating_sub(*before) as f64 / passed);
        self.shown.memory_bytes = usage.memory_bytes;
        (*at, *before) = (now, cpu_ns);
    }
}
