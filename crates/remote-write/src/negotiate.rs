//! Which protocol and compression a body has, and what a reply says was written.

use crate::compression::Compression;
use crate::error::Error;

/// Remote write protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// 1.0, `prometheus.WriteRequest`.
    V1,
    /// 2.0, `io.prometheus.write.v2.Request`.
    V2,
}

impl Protocol {
    /// The content type a sender gives.
    pub fn content_type(self) -> &'static str {
        match self {
            Protocol::V1 => "application/x-protobuf",
            Protocol::V2 => "application/x-protobuf;proto=io.prometheus.write.v2.Request",
        }
    }

    /// The value of `X-Prometheus-Remote-Write-Version` a sender gives.
    pub fn version_header(self) -> &'static str {
        match self {
            Protocol::V1 => "0.1.0",
            Protocol::V2 => "2.0.0",
        }
    }

    /// The name of the top message.
    pub fn message(self) -> &'static str {
        match self {
            Protocol::V1 => "prometheus.WriteRequest",
            Protocol::V2 => "io.prometheus.write.v2.Request",
        }
    }

    pub(crate) fn other(self) -> Protocol {
        match self {
            Protocol::V1 => Protocol::V2,
            Protocol::V2 => Protocol::V1,
        }
    }

    fn from_content_type(content_type: Option<&str>) -> Result<Protocol, Error> {
        // Senders older than the specification give no type at all; the protocol then was 1.0.
        let Some(content_type) = content_type else {
            return Ok(Protocol::V1);
        };
        let unsupported = || Error::UnsupportedType(content_type.to_owned());
        let mut parts = content_type.split(';');
        let media_type = parts.next().unwrap_or_default().trim();
        if !media_type.eq_ignore_ascii_case("application/x-protobuf") {
            return Err(unsupported());
        }
        let mut protocol = Protocol::V1;
        for parameter in parts {
            let Some((name, value)) = parameter.split_once('=') else {
                if parameter.trim().is_empty() {
                    continue;
                }
                return Err(unsupported());
            };
            if !name.trim().eq_ignore_ascii_case("proto") {
                continue;
            }
            let message = value.trim().trim_matches('"');
            protocol = [Protocol::V1, Protocol::V2]
                .into_iter()
                .find(|protocol| protocol.message() == message)
                .ok_or_else(unsupported)?;
        }
        Ok(protocol)
    }
}

/// Reads `Content-Type` and `Content-Encoding` as the specifications say; anything else is answered 415.
///
/// ```
/// use crosstalk_remote_write::{Compression, Protocol, body_format};
/// let format = body_format(
///     Some("application/x-protobuf;proto=io.prometheus.write.v2.Request"),
///     Some("snappy"),
/// );
/// assert_eq!(format, Ok((Protocol::V2, Compression::Snappy)));
/// assert_eq!(body_format(Some("application/json"), Some("snappy")).unwrap_err().status(), 415);
/// assert_eq!(body_format(Some("application/x-protobuf"), Some("gzip")).unwrap_err().status(), 415);
/// ```
pub fn body_format(
    content_type: Option<&str>,
    content_encoding: Option<&str>,
) -> Result<(Protocol, Compression), Error> {
    let protocol = Protocol::from_content_type(content_type)?;
    let compression = match content_encoding.map(str::trim) {
        // 1.0 knew only snappy, and early senders did not say so.
        None | Some("") => Compression::Snappy,
        Some(encoding) if encoding.eq_ignore_ascii_case("snappy") => Compression::Snappy,
        Some(encoding) if encoding.eq_ignore_ascii_case("zstd") => Compression::Zstd,
        Some(encoding) => return Err(Error::UnsupportedEncoding(encoding.to_owned())),
    };
    Ok((protocol, compression))
}

/// What of a request was taken; a reply carries it in three headers, on success and on failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Float samples.
    pub samples: usize,
    /// Native histograms.
    pub histograms: usize,
    /// Exemplars.
    pub exemplars: usize,
}

impl Written {
    /// Header names and values of a reply.
    ///
    /// ```
    /// let written = crosstalk_remote_write::Written { samples: 3, ..Default::default() };
    /// assert_eq!(written.headers()[0], ("x-prometheus-remote-write-samples-written", 3));
    /// ```
    pub fn headers(&self) -> [(&'static str, usize); 3] {
        [
            ("x-prometheus-remote-write-samples-written", self.samples),
            ("x-prometheus-remote-write-histograms-written", self.histograms),
            ("x-prometheus-remote-write-exemplars-written", self.exemplars),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_proto_parameter_means_1_0() {
        for content_type in [
            None,
            Some("application/x-protobuf"),
            Some("Application/X-Protobuf; charset=utf-8"),
            Some("application/x-protobuf;proto=prometheus.WriteRequest"),
        ] {
            assert_eq!(Protocol::from_content_type(content_type), Ok(Protocol::V1));
        }
    }

    #[test]
    fn a_proto_parameter_with_spaces_or_quotes_is_read() {
        for content_type in [
            "application/x-protobuf; proto=io.prometheus.write.v2.Request",
            "application/x-protobuf;proto=\"io.prometheus.write.v2.Request\"",
        ] {
            assert_eq!(Protocol::from_content_type(Some(content_type)), Ok(Protocol::V2));
        }
    }

    #[test]
    fn every_other_type_and_encoding_is_415() {
        for content_type in ["", "application/json", "image/png", "application/x-protobuf;proto=x"]
        {
            let error = body_format(Some(content_type), Some("snappy")).unwrap_err();
            assert_eq!(error.status(), 415, "{content_type}");
        }
        for encoding in ["gzip", "deflate", "identity", "snappy, gzip"] {
            let error = body_format(None, Some(encoding)).unwrap_err();
            assert_eq!(error.status(), 415, "{encoding}");
        }
    }
}
