//! What `/proc/PID` says of a process or a thread.

use crate::HostRoot;
use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

/// User space sees times in ticks of 1 / USER_HZ, which is 100 on every Linux.
pub(crate) const TICK_NS: u64 = 10_000_000;
/// A name of 64 bytes and all numbers at their longest up to the last one asked for.
const LONGEST: usize = 1024;

/// The text of a `stat` file; what is asked of it is found in place, without a copy.
///
/// ```
/// use crosstalk_host::ProcStat;
///
/// let text = b"42 (a) b) S 7 42 42 0 -1 0 0 0 0 0 3 4 0 0 20 0 5 0 100 0 9".to_vec();
/// let stat = ProcStat::parse(text).unwrap();
/// assert_eq!((stat.comm().as_ref(), stat.parent()), ("a) b", Some(7)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcStat {
    text: Vec<u8>,
    comm: Range<usize>,
}

impl ProcStat {
    /// The process with this number; `None` when there is none.
    pub fn of_process(host: &HostRoot, pid: u32) -> Option<Self> {
        Self::read(&host.path(format!("/proc/{pid}/stat")))
    }

    /// A thread of a process.
    pub fn of_thread(host: &HostRoot, pid: u32, tid: u32) -> Option<Self> {
        Self::read(&host.path(format!("/proc/{pid}/task/{tid}/stat")))
    }

    /// This process.
    pub fn own() -> Option<Self> {
        Self::read(Path::new("/proc/self/stat"))
    }

    fn read(path: &Path) -> Option<Self> {
        let mut text = vec![0; LONGEST];
        // The kernel gives the whole of it to one read.
        let length = File::open(path).and_then(|mut file| file.read(&mut text)).ok()?;
        text.truncate(length);
        Self::parse(text)
    }

    /// Takes the text; `None` when it does not begin as one. The name may hold anything, so it ends at the last bracket.
    pub fn parse(text: Vec<u8>) -> Option<Self> {
        let open = text.iter().position(|byte| *byte == b'(')?;
        let close = text.iter().rposition(|byte| *byte == b')')?;
        (open < close).then(|| Self { text, comm: open + 1..close })
    }

    /// The name.
    pub fn comm(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.text[self.comm.clone()])
    }

    /// The number of the parent.
    pub fn parent(&self) -> Option<u32> {
        self.number(4)?.try_into().ok()
    }

    /// Processor time used, in user and kernel mode.
    pub fn cpu_ns(&self) -> Option<u64> {
        self.number(14)?.checked_add(self.number(15)?)?.checked_mul(TICK_NS)
    }

    /// When it started, in ns of CLOCK_BOOTTIME and steps of 10 ms.
    pub fn start_boottime_ns(&self) -> Option<u64> {
        self.number(22)?.checked_mul(TICK_NS)
    }

    /// Resident memory; 0 for threads of the kernel.
    pub fn resident_bytes(&self) -> Option<u64> {
        self.number(24)?.checked_mul(page_bytes())
    }

    /// The core it last ran on.
    pub fn core(&self) -> Option<u32> {
        self.number(39)?.try_into().ok()
    }

    /// A field as proc(5) numbers them, where the state behind the name is 3.
    fn number(&self, field: usize) -> Option<u64> {
        let behind = self.text.get(self.comm.end + 1..)?;
        let mut words = behind.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        std::str::from_utf8(words.nth(field - 3)?).ok()?.parse().ok()
    }
}

/// The process a thread belongs to; `None` once the thread has exited.
pub fn thread_group(host: &HostRoot, tid: u32) -> Option<u32> {
    let status = host.line(format!("/proc/{tid}/status"))?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

/// The size of a page of memory.
pub fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let text = "42 (a) R (b) S 1 42 42 0 -1 4194304 1 0 0 0 7 5 0 0 20 0 3 0 1234 100 99 1 0";
        let stat = ProcStat::parse(text.into()).unwrap();
        assert_eq!((stat.comm().as_ref(), stat.parent()), ("a) R (b", Some(1)));
        assert_eq!(stat.cpu_ns(), Some(120_000_000));
        assert_eq!(stat.start_boottime_ns(), Some(12_340_000_000));
        assert_eq!(stat.resident_bytes(), Some(99 * rustix::param::page_size() as u64));
        assert_eq!(stat.core(), None, "cut off before it");
        assert_eq!(ProcStat::parse("42 cut off".into()), None);
    }

    #[test]
    fn this_thread_is_found_and_one_that_does_not_exist_is_not() {
        let (host, pid) = (HostRoot::default(), std::process::id());
        let stat = ProcStat::of_thread(&host, pid, pid).unwrap();
        assert_eq!(stat.parent(), Some(std::os::unix::process::parent_id()));
        assert!(stat.core().is_some());
        assert_eq!(ProcStat::own().unwrap().parent(), stat.parent());
        assert_eq!(ProcStat::of_process(&host, u32::MAX), None);
    }

    #[test]
    fn a_thread_belongs_to_the_process_that_its_status_names() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("proc/8")).unwrap();
        fs::write(dir.path().join("proc/8/status"), "Name:\tTgid: 9\nTgid:\t7\nPid:\t8\n").unwrap();
        let host = HostRoot::new(dir.path());
        assert_eq!((thread_group(&host, 8), thread_group(&host, 9)), (Some(7), None));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(stat) = ProcStat::parse(text) {
                let _ = (stat.comm(), stat.parent(), stat.cpu_ns());
                let _ = (stat.start_boottime_ns(), stat.resident_bytes(), stat.core());
            }
        }
    }
}
