use crosstalk_host::WithFix;

/// Why output of PCM yields no reading.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PcmError {
    /// After the header something came that is no row.
    #[error("pcm: not a row: {line:?}")]
    NotARow {
        /// Its beginning.
        line: String,
    },
    /// A row before any header; its columns have no names.
    #[error("pcm: a row came before the header")]
    NoHeader,
    /// The two header rows are of different length, so groups and names cannot be matched.
    #[error("pcm: header rows differ: {groups} groups, {names} names")]
    HeaderMismatch {
        /// Fields of the first row.
        groups: usize,
        /// Fields of the second row.
        names: usize,
    },
    /// A row has another number of fields than the header.
    #[error("pcm: row has {got} fields, the header {expected}: columns changed without a new one")]
    FieldCount {
        /// Fields of the header.
        expected: usize,
        /// Fields of the row.
        got: usize,
    },
    /// No column of the header is one we know.
    #[error("pcm: none of {columns} columns is known")]
    NothingKnown {
        /// Columns of the header.
        columns: usize,
    },
    /// The sensor server's answer is not JSON.
    #[error("pcm-sensor-server: not JSON: {reason}")]
    NotJson {
        /// What the JSON parser said.
        reason: String,
    },
    /// The sensor server's answer is JSON of another shape.
    #[error("pcm-sensor-server: no {missing:?} in the answer")]
    NotASensorAnswer {
        /// The member that is not there.
        missing: &'static str,
    },
}

impl WithFix for PcmError {
    fn fix(&self) -> Option<&str> {
        match self {
            Self::NotARow { .. } => None,
            Self::NoHeader | Self::FieldCount { .. } => {
                Some("start the tool anew so that it prints a header")
            }
            Self::HeaderMismatch { .. } | Self::NothingKnown { .. } => {
                Some("run `pcm -csv` or `pcm-memory -csv`")
            }
            Self::NotJson { .. } => Some("ask with `Accept: application/json`"),
            Self::NotASensorAnswer { .. } => Some("ask for /persecond"),
        }
    }
}
