//! MGLRU's generations as ages: `/sys/kernel/debug/lru_gen` (Documentation/admin-guide/mm/multigen_lru.rst).
//!
//! Pages of a generation were used last while it was the youngest, so they are idle since the next one was
//! born, as far as was seen when the youngest was: what has been used since shows only when the next is
//! born. Ages are as of then. The oldest also takes what was older, and page cache that was read only once.

use crate::age::{AgeCell, Ages, ColdBoundary, Edges, Kind};
use crate::backend::WarmUp;
use crosstalk_host::HostRoot;

/// Where debugfs has the generations.
pub const FILE: &str = "/sys/kernel/debug/lru_gen";
const ENABLED: &str = "/sys/kernel/mm/lru_gen/enabled";

/// Whether the kernel has it, and whether it is on.
///
/// Where it is, page cache that is read through `read()` and that nobody maps looks idle to everybody: such reads are
/// counted in a folio's tier, and neither bring it into a younger generation nor clear its idle flag.
pub(crate) fn state(host: &HostRoot) -> Option<bool> {
    Some(!matches!(host.line(ENABLED)?.as_str(), "0x0000" | "0"))
}

/// One cgroup's generations on one memory node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generations<'a> {
    /// The kernel's number of the cgroup, which a request to age it names.
    pub memcg_id: u64,
    /// The cgroup's path.
    pub path: &'a str,
    /// The memory node.
    pub node: u64,
    /// From the oldest to the youngest.
    pub generations: Vec<Generation>,
}

/// One generation, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Its number.
    pub number: u64,
    /// Time since it was born.
    pub age_ms: u64,
    /// Anonymous pages.
    pub anon: u64,
    /// Pages of files.
    pub file: u64,
}

/// A line that is not as the kernel writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("lru_gen line {line}: not a memcg, node or generation line")]
pub struct LruGenError {
    /// From 1.
    pub line: usize,
}

/// Reads `lru_gen`: lines of `memcg ID PATH`, `node ID` and `GENERATION AGE_IN_MS ANON FILE`.
///
/// # Errors
/// A line is none of these.
pub fn parse(text: &str) -> Result<Vec<Generations<'_>>, LruGenError> {
    let mut found: Vec<Generations<'_>> = Vec::new();
    let mut memcg = None;
    for (at, line) in text.lines().enumerate() {
        let refuse = LruGenError { line: at + 1 };
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("memcg ") {
            let rest = rest.trim_start();
            let (id, path) = rest.split_once(' ').unwrap_or((rest, "/"));
            memcg = Some((id.parse().map_err(|_| refuse)?, path));
        } else if let Some(node) = line.strip_prefix("node ") {
            let (memcg_id, path) = memcg.ok_or(refuse)?;
            let node = node.trim().parse().map_err(|_| refuse)?;
            found.push(Generations { memcg_id, path, node, generations: Vec::new() });
        } else if !line.is_empty() {
            let generation = Generation::parse(line).ok_or(refuse)?;
            found.last_mut().ok_or(refuse)?.generations.push(generation);
        }
    }
    Ok(found)
}

impl Generation {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        // A count whose list does not reach so far back is marked with an x, and is 0.
        let mut next = || words.next()?.trim_end_matches('x').parse().ok();
        Some(Self { number: next()?, age_ms: next()?, anon: next()?, file: next()? })
    }
}

impl Generations<'_> {
    /// Bytes by kind and age, in buckets that are the same for all lists: their sums are no longer than one of them.
    pub fn ages(&self, page_bytes: u64, boundary: &ColdBoundary) -> Ages {
        let (mut ages, edges) = (Ages::default(), Edges::new(boundary));
        for (generation, from_ms) in self.idle_since() {
            let range = edges.range(edges.bucket_of(from_ms));
            for (kind, pages) in [(Kind::Anon, generation.anon), (Kind::File, generation.file)] {
                let bytes = pages.saturating_mul(page_bytes);
                let cell = AgeCell::of_kind(kind, range, bytes, boundary);
                ages.add(&Ages { cells: vec![cell], ..Ages::default() });
            }
        }
        ages.sort();
        ages
    }

    /// Each generation, with how long its pages have been idle at least.
    fn idle_since(&self) -> impl Iterator<Item = (&Generation, u64)> {
        let seen_ms = self.seen_ms();
        let younger = self.generations.iter().skip(1);
        let younger = younger.map(move |next| next.age_ms.saturating_sub(seen_ms));
        self.generations.iter().zip(younger.chain([0]))
    }

    /// What counts as cold of this list has been idle for so long at least: no generation begins at the boundary itself.
    pub fn cold_from_ms(&self, boundary: &ColdBoundary) -> Option<u64> {
        let old = self.idle_since().map(|(_, from_ms)| from_ms);
        old.filter(|from_ms| boundary.is_old(*from_ms)).min()
    }

    /// Whether its ages reach the boundary. A list without pages that count has nothing to wait for, nor has one that was made
    /// after the boundary: its first generation is number 0.
    pub fn warm_up(&self, boundary: &ColdBoundary) -> WarmUp {
        let counts = |g: &Generation| {
            boundary.counts_kind(Kind::Anon) && g.anon > 0
                || boundary.counts_kind(Kind::File) && g.file > 0
        };
        let is_young = |oldest: &Generation| oldest.number == 0 && !boundary.is_old(oldest.age_ms);
        if !self.generations.iter().any(counts) || self.generations.first().is_some_and(is_young) {
            return WarmUp::Ready;
        }
        WarmUp::after(self.watched_ms() / 1_000, boundary)
    }

    /// When it was last looked which pages are used: when the youngest generation was born.
    fn seen_ms(&self) -> u64 {
        self.generations.last().map_or(0, |youngest| youngest.age_ms)
    }

    /// No page is known to have been idle for longer.
    pub fn watched_ms(&self) -> u64 {
        let second = self.generations.get(1).map_or(0, |second| second.age_ms);
        second.saturating_sub(self.seen_ms())
    }

    /// What to write to `lru_gen` so that a new generation begins, if the youngest is `every_ms` old. All
    /// pages are looked at, whether or not there is swap.
    pub fn age_request(&self, every_ms: u64) -> Option<String> {
        let youngest = self.generations.last().filter(|youngest| youngest.age_ms >= every_ms)?;
        Some(format!("+ {} {} {} 1 1", self.memcg_id, self.node, youngest.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const TEXT: &str = "memcg     1 /\n node     0\n          0     900000        10          20 \n\
        1     400000          1          2 \n          2     100000          3         4x\n\
        3        500          5          6 \n\
        memcg    67 /a b/c\n node     0\n  7  50  0  1 \n node     1\n";

    #[test]
    fn generations_are_read_by_cgroup_and_node() {
        let all = parse(TEXT).unwrap();
        let names: Vec<_> = all.iter().map(|g| (g.memcg_id, g.path, g.node)).collect();
        assert_eq!(names, [(1, "/", 0), (67, "/a b/c", 0), (67, "/a b/c", 1)]);
        assert_eq!(all[0].generations[2].file, 4);
        assert_eq!(parse("memcg 1 /\n 0 1 2 3\n"), Err(LruGenError { line: 2 }));
        assert_eq!(parse("node 0\n"), Err(LruGenError { line: 1 }));
        assert_eq!(parse("memcg 1 /\n node 0\n 0 1 2\n"), Err(LruGenError { line: 3 }));
    }

    #[test]
    fn pages_are_idle_since_the_next_generation_was_born_as_seen_when_the_youngest_was() {
        let all = parse(TEXT).unwrap();
        let boundary = ColdBoundary::new(Duration::from_secs(300), ["anon", "file"]).unwrap();
        let ages = all[0].ages(4096, &boundary);
        let told = |cell: &AgeCell| (cell.kind, cell.from_ms, cell.to_ms, cell.bytes / 4096);
        let expected = [
            (Kind::Anon, 0, Some(30_000), 8),
            (Kind::Anon, 60_000, Some(120_000), 1),
            (Kind::Anon, 300_000, Some(600_000), 10),
            (Kind::File, 0, Some(30_000), 10),
            (Kind::File, 60_000, Some(120_000), 2),
            (Kind::File, 300_000, Some(600_000), 20),
        ];
        assert_eq!(ages.cells.iter().map(told).collect::<Vec<_>>(), expected);
        assert_eq!(ages.cold_bytes(), Some(30 * 4096));
        assert_eq!(all[0].watched_ms(), 399_500);
        assert_eq!(all[0].cold_from_ms(&boundary), Some(399_500));
        assert_eq!(all[0].ages(4096, &ColdBoundary::default()).cold_bytes(), Some(20 * 4096));
    }

    #[test]
    fn a_list_is_ready_once_watched_and_while_younger_than_the_boundary() {
        let of = |text: &str| {
            parse(&format!("memcg 1 /\n node 0\n{text}")).unwrap()[0]
                .warm_up(&ColdBoundary::default())
        };
        assert_eq!(of("0 900000 0 9\n 1 400000 0 0\n 2 5 0 0\n"), WarmUp::Ready);
        let warming = WarmUp::Warming { watched_s: 100, needed_s: 300 };
        assert_eq!(of("4 900000 0 9\n 5 100005 0 0\n 6 5 0 0\n"), warming);
        let never_aged = "0 900000 0 0\n 1 900000 0 0\n 2 900000 0 9\n";
        assert!(matches!(of(never_aged), WarmUp::Warming { watched_s: 0, .. }));
        assert_eq!(of(&never_aged.replace("900000", "200000")), WarmUp::Ready, "just made");
        assert_eq!(of("4 900000 9 0\n 5 5 9 0\n"), WarmUp::Ready, "no page cache to be cold");
    }

    #[test]
    fn sums_over_many_lists_are_no_longer_than_the_buckets() {
        let boundary = ColdBoundary::new(Duration::from_secs(299), ["anon", "file"]).unwrap();
        let mut sum = Ages::default();
        for seed in 0..500u64 {
            let text = format!(
                "memcg 1 /\n node 0\n 0 {} 1 1\n 1 {} 1 1\n 2 {} 1 1\n 3 {seed} 1 1\n",
                900_000 + seed * 7_919,
                400_000 + seed * 6_007,
                seed * 101 + 1_000,
            );
            sum.add(&parse(&text).unwrap()[0].ages(4096, &boundary));
        }
        assert!(sum.cells.len() <= 2 * 10, "{}", sum.cells.len());
        assert_eq!(sum.cells.iter().map(|cell| cell.bytes).sum::<u64>(), 500 * 8 * 4096);
    }

    #[test]
    fn a_cgroup_is_aged_once_its_youngest_generation_is_old_enough() {
        let all = parse(TEXT).unwrap();
        assert_eq!(all[0].age_request(500).as_deref(), Some("+ 1 0 3 1 1"));
        assert_eq!(all[0].age_request(501), None);
        assert_eq!(all[2].age_request(0), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "(memcg|node|[0-9]{1,22}|x|[ \\n])*") {
            if let Ok(all) = parse(&text) {
                all.iter().for_each(|g| drop(g.ages(u64::MAX, &ColdBoundary::default())));
            }
        }
    }
}
