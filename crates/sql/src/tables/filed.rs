//! Tables of folders that are filed by days or hours: the scan of a query of some time is told which of them, so that
//! files of others are not opened.
//!
//! A cluster lists folders itself and knows nothing of what recorders file where. It does know columns that folders are:
//! `date` and `hour` are some here, of which nobody who asks sees anything, and filters on them are added to the plan
//! before it is sent. How late a row may be filed is what [`RecordedFile::within`] says, as for one machine.

use super::prune::{Times, unqualified};
use crosstalk_recording::RecordedFile;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, TableReference};
use datafusion::datasource::{TableProvider, ViewTable, provider_as_source};
use datafusion::error::Result;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::create_physical_expr;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

const COLUMNS: [&str; 2] = ["date", "hour"];

/// A day, and an hour of it where folders are of hours.
pub(super) type Folder = (String, Option<String>);

/// The folders of a table, and the time that rows in each can lie in.
#[derive(Debug)]
pub(super) struct Filed {
    schema: SchemaRef,
    folders: BTreeMap<Folder, Range<u64>>,
    has_hours: bool,
}

impl Filed {
    /// How files are filed; `None` unless all are by days. A day that was merged, or `may_be_merged`, has no hours, and then
    /// none counts.
    pub(super) fn of(
        files: &[&RecordedFile],
        schema: &SchemaRef,
        may_be_merged: bool,
    ) -> Option<Self> {
        if COLUMNS.iter().any(|name| schema.column_with_name(name).is_some()) {
            return None;
        }
        let each: Option<Vec<(Folder, Range<u64>)>> =
            files.iter().map(|file| Some((folder(&file.path)?, file.within()?))).collect();
        let each = each?;
        let has_hours = !may_be_merged && each.iter().all(|((_, hour), _)| hour.is_some());
        let mut folders: BTreeMap<Folder, Range<u64>> = BTreeMap::new();
        for ((date, hour), own) in each {
            let known = folders.entry((date, hour.filter(|_| has_hours))).or_insert(own.clone());
            *known = known.start.min(own.start)..known.end.max(own.end);
        }
        (!folders.is_empty()).then(|| Self { schema: schema.clone(), folders, has_hours })
    }

    /// The columns that its folders are, behind the node and the run.
    pub(super) fn columns(&self) -> &'static [&'static str] {
        if self.has_hours { &COLUMNS } else { &COLUMNS[..1] }
    }

    /// The table without those columns.
    pub(super) fn hidden_in(
        &self,
        name: &str,
        table: Arc<dyn TableProvider>,
    ) -> Result<Arc<dyn TableProvider>> {
        let table_name = TableReference::bare(name);
        let column = |name: &String| Expr::Column(Column::new(Some(table_name.clone()), name));
        let shown: Vec<Expr> = self.schema.fields().iter().map(|f| column(f.name())).collect();
        let scan = LogicalPlanBuilder::scan(table_name.clone(), provider_as_source(table), None)?;
        Ok(Arc::new(ViewTable::new(scan.project(shown)?.build()?, None)))
    }

    /// What is to be said of the folders for rows that pass these filters; `None` where all may have some.
    fn filter(&self, filters: &[Expr], table: &TableReference) -> Option<Expr> {
        let of = self.folders.values().cloned().map(Some).collect();
        let times = Times { of, schema: self.schema.clone() };
        let names = DFSchema::try_from(self.schema.clone()).ok()?;
        let mut wanted = vec![true; self.folders.len()];
        for filter in filters {
            let (props, planning) = (ExecutionProps::new(), PhysicalPlanningContext::default());
            let open = unqualified(filter.clone())
                .and_then(|bare| create_physical_expr(&bare, &names, &props, &planning))
                .ok()
                .and_then(|filter| times.left_open(filter));
            // What is not understood leaves everything open.
            let Some(open) = open else { continue };
            wanted.iter_mut().zip(open).for_each(|(wanted, open)| *wanted &= open);
        }
        self.between(&wanted, table)
    }

    /// From the first that is wanted to the last. What is not pruned at an end is left open there: folders may be added
    /// before the cluster lists them.
    fn between(&self, wanted: &[bool], table: &TableReference) -> Option<Expr> {
        let column = |at: usize| Expr::Column(Column::new(Some(table.clone()), COLUMNS[at]));
        let (date, hour) = (|| column(0), || column(1));
        let at = |position: usize| self.folders.keys().nth(position);
        let Some(first) = wanted.iter().position(|wanted| *wanted) else {
            return Some(date().lt(lit("")));
        };
        let last = wanted.iter().rposition(|wanted| *wanted)?;
        let on = |day: &str, hours: Expr| date().eq(lit(day)).and(hours);
        let since = (first > 0).then(|| at(first)).flatten().map(|(day, of)| match of {
            None => date().gt_eq(lit(day.as_str())),
            Some(of) => date().gt(lit(day.as_str())).or(on(day, hour().gt_eq(lit(of.as_str())))),
        });
        let until = (last + 1 < wanted.len()).then(|| at(last)).flatten();
        let until = until.map(|(day, of)| match of {
            None => date().lt_eq(lit(day.as_str())),
            Some(of) => date().lt(lit(day.as_str())).or(on(day, hour().lt_eq(lit(of.as_str())))),
        });
        conjunction(since.into_iter().chain(until))
    }
}

/// The folders right below `node=` and `run=`, where they are written so that their texts are in the order of time.
pub(super) fn folder(path: &str) -> Option<Folder> {
    let (_, below) = path.split_once("/node=")?;
    let mut folders = below.split('/').skip(2);
    let said = |folder: &str, key: &str, length: usize| {
        let value = folder.strip_prefix(key)?;
        (value.len() == length).then(|| value.to_owned())
    };
    let date = said(folders.next()?, "date=", 10)?;
    Some((date, folders.next().and_then(|folder| said(folder, "hour=", 2))))
}

/// Adds filters on folders to scans of tables that are filed.
#[derive(Debug, Default)]
pub(super) struct FoldersInTime(HashMap<String, Filed>);

impl FoldersInTime {
    pub(super) fn add(&mut self, table: &str, filed: Filed) {
        self.0.insert(table.to_owned(), filed);
    }
}

impl OptimizerRule for FoldersInTime {
    fn name(&self) -> &str {
        "folders_in_time"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::TableScan(mut scan) = plan else { return Ok(Transformed::no(plan)) };
        let is_named = |filter: &Expr| filter.column_refs().iter().any(|c| c.name == COLUMNS[0]);
        let filed = self.0.get(scan.table_name.table());
        let filed = filed.filter(|_| !scan.filters.iter().any(is_named));
        let Some(filter) = filed.and_then(|filed| filed.filter(&scan.filters, &scan.table_name))
        else {
            return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
        };
        scan.filters.push(filter);
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_days_and_hours_are_known_by_where_they_are() {
        let hour = "s3://c/rec/tasks/node=a/run=b/date=2026-01-01/hour=05/tasks-1.parquet";
        let (day, five) = ("2026-01-01".to_owned(), Some("05".to_owned()));
        assert_eq!(folder(hour), Some((day.clone(), five)));
        let merged = "rec/tasks/node=a/run=b/date=2026-01-01/tasks-1.parquet";
        assert_eq!(folder(merged), Some((day, None)));
        for flat in ["rec/tasks/node=a/run=b/tasks-1.parquet", "tasks-1.parquet"] {
            assert_eq!(folder(flat), None);
        }
    }

    #[test]
    fn what_is_wanted_is_said_from_the_first_folder_to_the_last_and_open_ends_are_left_open() {
        let folders = |hours: &[(&str, Option<&str>)]| Filed {
            schema: Arc::new(datafusion::arrow::datatypes::Schema::empty()),
            folders: hours
                .iter()
                .map(|(day, hour)| (((*day).to_owned(), hour.map(str::to_owned)), 0..1))
                .collect(),
            has_hours: hours[0].1.is_some(),
        };
        let said = |filed: &Filed, wanted: &[bool]| {
            filed.between(wanted, &TableReference::bare("t")).map(|expr| expr.to_string())
        };
        let days = folders(&[("1", None), ("2", None), ("3", None)]);
        assert_eq!(said(&days, &[true; 3]), None);
        assert_eq!(said(&days, &[true, true, false]).unwrap(), "t.date <= Utf8(\"2\")");
        assert_eq!(said(&days, &[false; 3]).unwrap(), "t.date < Utf8(\"\")");
        let hours = folders(&[("1", Some("22")), ("1", Some("23")), ("2", Some("00"))]);
        assert_eq!(
            said(&hours, &[false, true, true]).unwrap(),
            "t.date > Utf8(\"1\") OR t.date = Utf8(\"1\") AND t.hour >= Utf8(\"23\")"
        );
    }
}
