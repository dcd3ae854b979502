//! What each file says, and what writing to it does.

use fuser::Errno;

use super::{Event, Kernel, Kind, Mode};
use crate::kernel::tasks::Caller;
use crate::layout::File;
use crate::profile::Bandwidth;
use crate::threads::GroupId;

impl Kernel {
    pub(crate) fn show(&mut self, id: GroupId, file: &File) -> Result<String, Errno> {
        if let File::Event { domain, sub, event } = *file {
            return self.show_event(id, domain, sub, event);
        }
        let group = self.group(id)?;
        Ok(match file {
            File::Tasks => return self.show_tasks(id),
            File::Cpus => return self.show_cpus(id, false),
            File::CpusList => return self.show_cpus(id, true),
            File::Schemata => return self.show_limits(id, false),
            File::Size => return self.show_limits(id, true),
            File::Assignments => return self.show_assignments(id),
            File::Mode => match group.mode {
                Mode::Shareable => "shareable\n".to_owned(),
                Mode::Exclusive => "exclusive\n".to_owned(),
            },
            File::LastStatus if self.status.is_empty() => "ok\n".to_owned(),
            File::LastStatus => self.status.clone(),
            File::Threshold => self.show_threshold(),
            File::BitUsage => self.bit_usage(),
            File::Counters => self.show_counters(false),
            File::AvailableCounters => self.show_counters(true),
            File::AssignOnMkdir => self.show_assign_on_mkdir(),
            File::Fixed(text) => text.clone(),
            File::Event { .. } => return Err(Errno::EINVAL),
        })
    }

    pub(crate) fn store(
        &mut self,
        id: GroupId,
        file: &File,
        text: &str,
        caller: Caller,
    ) -> Result<(), Errno> {
        match file {
            File::Tasks => self.write_tasks(id, text, caller),
            File::Cpus => self.write_cpus(id, text, false),
            File::CpusList => self.write_cpus(id, text, true),
            File::Schemata => self.write_schemata(id, text),
            File::Mode => self.write_mode(id, text),
            File::Threshold => self.write_threshold(text),
            File::AssignOnMkdir => self.write_assign_on_mkdir(text),
            File::Assignments => self.write_assignments(id, text),
            _ => Err(Errno::EINVAL),
        }
    }

    /// The unchanging files of `info/`, by directory.
    pub(crate) fn info_files(&self) -> Vec<(&'static str, Vec<(&'static str, File)>)> {
        let profile = &self.profile;
        let fixed = |text: String| File::Fixed(format!("{text}\n"));
        let mut directories = Vec::new();
        for name in self.cache_resources() {
            directories.push((
                *name,
                vec![
                    ("num_closids", fixed(profile.closids().to_string())),
                    ("cbm_mask", fixed(format!("{:x}", profile.full_mask()))),
                    ("min_cbm_bits", fixed(profile.min_cbm_bits.to_string())),
                    ("shareable_bits", fixed(format!("{:x}", profile.shareable_bits))),
                    ("bit_usage", File::BitUsage),
                    ("sparse_masks", fixed(u8::from(profile.sparse_masks).to_string())),
                ],
            ));
        }
        for name in self.bandwidth_resources() {
            let (min, granularity, linear) = match profile.bandwidth {
                Bandwidth::Percent { min, granularity } => (min, granularity, 1),
                Bandwidth::EighthGigabyte => (0, 1, 0),
            };
            let mut files = vec![
                ("num_closids", fixed(profile.closids().to_string())),
                ("min_bandwidth", fixed(min.to_string())),
                ("bandwidth_gran", fixed(granularity.to_string())),
                ("delay_linear", fixed(linear.to_string())),
            ];
            if linear == 1 {
                files.push(("thread_throttle_mode", fixed("per-thread".to_owned())));
            }
            directories.push((*name, files));
        }
        let events = "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes";
        let mut monitoring = vec![
            ("num_rmids", fixed(profile.num_rmids.to_string())),
            ("mon_features", fixed(events.to_owned())),
            ("max_threshold_occupancy", File::Threshold),
        ];
        if profile.counters.is_some() {
            monitoring.extend([
                ("mbm_assign_mode", fixed("[mbm_event]\ndefault".to_owned())),
                ("num_mbm_cntrs", File::Counters),
                ("available_mbm_cntrs", File::AvailableCounters),
                ("mbm_assign_on_mkdir", File::AssignOnMkdir),
            ]);
        }
        directories.push(("L3_MON", monitoring));
        directories
    }

    pub(crate) fn kind(&self, id: GroupId) -> Result<Kind, Errno> {
        Ok(self.group(id)?.kind)
    }
}

pub(crate) const EVENTS: [(Event, &str); 3] = [
    (Event::Occupancy, "llc_occupancy"),
    (Event::Total, "mbm_total_bytes"),
    (Event::Local, "mbm_local_bytes"),
];
