//! Room in every queue before the first is written, so that no endpoint gets what another refused.

use std::time::{SystemTime, UNIX_EPOCH};

use super::{Ingest, IngestError, Prepared, PreparedBlock, Target, block_kind, queue_error};
use crate::queue::{Block, QueueError, Reservation};

/// Blocks with room in their queues; the room is given back when they are not written.
#[derive(Debug)]
pub(crate) struct Reserved<'i> {
    appends: Vec<(&'i Target, Reservation, Vec<Block>)>,
}

impl Ingest {
    /// Sets room aside for what a body became, in every queue or in none.
    pub(super) fn reserve(&self, prepared: &Prepared) -> Result<Reserved<'_>, IngestError> {
        let mut appends = Vec::with_capacity(self.targets.len());
        for target in &self.targets {
            let blocks = blocks_for(target, prepared);
            if !blocks.is_empty() {
                let reservation = room_for(target, &blocks);
                let reservation = reservation.map_err(|source| queue_error(target, source))?;
                appends.push((target, reservation, blocks));
            }
        }
        Ok(Reserved { appends })
    }

    /// As [`Ingest::reserve`], in those queues that have room, with the samples that the others go without.
    pub(super) fn reserve_where_there_is_room(&self, prepared: &Prepared) -> (Reserved<'_>, u64) {
        let (mut appends, mut left_out) = (Vec::with_capacity(self.targets.len()), 0);
        for target in &self.targets {
            let blocks = blocks_for(target, prepared);
            if blocks.is_empty() {
                continue;
            }
            match room_for(target, &blocks) {
                Ok(reservation) => appends.push((target, reservation, blocks)),
                Err(_) => left_out += blocks.iter().map(|b| u64::from(b.samples)).sum::<u64>(),
            }
        }
        (Reserved { appends }, left_out)
    }
}

/// What a body became for one endpoint.
fn blocks_for(target: &Target, prepared: &Prepared) -> Vec<Block> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let block = |block: &PreparedBlock| Block {
        kind: block_kind(block.shape.protocol),
        lane: block.lane,
        lanes: block.shape.lanes,
        samples: block.samples,
        enqueued_ms: now.as_millis() as u64,
        payload: block.body.clone(),
    };
    let of_target = prepared.blocks.iter().filter(|block| block.shape == target.shape());
    of_target.map(block).collect()
}

fn room_for(target: &Target, blocks: &[Block]) -> Result<Reservation, QueueError> {
    target.queue.reserve_all(blocks.iter().map(|block| block.payload.len()))
}

impl Reserved<'_> {
    /// Writes all queues at the same time: the slowest disk decides, not the sum. They are on disk when this returns `Ok`.
    pub(crate) async fn write(self) -> Result<(), IngestError> {
        let mut waiting = Vec::with_capacity(self.appends.len());
        for (target, reservation, blocks) in self.appends {
            let queue = target.queue.clone();
            waiting.push((
                target,
                tokio::spawn(async move { queue.append_all(reservation, blocks).await }),
            ));
        }
        for (target, append) in waiting {
            let result = append.await.expect("appending does not panic");
            result.map_err(|source| queue_error(target, source))?;
        }
        Ok(())
    }
}
