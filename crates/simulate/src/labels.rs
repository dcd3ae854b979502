use crate::{Cause, Error, Label, Node, Truth};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Losses below this share of the victim's time are none.
const LEAST: f64 = 0.001;

/// The file of labels of one node: JSON lines beside the data sets.
pub(crate) struct Labels {
    path: PathBuf,
    file: BufWriter<File>,
    node: String,
    whole: Option<Truth>,
    from_ns: u64,
    pub(crate) lines: u64,
}

impl Labels {
    pub(crate) fn create(out: &Path, node: &str, from_ns: u64) -> Result<Self, Error> {
        let folder = out.join("labels");
        let path = folder.join(format!("labels-{node}.jsonl"));
        let failed = |source| Error::Labels { path: path.clone(), source };
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let file = BufWriter::new(File::create(&path).map_err(failed)?);
        Ok(Self { path, file, node: node.to_owned(), whole: None, from_ns, lines: 0 })
    }

    /// What was lost between two times.
    pub(crate) fn window(&mut self, node: &mut Node, time: (u64, u64)) -> Result<(), Error> {
        let truth = node.take_truth();
        self.write(node, &truth, "window", time)?;
        match &mut self.whole {
            Some(whole) => whole.absorb(truth),
            None => self.whole = Some(truth),
        }
        Ok(())
    }

    /// What was lost in all.
    pub(crate) fn finish(mut self, node: &Node, to_ns: u64) -> Result<u64, Error> {
        if let Some(whole) = self.whole.take() {
            self.write(node, &whole, "recording", (self.from_ns, to_ns))?;
        }
        let Self { path, mut file, .. } = self;
        file.flush().map_err(|source| Error::Labels { path, source })?;
        Ok(self.lines)
    }

    fn write(
        &mut self,
        node: &Node,
        truth: &Truth,
        span: &'static str,
        (from_ns, to_ns): (u64, u64),
    ) -> Result<(), Error> {
        for (&(victim, aggressor, resource), &lost_seconds) in &truth.lost_s {
            let waits = truth.lost_s.iter().filter(|((who, _, cause), _)| {
                resource == Cause::CpuTime && *who == victim && *cause == Cause::CpuTime
            });
            let victim_seconds =
                truth.on_cpu_s[victim] + waits.map(|(_, waited)| waited).sum::<f64>();
            let slowdown = lost_seconds / victim_seconds.max(1e-9);
            if slowdown < LEAST {
                continue;
            }
            let ((victim, victim_pid), (aggressor, aggressor_pid)) =
                (node.name(victim), node.name(aggressor));
            let label = Label {
                node: self.node.clone(),
                span,
                from_ns,
                to_ns,
                victim: victim.to_owned(),
                victim_pid,
                aggressor: aggressor.to_owned(),
                aggressor_pid,
                resource,
                lost_seconds,
                victim_seconds,
                slowdown,
            };
            let line = serde_json::to_string(&label).unwrap_or_default();
            writeln!(self.file, "{line}")
                .map_err(|source| Error::Labels { path: self.path.clone(), source })?;
            self.lines += 1;
        }
        Ok(())
    }
}
