//! Assignable bandwidth counters (ABMC): a group without one reads `Unassigned`.

use fuser::Errno;

use super::{Event, Kernel};
use crate::threads::GroupId;

const EVENTS: [(Event, &str); 2] =
    [(Event::Total, "mbm_total_bytes"), (Event::Local, "mbm_local_bytes")];

impl Kernel {
    /// Gives an RMID a counter for each event and domain, as far as there are any.
    pub(super) fn assign_counters(&mut self, rmid: usize) {
        for domain in 0..self.profile.l3_domains.len() {
            for (event, _) in EVENTS {
                if self.available(domain) > 0 {
                    self.assigned.insert((rmid, event, domain));
                }
            }
        }
    }

    fn available(&self, domain: usize) -> u64 {
        let used = self.assigned.iter().filter(|(_, _, of)| *of == domain).count() as u64;
        self.profile.counters.unwrap_or(0).saturating_sub(used)
    }

    pub(super) fn is_assigned(&self, rmid: usize, event: Event, domain: usize) -> bool {
        event == Event::Occupancy
            || self.profile.counters.is_none()
            || self.assigned.contains(&(rmid, event, domain))
    }

    pub(crate) fn show_counters(&self, available: bool) -> String {
        let all = self.profile.counters.unwrap_or(0);
        let value = |domain| if available { self.available(domain) } else { all };
        let domains = self.profile.l3_domains.iter().enumerate();
        let parts: Vec<String> = domains.map(|(d, id)| format!("{id}={}", value(d))).collect();
        format!("{}\n", parts.join(";"))
    }

    pub(crate) fn show_assign_on_mkdir(&self) -> String {
        format!("{}\n", u8::from(self.assign_on_mkdir))
    }

    pub(crate) fn write_assign_on_mkdir(&mut self, text: &str) -> Result<(), Errno> {
        self.assign_on_mkdir = match text.trim() {
            "1" | "y" | "Y" => true,
            "0" | "n" | "N" => false,
            _ => return Err(Errno::EINVAL),
        };
        Ok(())
    }

    pub(crate) fn show_assignments(&self, id: GroupId) -> Result<String, Errno> {
        let rmid = self.group(id)?.rmid;
        let line = |(event, name): (Event, &str)| {
            let mark = |d| if self.is_assigned(rmid, event, d) { 'e' } else { '_' };
            let domains = self.profile.l3_domains.iter().enumerate();
            let parts: Vec<String> = domains.map(|(d, id)| format!("{id}={}", mark(d))).collect();
            format!("{name}:{}\n", parts.join(";"))
        };
        Ok(EVENTS.into_iter().map(line).collect())
    }

    /// `mbm_total_bytes:0=e;1=_`, or `*` for every domain.
    pub(crate) fn write_assignments(&mut self, id: GroupId, text: &str) -> Result<(), Errno> {
        self.status.clear();
        let rmid = self.group(id)?.rmid;
        for line in text.lines() {
            let (name, rest) = line.split_once(':').ok_or(Errno::EINVAL)?;
            let event = EVENTS.iter().find(|(_, known)| *known == name.trim());
            let event = event.map(|(event, _)| *event).ok_or(Errno::ENOENT)?;
            for part in rest.split(';').filter(|part| !part.is_empty()) {
                let (wanted, mark) = part.split_once('=').ok_or(Errno::EINVAL)?;
                let is_meant = |id: &u32| wanted == "*" || wanted.parse() == Ok(*id);
                let all = self.profile.l3_domains.iter().enumerate();
                let domains: Vec<usize> =
                    all.filter(|(_, id)| is_meant(id)).map(|(d, _)| d).collect();
                if domains.is_empty() {
                    return Err(Errno::EINVAL);
                }
                for domain in domains {
                    self.set_assignment(rmid, event, domain, mark)?;
                }
            }
        }
        Ok(())
    }

    fn set_assignment(
        &mut self,
        rmid: usize,
        event: Event,
        domain: usize,
        mark: &str,
    ) -> Result<(), Errno> {
        let key = (rmid, event, domain);
        match mark {
            "_" => {
                self.assigned.remove(&key);
            }
            "e" if self.assigned.contains(&key) => {}
            "e" if self.available(domain) == 0 => {
                let id = self.profile.l3_domains[domain];
                return self
                    .refuse(Errno::ENOSPC, format!("Failed to allocate counter in domain {id}"));
            }
            "e" => {
                self.assigned.insert(key);
            }
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }
}
