//! The processes there are, from who was seen on a processor. Pure but for one look at `/proc`.

use std::collections::HashMap;

use crosstalk_host::{HostRoot, lives};

use super::Seen;
use crate::pool::Subject;

/// Processes followed at once. Beyond this, newcomers are not measured until others have exited.
const MOST_SUBJECTS: usize = 20_000;

#[derive(Debug, Default)]
pub(super) struct Subjects {
    known: HashMap<u32, Subject>,
}

impl Subjects {
    /// Takes a list; answers whether somebody new is on it.
    pub(super) fn saw(&mut self, seen: Vec<Seen>) -> bool {
        let mut has_new = false;
        for seen in seen {
            let known = self.known.get(&seen.key.pid).filter(|known| known.key == seen.key);
            if known.is_none() && self.known.len() >= MOST_SUBJECTS {
                continue;
            }
            has_new |= known.is_none();
            let recent_cpu_ns = known.map_or(0, |known| known.recent_cpu_ns) + seen.cpu_ns;
            let Seen { key, comm, container, .. } = seen;
            self.known.insert(key.pid, Subject { key, comm, container, recent_cpu_ns });
        }
        has_new
    }

    /// Everybody who lives. What they did before counts half from now on.
    pub(super) fn living(&mut self, host: &HostRoot) -> Vec<Subject> {
        self.known.retain(|pid, _| lives(host, *pid));
        let mut living: Vec<Subject> = self.known.values().cloned().collect();
        living.sort_unstable_by_key(|subject| subject.key);
        for subject in self.known.values_mut() {
            subject.recent_cpu_ns /= 2;
        }
        living
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::SubjectKey;

    fn seen(pid: u32, process_start_ns: u64, cpu_ns: u64) -> Seen {
        let key = SubjectKey { pid, process_start_ns };
        Seen { key, comm: "web".into(), container: None, parent: None, cpu_ns }
    }

    #[test]
    fn the_recent_past_counts_and_the_dead_are_forgotten() {
        let root = tempfile::tempdir().unwrap();
        let host = HostRoot::new(root.path());
        std::fs::create_dir_all(host.path("/proc/7")).unwrap();
        let mut subjects = Subjects::default();
        assert!(subjects.saw(vec![seen(7, 1, 100), seen(8, 1, 5)]));
        assert!(!subjects.saw(vec![seen(7, 1, 100)]));
        let living = subjects.living(&host);
        assert_eq!(
            living.iter().map(|s| (s.key.pid, s.recent_cpu_ns)).collect::<Vec<_>>(),
            [(7, 200)]
        );
        assert_eq!(subjects.living(&host)[0].recent_cpu_ns, 100);
    }

    #[test]
    fn a_number_used_again_is_another_process() {
        let mut subjects = Subjects::default();
        subjects.saw(vec![seen(7, 1, 100)]);
        assert!(subjects.saw(vec![seen(7, 2, 1)]));
        assert_eq!(subjects.known[&7].key.process_start_ns, 2);
        assert_eq!(subjects.known[&7].recent_cpu_ns, 1);
    }
}
