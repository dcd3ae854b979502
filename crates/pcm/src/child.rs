//! A child process that does not outlive its owner.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, getppid, kill_process_group, pidfd_open,
    set_parent_process_death_signal,
};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

/// A child in its own process group, so that whatever it starts ends with it. It has to be started by
/// a thread that outlives it, because the kernel ends it with that thread. Dropping it asks it
/// to end (PCM then gives the counters back), waits a while, and kills it.
#[derive(Debug)]
pub(crate) struct ChildGroup {
    child: Child,
    group: Pid,
    /// Readable once the child has ended; absent on kernels before 5.3.
    exit: Option<OwnedFd>,
    grace: Duration,
    swept: bool,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

impl ChildGroup {
    pub(crate) fn spawn(mut command: Command, grace: Duration) -> io::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        die_with_parent(&mut command);
        let mut child = command.process_group(0).spawn()?;
        let group = Pid::from_child(&child);
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(io::Error::other("a piped child has no pipes"));
        };
        let exit = pidfd_open(group, PidfdFlags::empty()).ok();
        Ok(Self { child, group, exit, grace, swept: false, stdout, stderr })
    }

    /// Lets the child end by itself within the grace, ends it otherwise; says how it ended.
    pub(crate) fn end(mut self) -> String {
        if !self.has_ended(self.grace) {
            return "closed its output and went on".to_owned();
        }
        match self.sweep() {
            Ok(status) => status.to_string(),
            Err(error) => format!("ended, how is not known: {error}"),
        }
    }

    /// Whether the child has ended, waiting for it at most so long. It is not reaped, so its number
    /// cannot become another's.
    fn has_ended(&self, limit: Duration) -> bool {
        self.exit.as_ref().is_some_and(|exit| {
            wait_readable(&mut [PollFd::new(exit, PollFlags::IN)], limit).unwrap_or(false)
        })
    }

    /// Kills what is left of the group, then reaps the child. In this order, because until then
    /// the number of the group is certainly ours.
    fn sweep(&mut self) -> io::Result<ExitStatus> {
        if !self.swept {
            let _ = kill_process_group(self.group, Signal::KILL);
            self.swept = true;
        }
        self.child.wait()
    }
}

impl Drop for ChildGroup {
    fn drop(&mut self) {
        if !self.swept && !self.has_ended(Duration::ZERO) {
            let _ = kill_process_group(self.group, Signal::TERM);
            self.has_ended(self.grace);
        }
        let _ = self.sweep();
    }
}

/// Has the kernel ask the child to end when the thread that starts it does: a `kill -9` leaves nobody
/// else to do so. TERM, on which PCM gives the counters back.
#[allow(unsafe_code)] // the standard library has no other place between fork and exec
fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    let leash = move || {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // A parent that ended before the line above sends nothing any more.
        match getppid() {
            Some(now) if now.as_raw_nonzero().get().unsigned_abs() == parent => Ok(()),
            _ => Err(rustix::io::Errno::SRCH.into()),
        }
    };
    // SAFETY: the closure makes two system calls and allocates nothing, as is allowed after a fork.
    unsafe { command.pre_exec(leash) };
}

/// Waits until one of `fds` has an event, at most for `limit`; `false` if none came.
pub(crate) fn wait_readable(fds: &mut [PollFd<'_>], limit: Duration) -> io::Result<bool> {
    let limit = Timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(limit.subsec_nanos()),
    };
    match poll(fds, Some(&limit)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
