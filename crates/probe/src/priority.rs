//! At which priority a burst runs.

use crosstalk_host::thread;

/// Chooses between the idle class, in which a burst is in nobody's way, and a normal turn, without which a machine
/// with every core busy would never be probed. Either way the budget holds.
///
/// The thread sleeps as a normal one: an idle one would be woken, on a busy machine, seconds late.
#[derive(Debug)]
pub(crate) struct Priority {
    /// Whether this thread may come back from the idle class.
    may_return: bool,
    is_idle: bool,
    /// The last burst was disturbed.
    insists: bool,
}

impl Priority {
    /// For the calling thread.
    pub(crate) fn new() -> Self {
        // Tried on a thread of its own, because a thread that may not return never will.
        let tried = std::thread::Builder::new()
            .stack_size(64 * 1024)
            .spawn(|| thread::be_idle().and_then(|()| thread::be_normal()).is_ok());
        let may_return = tried.is_ok_and(|trial| trial.join().unwrap_or(false));
        // Not having a short turn is no reason not to measure.
        let _ = thread::be_normal();
        Self { may_return, is_idle: false, insists: false }
    }

    /// Before a burst, with as many others that want a core as there are cores, or not. Whether it is a normal turn.
    pub(crate) fn choose(&mut self, crowded: bool) -> bool {
        self.is_idle =
            wants_idle(crowded, self.insists, self.may_return) && thread::be_idle().is_ok();
        !self.is_idle
    }

    /// After a burst.
    pub(crate) fn done(&mut self, disturbed: bool) {
        self.insists = disturbed && self.is_idle;
        if self.is_idle {
            let _ = thread::be_normal();
        }
    }
}

fn wants_idle(crowded: bool, insists: bool, may_return: bool) -> bool {
    may_return && !crowded && !insists
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_idle_while_there_is_room_and_it_may_come_back() {
        assert!(wants_idle(false, false, true));
        assert!(!wants_idle(true, false, true), "it would not get its turn");
        assert!(!wants_idle(false, true, true), "the last one did not end undisturbed");
        assert!(!wants_idle(false, false, false), "it would stay idle for ever");
    }
}
