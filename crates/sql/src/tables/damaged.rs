//! Folders that a cluster cannot read as they are: some of their files are damaged, or are being merged.
//!
//! A cluster is sent folders, fails where one file in them does, and knows nothing of notes that say which objects are read.
//! So the ends of the files that a query needs are read here first; where some cannot be, or folders are being merged, there
//! is a table for this query alone: without those folders, and beside it what is needed of them, file by file. No part of it
//! is empty: with one that is, Ballista 55 waits forever.

use super::{filed, prune};
use crosstalk_recording::{Error, Reader, RecordedFile, State};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, TableReference};
use datafusion::datasource::TableProvider;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::utils::{conjunction, disjunction};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableScan, lit, not};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use url::Url;

/// Requests at once.
const AT_ONCE: usize = 16;

/// What one scan of a plan reads.
pub(crate) struct Scanned {
    pub(crate) dataset: String,
    pub(crate) files: Vec<RecordedFile>,
}

/// The finished files that a query reads, as far as their folders say. Of what cannot be planned there are none: whoever
/// runs it is told.
pub(crate) fn needed(state: &SessionState, reader: &Reader, asked: &LogicalPlan) -> Vec<Scanned> {
    let mut scans = Vec::new();
    let Ok(plan) = state.optimize(asked) else { return scans };
    let visited = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let files = scanned(state, reader, scan)?.into_iter().cloned().collect();
            scans.push(Scanned { dataset: scan.table_name.table().to_owned(), files });
        }
        Ok(TreeNodeRecursion::Continue)
    });
    if visited.is_err() {
        scans.clear();
    }
    scans
}

fn scanned<'a>(
    state: &SessionState,
    reader: &'a Reader,
    scan: &TableScan,
) -> Result<Vec<&'a RecordedFile>> {
    let is_of = |file: &&RecordedFile| {
        file.state == State::Parquet && file.dataset == scan.table_name.table()
    };
    let finished: Vec<&RecordedFile> = reader.files().iter().filter(is_of).collect();
    let mut chosen = prune::files(state, &finished, &scan.filters)?;
    for filter in &scan.filters {
        chosen = prune::in_time(state, &scan.source.schema(), chosen, from_ref(filter))?;
    }
    Ok(chosen)
}

/// Those of the files whose ends cannot be read, by their paths, and why.
///
/// # Errors
/// A store has gone: it is none of its objects' fault.
pub(crate) fn find(files: &[RecordedFile]) -> Result<BTreeMap<String, String>, Error> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new((BTreeMap::new(), None)));
    let look = || {
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Err(why) = file.schema() else { continue };
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            if let Error::Unreachable { .. } = why {
                found.1 = Some(why);
                return;
            }
            found.0.insert(file.path.clone(), why.to_string());
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(files.len()) {
            scope.spawn(look);
        }
    });
    let (damaged, gone) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    gone.map_or(Ok(damaged), Err)
}

/// What is left out for one query, and what it needs: files by their paths.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    pub(crate) damaged: BTreeSet<String>,
    /// By data set, for each scan of it.
    pub(crate) needed: BTreeMap<String, Vec<BTreeSet<String>>>,
}

/// What a folder of files says of their rows, by its columns.
type Folder = Vec<(&'static str, String)>;

/// A table of folders of which some cannot be read as they are, for one query.
pub(super) struct Rest<'a> {
    /// The name of the data set.
    pub(super) name: &'a str,
    /// The table of all folders.
    pub(super) whole: Arc<dyn TableProvider>,
    /// Columns that folders are, behind the node and the run.
    pub(super) by_time: &'static [&'static str],
    /// How files are read.
    pub(super) options: ListingOptions,
    /// The columns in the files, and those with the node and the run.
    pub(super) columns: (SchemaRef, SchemaRef),
}

impl Rest<'_> {
    /// The table of what the scans need: `files`, of which some may be `exchanged` for others in their folders, without what
    /// is `damaged`.
    pub(super) fn of(
        &self,
        files: &[&RecordedFile],
        damaged: &[&RecordedFile],
        exchanged: &[&RecordedFile],
        needed: &[BTreeSet<String>],
    ) -> Result<Arc<dyn TableProvider>> {
        let apart = damaged.iter().chain(exchanged);
        let mut folders: BTreeMap<Folder, Vec<&RecordedFile>> =
            apart.map(|file| (self.folder(file), Vec::new())).collect();
        let mut elsewhere: BTreeSet<&str> = BTreeSet::new();
        for file in files {
            match folders.get_mut(&self.folder(file)) {
                Some(beside) if needed.iter().any(|scan| scan.contains(&file.path)) => {
                    beside.push(file);
                }
                Some(_) => {}
                None => {
                    elsewhere.insert(&file.path);
                }
            }
        }
        let is_elsewhere =
            |scan: &BTreeSet<String>| scan.iter().any(|p| elsewhere.contains(p.as_str()));
        let many = needed.iter().filter(|scan| is_elsewhere(scan)).count();
        if many > 0 && many < needed.len() {
            return Err(self.read_twice(damaged, exchanged));
        }
        let beside = folders.iter().filter(|(_, files)| !files.is_empty()).enumerate();
        let mut parts = beside
            .map(|(number, (folder, files))| self.beside(number, folder, files))
            .collect::<Result<Vec<_>>>()?;
        if many > 0 || parts.is_empty() {
            parts.push(self.elsewhere(folders.keys(), many > 0)?);
        }
        let mut parts = parts.into_iter();
        let first = parts.next().ok_or_else(|| DataFusionError::Internal(self.name.to_owned()))?;
        let whole = parts.try_fold(LogicalPlanBuilder::from(first), LogicalPlanBuilder::union)?;
        Ok(Arc::new(ViewTable::new(whole.build()?, None)))
    }

    fn read_twice(
        &self,
        damaged: &[&RecordedFile],
        exchanged: &[&RecordedFile],
    ) -> DataFusionError {
        let names = |files: &[&RecordedFile]| {
            files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>().join(", ")
        };
        let name = self.name;
        DataFusionError::Execution(if damaged.is_empty() {
            format!(
                "{}: compact is not done with its folder, which a cluster cannot tell apart in this query: it reads other \
                 folders of {name} in one place than in another; call compact again when its time is over (--grace), or ask \
                 with --engine datafusion",
                names(exchanged)
            )
        } else {
            format!(
                "{}: a cluster cannot read it, nor leave it out of this query, which reads {name} twice; move it away, or ask \
                 with --engine datafusion",
                names(damaged)
            )
        })
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.1.fields().iter().map(|field| field.name().as_str())
    }

    /// What is in other folders, or nothing.
    fn elsewhere<'f>(
        &self,
        folders: impl Iterator<Item = &'f Folder>,
        is_needed: bool,
    ) -> Result<LogicalPlan> {
        let table = TableReference::bare(self.name);
        let of = |name: &str| Expr::Column(Column::new(Some(table.clone()), name));
        let is_in = |folder: &Folder| {
            conjunction(folder.iter().map(|(name, value)| of(name).eq(lit(value.as_str()))))
        };
        let source = provider_as_source(self.whole.clone());
        let any = disjunction(folders.filter_map(is_in));
        let filter = if is_needed { any.map_or(lit(true), not) } else { lit(false) };
        LogicalPlanBuilder::scan(table.clone(), source, None)?
            .filter(filter)?
            .project(self.names().map(of))?
            .build()
    }

    /// Files of one folder. The table has a name of its own: what is known of folders is said of the data set by its name.
    fn beside(
        &self,
        number: usize,
        folder: &Folder,
        files: &[&RecordedFile],
    ) -> Result<LogicalPlan> {
        let table = TableReference::bare(format!("{} beside {number}", self.name));
        let source = provider_as_source(self.files(files)?);
        let value = |name: &str| match folder.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => lit(value.as_str()).alias(name),
            None => Expr::Column(Column::new(Some(table.clone()), name)),
        };
        let rows = LogicalPlanBuilder::scan(table.clone(), source, None)?;
        rows.project(self.names().map(value))?.build()
    }

    fn folder(&self, file: &RecordedFile) -> Folder {
        let mut folder = vec![("node", file.node.clone()), ("run", file.run.clone())];
        if let Some((date, hour)) = filed::folder(&file.path).filter(|_| !self.by_time.is_empty()) {
            folder.push((self.by_time[0], date));
            folder.extend(self.by_time.get(1).copied().zip(hour));
        }
        folder
    }

    fn files(&self, files: &[&RecordedFile]) -> Result<Arc<dyn TableProvider>> {
        let urls = files.iter().map(|file| url(&file.path)).collect::<Result<Vec<_>>>()?;
        let options = ListingOptions { table_partition_cols: Vec::new(), ..self.options.clone() };
        let config = ListingTableConfig::new_with_multi_paths(urls)
            .with_listing_options(options)
            .with_schema(self.columns.0.clone());
        Ok(Arc::new(ListingTable::try_new(config)?))
    }
}

fn url(path: &str) -> Result<ListingTableUrl> {
    let wrong = |what: &str| DataFusionError::Configuration(format!("{path}: {what}"));
    let url = if path.contains("://") {
        Url::parse(path).map_err(|e| wrong(&e.to_string()))?
    } else {
        let path = std::fs::canonicalize(Path::new(path))?;
        Url::from_file_path(path).map_err(|()| wrong("it is no path"))?
    };
    ListingTableUrl::try_new(url, None)
}
