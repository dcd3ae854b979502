//! The rows of some files as one file a day, sorted, written into a folder and counted.
//!
//! They are sorted a stretch of time after the other: a day of a busy node at once would be hundreds of gigabytes on the
//! way to the disk and back.

use super::sources;
use super::stretches::{Stretch, stretches};
use crate::rollup::{REPLACED, ROLLED_UP, rolled_up};
use crate::{Error, Session};
use crosstalk_recording::{COMPACTED_FROM, FinishedRows, Metadata, ParquetFile, RecordedFile};
use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use std::collections::BTreeSet;
use std::path::Path;

const DAY_NS: i64 = 86_400_000_000_000;
/// What rows are sorted by first.
const SECOND_NS: i64 = 1_000_000_000;
/// Columns that rows of a second are sorted by, where a data set has them: neighbours are then alike.
const KEYS: [&str; 7] =
    ["pid", "process_start_ns", "cgroup_id", "l3_domain", "resource", "core", "slot_start_ns"];

/// Writes the rows of `files` into a folder. `Err` within says why they are not all there.
pub(super) async fn merged(
    session: &Session,
    into: &Path,
    files: &[&RecordedFile],
    memory: usize,
) -> Result<Result<Vec<FinishedRows>, String>, Error> {
    let days = write(session, into, files, memory).await?;
    let read = rows(session, files).await?;
    let written: u64 = days.iter().map(|day| day.rows).sum();
    let unread = session.notes.take();
    Ok(match unread.into_iter().next() {
        Some(unread) => Err(unread),
        None if read != written => {
            Err(format!("{written} rows were written where {read} were read"))
        }
        None => Ok(days),
    })
}

async fn rows(session: &Session, files: &[&RecordedFile]) -> Result<u64, Error> {
    let query = format!("SELECT count(*) FROM {}", files[0].dataset);
    let answer = session.collect(&query).await?;
    let count = answer.first().and_then(|batch| {
        batch.column(0).as_primitive_opt::<Int64Type>().filter(|c| !c.is_empty())
    });
    Ok(count.map_or(0, |column| column.value(0).max(0) as u64))
}

/// The file of the day at hand, and those of days before.
struct Day {
    file: Option<(i64, ParquetFile)>,
    whole: Vec<FinishedRows>,
}

async fn write(
    session: &Session,
    folder: &Path,
    files: &[&RecordedFile],
    memory: usize,
) -> Result<Vec<FinishedRows>, Error> {
    let owned: Vec<RecordedFile> = files.iter().map(|file| (*file).clone()).collect();
    // Asking an object store waits, which a thread of the engine must not.
    let about = tokio::task::spawn_blocking(move || about(&owned)).await;
    let about = about.map_err(|e| Error::Engine(e.to_string()))?;
    let table = session.context.table(files[0].dataset.as_str()).await?;
    let own = |name: &str| name != "node" && name != "run";
    let names: Vec<String> = table.schema().fields().iter().map(|f| f.name().clone()).collect();
    let columns: Vec<String> =
        names.iter().filter(|name| own(name)).map(|name| format!("\"{name}\"")).collect();
    let keys = KEYS.iter().filter(|key| names.iter().any(|name| name == *key));
    let keys: Vec<String> = keys.map(|key| format!("\"{key}\"")).collect();
    let (columns, keys) = (columns.join(", "), keys.join(", "));
    let mut day = Day { file: None, whole: Vec::new() };
    // Two sorts at once do not make room for each other: one would fail where both have to go to disk.
    let alone = session.context.sql("SET datafusion.execution.target_partitions = 1").await?;
    alone.collect().await?;
    for Stretch { from_s, until_s, .. } in stretches(session, files, memory).await? {
        let within = format!(
            "slot_start_ns >= {} AND slot_start_ns < {}",
            from_s.saturating_mul(SECOND_NS),
            until_s.saturating_mul(SECOND_NS)
        );
        let query = format!(
            "SELECT {columns} FROM {} WHERE {within} ORDER BY slot_start_ns - slot_start_ns % {SECOND_NS}, {keys}",
            files[0].dataset,
        );
        session
            .run(&query, |batch| {
                let batch =
                    crate::query::plainly(&batch).map_err(|e| Error::Engine(e.to_string()))?;
                day.add(&batch, folder, files[0], &about)
            })
            .await?;
    }
    day.close()?;
    Ok(day.whole)
}

impl Day {
    /// Adds rows in time order, each day to its file.
    fn add(
        &mut self,
        batch: &RecordBatch,
        folder: &Path,
        first: &RecordedFile,
        about: &Metadata,
    ) -> Result<(), Error> {
        let wrong = || Error::Engine(format!("{}: it has no slot_start_ns", first.path));
        let slots = batch.column_by_name("slot_start_ns").ok_or_else(wrong)?;
        let slots = slots.as_primitive_opt::<Int64Type>().ok_or_else(wrong)?;
        let mut at = 0;
        while at < batch.num_rows() {
            let day = slots.value(at).div_euclid(DAY_NS);
            let same = (at..batch.num_rows())
                .take_while(|row| slots.value(*row).div_euclid(DAY_NS) == day)
                .count();
            if self.file.as_ref().is_none_or(|(open, _)| *open != day) {
                self.close()?;
                let name = name(&first.dataset, slots.value(at));
                let file = ParquetFile::create(&folder.join(name), &batch.schema(), about)?;
                self.file = Some((day, file));
            }
            if let Some((_, file)) = &mut self.file {
                file.write(&batch.slice(at, same))?;
            }
            at += same;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        if let Some((_, file)) = self.file.take() {
            self.whole.push(file.finish()?);
        }
        Ok(())
    }
}

/// As the recorder calls files: by their first slot.
fn name(dataset: &str, slot_ns: i64) -> String {
    let time = jiff::Timestamp::from_nanosecond(slot_ns.into()).unwrap_or_default();
    let millis = time.subsec_nanosecond() / 1_000_000;
    format!("{dataset}-{}.{millis:03}Z.parquet", time.strftime("%Y%m%dT%H%M%S"))
}

/// What the merged files say of themselves: what the last one did, which knows of every loss before it.
fn about(files: &[RecordedFile]) -> Metadata {
    let mut said = files.iter().rev().filter_map(|file| file.metadata().ok()).peekable();
    let mut about = said.peek().cloned().unwrap_or_default();
    if said.any(|one| one.get("recovered").is_some()) {
        about.set("recovered", true);
    }
    // Each file of sums knows those that it is of; merged, they are of all of them.
    let summed_up: BTreeSet<String> = files.iter().flat_map(rolled_up).collect();
    if !summed_up.is_empty() {
        about.set(ROLLED_UP, summed_up);
        // What they took the place of is gone before they are merged, and its name may come back.
        about.set(REPLACED, Vec::<String>::new());
    }
    let sources: Vec<String> = files.iter().flat_map(sources).collect();
    about.with(COMPACTED_FROM, sources)
}
