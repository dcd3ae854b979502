//! A session: the tables of some recordings and the views over them, on the engine that was chosen.

use crate::memory::Shares;
use crate::notes::Notes;
use crate::{Error, sketch, tables, views};
use crosstalk_recording::Reader;
#[cfg(feature = "ballista")]
use crosstalk_recording::RecordedFile;
use datafusion::common::TableReference;
use datafusion::dataframe::DataFrame;
use datafusion::execution::context::{SessionConfig, SessionContext};
use datafusion::execution::memory_pool::TrackConsumersPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
#[cfg(feature = "ballista")]
use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::sync::Arc;
#[cfg(feature = "ballista")]
use std::sync::{Mutex, PoisonError};

/// What runs a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// DataFusion, in this process.
    #[default]
    Embedded,
    /// A Ballista cluster, by its scheduler's host and port.
    Cluster(String),
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "datafusion" {
            return Ok(Self::Embedded);
        }
        let wrong = || format!("\"{text}\" is neither datafusion nor ballista://HOST:PORT");
        let address = text.strip_prefix("ballista://").ok_or_else(wrong)?.trim_end_matches('/');
        let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
        if host.is_empty() || port.parse::<u16>().is_err() {
            return Err(wrong());
        }
        if cfg!(not(feature = "ballista")) {
            return Err(format!(
                "{text}: this crosstalk-sql was built without it; build one that has it: {BUILD}"
            ));
        }
        Ok(Self::Cluster(address.to_owned()))
    }
}

/// How a program that knows Ballista is made.
const BUILD: &str = "make sql SQL_FEATURES=ballista";

/// How a session is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// What runs the queries.
    pub engine: Engine,
    /// Bytes that sorts and groups may take before they go to disk, and that a join may take at all.
    pub memory: usize,
}

/// What a query may take unless told otherwise: with what is read and written beside it, it stays below 1 GiB.
pub const MEMORY: usize = 512 << 20;

impl Default for Options {
    fn default() -> Self {
        Self { engine: Engine::default(), memory: MEMORY }
    }
}

/// What is left out of the tables of a cluster.
#[cfg(feature = "ballista")]
type Without = Arc<tables::damaged::LeftOut>;
#[cfg(not(feature = "ballista"))]
#[derive(Default)]
struct Without {}

/// Files whose ends were read, by their paths: those that could be, and why others could not.
#[cfg(feature = "ballista")]
#[derive(Default)]
struct LookedAt {
    sound: HashSet<String>,
    damaged: BTreeMap<String, String>,
}

/// Recordings opened for questions.
pub struct Session {
    pub(crate) context: SessionContext,
    #[cfg(feature = "ballista")]
    reader: Arc<Reader>,
    #[cfg(feature = "ballista")]
    options: Options,
    #[cfg(feature = "ballista")]
    looked_at: Mutex<LookedAt>,
    /// What could not be read.
    pub notes: Notes,
    /// The data sets that are tables, and the views over them.
    pub(crate) names: Vec<String>,
    /// Whether other machines run the queries.
    pub(crate) on_cluster: bool,
}

impl Session {
    /// Opens recordings at `places`: folders, files or URLs.
    ///
    /// # Errors
    /// There is nothing at one of them, or the engine cannot be had.
    pub async fn open(places: &[String], options: &Options) -> Result<Self, Error> {
        let owned = places.to_vec();
        // Asking an object store waits, which a thread of the engine must not.
        let opened = tokio::task::spawn_blocking(move || Reader::open(owned));
        let reader = Arc::new(opened.await.map_err(|e| Error::Engine(e.to_string()))??);
        Self::over(&reader, options).await
    }

    /// The same, over what was found already.
    ///
    /// # Errors
    /// The engine cannot be had.
    pub async fn over(reader: &Arc<Reader>, options: &Options) -> Result<Self, Error> {
        let notes = Notes::default();
        reader.unread().iter().for_each(|why| notes.add(why.clone()));
        Self::without(reader, options, Without::default(), notes).await
    }

    async fn without(
        reader: &Arc<Reader>,
        options: &Options,
        left_out: Without,
        notes: Notes,
    ) -> Result<Self, Error> {
        let context = match &options.engine {
            Engine::Embedded => {
                let context = embedded(options.memory)?;
                let (there, reader, noted) = (context.clone(), reader.clone(), notes.clone());
                let registered =
                    tokio::task::spawn_blocking(move || tables::register(&there, &reader, &noted));
                registered.await.map_err(|e| Error::Engine(e.to_string()))??;
                context
            }
            #[cfg(feature = "ballista")]
            Engine::Cluster(address) => {
                crate::cluster::open(address, reader, &left_out, &notes).await?
            }
            #[cfg(not(feature = "ballista"))]
            Engine::Cluster(address) => {
                let Without {} = left_out;
                return Err(Error::Refused(format!(
                    "ballista://{address}: build it with: {BUILD}"
                )));
            }
        };
        let mut names: Vec<String> = reader.datasets().into_iter().map(str::to_owned).collect();
        names.retain(|name| {
            context.table_exist(TableReference::bare(name.as_str())).unwrap_or(false)
        });
        let asked = reader.clone();
        let slot_ns = tokio::task::spawn_blocking(move || views::length(&asked)).await;
        let slot_ns = slot_ns.map_err(|e| Error::Engine(e.to_string()))?;
        names.extend(views::create(&context, &names, &slot_ns).await?);
        let on_cluster = options.engine != Engine::Embedded;
        Ok(Self {
            context,
            #[cfg(feature = "ballista")]
            reader: reader.clone(),
            #[cfg(feature = "ballista")]
            options: options.clone(),
            #[cfg(feature = "ballista")]
            looked_at: Mutex::default(),
            notes,
            names,
            on_cluster,
        })
    }

    /// A session in which a cluster can answer this question, and this one only: without the files that cannot be read,
    /// which are noted, and without those that are being merged into others. `None` where it can read all that is there.
    ///
    /// The ends of the files are read here before the cluster is asked, each once, as its scheduler does to plan.
    ///
    /// # Errors
    /// The cluster, or a store, has gone; or the files cannot be left out.
    #[cfg(feature = "ballista")]
    pub(crate) async fn without_damaged(&self, asked: &DataFrame) -> Result<Option<Self>, Error> {
        if !self.on_cluster {
            return Ok(None);
        }
        let looked_at = || self.looked_at.lock().unwrap_or_else(PoisonError::into_inner);
        let scans =
            tables::damaged::needed(&self.context.state(), &self.reader, asked.logical_plan());
        let mut new: Vec<RecordedFile> =
            scans.iter().flat_map(|scan| &scan.files).cloned().collect();
        new.sort_by(|a, b| a.path.cmp(&b.path));
        new.dedup_by(|a, b| a.path == b.path);
        new.retain(|file| {
            let known = looked_at();
            !known.sound.contains(&file.path) && !known.damaged.contains_key(&file.path)
        });
        let paths: Vec<String> = new.iter().map(|file| file.path.clone()).collect();
        let found = tokio::task::spawn_blocking(move || tables::damaged::find(&new));
        let found = found.await.map_err(|e| Error::Engine(e.to_string()))??;
        let mut left_out = tables::damaged::LeftOut::default();
        {
            let mut known = looked_at();
            known.sound.extend(paths.into_iter().filter(|path| !found.contains_key(path)));
            known.damaged.extend(found);
            for scan in &scans {
                let needed = scan.files.iter().map(|file| file.path.clone()).collect();
                left_out.needed.entry(scan.dataset.clone()).or_default().push(needed);
                for file in &scan.files {
                    if let Some(why) = known.damaged.get(&file.path) {
                        self.notes.add(why.clone());
                        left_out.damaged.insert(file.path.clone());
                    }
                }
            }
        }
        let is_exchanged = |dataset: &str| {
            let mut files = self.reader.files().iter().filter(|file| file.dataset == dataset);
            files.any(|file| tables::listed::is_exchanged(&self.reader, file))
        };
        if left_out.damaged.is_empty() && !scans.iter().any(|scan| is_exchanged(&scan.dataset)) {
            return Ok(None);
        }
        let left_out = Arc::new(left_out);
        Self::without(&self.reader, &self.options, left_out, self.notes.clone()).await.map(Some)
    }

    #[cfg(not(feature = "ballista"))]
    pub(crate) async fn without_damaged(&self, _: &DataFrame) -> Result<Option<Self>, Error> {
        Ok(None)
    }

    /// The tables and views there are.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

/// What every engine is told.
pub(crate) fn configured(config: SessionConfig) -> SessionConfig {
    let mut config = config.with_information_schema(true);
    let options = config.options_mut();
    // So that errors know their place in the query.
    options.sql_parser.collect_spans = true;
    options.execution.parquet.pushdown_filters = true;
    config
}

pub(crate) fn embedded(memory: usize) -> Result<SessionContext, Error> {
    let config = configured(SessionConfig::new());
    let shares = Shares::new(memory, config.target_partitions());
    let pool = TrackConsumersPool::new(shares, NonZeroUsize::MIN);
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(pool)).build_arc()?;
    let context = SessionContext::new_with_config_rt(config, runtime);
    sketch::register(&context);
    Ok(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_named_with_its_place_and_a_wrong_one_is_told() {
        assert_eq!("datafusion".parse(), Ok(Engine::Embedded));
        for text in
            ["spark", "ballista://", "ballista://host", "ballista://host:x", "ballista://:1"]
        {
            let error = text.parse::<Engine>().unwrap_err();
            assert!(error.contains("neither datafusion nor ballista://HOST:PORT"), "{error}");
        }
        let cluster = "ballista://host:50050".parse::<Engine>();
        if cfg!(feature = "ballista") {
            assert_eq!(cluster, Ok(Engine::Cluster("host:50050".to_owned())));
        } else {
            assert!(cluster.unwrap_err().ends_with("make sql SQL_FEATURES=ballista"));
        }
    }
}
