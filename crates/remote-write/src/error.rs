//! Why a whole body is refused. A single bad series is a [`crate::Rejection`] instead.

/// A body that cannot be taken, with the status a receiver answers.
///
/// ```
/// use crosstalk_remote_write::Error;
/// let error = Error::BodyTooLarge { limit: 1024 };
/// assert_eq!(error.status(), 413);
/// assert!(error.to_string().contains("max_body_bytes"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The content type names no protocol we speak.
    #[error(
        "content type {0:?} is not supported; send application/x-protobuf, optionally with proto=prometheus.WriteRequest or proto=io.prometheus.write.v2.Request"
    )]
    UnsupportedType(String),
    /// The content encoding is not one we read.
    #[error("content encoding {0:?} is not supported; send snappy (block format) or zstd")]
    UnsupportedEncoding(String),
    /// The compressed body is larger than allowed.
    #[error("body is larger than max_body_bytes ({limit})")]
    BodyTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The body would be larger than allowed once decompressed.
    #[error("decompressed body is larger than max_decoded_bytes ({limit})")]
    DecodedTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// More series in one request than allowed.
    #[error("request has more series than max_series ({limit}); send smaller requests")]
    TooManySeries {
        /// The limit.
        limit: usize,
    },
    /// More samples, histograms and exemplars in one request than allowed.
    #[error("request has more samples than max_samples ({limit}); send smaller requests")]
    TooManySamples {
        /// The limit.
        limit: usize,
    },
    /// More symbols in one request than allowed.
    #[error("request has more symbols than max_symbols ({limit}); send smaller requests")]
    TooManySymbols {
        /// The limit.
        limit: usize,
    },
    /// The compressed data is damaged.
    #[error("body is not valid {encoding}: {reason}")]
    Compression {
        /// `snappy` or `zstd`.
        encoding: &'static str,
        /// What the decompressor found.
        reason: String,
    },
    /// The protobuf is damaged.
    #[error("body is not a valid {message} at byte {offset}: {reason}")]
    Protobuf {
        /// The message type that was expected.
        message: &'static str,
        /// Offset in the decompressed body.
        offset: usize,
        /// What is wrong there.
        reason: &'static str,
    },
    /// The body is of the other protocol than its content type says. Read as this one it would seem empty.
    #[error(
        "body has field {field} of {found}, but its content type says {expected}; send content type {content_type}"
    )]
    OtherProtocol {
        /// The message type that the content type promised.
        expected: &'static str,
        /// The field of the top message that gave it away.
        field: u32,
        /// The message type it belongs to.
        found: &'static str,
        /// The content type of such a message.
        content_type: &'static str,
    },
    /// A 2.0 body whose first symbol is not the empty string.
    #[error("symbols[0] must be the empty string")]
    FirstSymbolNotEmpty,
}

impl Error {
    /// The HTTP status that tells a sender what to do: 413 and 415 name their cause, the rest is 400.
    pub fn status(&self) -> u16 {
        match self {
            Error::UnsupportedType(_) | Error::UnsupportedEncoding(_) => 415,
            Error::BodyTooLarge { .. }
            | Error::DecodedTooLarge { .. }
            | Error::TooManySeries { .. }
            | Error::TooManySamples { .. }
            | Error::TooManySymbols { .. } => 413,
            Error::Compression { .. }
            | Error::Protobuf { .. }
            | Error::OtherProtocol { .. }
            | Error::FirstSymbolNotEmpty => 400,
        }
    }
}
