//! What each source said, how it stands, and what left.

use crate::changes::Changes;
use crate::doubt::{Doubts, Follows, Nodes, Unheard};
use crate::facts::Facts;
use crate::merge::Departed;
use crate::parts::{Parted, Touched};
use crate::source::Failure;
use crate::standing::Standing;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) sources: BTreeMap<&'static str, SourceState>,
    /// How many sources there ever were.
    pub(crate) numbered: u32,
    /// The last merged facts, to see what left.
    pub(crate) last: Parted,
    pub(crate) departed: Departed,
    pub(crate) changes: Changes,
}

impl State {
    /// What a source said, which gets a bit of its own when it is first named. The few that there are have one each.
    pub(crate) fn source(&mut self, name: &'static str) -> &mut SourceState {
        let numbered = &mut self.numbered;
        self.sources.entry(name).or_insert_with(|| {
            *numbered += 1;
            SourceState { bit: 1 << (*numbered - 1).min(u16::BITS - 1), ..SourceState::default() }
        })
    }

    /// What of all this may be otherwise by now.
    pub(crate) fn doubts(&self) -> Doubts {
        let mut doubts = Doubts::default();
        for (name, source) in &self.sources {
            if let Some(follows) = &source.follows {
                doubts.follows = Some(follows.clone());
            }
            if let Some(nodes) = &source.nodes {
                (doubts.nodes, doubts.by_node) = (Arc::clone(nodes), source.bit);
            } else if let Some(heard_ns) = source.in_doubt_since() {
                doubts.sources.push(Unheard { name, bit: source.bit, heard_ns });
            }
        }
        doubts
    }

    /// Whom the inventory still waits for.
    pub(crate) fn standing(&self) -> Standing {
        let unheard = || self.sources.iter().filter(|(_, source)| source.is_awaited());
        // One beside others that knew nothing before is not missed.
        let missed = |source: &SourceState| !source.optional || source.facts.has_pods();
        let remembered = |source: &SourceState| source.remembered_at.is_some() && missed(source);
        let waited_for = |source: &SourceState| source.remembered_at.is_none();
        let names = |wanted: &dyn Fn(&SourceState) -> bool| {
            unheard().filter(|(_, source)| wanted(source)).map(|(name, _)| *name).collect()
        };
        let source = || self.sources.iter();
        Standing {
            waiting: names(&waited_for),
            remembered: names(&remembered),
            confined: source()
                .filter(|(_, source)| matches!(source.follows, Some(Follows::Namespace(_))))
                .map(|(name, _)| *name)
                .collect(),
            failing: source()
                .filter(|(_, source)| source.is_failing())
                .map(|(name, _)| *name)
                .collect(),
            pulses: source()
                .filter_map(|(name, source)| Some((*name, source.well_until()?)))
                .collect(),
        }
    }
}

/// What one source said, and how it stands.
#[derive(Debug, Default)]
pub(crate) struct SourceState {
    pub(crate) facts: Parted,
    /// By which it is known among those who told of a device.
    pub(crate) bit: u16,
    /// The nodes it tells of one by one, where it does.
    pub(crate) nodes: Option<Arc<Nodes>>,
    /// Until when it is sure who holds the devices it told of, while it is not heard: Unix nanoseconds.
    pub(crate) sure_until_ns: Option<u64>,
    pub(crate) heard: Option<(SystemTime, Instant)>,
    /// When an earlier process heard what is used until this one does.
    pub(crate) remembered_at: Option<SystemTime>,
    pub(crate) error: Option<Failure>,
    /// When it last failed: what was heard before says nothing of since.
    pub(crate) failed_at: Option<Instant>,
    /// Whether nobody waits for it once it has failed.
    pub(crate) optional: bool,
    /// Which pods it hears of as they come, where it does.
    pub(crate) follows: Option<Follows>,
    /// How long it is silent at most while all is well, where it is to be heard of all the time.
    pub(crate) longest_silence: Option<Duration>,
}

impl SourceState {
    /// Whether it is still to be heard for the first time.
    pub(crate) fn is_awaited(&self) -> bool {
        self.heard.is_none() && !(self.optional && self.error.is_some())
    }

    /// Whether it is to be heard of all the time, was, and now is not.
    pub(crate) fn is_failing(&self) -> bool {
        self.longest_silence.is_some() && self.heard.is_some() && self.error.is_some()
    }

    /// Until when its silence is no sign of anything.
    pub(crate) fn well_until(&self) -> Option<Instant> {
        let (_, heard) = self.heard?;
        heard.checked_add(self.longest_silence?)
    }

    /// Whether it is heard as it should be, or need not be.
    pub(crate) fn is_well(&self, now: Instant) -> bool {
        !self.is_failing() && self.well_until().is_none_or(|until| now <= until)
    }

    /// Since when it may have other news of devices, Unix nanoseconds.
    pub(crate) fn in_doubt_since(&self) -> Option<u64> {
        match self.heard {
            Some(_) => self.sure_until_ns,
            None => self.remembered_at.filter(|_| self.is_awaited()).map(unix_ns),
        }
    }

    /// While it is not heard its devices are known to have been held until it last was: they may have been handed over
    /// since. Takes that back once it is heard. Whether that changed anything.
    pub(crate) fn doubt_devices(&mut self, now: Instant) -> bool {
        let Some((heard, _)) = self.heard else { return false };
        match (self.is_well(now), self.sure_until_ns) {
            (true, Some(at)) => {
                self.sure_until_ns = None;
                self.facts.devices_are_held_beyond(at);
                true
            }
            (false, None) => {
                let at = unix_ns(heard);
                self.sure_until_ns = Some(at);
                self.facts.devices_were_held_until(at);
                true
            }
            _ => false,
        }
    }

    /// Puts other facts in place of its own; the parts in which they differ.
    pub(crate) fn replace(&mut self, facts: Facts) -> Touched {
        let facts = Parted::from(facts).reporters(self.bit);
        let touched = self.facts.differing(&facts);
        self.facts = facts;
        touched
    }
}

pub(crate) fn unix_ns(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}
