use crosstalk_host::ControlGroupError;
use std::io;
use std::path::PathBuf;

/// Why an experiment cannot be run, or a run not be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The experiment's file has mistakes, or asks for what this machine cannot give now; all of it.
    #[error("{}", listed(name, mistakes))]
    Mistakes {
        /// The file.
        name: String,
        /// What is wrong with it.
        mistakes: Vec<crate::experiment::Mistake>,
    },
    /// A file or folder cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// There is no such run, or more than one.
    #[error("{what}")]
    NoRun {
        /// What was asked for and what there is.
        what: String,
    },
    /// A cgroup refuses.
    #[error("cannot prepare {container}: {source}")]
    Group {
        /// For whom.
        container: String,
        /// Why.
        source: ControlGroupError,
    },
    /// A container or process cannot be made or started.
    #[error("cannot run {container}: {reason}")]
    Container {
        /// Which.
        container: String,
        /// Why.
        reason: String,
    },
    /// The database of the experiment cannot be used.
    #[error("database {host}: {what}")]
    Database {
        /// Its address.
        host: String,
        /// Why.
        what: String,
    },
    /// resctrl refuses.
    #[error(transparent)]
    Resctrl(#[from] crosstalk_resctrl::Error),
    /// More than one thing went wrong: what ended a round first, then what could not be taken back after it.
    #[error("{}", several(.0))]
    Several(Vec<Error>),
    /// Recording failed.
    #[error(transparent)]
    Recording(#[from] crosstalk_recording::Error),
}

impl Error {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }

    /// This one, and what went wrong after it.
    pub(crate) fn and(self, more: impl IntoIterator<Item = Self>) -> Self {
        let mut all = vec![self];
        all.extend(more);
        if all.len() > 1 { Self::Several(all) } else { all.remove(0) }
    }
}

fn several(errors: &[Error]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; also: ")
}

fn listed(name: &str, mistakes: &[crate::experiment::Mistake]) -> String {
    let lines = mistakes.iter().map(|mistake| match mistake.line {
        Some(_) => format!("{name}:{mistake}"),
        None => mistake.what.clone(),
    });
    lines.collect::<Vec<_>>().join("\n")
}
