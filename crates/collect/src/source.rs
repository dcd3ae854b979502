use crate::Outlet;
use crosstalk_host::Capability;
use crosstalk_model::{Batch, Dataset, Metric, Placement, SubjectKey};
use std::sync::Arc;

/// What a source is called and what it can have, on a machine that has everything.
#[derive(Debug)]
pub struct About {
    /// Its name, in settings, answers and metadata.
    pub name: &'static str,
    /// The data sets its rows belong to.
    pub datasets: &'static [&'static Dataset],
    /// What it measures of the node, in the order of [`NodeSample::values`].
    pub metrics: &'static [Metric],
    /// What it measures of subjects, in the order of [`SubjectSample::values`].
    pub subjects: &'static [Metric],
}

/// Something that measures.
pub trait Source: Send {
    /// What it is.
    fn about(&self) -> &'static About;

    /// Measures until [`Outlet::pause`] says that it is time to end. It may be called again after a
    /// failure.
    ///
    /// # Errors
    /// It cannot go on: the machine lacks something ([`Verdict::Absent`]), or it broke
    /// ([`Verdict::Failing`]).
    ///
    /// [`Verdict::Absent`]: crosstalk_host::Verdict::Absent
    /// [`Verdict::Failing`]: crosstalk_host::Verdict::Failing
    fn run(&mut self, out: &Outlet) -> Result<(), Capability>;
}

/// What a source hands over.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// Rows of a data set.
    Rows(Batch),
    /// Values of the node.
    Node(Arc<NodeSample>),
    /// Values of subjects.
    Subjects(Arc<SubjectPeriod>),
}

/// A delivery and who made it.
#[derive(Clone, Debug)]
pub struct Message {
    /// The source.
    pub source: &'static About,
    /// What it handed over.
    pub delivery: Delivery,
}

/// One sample of the node: the source's metrics over the `covers_ns` before `end_ns`.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSample {
    /// Its end, CLOCK_MONOTONIC.
    pub end_ns: u64,
    /// The time it covers.
    pub covers_ns: u64,
    /// A value for each of the source's metrics.
    pub values: Vec<Option<f64>>,
}

/// One period of all subjects of a source.
#[derive(Clone, Debug, PartialEq)]
pub struct SubjectPeriod {
    /// Its end, CLOCK_MONOTONIC.
    pub end_ns: u64,
    /// The time it covers.
    pub covers_ns: u64,
    /// The subjects that were seen.
    pub samples: Vec<SubjectSample>,
    /// What holds for those that were not seen, where that is known.
    pub unseen: Option<Vec<Option<f64>>>,
}

/// What one period measured of one subject.
#[derive(Clone, Debug, PartialEq)]
pub struct SubjectSample {
    /// Who.
    pub key: SubjectKey,
    /// A process's name.
    pub comm: Option<String>,
    /// Where it runs.
    pub place: Arc<Placement>,
    /// A value for each of the source's metrics of subjects.
    pub values: Vec<Option<f64>>,
}
