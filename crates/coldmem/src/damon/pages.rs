//! Idle ranges of memory, joined page by page with the cgroup and kind of each.

use super::Region;
use crate::age::{AgeCell, Ages, ColdBoundary, Edges, Kind};
use crate::mglru;
use crosstalk_host::HostRoot;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

pub(super) const CGROUPS: &str = "/proc/kpagecgroup";
pub(super) const FLAGS: &str = "/proc/kpageflags";

// include/uapi/linux/kernel-page-flags.h
const LRU: u64 = 1 << 5;
const SLAB: u64 = 1 << 7;
const MAPPED: u64 = 1 << 11;
const ANON: u64 = 1 << 12;
const SWAP_BACKED: u64 = 1 << 14;
const TAIL: u64 = 1 << 16;

/// Pages read at a time.
const CHUNK: u64 = 16_384;
/// The largest folio in the page cache or of a process that is not of hugetlbfs.
const FOLIO: u64 = 512;

/// Idle pages by cgroup, kind and age.
#[derive(Debug)]
pub struct PageAges {
    boundary: ColdBoundary,
    edges: Edges,
    pages: HashMap<(u64, Kind, usize), u64>,
    /// Page cache that nobody maps is not told of: with MGLRU it looks idle however often it is read.
    mapped_only: bool,
    /// The last folio: its further pages say nothing of themselves.
    head: Option<(u64, Kind)>,
}

impl PageAges {
    fn new(boundary: &ColdBoundary, mapped_only: bool) -> Self {
        let (pages, head) = (HashMap::new(), None);
        Self { boundary: *boundary, edges: Edges::new(boundary), pages, mapped_only, head }
    }

    /// Reads what the pages of idle regions are.
    ///
    /// # Errors
    /// One of the two files cannot be read.
    pub fn join(
        host: &HostRoot,
        regions: &[Region],
        page_bytes: u64,
        boundary: &ColdBoundary,
    ) -> io::Result<Self> {
        let open = |file: &str| File::open(host.path(file));
        let (cgroups, flags) = (open(CGROUPS)?, open(FLAGS)?);
        let mut all = Self::new(boundary, mglru::state(host) == Some(true));
        let mut buffers = [(); 2].map(|()| vec![0u8; CHUNK as usize * 8]);
        for region in regions {
            let edge = all.edges.bucket_of(region.idle_ms);
            let (first, end) = (region.start / page_bytes, region.end / page_bytes);
            // A region may begin within a folio: its head is looked at and not counted.
            let mut at = first - first % FOLIO;
            all.head = None;
            while at < end {
                let wanted = (end - at).min(CHUNK) as usize * 8;
                let [of_cgroups, of_flags] = &mut buffers;
                let read = read_at(&cgroups, &mut of_cgroups[..wanted], at * 8)?.min(read_at(
                    &flags,
                    &mut of_flags[..wanted],
                    at * 8,
                )?);
                let skip = first.saturating_sub(at) as usize;
                all.count(&of_cgroups[..read], &of_flags[..read], skip, edge);
                // Behind the end of memory there is nothing to read.
                if read < wanted {
                    break;
                }
                at += CHUNK;
            }
        }
        Ok(all)
    }

    /// Counts pages, but not the first `skip`, from as many words of both files.
    fn count(&mut self, cgroups: &[u8], flags: &[u8], skip: usize, edge: usize) {
        let words = |bytes: &'_ [u8]| -> Vec<u64> {
            let whole = bytes.chunks_exact(8);
            whole.map(|word| word.try_into().map_or(0, u64::from_ne_bytes)).collect()
        };
        // Neighbours are mostly alike: the table is asked once for a run of them.
        let mut run: Option<((u64, Kind), u64)> = None;
        for (at, (cgroup, flags)) in words(cgroups).into_iter().zip(words(flags)).enumerate() {
            if flags & TAIL == 0 {
                let kind = kind_of(flags)
                    .filter(|kind| *kind != Kind::File || !self.mapped_only || flags & MAPPED != 0);
                self.head = kind.map(|kind| (cgroup, kind));
            }
            let Some(page) = self.head.filter(|_| at >= skip) else { continue };
            match &mut run {
                Some((same, count)) if *same == page => *count += 1,
                _ => {
                    self.add(run.take(), edge);
                    run = Some((page, 1));
                }
            }
        }
        self.add(run, edge);
    }

    fn add(&mut self, run: Option<((u64, Kind), u64)>, edge: usize) {
        if let Some(((cgroup, kind), pages)) = run {
            *self.pages.entry((cgroup, kind, edge)).or_default() += pages;
        }
    }

    /// The ages of each cgroup's own pages, by its inode number; 0 is of none.
    pub fn by_cgroup(&self, page_bytes: u64) -> HashMap<u64, Ages> {
        let mut all: HashMap<u64, Ages> = HashMap::new();
        for ((cgroup, kind, edge), pages) in &self.pages {
            let bytes = pages.saturating_mul(page_bytes);
            let cell = AgeCell::of_kind(*kind, self.edges.range(*edge), bytes, &self.boundary);
            all.entry(*cgroup).or_default().cells.push(cell);
        }
        all.values_mut().for_each(Ages::sort);
        all
    }
}

/// Free pages, and those of the kernel that are neither, are nobody's.
fn kind_of(flags: u64) -> Option<Kind> {
    match flags {
        _ if flags & SLAB != 0 => Some(Kind::Slab),
        _ if flags & (ANON | SWAP_BACKED) != 0 => Some(Kind::Anon),
        _ if flags & LRU != 0 => Some(Kind::File),
        _ => None,
    }
}

/// Fills the buffer as far as the file goes; whole words only.
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled - filled % 8)
}
