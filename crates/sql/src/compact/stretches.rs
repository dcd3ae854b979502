//! Stretches of time whose rows are sorted at once.

use crate::query::plainly;
use crate::{Error, MEMORY, Session};
use crosstalk_recording::{RecordedFile, State};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;

/// Rows that are sorted at once with the memory that is usual: so many of any data set fit into it.
const ROWS_AT_ONCE: f64 = 5e5;
/// The same of CSV, which is read from its beginning for every stretch: these go to disk.
const ROWS_OF_CSV: f64 = 5e6;

/// Whole seconds, the last of them left out, and their rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) from_s: i64,
    pub(super) until_s: i64,
    pub(super) rows: u64,
}

/// What the rows of a data set are divided into, in order. Rows are sorted by second, so that one stretch behind the other
/// is all of them sorted.
pub(super) async fn stretches(
    session: &Session,
    files: &[&RecordedFile],
    memory: usize,
) -> Result<Vec<Stretch>, Error> {
    let dataset = &files[0].dataset;
    let is_parquet = files.iter().all(|file| file.state == State::Parquet);
    let usual = if is_parquet { ROWS_AT_ONCE } else { ROWS_OF_CSV };
    let most = (usual * memory as f64 / MEMORY as f64) as u64;
    let second = "(slot_start_ns - slot_start_ns % 1000000000) / 1000000000";
    let query =
        format!("SELECT {second} AS second, count(*) AS many FROM {dataset} GROUP BY 1 ORDER BY 1");
    let wrong = || Error::Engine(format!("{dataset}: its slot_start_ns are no whole numbers"));
    let mut all = Vec::new();
    session
        .run(&query, |batch| {
            let batch = plainly(&batch).map_err(|e| Error::Engine(e.to_string()))?;
            let column = |at: usize| batch.column(at).as_primitive_opt::<Int64Type>();
            let (seconds, rows) = column(0).zip(column(1)).ok_or_else(wrong)?;
            for (second, rows) in seconds.values().iter().zip(rows.values()) {
                add(&mut all, *second, (*rows).max(0) as u64, most);
            }
            Ok(())
        })
        .await?;
    Ok(all)
}

/// Adds a second to the last stretch as long as that has room.
fn add(all: &mut Vec<Stretch>, second: i64, rows: u64, most: u64) {
    match all.last_mut() {
        Some(last) if last.rows + rows <= most => {
            last.until_s = second + 1;
            last.rows += rows;
        }
        _ => all.push(Stretch { from_s: second, until_s: second + 1, rows }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_divided_by_its_rows_and_every_second_is_in_one_stretch() {
        let mut all = Vec::new();
        // The last has more rows than are sorted at once: there is nothing smaller.
        for (second, rows) in [(0, 40), (1, 60), (2, 1), (5, 99), (6, 1), (7, 500)] {
            add(&mut all, second, rows, 100);
        }
        let told: Vec<_> = all.iter().map(|one| (one.from_s, one.until_s, one.rows)).collect();
        assert_eq!(told, [(0, 2, 100), (2, 6, 100), (6, 7, 1), (7, 8, 500)]);
    }
}
