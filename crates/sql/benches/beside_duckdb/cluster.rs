//! One executor of a Ballista cluster beside two, each with one core.

use super::questions::Questions;
use super::times;
use crosstalk_figure::Figure;
use crosstalk_sql::{Options, Session};
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// How long a scheduler may take until it listens.
const LONGEST: Duration = Duration::from_secs(30);
/// How long a question may take.
const PATIENCE: Duration = Duration::from_secs(300);
const AGAIN: Duration = Duration::from_millis(50);

pub(super) fn figures(folder: &Path) -> Result<Vec<Figure>, Box<dyn Error>> {
    let (one, two) = (asked(folder, 1)?, asked(folder, 2)?);
    let text = format!("{one:.2} s by one, {two:.2} s by two: {:.2} x as fast", one / two);
    Ok(vec![Figure::new("all ten on Ballista, executors of one core", text)])
}

/// The best seconds of all ten, with so many executors.
fn asked(folder: &Path, executors: usize) -> Result<f64, Box<dyn Error>> {
    let work = tempfile::tempdir()?;
    let cluster = Cluster::start(work.path(), executors)?;
    let runtime = Runtime::new()?;
    let place = folder.to_str().ok_or("no text")?.to_owned();
    let session = runtime.block_on(cluster.open(&place))?;
    let questions = runtime.block_on(Questions::of(&place, &session))?;
    let run = questions.runs.first().ok_or("there is no run")?;
    for text in &run.prepare {
        runtime.block_on(session.collect(text))?;
    }
    let mut sum = 0.0;
    for question in questions.views.iter().chain(&run.questions) {
        let mut best = f64::MAX;
        for _ in 0..times() {
            let began = Instant::now();
            let answer = async { timeout(PATIENCE, session.run(&question.text, |_| Ok(()))).await };
            let answered = runtime.block_on(answer);
            answered.map_err(|_| format!("{}: no answer for {PATIENCE:?}", question.name))??;
            best = best.min(began.elapsed().as_secs_f64());
        }
        sum += best;
    }
    // What an executor passes on lies in its folder: one that is empty had no part in this.
    for number in 0..executors {
        if std::fs::read_dir(work.path().join(number.to_string()))?.next().is_none() {
            return Err(format!("executor {number} of {executors} did nothing").into());
        }
    }
    Ok(sum)
}

struct Cluster {
    nodes: Vec<Child>,
    address: String,
}

impl Cluster {
    fn start(work: &Path, executors: usize) -> Result<Self, Box<dyn Error>> {
        let node = || Command::new(env!("CARGO_BIN_EXE_ballista-node"));
        let mut scheduler =
            node().arg("scheduler").stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let said = scheduler.stdout.take();
        let mut cluster = Self { nodes: vec![scheduler], address: String::new() };
        BufReader::new(said.ok_or("it says nothing")?).read_line(&mut cluster.address)?;
        let address = cluster.address.trim().to_owned();
        let (_, port) = address.rsplit_once(':').ok_or("the scheduler said no address")?;
        for number in 0..executors {
            let folder = work.join(number.to_string());
            std::fs::create_dir(&folder)?;
            let mut executor = node();
            executor.args(["executor", "--scheduler", port, "--work"]).arg(folder);
            cluster.nodes.push(executor.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        }
        cluster.address = format!("ballista://{address}");
        Ok(cluster)
    }

    /// The scheduler's socket is there a moment after its address is printed.
    async fn open(&self, place: &str) -> Result<Session, Box<dyn Error>> {
        let options = Options { engine: self.address.parse()?, ..Options::default() };
        let until = Instant::now() + LONGEST;
        loop {
            match Session::open(&[place.to_owned()], &options).await {
                Ok(session) => return Ok(session),
                Err(error) if Instant::now() > until => return Err(error.into()),
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            let _ = node.kill();
            let _ = node.wait();
        }
    }
}
