//! One query: planned, run and written, with errors that name the place and what may have been meant.

mod fault;
mod output;
mod progress;

pub(crate) use output::plainly;
pub use output::{Format, Output};

use crate::{Error, Session};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::TableReference;
use datafusion::dataframe::DataFrame;
use datafusion::physical_plan::execute_stream;
use futures_util::StreamExt;
use progress::Progress;
use std::sync::Arc;

impl Session {
    /// Plans a query.
    ///
    /// # Errors
    /// It is wrong: the error names the place in it and the nearest table or column.
    pub async fn plan(&self, query: &str) -> Result<DataFrame, Error> {
        let state = self.context.state();
        let wrong = |error| Error::Query(fault::explained(query, &error));
        let statement = state.sql_to_statement(query, &datafusion::config::Dialect::Generic);
        let statement = statement.map_err(wrong)?;
        let named = state.resolve_table_references(&statement).map_err(wrong)?;
        let missing = |table: &&TableReference| {
            let is_there = self.context.table_exist((*table).clone());
            table.schema().is_none() && !is_there.unwrap_or(false)
        };
        let missing = named.iter().find(missing).map(|table| table.table().to_owned());
        let planned = state.statement_to_plan(statement).await;
        let plan = planned.map_err(|error| match &missing {
            Some(table) => Error::Query(fault::no_table(query, table, &self.names)),
            None => wrong(error),
        })?;
        self.context.execute_logical_plan(plan).await.map_err(wrong)
    }

    /// Runs a query and hands its batches to `take`; a line on a terminal says how far it is.
    ///
    /// # Errors
    /// The query is wrong, the engine fails, or `take` does.
    pub async fn run(
        &self,
        query: &str,
        take: impl FnMut(RecordBatch) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let frame = self.plan(query).await?;
        self.run_planned(query, frame, take).await
    }

    /// The same, of a query that is planned already: what it creates would be created twice. A cluster is asked without the
    /// files that cannot be read, which are noted.
    ///
    /// # Errors
    /// The query is wrong, the engine fails, or `take` does.
    pub async fn run_planned(
        &self,
        query: &str,
        frame: DataFrame,
        take: impl FnMut(RecordBatch) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match self.without_damaged(&frame).await? {
            None => self.run_once(query, frame, take).await,
            Some(rest) => rest.run_once(query, rest.plan(query).await?, take).await,
        }
    }

    async fn run_once(
        &self,
        query: &str,
        frame: DataFrame,
        mut take: impl FnMut(RecordBatch) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let context = Arc::new(frame.task_ctx());
        let wrong = |error| fault::whose(query, error, self.on_cluster);
        let plan = frame.create_physical_plan().await.map_err(wrong)?;
        let progress = Progress::of(&plan, self.on_cluster);
        let mut batches = execute_stream(plan, context).map_err(wrong)?;
        while let Some(batch) = batches.next().await {
            let batch = batch.map_err(wrong)?;
            progress.pause();
            take(batch)?;
            progress.go_on();
        }
        Ok(())
    }

    /// All batches of a query.
    ///
    /// # Errors
    /// The query is wrong, or the engine fails.
    pub async fn collect(&self, query: &str) -> Result<Vec<RecordBatch>, Error> {
        let mut all = Vec::new();
        self.run(query, |batch| {
            all.push(batch);
            Ok(())
        })
        .await?;
        Ok(all)
    }

    /// How a query would be run, and with `measured`, how it was.
    ///
    /// # Errors
    /// The query is wrong, or the engine fails.
    pub async fn explain(&self, query: &str, measured: bool) -> Result<String, Error> {
        let frame = self.plan(query).await?;
        // As it is run.
        let frame = match self.without_damaged(&frame).await? {
            Some(rest) => rest.plan(query).await?,
            None => frame,
        };
        let plans = frame.explain(false, measured)?.collect().await?;
        let mut text = String::new();
        for batch in &plans {
            for row in 0..batch.num_rows() {
                for column in batch.columns() {
                    text += &datafusion::arrow::util::display::array_value_to_string(column, row)
                        .map_err(|e| Error::Engine(e.to_string()))?;
                    text.push('\n');
                }
            }
        }
        Ok(text)
    }
}
