//! Iterations: one row each, into which every line about the iteration is merged.
//!
//! Some trainers spread an iteration over several lines, and each rank prints it again. So a line
//! adds its fields to the row and leaves the others; of two values for a field the newer line's
//! stays, in whichever order the lines come.

use std::borrow::Cow;
use std::collections::{BTreeMap, btree_map};

use crosstalk_training_log::Performance;
use sqlx::{AnyConnection, Row};

use crate::dialect::Dialect;
use crate::sql::{ROWS, Sql};

/// Workload, run, source and iteration: what is unique.
pub(crate) type Key<'a> = (&'a str, i64, &'a str, i64);

/// What is known of an iteration.
#[derive(Debug)]
pub(crate) struct Iteration<'a> {
    /// The pod of the newest line.
    pub(crate) pod_uid: Cow<'a, str>,
    /// The time of the newest line.
    pub(crate) at: i64,
    pub(crate) performance: Performance,
}

impl Iteration<'_> {
    /// The two as one; of lines of the same time the other is the newer.
    fn merge(&mut self, other: Self) {
        let mut older = other;
        if older.at >= self.at {
            std::mem::swap(self, &mut older);
        }
        self.performance.fill_from(&older.performance);
    }
}

/// Adds what a line says to the other lines of the batch.
pub(crate) fn add<'a>(
    iterations: &mut BTreeMap<Key<'a>, Iteration<'a>>,
    key: Key<'a>,
    new: Iteration<'a>,
) {
    match iterations.entry(key) {
        btree_map::Entry::Vacant(entry) => {
            entry.insert(new);
        }
        btree_map::Entry::Occupied(mut entry) => entry.get_mut().merge(new),
    }
}

/// Writes the iterations, each with what is stored of it already. The caller holds the workloads,
/// so nobody else writes their iterations meanwhile.
pub(crate) async fn save(
    connection: &mut AnyConnection,
    dialect: Dialect,
    iterations: &mut BTreeMap<Key<'_>, Iteration<'_>>,
) -> Result<(), sqlx::Error> {
    let mut rows: Vec<_> = iterations.iter_mut().collect();
    for chunk in rows.chunks_mut(ROWS) {
        add_stored(connection, dialect, chunk).await?;
        let mut insert = Sql::new(
            dialect,
            "INSERT INTO training_performance \
             (workload_uid, serial, data_source, iteration, pod_uuid, created_at, performance) VALUES ",
        );
        insert.rows(chunk, |sql, ((uid, serial, source, number), iteration)| {
            let json =
                serde_json::to_string(&iteration.performance).unwrap_or_else(|_| "{}".to_owned());
            sql.text(*uid).push(", ").int(*serial).push(", ").text(*source).push(", ").int(*number);
            sql.push(", ").text(&*iteration.pod_uid).push(", ").int(iteration.at);
            sql.push(", ").json(&json);
        });
        insert.push(&dialect.or_update(
            "workload_uid, serial, data_source, iteration",
            &["pod_uuid", "created_at", "performance"],
        ));
        insert.execute(connection).await?;
    }
    Ok(())
}

async fn add_stored(
    connection: &mut AnyConnection,
    dialect: Dialect,
    rows: &mut [(&Key<'_>, &mut Iteration<'_>)],
) -> Result<(), sqlx::Error> {
    let mut select =
        Sql::new(dialect, "SELECT workload_uid, serial, data_source, iteration, pod_uuid, ");
    select.push("created_at, ").push(&dialect.json_text("performance"));
    select.push(" FROM training_performance WHERE ");
    for (index, ((uid, serial, source, number), _)) in rows.iter().enumerate() {
        select.push(if index > 0 { " OR (workload_uid = " } else { "(workload_uid = " }).text(*uid);
        select.push(" AND serial = ").int(*serial).push(" AND data_source = ").text(*source);
        select.push(" AND iteration = ").int(*number).push(")");
    }
    for row in select.fetch(connection).await? {
        let (uid, source): (String, String) = (row.try_get(0)?, row.try_get(2)?);
        let key: Key<'_> = (&uid, row.try_get(1)?, &source, row.try_get(3)?);
        let text: String = row.try_get(6)?;
        // What cannot be read cannot be kept; the new line replaces it.
        let Ok(performance) = serde_json::from_str(&text) else { continue };
        let stored =
            Iteration { pod_uid: Cow::Owned(row.try_get(4)?), at: row.try_get(5)?, performance };
        // In the order of their keys, as they came out of the map.
        if let Ok(place) = rows.binary_search_by(|(known, _)| (**known).cmp(&key)) {
            let new = std::mem::replace(&mut *rows[place].1, stored);
            rows[place].1.merge(new);
        }
    }
    Ok(())
}
