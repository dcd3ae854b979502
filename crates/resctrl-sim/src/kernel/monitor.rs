//! Monitoring files: the model is stepped when somebody reads, within a budget.

use std::time::{Duration, Instant};

use fuser::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::{Event, Fault, Kernel, Kind, Limits, ROOT};
use crate::model::Activity;
use crate::profile::Bandwidth;
use crate::threads::{GroupId, Ran};

/// The model is not stepped more often than this.
const SHORTEST_STEP: Duration = Duration::from_micros(500);
/// One part in so many of the time goes into steps; more threads mean longer steps.
const STEP_SHARE: u32 = 4;
/// How long the resident size of a process is believed.
const RESIDENT_AGE: Duration = Duration::from_millis(20);
/// A page table, a stack: nothing that runs has less to cache.
const LEAST_WORKING_SET: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct Clock {
    last: Instant,
    next: Instant,
    limbo: Instant,
}

impl Clock {
    pub(super) fn start() -> Self {
        let now = Instant::now();
        Self { last: now, next: now, limbo: now }
    }
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanoseconds)
}

impl Kernel {
    /// Brings model and limbo up to now, if it is time.
    pub(crate) fn advance(&mut self) {
        let now = Instant::now();
        if now < self.clock.next {
            return;
        }
        let started = thread_cpu();
        let ran = self.threads.ran();
        let activities = self.activities(&ran, now);
        let elapsed = now - self.clock.last;
        self.model.step(elapsed.as_nanos() as f64, &activities);
        if now >= self.clock.limbo {
            self.clock.limbo = now + self.profile.limbo_interval;
            let (model, threshold) = (&self.model, self.threshold);
            let held = self.limbo_held;
            self.rmids.check(|rmid| held || model.is_dirty(rmid, threshold));
            self.resident.retain(|_, (at, _)| now - *at < Duration::from_secs(1));
        }
        self.clock.last = now;
        // Time spent waiting for a processor is no cost of the step.
        self.clock.next = now + SHORTEST_STEP.max((thread_cpu() - started) * STEP_SHARE);
    }

    fn activities(&mut self, ran: &[Ran], now: Instant) -> Vec<Activity> {
        let domains = self.profile.l3_domains.len();
        let cpus = self.online.len().max(1);
        let mut activities = Vec::with_capacity(ran.len());
        for thread in ran {
            let id =
                if thread.group == ROOT { self.group_of_cpu(thread.cpu) } else { thread.group };
            let Some(group) = self.groups.get(&id) else { continue };
            let (rmid, closid) = (group.rmid, group.closid);
            let domain = (thread.cpu as usize * domains / cpus).min(domains - 1);
            let Some(limits) = &self.closids[closid] else { continue };
            let mask = limits.masks.iter().fold(0, |all, masks| all | masks[domain]);
            let throttle = self.throttle(limits, domain);
            activities.push(Activity {
                rmid,
                domain,
                cpu_ns: thread.cpu_ns as f64,
                working_set: self.working_set(thread.tgid, now) as f64,
                mask,
                throttle,
            });
        }
        activities
    }

    fn throttle(&self, limits: &Limits, domain: usize) -> f64 {
        let limit = limits.bandwidth[0][domain] as f64;
        match self.profile.bandwidth {
            Bandwidth::Percent { .. } => limit / 100.0,
            // 1/8 GB/s is 0.125 bytes a nanosecond; the whole is what one thread can do.
            Bandwidth::EighthGigabyte => limit * 0.125 / self.profile.bytes_per_ns,
        }
    }

    fn working_set(&mut self, tgid: u32, now: Instant) -> u64 {
        match self.resident.get(&tgid) {
            Some((at, bytes)) if now - *at < RESIDENT_AGE => *bytes,
            _ => {
                let bytes = self.threads.resident_bytes(tgid).max(LEAST_WORKING_SET);
                self.resident.insert(tgid, (now, bytes));
                bytes
            }
        }
    }

    /// What a monitoring file says. `sub` is the index of a sub-NUMA node, which has its part of the cache.
    pub(crate) fn show_event(
        &mut self,
        id: GroupId,
        domain: usize,
        sub: Option<u32>,
        event: Event,
    ) -> Result<String, Errno> {
        self.advance();
        let group = self.group(id)?;
        let (rmid, is_monitor) = (group.rmid, group.kind == Kind::Monitor);
        match group.fault {
            Some(Fault::Unavailable) => return Ok("Unavailable\n".to_owned()),
            Some(Fault::Error) => return Ok("Error\n".to_owned()),
            None => {}
        }
        if !self.is_assigned(rmid, event, domain) {
            return Ok("Unassigned\n".to_owned());
        }
        let first = event != Event::Occupancy && self.read_before.insert((rmid, domain));
        if first && self.profile.first_read_unavailable {
            return Ok("Unavailable\n".to_owned());
        }
        let mut sum = self.value(rmid, domain, event);
        if !is_monitor {
            let children =
                self.groups.values().filter(|g| g.kind == Kind::Monitor && g.parent == id);
            sum += children.map(|group| self.value(group.rmid, domain, event)).sum::<u64>();
        }
        let nodes = u64::from(self.profile.sub_numa.max(1));
        // The nodes' parts add up to the whole: the first takes what does not divide.
        let part = match sub {
            None => sum,
            Some(0) => sum - sum / nodes * (nodes - 1),
            Some(_) => sum / nodes,
        };
        Ok(format!("{part}\n"))
    }

    fn value(&self, rmid: usize, domain: usize, event: Event) -> u64 {
        let cell = self.model.cell(domain, rmid);
        let value = match event {
            Event::Occupancy => cell.occupancy,
            Event::Total => cell.total,
            Event::Local => cell.local,
        };
        // Hardware counts lines, or units of several.
        value as u64 / 64 * 64
    }

    pub(crate) fn show_threshold(&self) -> String {
        format!("{}\n", self.threshold)
    }

    pub(crate) fn write_threshold(&mut self, text: &str) -> Result<(), Errno> {
        let bytes: u64 = text.trim().parse().map_err(|_| Errno::EINVAL)?;
        if bytes > self.profile.l3_bytes {
            return Err(Errno::EINVAL);
        }
        self.threshold = bytes;
        Ok(())
    }

    pub(crate) fn hold_limbo(&mut self, held: bool) {
        self.limbo_held = held;
    }

    pub(crate) fn in_limbo(&self) -> usize {
        self.rmids.in_limbo()
    }
}
