//! The cores' state as the programs keep it, mapped read-mostly into this process.

use crate::error::Error;
use crate::layout::{BatchHead, CoreState, IDLE, LOSSES, Loss, ROWS, Row};
use libbpf_rs::MapHandle;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// All cores' state.
pub(crate) struct Cores {
    base: NonNull<CoreState>,
    count: usize,
}

/// A consistent copy of the slot an idle core has open.
pub(crate) struct OpenSlot {
    pub(crate) head: BatchHead,
    pub(crate) rows: Vec<Row>,
    /// CLOCK_MONOTONIC time at which the core went idle, and at which the slot ends.
    pub(crate) since_ns: u64,
    pub(crate) end_ns: u64,
}

/// Counters of what the programs did on a core.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CoreTotals {
    pub(crate) produced_rows: u64,
    pub(crate) merged_rows: u64,
    pub(crate) storage_failures: u64,
    pub(crate) losses_dropped_rows: u64,
    pub(crate) unseen_switches: u64,
}

impl Cores {
    /// Maps the `cores` map.
    pub(crate) fn map(map: &MapHandle, count: u32) -> Result<Self, Error> {
        let count = count as usize;
        // SAFETY: a fresh shared mapping at an address of the kernel's choice aliases nothing of
        // ours; the map was created with `count` elements of exactly this size.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                count * size_of::<CoreState>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_fd().as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(Error::kernel("cannot map the cores' state", io::Error::last_os_error()));
        }
        let base = NonNull::new(address.cast()).expect("mmap does not return null");
        Ok(Self { base, count })
    }

    fn core(&self, core: u32) -> *mut CoreState {
        assert!((core as usize) < self.count, "core {core} is not among the possible ones");
        // SAFETY: the index was just checked against the length of the mapping.
        unsafe { self.base.as_ptr().add(core as usize) }
    }

    fn load(&self, core: u32, offset: usize) -> u64 {
        let field = self.core(core).cast::<u8>();
        // SAFETY: `offset` is that of a u64 field of CoreState, so it is aligned and inside the
        // mapping; the kernel writes it with plain or atomic 8-byte stores.
        unsafe { AtomicU64::from_ptr(field.add(offset).cast()) }.load(Ordering::Acquire)
    }

    /// How many batches the core has handed over, delivered or lost.
    pub(crate) fn flushes(&self, core: u32) -> u64 {
        self.load(core, offset_of!(CoreState, flushes))
    }

    /// The losses not yet taken.
    pub(crate) fn take_losses(&self, core: u32) -> Vec<Loss> {
        let written = self.load(core, offset_of!(CoreState, losses_written));
        let state = self.core(core);
        let first = self.load(core, offset_of!(CoreState, losses_read));
        let entries = (first..written)
            .map(|i| {
                // SAFETY: the program published entries below `written` and does not touch them
                // again before `losses_read` moves past them.
                unsafe { ptr::read_volatile(&raw const (*state).losses[i as usize % LOSSES]) }
            })
            .collect();
        // SAFETY: user space is the only writer of this field.
        unsafe { ptr::write_volatile(&raw mut (*state).losses_read, written) };
        entries
    }

    /// Losses the log had no room for.
    pub(crate) fn losses_dropped(&self, core: u32) -> u64 {
        self.load(core, offset_of!(CoreState, losses_dropped))
    }

    /// The core's counters.
    pub(crate) fn totals(&self, core: u32) -> CoreTotals {
        CoreTotals {
            produced_rows: self.load(core, offset_of!(CoreState, produced_rows)),
            merged_rows: self.load(core, offset_of!(CoreState, merged_rows)),
            storage_failures: self.load(core, offset_of!(CoreState, storage_failures)),
            losses_dropped_rows: self.load(core, offset_of!(CoreState, losses_dropped_rows)),
            unseen_switches: self.load(core, offset_of!(CoreState, unseen_switches)),
        }
    }

    /// Reads the open slot of a core that is idle, without waking it.
    ///
    /// Once its end has passed, the open slot of an idle core changes only by being handed over,
    /// and `flushes` moves before that: so an unchanged `flushes` proves the copy is whole.
    pub(crate) fn peek_idle(&self, core: u32, flushes: u64, now_ns: u64) -> Option<OpenSlot> {
        let state = self.core(core);
        // SAFETY: plain copies out of the mapping; they may be torn, which the check below finds.
        // All types are valid for any bytes.
        let slot = unsafe {
            let current = ptr::read_volatile(&raw const (*state).current);
            let since_ns = ptr::read_volatile(&raw const (*state).since_ns);
            let end_ns = ptr::read_volatile(&raw const (*state).slot_end_ns);
            if current != IDLE || since_ns == 0 || end_ns >= now_ns {
                return None;
            }
            let head = ptr::read_volatile(&raw const (*state).batch);
            let rows = (0..(head.rows as usize).min(ROWS))
                .map(|i| ptr::read_volatile(&raw const (*state).rows[i]))
                .collect();
            OpenSlot { head, rows, since_ns, end_ns }
        };
        fence(Ordering::Acquire);
        (self.flushes(core) == flushes).then_some(slot)
    }

    /// Makes a core that is offline start afresh when it comes back.
    pub(crate) fn forget(&self, core: u32) {
        // SAFETY: an offline core runs no program, so nobody else writes its state.
        unsafe { ptr::write_volatile(&raw mut (*self.core(core)).since_ns, 0) };
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length and nothing borrows from it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.count * size_of::<CoreState>()) };
    }
}
