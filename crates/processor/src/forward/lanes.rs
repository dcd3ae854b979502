//! Which block may go out next: those of one lane in order, those of different lanes at once.

use std::collections::VecDeque;
use std::time::Duration;

use super::backoff::Backoff;
use super::coalesce;
use crate::queue::Entry;

/// Bytes that are read ahead of delivery, over all lanes, beyond which no more is read.
const WINDOW_BYTES: usize = 4 << 20;

/// Blocks that are read ahead, likewise.
const WINDOW_BLOCKS: usize = 1024;

#[derive(Debug)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    /// How many lanes the blocks at hand were shared out over. A block of another number waits until these are delivered:
    /// one series may be in another lane there.
    shared_over: u8,
    held: Option<Entry>,
    blocks: usize,
    bytes: usize,
    longest_pause: Duration,
}

#[derive(Debug)]
struct Lane {
    waiting: VecDeque<Entry>,
    /// The pauses of this lane; away while it sends.
    idle: Option<Backoff>,
}

impl Lanes {
    pub(super) fn new(longest_pause: Duration) -> Self {
        Lanes { lanes: Vec::new(), shared_over: 0, held: None, blocks: 0, bytes: 0, longest_pause }
    }

    pub(super) fn has_room(&self) -> bool {
        self.held.is_none() && self.blocks < WINDOW_BLOCKS && self.bytes < WINDOW_BYTES
    }

    pub(super) fn push(&mut self, entry: Entry) {
        let lanes = entry.block.lanes.max(1);
        if lanes != self.shared_over {
            if self.blocks > 0 {
                self.held = Some(entry);
                return;
            }
            self.shared_over = lanes;
            let longest = self.longest_pause;
            let lane = || Lane { waiting: VecDeque::new(), idle: Some(Backoff::new(longest)) };
            self.lanes.resize_with(usize::from(lanes), lane);
        }
        self.blocks += 1;
        self.bytes += entry.block.payload.len();
        let lane = usize::from(entry.block.lane) % self.lanes.len();
        self.lanes[lane].waiting.push_back(entry);
    }

    /// Blocks of a lane that rests, which may be sent together.
    pub(super) fn start(&mut self) -> Option<(u8, Vec<Entry>, Backoff)> {
        let startable = |lane: &Lane| lane.idle.is_some() && !lane.waiting.is_empty();
        let number = self.lanes.iter().position(startable)?;
        let lane = &mut self.lanes[number];
        let mut entries: Vec<Entry> = lane.waiting.pop_front().into_iter().collect();
        while coalesce::takes_more(&entries)
            && let Some(entry) = lane.waiting.pop_front()
        {
            entries.push(entry);
        }
        Some((number as u8, entries, lane.idle.take()?))
    }

    /// Notes that a lane's blocks are delivered and it may send the next.
    pub(super) fn finish(&mut self, lane: u8, entries: &[Entry], backoff: Backoff) {
        if let Some(lane) = self.lanes.get_mut(usize::from(lane)) {
            lane.idle = Some(backoff);
        }
        let bytes: usize = entries.iter().map(|entry| entry.block.payload.len()).sum();
        self.blocks = self.blocks.saturating_sub(entries.len());
        self.bytes = self.bytes.saturating_sub(bytes);
        if self.blocks == 0
            && let Some(entry) = self.held.take()
        {
            self.push(entry);
        }
    }
}
