//! Keeps a consumer running: what it was given when it panicked is lost and counted, and one made anew goes on.

use crate::supervise::words;
use crate::{Message, Subscription};
use crosstalk_host::{BackOff, Capability, Verdict};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// One that panics at whatever it is given is tried at least so often.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// Who reads what sources deliver.
pub trait Consumer {
    /// Takes what came since it was last asked, which may be nothing.
    fn take(&mut self, messages: &[Message]);
}

impl Subscription {
    /// Gives a consumer what came, at this pace, on a thread of its own that ends when the last source has. A panic is a fault
    /// of ours: it costs this consumer what it was given and what it knew, is told, and nobody else notices.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn consume<C: Consumer>(
        self,
        pace: Duration,
        tell: fn(&Capability),
        mut make: impl FnMut() -> C + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let name = self.name().to_owned();
        let run = move || {
            let mut consumer = make();
            let mut back_off = BackOff::new(pace * 2, LONGEST_REST);
            let mut rest = pace;
            while let Some(messages) = self.gather(rest) {
                rest = match self.hand_over(&mut consumer, &messages, tell) {
                    Ok(()) => {
                        back_off.reset();
                        pace
                    }
                    Err(Panicked) => {
                        consumer = make();
                        back_off.next()
                    }
                };
            }
        };
        Builder::new().name(name).spawn(run)
    }

    fn hand_over(
        &self,
        consumer: &mut impl Consumer,
        messages: &[Message],
        tell: fn(&Capability),
    ) -> Result<(), Panicked> {
        catch_unwind(AssertUnwindSafe(|| consumer.take(messages))).map_err(|panic| {
            messages.iter().for_each(|message| self.lose(message));
            let found = format!("it panicked and was made anew: {}", words(panic.as_ref()));
            tell(&Capability::new(self.name(), Verdict::Failing, found));
            Panicked
        })
    }
}

struct Panicked;
