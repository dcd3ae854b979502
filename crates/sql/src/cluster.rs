//! Queries on a Ballista cluster: they are planned here, run by its executors, and only their rows come back.

use crate::notes::Notes;
use crate::session::configured;
use crate::tables::damaged::LeftOut;
use crate::{Error, tables};
use ballista::extension::{SessionConfigExt, SessionContextExt};
use crosstalk_recording::Reader;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::{SessionConfig, SessionContext};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a scheduler may take to answer.
const LONGEST: Duration = Duration::from_secs(10);

/// A session whose queries the cluster at `address` runs, without files that are left out.
pub(crate) async fn open(
    address: &str,
    reader: &Arc<Reader>,
    left_out: &Arc<LeftOut>,
    notes: &Notes,
) -> Result<SessionContext, Error> {
    answers(address).await?;
    // Ballista 55's adaptive planner loses the order that sums over a window stand on ("Expects PARTITION BY expression to
    // be ordered"); the static one keeps it.
    let config =
        configured(SessionConfig::new_with_ballista()).with_ballista_adaptive_query_planner(false);
    let state = SessionStateBuilder::new().with_default_features().with_config(config).build();
    let context = SessionContext::remote_with_state(&format!("df://{address}"), state).await?;
    let (there, noted) = (context.clone(), notes.clone());
    let (reader, left_out) = (reader.clone(), left_out.clone());
    let registered = tokio::task::spawn_blocking(move || {
        tables::listed::register(&there, &reader, &left_out, &noted)
    });
    registered.await.map_err(|e| Error::Engine(e.to_string()))??;
    Ok(context)
}

/// A cluster that is not there would be known only after the first query's many tries.
async fn answers(address: &str) -> Result<(), Error> {
    let why = match timeout(LONGEST, TcpStream::connect(address)).await {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer for {} s", LONGEST.as_secs()),
    };
    Err(Error::Engine(format!(
        "ballista://{address}: {why}; is a scheduler running there? ballista-scheduler starts one"
    )))
}
