//! What all control groups together hold and move. A control group's files already include its monitor groups.

use crosstalk_resctrl::sampler::read_value;
use crosstalk_resctrl::{Error, Group, MonitoringInfo, NoResctrl, Resctrl, mbm_delta};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;

/// The events, in the order of the metrics: the first two only grow, the last is a level.
const EVENTS: [&str; 3] = ["mbm_total_bytes", "mbm_local_bytes", "llc_occupancy"];
const COUNTERS: usize = 2;

/// The open files of every control group.
pub(super) struct Totals {
    /// Which of the events this machine has.
    offered: [bool; EVENTS.len()],
    groups: BTreeMap<PathBuf, Vec<Domain>>,
    /// A group was lost since the last look.
    missed: bool,
    faults: u64,
}

/// One group in one L3 cache.
struct Domain {
    files: [Option<File>; EVENTS.len()],
    /// The last value that was one, and when (monotonic).
    last: [Option<(u64, u64)>; COUNTERS],
}

impl Totals {
    /// Opens what is there.
    ///
    /// # Errors
    /// If the mount cannot be listed, or a file of its root cannot be opened.
    pub(super) fn open(
        resctrl: &Resctrl,
        monitoring: &MonitoringInfo,
        now_ns: u64,
    ) -> Result<Self, Error> {
        let offered = [monitoring.total_bytes, monitoring.local_bytes, monitoring.occupancy];
        let mut totals = Self { offered, groups: BTreeMap::new(), missed: false, faults: 0 };
        totals.follow(resctrl, now_ns)?;
        Ok(totals)
    }

    /// Takes up new groups and lets go of those that are gone.
    ///
    /// # Errors
    /// If the mount cannot be listed, or a file of its root cannot be opened.
    pub(super) fn follow(&mut self, resctrl: &Resctrl, now_ns: u64) -> Result<(), Error> {
        self.missed = false;
        let groups = resctrl.control_groups()?;
        self.groups.retain(|path, _| groups.iter().any(|group| group.path() == path));
        for group in groups {
            if self.groups.contains_key(group.path()) {
                continue;
            }
            match self.open_group(&group, now_ns) {
                Ok(domains) => {
                    self.groups.insert(group.path().to_owned(), domains);
                }
                // One that was removed while we looked.
                Err(error) if error.is_gone() && group.path() != resctrl.root() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn open_group(&self, group: &Group, now_ns: u64) -> Result<Vec<Domain>, Error> {
        let mut domains = Vec::new();
        let monitored = group.domains()?;
        if monitored.is_empty() {
            let (path, because) = (group.path().to_owned(), NoResctrl::Unmounted);
            return Err(Error::NotResctrl { path, because });
        }
        for domain in monitored {
            let mut files = [const { None }; EVENTS.len()];
            let wanted = files.iter_mut().zip(EVENTS).zip(self.offered);
            for ((file, event), _) in wanted.filter(|(_, offered)| *offered) {
                let path = group.mon_file(domain.id, event);
                let opened = File::open(&path).map_err(|source| Error::Read { path, source })?;
                *file = Some(opened);
            }
            // Counting starts now: what was moved before belongs to no sample.
            let now = |file: &Option<File>| {
                read_value(file.as_ref()?).ok()?.count().map(|count| (count, now_ns))
            };
            let last = [now(&files[0]), now(&files[1])];
            domains.push(Domain { files, last });
        }
        Ok(domains)
    }

    /// Bytes per second over the sample that ends now, and bytes held now. A sum with a part missing is no sum: it is
    /// absent.
    pub(super) fn read(&mut self, now_ns: u64, covers_ns: u64) -> [Option<f64>; EVENTS.len()] {
        let mut sums = self.offered.map(|offered| offered.then_some(0.0));
        let mut lost = Vec::new();
        for (path, domains) in &mut self.groups {
            for domain in domains {
                let values = domain.read(now_ns, covers_ns, || lost.push(path.clone()));
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum = sum.zip(value).map(|(sum, value)| sum + value);
                }
            }
        }
        // The files of a group that is gone, or of a mount that is, stay so: the next look opens anew.
        self.missed |= !lost.is_empty();
        self.faults += lost.len() as u64;
        self.groups.retain(|path, _| !lost.contains(path));
        sums
    }

    /// Whether a file could not be read: it is time to look which groups there are.
    pub(super) fn missed_a_group(&self) -> bool {
        self.missed
    }

    /// Reads that failed since the last call.
    pub(super) fn take_faults(&mut self) -> u64 {
        std::mem::take(&mut self.faults)
    }

    /// How many control groups there are, the root included.
    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }
}

impl Domain {
    fn read(
        &mut self,
        now_ns: u64,
        covers_ns: u64,
        mut failed: impl FnMut(),
    ) -> [Option<f64>; EVENTS.len()] {
        let now = self.files.each_ref().map(|file| match read_value(file.as_ref()?) {
            Ok(value) => value.count(),
            Err(_) => {
                failed();
                None
            }
        });
        let mut values = now.map(|count| count.map(|count| count as f64));
        for ((value, count), last) in values.iter_mut().zip(now).zip(&mut self.last) {
            *value = count.zip(*last).and_then(|(count, (before, at_ns))| {
                // After a reading without a value the bytes are those of a longer time; of a group
                // seen only just now they are all that this sample has of it.
                let seconds = now_ns.saturating_sub(at_ns).max(covers_ns) as f64 * 1e-9;
                mbm_delta(before, count, None).map(|bytes| bytes as f64 / seconds)
            });
            *last = count.map(|count| (count, now_ns)).or(*last);
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// A mount of plain files: what they say is for the test to write.
    fn mount(root: &Path) -> Resctrl {
        fs::create_dir(root.join("info")).unwrap();
        group(root, 1_000, 500, 64);
        Resctrl::open(root).unwrap()
    }

    fn group(path: &Path, total: u64, local: u64, held: u64) {
        let domain = path.join("mon_data/mon_L3_00");
        fs::create_dir_all(&domain).unwrap();
        fs::write(path.join("tasks"), "").unwrap();
        for (event, value) in EVENTS.iter().zip([total, local, held]) {
            fs::write(domain.join(event), format!("{value}\n")).unwrap();
        }
    }

    fn monitoring() -> MonitoringInfo {
        MonitoringInfo {
            num_rmids: 8,
            occupancy: true,
            total_bytes: true,
            local_bytes: true,
            other_features: Vec::new(),
            max_threshold_occupancy: None,
            assignment: None,
            domains: Vec::new(),
            l3_bytes: BTreeMap::new(),
        }
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_node_is_the_sum_of_its_control_groups_and_a_new_one_counts_from_when_it_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let resctrl = mount(dir.path());
        let mut totals = Totals::open(&resctrl, &monitoring(), 0).unwrap();
        assert_eq!(totals.read(SECOND, SECOND), [Some(0.0), Some(0.0), Some(64.0)]);
        group(dir.path(), 3_000, 600, 128);
        let batch = dir.path().join("batch");
        group(&batch, 9_000, 9_000, 1_000);
        totals.follow(&resctrl, 3 * SECOND - 1).unwrap();
        assert_eq!(totals.groups(), 2);
        group(&batch, 9_500, 9_100, 2_000);
        assert_eq!(
            totals.read(3 * SECOND, 2 * SECOND),
            [Some(1_250.0), Some(100.0), Some(2_128.0)]
        );
        fs::remove_dir_all(&batch).unwrap();
        totals.follow(&resctrl, 4 * SECOND).unwrap();
        assert_eq!(totals.read(4 * SECOND, SECOND), [Some(0.0), Some(0.0), Some(128.0)]);
        assert_eq!(totals.take_faults(), 0);
    }

    #[test]
    fn a_word_instead_of_a_number_makes_the_sum_absent_and_no_later_one_too_high() {
        let dir = tempfile::tempdir().unwrap();
        let resctrl = mount(dir.path());
        let mut totals = Totals::open(&resctrl, &monitoring(), 0).unwrap();
        let file = dir.path().join("mon_data/mon_L3_00/mbm_total_bytes");
        fs::write(&file, "Unavailable\n").unwrap();
        assert_eq!(totals.read(SECOND, SECOND), [None, Some(0.0), Some(64.0)]);
        fs::write(&file, "1640\n").unwrap();
        assert_eq!(totals.read(2 * SECOND, SECOND), [Some(320.0), Some(0.0), Some(64.0)]);
    }

    #[test]
    fn a_mount_that_is_gone_is_an_error_and_not_a_node_at_rest() {
        let dir = tempfile::tempdir().unwrap();
        let resctrl = mount(dir.path());
        let mut totals = Totals::open(&resctrl, &monitoring(), 0).unwrap();
        // A folder cannot be read, as the files of a mount that is gone cannot.
        totals.groups.get_mut(dir.path()).unwrap()[0].files[2] =
            Some(File::open(dir.path()).unwrap());
        assert_eq!(totals.read(SECOND, SECOND), [Some(0.0), Some(0.0), None]);
        assert!(totals.missed_a_group() && totals.take_faults() == 1);
        totals.follow(&resctrl, SECOND).unwrap();
        assert_eq!(totals.read(2 * SECOND, SECOND)[2], Some(64.0));
        // After an unmount the folder is there, what was in it is not.
        fs::remove_dir_all(dir.path().join("mon_data")).unwrap();
        totals.groups.clear();
        assert!(matches!(totals.follow(&resctrl, SECOND), Err(Error::NotResctrl { .. })));
    }

    #[test]
    fn what_the_processor_does_not_monitor_is_absent_and_its_files_are_not_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let resctrl = mount(dir.path());
        fs::remove_file(dir.path().join("mon_data/mon_L3_00/mbm_local_bytes")).unwrap();
        let offered = MonitoringInfo { local_bytes: false, ..monitoring() };
        let mut totals = Totals::open(&resctrl, &offered, 0).unwrap();
        assert_eq!(totals.read(SECOND, SECOND), [Some(0.0), None, Some(64.0)]);
        let error = Totals::open(&resctrl, &monitoring(), 0).err().unwrap().to_string();
        assert!(error.contains("mbm_local_bytes"), "{error}");
    }
}
