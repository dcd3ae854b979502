//! Where what is known of series lies: in the order in which they came.
//!
//! A sender tells of its series in the same order again and again, so what is known of the next one lies behind what is known
//! of the one before, and a processor has it at hand before it is asked for. Only where a request departs from that order is
//! a series looked for by its print, which costs two misses of the cache.

use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use hashbrown::HashTable;

use super::Known;

/// Series that lie together, and are forgotten together.
const CHUNK: usize = 256;

/// Parts of the index that are locked apart from each other.
const PARTS: usize = 64;

/// Everything that is known.
#[derive(Debug)]
pub(super) struct Places {
    chunks: Box<[RwLock<Vec<Known>>]>,
    index: Box<[Mutex<HashTable<Place>>]>,
    open: Mutex<Open>,
}

/// Which series lies where.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The halves of its print: whole it would need more room.
    print: [u32; 2],
    at: u32,
}

/// Chunks that are not filled.
#[derive(Debug, Default)]
struct Open {
    /// Begun by a request that is over.
    begun: Vec<usize>,
    /// The one to begin next; what it holds is then forgotten.
    next: usize,
}

fn halves(print: u64) -> [u32; 2] {
    [print as u32, (print >> 32) as u32]
}

impl Place {
    fn print(&self) -> u64 {
        u64::from(self.print[1]) << 32 | u64::from(self.print[0])
    }
}

impl Places {
    /// Room for so many series.
    pub(super) fn new(most: usize) -> Self {
        Places {
            chunks: (0..most.div_ceil(CHUNK).max(2)).map(|_| RwLock::default()).collect(),
            index: (0..PARTS).map(|_| Mutex::default()).collect(),
            open: Mutex::default(),
        }
    }

    /// A way through them for one request.
    pub(super) fn walk(&self) -> Walk<'_> {
        Walk { places: self, near: None, filling: None }
    }

    fn index(&self, print: u64) -> MutexGuard<'_, HashTable<Place>> {
        // From the middle: a table looks at both ends.
        let part = &self.index[(print >> 32) as usize % PARTS];
        part.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn read(&self, chunk: usize) -> RwLockReadGuard<'_, Vec<Known>> {
        self.chunks[chunk].read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn write(&self, chunk: usize) -> RwLockWriteGuard<'_, Vec<Known>> {
        self.chunks[chunk].write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn find(&self, print: u64) -> Option<usize> {
        let index = self.index(print);
        let place = index.find(print, |place| place.print == halves(print))?;
        Some(place.at as usize)
    }

    /// Puts something else in place of what is known of a series, unless that was forgotten since.
    fn replace(&self, at: usize, print: u64, known: Known) {
        let mut chunk = self.write(at / CHUNK);
        if let Some(before) = chunk.get_mut(at % CHUNK).filter(|before| before.print == print) {
            *before = known;
        }
    }

    /// A chunk with room. Where all were begun, the one begun longest ago is emptied.
    fn claim(&self) -> usize {
        let mut open = self.open();
        if let Some(begun) = open.begun.pop() {
            return begun;
        }
        let chunk = open.next;
        open.next = (chunk + 1) % self.chunks.len();
        drop(open);
        let forgotten = std::mem::take(&mut *self.write(chunk));
        for known in forgotten {
            let mut index = self.index(known.print);
            let here = |place: &Place| {
                place.print == halves(known.print) && place.at as usize / CHUNK == chunk
            };
            if let Ok(place) = index.find_entry(known.print, here) {
                place.remove();
            }
        }
        chunk
    }
}

/// One request's way through what is known.
///
/// It holds one chunk for reading at most, and none while it waits for any other lock.
#[derive(Debug)]
pub(super) struct Walk<'m> {
    places: &'m Places,
    near: Option<Near<'m>>,
    /// The chunk that new series of this request go into.
    filling: Option<usize>,
}

/// Where the series after the last one is expected.
#[derive(Debug)]
struct Near<'m> {
    chunk: RwLockReadGuard<'m, Vec<Known>>,
    next: usize,
}

impl Walk<'_> {
    /// What is known of the series with this print.
    #[inline]
    pub(super) fn find(&mut self, print: u64) -> Option<&Known> {
        let expected =
            |near: &Near<'_>| near.chunk.get(near.next).is_some_and(|k| k.print == print);
        if !self.near.as_ref().is_some_and(expected) {
            self.go_to(print)?;
        }
        let near = self.near.as_mut()?;
        near.next += 1;
        near.chunk.get(near.next - 1)
    }

    #[inline(never)]
    fn go_to(&mut self, print: u64) -> Option<()> {
        self.near = None;
        let at = self.places.find(print)?;
        let (chunk, next) = (self.places.read(at / CHUNK), at % CHUNK);
        // It may have been forgotten since.
        if chunk.get(next)?.print == print {
            self.near = Some(Near { chunk, next });
        }
        self.near.as_ref().map(drop)
    }

    /// Remembers a series, in place of what was known of it.
    pub(super) fn put(&mut self, known: Known) {
        self.near = None;
        let print = known.print;
        let filling = self.chunk_with_room();
        let mut index = self.places.index(print);
        if let Some(place) = index.find(print, |place| place.print == halves(print)) {
            self.places.replace(place.at as usize, print, known);
            return;
        }
        let mut chunk = self.places.write(filling);
        if chunk.len() < CHUNK {
            let place = Place { print: halves(print), at: (filling * CHUNK + chunk.len()) as u32 };
            chunk.push(known);
            index.insert_unique(print, place, Place::print);
        }
    }

    /// Forgets a series.
    pub(super) fn forget(&mut self, print: u64) {
        self.near = None;
        let mut index = self.places.index(print);
        let Ok(place) = index.find_entry(print, |place| place.print == halves(print)) else {
            return;
        };
        let at = place.remove().0.at as usize;
        self.places.replace(at, print, Known::default());
    }

    fn chunk_with_room(&mut self) -> usize {
        match self.filling {
            Some(chunk) if self.places.read(chunk).len() < CHUNK => chunk,
            _ => {
                let chunk = self.places.claim();
                *self.filling.insert(chunk)
            }
        }
    }
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        self.near = None;
        let Some(chunk) = self.filling else { return };
        let length = self.places.read(chunk).len();
        if length < CHUNK {
            self.places.open().begun.push(chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(print: u64) -> Known {
        Known { print, ..Known::default() }
    }

    /// Any number, well spread.
    fn print(number: u64) -> u64 {
        (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn series_are_found_in_their_order_and_in_any_other() {
        let places = Places::new(4096);
        {
            let mut walk = places.walk();
            (0..1000).for_each(|number| walk.put(known(print(number))));
        }
        let mut walk = places.walk();
        let others = (0..1000).map(|number| number * 7 % 1000);
        for number in (0..1000).chain((0..1000).rev()).chain(others) {
            assert_eq!(walk.find(print(number)).map(|k| k.print), Some(print(number)), "{number}");
            assert!(walk.find(print(number + 5000)).is_none());
        }
        walk.forget(print(500));
        assert!(walk.find(print(499)).is_some() && walk.find(print(500)).is_none());
        assert!(walk.find(print(501)).is_some());
    }

    #[test]
    fn series_of_one_request_lie_together_though_others_come_at_the_same_time() {
        let places = Places::new(1 << 16);
        let (mut one, mut other) = (places.walk(), places.walk());
        for number in 0..200 {
            one.put(known(print(number)));
            other.put(known(print(1000 + number)));
        }
        one.find(print(0)).unwrap();
        for number in 1..200 {
            let near = one.near.as_ref().unwrap();
            assert_eq!(near.chunk[near.next].print, print(number));
            one.find(print(number)).unwrap();
        }
    }

    #[test]
    fn the_oldest_are_forgotten_and_no_more_is_kept_than_there_is_room_for() {
        let places = Places::new(1024);
        for number in 0..10_000 {
            places.walk().put(known(print(number)));
        }
        let mut walk = places.walk();
        let kept: Vec<u64> = (0..10_000).filter(|n| walk.find(print(*n)).is_some()).collect();
        assert!(kept.len() <= 1024 && kept.len() > 512, "{}", kept.len());
        assert_eq!(kept, (10_000 - kept.len() as u64..10_000).collect::<Vec<_>>());
        let indexed: usize = places.index.iter().map(|part| part.lock().unwrap().len()).sum();
        assert_eq!(indexed, kept.len());
    }

    #[test]
    fn many_at_once_find_what_is_theirs() {
        let places = Places::new(2048);
        std::thread::scope(|scope| {
            for thread in 0..8u64 {
                let places = &places;
                scope.spawn(move || {
                    for round in 0..50 {
                        let mut walk = places.walk();
                        for number in 0..300 {
                            // Half of them are everybody's; all together do not fit.
                            let number = number + if number % 2 == 0 { 0 } else { 1000 * thread };
                            match walk.find(print(number)) {
                                Some(known) => assert_eq!(known.print, print(number)),
                                None => walk.put(known(print(number))),
                            }
                            if (number + round) % 97 == 0 {
                                walk.forget(print(number));
                            }
                        }
                    }
                });
            }
        });
    }
}
