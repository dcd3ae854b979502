//! The recorder's thread.

use super::notes::{self, Began};
use super::{Recorded, RecorderOptions, Shared};
use crate::{Error, Recording, Run};
use crosstalk_collect::{Delivery, Overview, Subscription, panic_words};
use crosstalk_model::Batch;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Rows are handed to the file at least this often: what a kill -9 can cost is below a second.
const FLUSH: Duration = Duration::from_millis(500);
/// And whenever this many wait, which bounds memory.
const MOST_ROWS: usize = 65_536;

pub(super) struct Work {
    options: RecorderOptions,
    queue: Subscription,
    overview: Overview,
    shared: Arc<Shared>,
    open: Option<Recording>,
    failed_at: Option<Instant>,
    flushed: Instant,
    waiting: BTreeMap<&'static str, Vec<Batch>>,
    waiting_rows: usize,
    done: Recorded,
    began: Began,
}

impl Work {
    pub(super) fn new(
        options: RecorderOptions,
        queue: Subscription,
        overview: Overview,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            options,
            queue,
            overview,
            shared,
            open: None,
            failed_at: None,
            flushed: Instant::now(),
            waiting: BTreeMap::new(),
            waiting_rows: 0,
            done: Recorded::default(),
            began: Began::default(),
        }
    }

    /// Opens the recording, unless a failure now would be tried again later anyway.
    pub(super) fn claim(&mut self) -> Result<(), Error> {
        let created = self.create();
        self.settle(created)
    }

    pub(super) fn run(mut self) -> Result<Recorded, Error> {
        loop {
            let wait = FLUSH.saturating_sub(self.flushed.elapsed());
            match self.queue.recv(wait) {
                Ok(message) => {
                    if let Delivery::Rows(batch) = message.delivery {
                        self.take(batch);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.waiting_rows >= MOST_ROWS || self.flushed.elapsed() >= FLUSH {
                let flushed = self.guarded(Self::flush);
                // Parts that stay are finished by `recover`, once what is wrong is put right.
                self.settle(flushed).inspect_err(|_| {
                    self.shared.has_failed.store(true, Ordering::Relaxed);
                })?;
            }
        }
        let flushed = self.guarded(Self::flush);
        self.settle(flushed)?;
        let finished = self.guarded(Self::finish);
        self.settle(finished)?;
        Ok(std::mem::take(&mut self.done))
    }

    /// A panic is a fault of ours: it costs what was being written, as a full disk does, and sources and other consumers
    /// nothing.
    fn guarded(&mut self, step: fn(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        catch_unwind(AssertUnwindSafe(|| step(self))).unwrap_or_else(|panic| {
            Err(Error::Panicked { reason: panic_words(panic.as_ref()).to_owned() })
        })
    }

    fn take(&mut self, batch: Batch) {
        self.waiting_rows += batch.len();
        self.waiting.entry(batch.dataset().name).or_default().push(batch);
    }

    fn create(&mut self) -> Result<(), Error> {
        let now_ns = self.overview.clock().now_unix_ns();
        let run = Run::new(&self.options.node, now_ns);
        let options = self.options.recording.clone();
        let metadata = self.options.metadata.clone();
        let (mut recording, recovered) = Recording::create(options, run, metadata)?;
        // A run that follows a full disk says what was lost before it, once; its own losses begin with it.
        recording.note("loss_before_this_run", self.began.lost(&self.overview));
        self.began = Began::now(&self.overview);
        for dataset in &self.options.always {
            recording.open(dataset, now_ns)?;
        }
        *self.shared.recovered.lock().unwrap_or_else(PoisonError::into_inner) = recovered.clone();
        self.done.recovered = recovered;
        self.done.run = Some(recording.run().clone());
        self.open = Some(recording);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.flushed = Instant::now();
        let resting =
            self.failed_at.is_some_and(|at| at.elapsed() < self.options.retry.unwrap_or_default());
        if self.open.is_none() && !resting && !self.waiting.is_empty() {
            self.create()?;
        }
        self.waiting_rows = 0;
        let batches = std::mem::take(&mut self.waiting).into_values().collect();
        let mut unwritten = Unwritten { batches, overview: &self.overview };
        let Some(recording) = &mut self.open else { return Ok(()) };
        notes::take(recording, &self.overview, &self.began);
        while let Some(batches) = unwritten.batches.front() {
            write(recording, batches, &self.shared)?;
            unwritten.batches.pop_front();
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        let Some(mut recording) = self.open.take() else { return Ok(()) };
        notes::take(&mut recording, &self.overview, &self.began);
        self.done.files = recording.finish()?;
        Ok(())
    }

    /// An error ends the recorder, or is told, and tried again after a while. The parts that it left
    /// are finished then.
    fn settle(&mut self, result: Result<(), Error>) -> Result<(), Error> {
        match result {
            Ok(()) => {
                if self.open.is_some() {
                    self.failed_at = None;
                    self.shared.is_up.store(true, Ordering::Relaxed);
                }
                Ok(())
            }
            Err(error) if self.options.retry.is_some() => {
                (self.options.on_error)(&error);
                self.failed_at = Some(Instant::now());
                self.shared.is_up.store(false, Ordering::Relaxed);
                self.open = None;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

fn write(recording: &mut Recording, batches: &[Batch], shared: &Shared) -> Result<(), Error> {
    let Some(table) = Batch::table(batches) else { return Ok(()) };
    let rows = table.rows as u64;
    recording.open(table.dataset, table.first_slot_ns)?;
    recording.write(table)?;
    shared.rows.fetch_add(rows, Ordering::Relaxed);
    Ok(())
}

/// What nobody could write is lost, and counted, whatever hindered it.
struct Unwritten<'a> {
    /// Of each data set.
    batches: VecDeque<Vec<Batch>>,
    overview: &'a Overview,
}

impl Drop for Unwritten<'_> {
    fn drop(&mut self) {
        for batch in self.batches.iter().flatten() {
            self.overview.losses().add(batch.dataset().name, "file", batch.len() as u64);
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.shared.is_up.store(false, Ordering::Relaxed);
    }
}
