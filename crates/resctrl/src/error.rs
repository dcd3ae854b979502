//! Everything that can go wrong, with the path, the errno and the kernel's own words.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crosstalk_host::WithFix;
use rustix::io::Errno;

/// A text that is not what its file should hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found:?}")]
pub struct ParseError {
    expected: &'static str,
    found: String,
}

impl ParseError {
    pub(crate) fn new(expected: &'static str, found: &str) -> Self {
        // A foreign file may be large: the error keeps what a person can read.
        Self { expected, found: found.trim().chars().take(80).collect() }
    }
}

/// Why the kernel refused a change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Every class of service is in use: remove a control group.
    OutOfClosids,
    /// Every RMID is in use: remove a group.
    OutOfRmids,
    /// Freed RMIDs still have lines in the cache: try again later.
    RmidsInLimbo,
    /// No cache ways are left for a new group in this domain.
    NoCacheWays,
    /// The thread has exited.
    NoTask,
    /// The thread belongs to another user.
    NotPermitted,
    /// A monitor group takes only threads of its own control group.
    OtherControlGroup,
    /// A list of threads or processors, a mask, a limit or a mode the kernel does not accept.
    BadValue,
    /// The mask overlaps with a group that one of the two wants for itself.
    Overlap,
    /// Groups cannot be made, moved or removed there.
    WrongPlace,
    /// The group or the whole file system is no longer there.
    Gone,
    /// Something else; see the status text.
    Other,
}

impl Refusal {
    /// Reads the errno of a failed call and the text of `info/last_cmd_status`.
    ///
    /// ```
    /// use crosstalk_resctrl::Refusal;
    /// let ebusy = 16;
    /// assert_eq!(Refusal::classify(ebusy, "Out of RMIDs"), Refusal::RmidsInLimbo);
    /// ```
    #[must_use]
    pub fn classify(errno: i32, status: &str) -> Self {
        let starts = |text: &str| status.lines().any(|line| line.starts_with(text));
        match Errno::from_raw_os_error(errno) {
            Errno::NODEV | Errno::NOENT | Errno::NOTCONN | Errno::STALE => Self::Gone,
            Errno::SRCH => Self::NoTask,
            Errno::BUSY if starts("Out of RMIDs") => Self::RmidsInLimbo,
            Errno::NOSPC if starts("Out of RMIDs") => Self::OutOfRmids,
            Errno::NOSPC if starts("Out of CLOSIDs") => Self::OutOfClosids,
            Errno::NOSPC if starts("No space on") => Self::NoCacheWays,
            Errno::PERM | Errno::ACCESS if starts("No permission to move task") => {
                Self::NotPermitted
            }
            Errno::ACCESS => Self::NotPermitted,
            Errno::PERM => Self::WrongPlace,
            Errno::INVAL if starts("Can't move task to different") => Self::OtherControlGroup,
            Errno::INVAL if starts("Overlaps with") || starts("Schemata overlaps") => Self::Overlap,
            Errno::INVAL => Self::BadValue,
            _ => Self::Other,
        }
    }
}

/// What this library can answer with instead of a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel said no.
    #[error("{}: {}{}", path.display(), Errno::from_raw_os_error(*errno), Said(status))]
    Refused {
        /// The file or directory of the call.
        path: PathBuf,
        /// What the call failed with.
        errno: i32,
        /// Why, as far as errno and status tell.
        reason: Refusal,
        /// `info/last_cmd_status`, empty where there was none.
        status: String,
    },
    /// A file could not be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the read failed with.
        source: io::Error,
    },
    /// A file holds something else than it should.
    #[error("{}: {source}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What was found.
        source: ParseError,
    },
    /// There is no resctrl at this path.
    #[error("{}: no resctrl file system here: {because}", path.display())]
    NotResctrl {
        /// The path given.
        path: PathBuf,
        /// What is there instead.
        because: NoResctrl,
    },
    /// Somebody else has held the lock on the mount for too long.
    #[error("{}: the resctrl lock was not free within {waited_ms} ms", path.display())]
    LockTimeout {
        /// The locked directory.
        path: PathBuf,
        /// How long it was tried.
        waited_ms: u64,
    },
    /// A second pool on the same mount.
    #[error("{}: another Crosstalk already manages monitor groups here{}", path.display(), Holder(*holder))]
    AlreadyRunning {
        /// The mount.
        path: PathBuf,
        /// The process that holds the lock, where it could be found.
        holder: Option<u32>,
    },
    /// A thread of a source could not be started.
    #[error("cannot start a thread: {source}")]
    Thread {
        /// What failed.
        source: io::Error,
    },
    /// The machine has allocation but no monitoring.
    #[error("{}: this machine does not monitor the cache (no info/L3_MON)", path.display())]
    NoMonitoring {
        /// The mount.
        path: PathBuf,
    },
}

/// What there is where resctrl was looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoResctrl {
    /// The kernel has it, and nobody has mounted it.
    #[error("it is not mounted")]
    NotMounted,
    /// It was mounted a moment ago.
    #[error("it was unmounted")]
    Unmounted,
    /// The kernel was built without it, or the processor has nothing to show in it.
    #[error("this kernel or processor has none (no resctrl in /proc/filesystems)")]
    NoSupport,
    /// The directory given does not exist.
    #[error("the directory is missing")]
    NoDirectory,
    /// The path given is a file.
    #[error("this is no directory")]
    NotADirectory,
    /// The process that answered for the mount has died.
    #[error("the simulator that was mounted here has ended")]
    SimulatorEnded,
}

impl WithFix for Error {
    fn fix(&self) -> Option<&str> {
        const OTHER_MACHINE: &str = "use a machine that has Intel RDT or AMD QoS and a kernel with \
             CONFIG_X86_CPU_RESCTRL, or try it out with `crosstalk resctrl-sim DIR`";
        match self {
            Self::NotResctrl { because, .. } => match because {
                NoResctrl::NotMounted | NoResctrl::Unmounted => {
                    Some("mount it with `mount -t resctrl resctrl /sys/fs/resctrl`")
                }
                NoResctrl::NoSupport | NoResctrl::NoDirectory => Some(OTHER_MACHINE),
                NoResctrl::NotADirectory => Some("name the directory it is mounted on"),
                NoResctrl::SimulatorEnded => Some("start it again, or unmount the directory"),
            },
            Self::NoMonitoring { .. } => Some(OTHER_MACHINE),
            Self::LockTimeout { .. } => Some("stop the tool that holds flock on it"),
            Self::AlreadyRunning { .. } => Some("stop it first"),
            Self::Refused { reason: Refusal::NotPermitted, .. } => Some("run as root"),
            Self::Read { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("run as root")
            }
            _ => None,
        }
    }
}

impl Error {
    /// The reason of a refusal.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused { reason, .. } => Some(reason),
            _ => None,
        }
    }

    /// Whether the group, or the whole mount, has gone away.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Refused { reason, .. } => *reason == Refusal::Gone,
            Self::Read { source, .. } => source
                .raw_os_error()
                .is_some_and(|errno| Refusal::classify(errno, "") == Refusal::Gone),
            Self::NotResctrl { .. } => true,
            _ => false,
        }
    }

    pub(crate) fn read(path: &Path, source: io::Error) -> Self {
        Self::Read { path: path.to_owned(), source }
    }
}

struct Said<'a>(&'a str);
impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " ({})", self.0.replace('\n', "; ")) }
    }
}

struct Holder(Option<u32>);
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |pid| write!(f, " (process {pid})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_shows_path_errno_and_the_words_of_the_kernel() {
        let error = Error::Refused {
            path: "/sys/fs/resctrl/a".into(),
            errno: Errno::NOSPC.raw_os_error(),
            reason: Refusal::OutOfClosids,
            status: "Out of CLOSIDs".into(),
        };
        assert_eq!(
            error.to_string(),
            "/sys/fs/resctrl/a: No space left on device (os error 28) (Out of CLOSIDs)"
        );
    }

    #[test]
    fn no_free_rmid_is_told_apart_from_one_in_limbo() {
        assert_eq!(
            Refusal::classify(Errno::NOSPC.raw_os_error(), "Out of RMIDs"),
            Refusal::OutOfRmids
        );
        assert_eq!(
            Refusal::classify(Errno::BUSY.raw_os_error(), "Out of RMIDs"),
            Refusal::RmidsInLimbo
        );
        assert_eq!(Refusal::classify(Errno::BUSY.raw_os_error(), ""), Refusal::Other);
    }
}
