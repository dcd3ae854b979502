use super::{Asked, Gather, Statistic};
use crate::decode::{int_array, texts};
use crate::subjects::Subjects;
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use crosstalk_interference::Subject;
use std::collections::HashMap;

/// What a subject's number leaves of the time its process began: the rest is its pid.
const PID: i64 = 10_000_000;

/// Subjects as an engine names them, and the dense numbers that the core works with.
#[derive(Debug, Default)]
pub(super) struct Who {
    pub(super) subjects: Subjects,
    numbers: HashMap<Key, Subject>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// A process: the time it began, in steps of 10 ms, and its pid in the last digits.
    Process(i64),
    /// A container, a pod or a workload by its name; a process in none of them as `process/PID/START`.
    Named(String),
}

impl Who {
    /// The subject that a column tells in a row.
    pub(super) fn of(
        &mut self,
        batch: &RecordBatch,
        column: &str,
        row: usize,
    ) -> Result<Subject, String> {
        let key = key(batch, column, row)?;
        let Self { subjects, numbers } = self;
        if let Some(known) = numbers.get(&key) {
            return Ok(*known);
        }
        let number = subjects.add(match &key {
            Key::Process(_) => String::new(),
            Key::Named(name) => name.clone(),
        });
        // Those who share a number because there are too many are not remembered one by one.
        if number != Subjects::OTHERS {
            numbers.insert(key, number);
        }
        Ok(number)
    }

    /// Names everybody as they were called last.
    pub(super) fn read_names(
        &mut self,
        engine: &mut dyn Gather,
        asked: &Asked<'_>,
    ) -> Result<(), String> {
        let mut latest: HashMap<Key, (i64, String)> = HashMap::new();
        engine.gather(Statistic::Names, asked, &mut |batch| {
            let (comm, last) = (texts(batch, "comm")?, int_array(batch, "last_ns")?);
            for row in 0..batch.num_rows() {
                let key = key(batch, "subject", row)?;
                if !self.numbers.contains_key(&key) {
                    continue;
                }
                let seen = latest.entry(key).or_default();
                if last.value(row) >= seen.0 {
                    *seen = (last.value(row), comm.value(row).to_owned());
                }
            }
            Ok(())
        })?;
        for (key, (_, comm)) in latest {
            let pid = match &key {
                Key::Process(number) => Some(number % PID),
                Key::Named(name) => name
                    .strip_prefix("process/")
                    .and_then(|rest| rest.split_once('/')?.0.parse().ok()),
            };
            if let (Some(pid), Some(number)) = (pid, self.numbers.get(&key)) {
                self.subjects.rename(*number, format!("{comm} ({pid})"));
            }
        }
        Ok(())
    }
}

fn key(batch: &RecordBatch, column: &str, row: usize) -> Result<Key, String> {
    let named = batch.column_by_name(column).and_then(|column| column.as_string_opt::<i32>());
    match named {
        Some(names) => Ok(Key::Named(names.value(row).to_owned())),
        None => Ok(Key::Process(int_array(batch, column)?.value(row))),
    }
}
