use crate::cores::Cores;
use crate::cost::{Cost, CostSampler};
use crate::decode::{Decoder, Readings};
use crate::error::Error;
use crate::event::{Counter, Event, EventOverride};
use crate::frequency::{Frequencies, FrequencySource};
use crate::layout::{COUNTERS, Control, Settings};
use crate::perf::{CounterStatus, OpenCounter};
use crate::pmu::Pmus;
use crate::program::{Programs, Sizes};
use crate::ring::ring_bytes;
use crate::tick::{Tick, TickState};
use crate::{capability, visit};
use crosstalk_host::{CgroupHierarchy, CgroupVersion, Clock, Cpu, HostRoot, Kernel, monotonic_ns};
use crosstalk_model::SlotLength;
use libbpf_rs::{MapCore, MapFlags, RingBuffer, RingBufferBuilder};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What to collect.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the host's `/proc` and `/sys` are.
    pub host: HostRoot,
    /// What Unix time is. Given the same, a collector that is opened anew goes on in the same time and gives
    /// processes the same starts.
    pub clock: Clock,
    /// The length of a slot.
    pub slot: SlotLength,
    /// Whether a timer closes the slots of busy cores.
    pub tick: Tick,
    /// Other events in the counters' places.
    pub events: Vec<EventOverride>,
    /// Whether run-queue wait and migrations are followed.
    pub runq: bool,
    /// The size of the ring to user space; `None` chooses by [`ring_bytes`](crate::ring_bytes).
    pub ring_bytes: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            host: HostRoot::default(),
            clock: Clock::measure(),
            slot: SlotLength::MILLISECOND,
            tick: Tick::Auto,
            events: Vec::new(),
            runq: true,
            ring_bytes: None,
        }
    }
}

/// What happened since the start, over all cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Rows the programs handed over, delivered or lost.
    pub produced_rows: u64,
    /// Rows that arrived.
    pub delivered_rows: u64,
    /// Rows that were lost on the way, all of them.
    pub lost_rows: u64,
    /// Of these, rows whose slot is not known because the log of losses was full too: no [`SlotCoverage`] has them, so
    /// a sum over the coverage is short by as many.
    ///
    /// [`SlotCoverage`]: crosstalk_model::SlotCoverage
    pub unplaced_lost_rows: u64,
    /// Rows, delivered or lost, of slots after the end, which are not part of the recording.
    pub after_end_rows: u64,
    /// Scheduler events summed.
    pub events: u64,
    /// Times a process had to share the overflow row.
    pub merged_rows: u64,
    /// Tasks whose earlier waits and migrations could not be followed.
    pub storage_failures: u64,
    /// Switches the kernel did not trace; the time around them is placed by the scheduler's accounts.
    pub unseen_switches: u64,
    /// Ring records that could not be understood.
    pub malformed: u64,
    /// How far Unix time ran ahead of the clock since that was measured, by steps and suspends, ns. Slots keep the
    /// clock's time.
    pub clock_step_ns: i64,
}

/// Collects readings from the kernel until it is dropped.
pub struct Collector {
    programs: Programs,
    ring: RingBuffer<'static>,
    decoder: Rc<RefCell<Decoder>>,
    cores: Cores,
    counters: Vec<OpenCounter>,
    statuses: Vec<CounterStatus>,
    pmus: Pmus,
    tick: TickState,
    host: HostRoot,
    clock: Clock,
    slot: SlotLength,
    online: Vec<u32>,
    online_read_at: Instant,
    dropped_losses: Vec<(u64, u64)>,
    cost: CostSampler,
}

/// An idle core's slot is read this long after its end, so that a switch under way has finished.
const SETTLE_NS: u64 = 5_000_000;
/// Polls come every 100 ms at the latest, but for a machine that is overwhelmed.
const UNPOLLED: Duration = Duration::from_secs(1);
const FOLLOW_EVERY: Duration = Duration::from_secs(1);

impl Collector {
    /// Opens the counters there are and loads the programs; nothing is collected yet.
    pub fn open(options: &Options) -> Result<Self, Error> {
        let host = &options.host;
        capability::require(host)?;
        let cpu = Cpu::read(host);
        let online = Cpu::online(host);
        let pmus = Pmus::read(host);
        let (counters, statuses) = open_counters(&cpu, &pmus, &online, &options.events);
        let counted = Counter::ALL.map(|counter| counters.iter().any(|c| c.counter == counter));
        let hardware = counters.iter().any(|c| c.event.is_hardware());
        let tick = options.tick.decide(hardware, &Kernel::read(host));
        let clock = options.clock.clone();
        let settings = Settings {
            slot_ns: options.slot.nanos(),
            clock_offset_ns: clock.offset_ns(),
            counters_open: (0..COUNTERS).filter(|i| counted[*i]).map(|i| 1 << i).sum(),
            follow_runq: options.runq.into(),
            slot_timer: tick.on.into(),
            cgroup_v1: CgroupHierarchy::find(host)
                .is_some_and(|h| h.version == CgroupVersion::V1Memory)
                .into(),
            own_pid: std::process::id(),
            unused: 0,
        };
        let ring_bytes =
            options.ring_bytes.unwrap_or_else(|| ring_bytes(online.len(), options.slot, UNPOLLED));
        let programs =
            Programs::load(settings, Sizes { possible_cores: cpu.possible, ring_bytes })?;
        let cycles_counted =
            counters.iter().any(|c| c.counter == Counter::Cycles && c.event.name == "cycles");
        let decoder = Rc::new(RefCell::new(Decoder::new(
            options.slot.nanos(),
            clock.clone(),
            counted,
            options.runq,
            Frequencies::new(host, cycles_counted, cpu.possible),
            cpu.possible,
        )));
        let ring = open_ring(&programs, &decoder)?;
        let cores = Cores::map(&programs.map("cores")?, cpu.possible)?;
        let collector = Self {
            programs,
            ring,
            decoder,
            cores,
            counters,
            statuses,
            pmus,
            tick,
            host: host.clone(),
            clock,
            slot: options.slot,
            online,
            online_read_at: Instant::now(),
            dropped_losses: vec![(0, 0); cpu.possible as usize],
            cost: CostSampler::default(),
        };
        collector.publish_counters()?;
        Ok(collector)
    }

    /// Attaches the programs and starts at the next slot edge; returns its Unix time.
    pub fn start(&mut self) -> Result<u64, Error> {
        if self.tick.on {
            self.prepare_timers()?;
        } else {
            self.programs.attach("on_kernel_tick")?;
        }
        self.programs.attach("on_rename")?;
        self.programs.attach("on_switch")?;
        let edge = self.slot.ceil(self.clock.now_unix_ns() + 1);
        let start_ns = edge - self.clock.offset_ns();
        self.programs.control(Control { start_ns, ..Control::default() })?;
        self.clock.sleep_until(edge);
        visit::every_core(&self.online).map_err(|e| Error::kernel("cannot visit the cores", e))?;
        Ok(edge)
    }

    /// Takes what has arrived since the last call. Call it every 100 ms or more often.
    pub fn poll(&mut self) -> Result<Readings, Error> {
        self.cost.step();
        self.follow_machine()?;
        self.decoder.borrow_mut().frequencies.refresh();
        self.drain();
        self.peek_idle_cores();
        Ok(std::mem::take(&mut self.decoder.borrow_mut().readings))
    }

    /// Stops at the next slot edge and returns the last readings.
    pub fn finish(&mut self) -> Result<Readings, Error> {
        let edge = self.slot.ceil(self.clock.now_unix_ns());
        self.decoder.borrow_mut().until_ns = edge;
        self.clock.sleep_until(edge);
        self.online = Cpu::online(&self.host);
        visit::every_core(&self.online).map_err(|e| Error::kernel("cannot visit the cores", e))?;
        self.drain();
        self.clock.sleep_until(edge + SETTLE_NS);
        self.peek_idle_cores();
        self.programs.detach();
        self.drain();
        Ok(std::mem::take(&mut self.decoder.borrow_mut().readings))
    }

    /// What became of each counter column.
    pub fn counters(&self) -> &[CounterStatus] {
        &self.statuses
    }

    /// Whether a tick runs, and why.
    pub fn tick(&self) -> &TickState {
        &self.tick
    }

    /// How kernel times become Unix time, and when that was disturbed.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Where `freq_mhz` comes from.
    pub fn frequency_source(&self) -> FrequencySource {
        self.decoder.borrow().frequencies.source()
    }

    /// What the kernel programs cost.
    pub fn cost(&self) -> Result<Cost, Error> {
        self.cost.cost(&self.programs)
    }

    /// What happened so far.
    pub fn totals(&self) -> Totals {
        let decoder = self.decoder.borrow();
        let mut totals = Totals {
            delivered_rows: decoder.delivered_rows,
            lost_rows: decoder.lost_rows,
            unplaced_lost_rows: decoder.unplaced_lost_rows,
            after_end_rows: decoder.after_end_rows,
            events: decoder.events,
            malformed: decoder.malformed,
            clock_step_ns: self.clock.ahead_ns(),
            ..Totals::default()
        };
        for core in 0..self.dropped_losses.len() as u32 {
            let core = self.cores.totals(core);
            totals.produced_rows += core.produced_rows;
            totals.merged_rows += core.merged_rows;
            totals.storage_failures += core.storage_failures;
            totals.unseen_switches += core.unseen_switches;
        }
        totals
    }

    fn drain(&mut self) {
        // The callback only decodes and never stops the loop, so there is no error to handle.
        self.ring.consume_raw();
        let mut decoder = self.decoder.borrow_mut();
        for (core, dropped) in self.dropped_losses.iter_mut().enumerate() {
            let core = core as u32;
            for loss in self.cores.take_losses(core) {
                decoder.loss(core, &loss);
            }
            let batches = self.cores.losses_dropped(core);
            let rows = self.cores.totals(core).losses_dropped_rows;
            decoder.unlogged_losses(core, batches - dropped.0, rows.saturating_sub(dropped.1));
            *dropped = (batches, rows);
        }
    }

    fn peek_idle_cores(&mut self) {
        let now = monotonic_ns() - SETTLE_NS;
        let before_ns = self.slot.floor(self.clock.unix_ns(now));
        let mut decoder = self.decoder.borrow_mut();
        for &core in &self.online {
            let flushes = self.cores.flushes(core);
            // With a hand-over still in the ring, what is open now is not what comes next.
            if decoder.seen(core) != flushes {
                continue;
            }
            if let Some(open) = self.cores.peek_idle(core, flushes, now) {
                decoder.idle_core(core, &open, before_ns);
            }
        }
    }

    /// Notices cores that come and go, and a clock that is set.
    fn follow_machine(&mut self) -> Result<(), Error> {
        if self.online_read_at.elapsed() < FOLLOW_EVERY {
            return Ok(());
        }
        self.online_read_at = Instant::now();
        self.clock.look();
        let online = Cpu::online(&self.host);
        if online == self.online || online.is_empty() {
            return Ok(());
        }
        for &gone in self.online.iter().filter(|core| !online.contains(core)) {
            self.cores.forget(gone);
            self.counters.iter_mut().for_each(|counter| counter.close_on(gone));
        }
        for &new in online.iter().filter(|core| !self.online.contains(core)) {
            for counter in &mut self.counters {
                // Without its event the new core's rows have no value: absent, and the rest goes on.
                let _ = counter.open_on(&self.pmus, new);
            }
        }
        self.online = online;
        self.publish_counters()
    }

    fn publish_counters(&self) -> Result<(), Error> {
        for counter in &self.counters {
            let column = counter.counter.column();
            let map = self.programs.map(&format!("counter_{}", counter.counter as usize))?;
            for (core, fd) in counter.files() {
                map.update(&core.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY).map_err(|e| {
                    Error::libbpf(format!("cannot count {column} on core {core}"), &e)
                })?;
            }
        }
        Ok(())
    }

    /// One system call of ours prepares the timer of one core.
    fn prepare_timers(&self) -> Result<(), Error> {
        let _link = self.programs.attach_once("arm_timers")?;
        for _ in 0..self.dropped_losses.len() {
            // SAFETY: getppid takes nothing and cannot fail; it is here to enter the kernel.
            unsafe { libc::getppid() };
        }
        Ok(())
    }
}

fn open_counters(
    cpu: &Cpu,
    pmus: &Pmus,
    online: &[u32],
    overrides: &[EventOverride],
) -> (Vec<OpenCounter>, Vec<CounterStatus>) {
    let mut open = Vec::new();
    let mut statuses = Vec::new();
    for counter in Counter::ALL {
        let event = overrides
            .iter()
            .rev()
            .find(|o| o.counter == counter)
            .map_or_else(|| Event::for_vendor(counter, cpu.vendor), |o| o.event.clone());
        let absent_because = match OpenCounter::open(counter, event.clone(), pmus, online) {
            Ok(opened) => {
                open.push(opened);
                None
            }
            Err(reason) => Some(reason),
        };
        statuses.push(CounterStatus { column: counter.column(), event, absent_because });
    }
    (open, statuses)
}

fn open_ring(
    programs: &Programs,
    decoder: &Rc<RefCell<Decoder>>,
) -> Result<RingBuffer<'static>, Error> {
    let map = programs.map("batches")?;
    let decoder = Rc::clone(decoder);
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&map, move |record| {
            decoder.borrow_mut().record(record);
            0
        })
        .map_err(|e| Error::libbpf("cannot open the ring", &e))?;
    builder.build().map_err(|e| Error::libbpf("cannot open the ring", &e))
}
