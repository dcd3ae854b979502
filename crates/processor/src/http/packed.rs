//! How the body of a request with logs is compressed, and what it takes of memory when it no longer is.

use std::io::Read;

use axum::http::header::CONTENT_ENCODING;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use crosstalk_remote_write::{Compression, Decompressor, Error, Limits, decoded_length};
use crosstalk_serve::Problem;

use crate::logs::Refusal;

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    Gzip,
    Zstd,
}

/// Deflate codes 258 bytes in two bits at best, so that a small body cannot become a large one.
const GZIP_MAX_EXPANSION: usize = 1032;

impl Packing {
    /// As the headers say; `None` for a body that comes as it is.
    pub(super) fn of(headers: &HeaderMap) -> Result<Option<Packing>, Problem> {
        match headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes) {
            None | Some(b"identity" | b"") => Ok(None),
            Some(b"gzip" | b"x-gzip") => Ok(Some(Packing::Gzip)),
            Some(b"zstd") => Ok(Some(Packing::Zstd)),
            Some(_) => {
                let detail = "send logs as they are or compressed with gzip or zstd";
                Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
            }
        }
    }

    /// Bytes that a body comes to at most, where it may come to `limit`.
    pub(super) fn at_most(self, body: &[u8], limit: usize) -> usize {
        let most = match self {
            Packing::Gzip => body.len().saturating_mul(GZIP_MAX_EXPANSION),
            Packing::Zstd => decoded_length(Compression::Zstd, body).unwrap_or(limit),
        };
        most.min(limit)
    }

    /// A body without its compression, `limit` bytes at most.
    pub(super) fn unpack(self, body: &[u8], limit: usize) -> Result<Vec<u8>, Refusal> {
        match self {
            Packing::Gzip => gunzip(body, limit),
            Packing::Zstd => unzstd(body, limit),
        }
    }
}

/// Several parts one after the other are one.
fn gunzip(body: &[u8], most: usize) -> Result<Vec<u8>, Refusal> {
    let mut plain = Vec::with_capacity(said_at_the_end(body).min(most));
    let mut decoder = flate2::read::MultiGzDecoder::new(body).take(most as u64 + 1);
    let read = decoder.read_to_end(&mut plain);
    read.map_err(|error| Refusal::Unusable(format!("body is not gzip: {error}")))?;
    if plain.len() > most { Err(Refusal::Bytes { most }) } else { Ok(plain) }
}

/// The length of the last part, as it says itself; for most bodies a buffer of it never has to grow. No more than the body
/// could come to.
fn said_at_the_end(body: &[u8]) -> usize {
    let said = body.last_chunk().map_or(0, |length: &[u8; 4]| u32::from_le_bytes(*length));
    (said as usize).min(body.len().saturating_mul(GZIP_MAX_EXPANSION))
}

fn unzstd(body: &[u8], most: usize) -> Result<Vec<u8>, Refusal> {
    let limits =
        Limits { max_body_bytes: usize::MAX, max_decoded_bytes: most, ..Limits::default() };
    let mut decompressor = Decompressor::default();
    match decompressor.decompress(Compression::Zstd, body, &limits) {
        Ok(plain) => Ok(plain.to_vec()),
        Err(Error::DecodedTooLarge { .. }) => Err(Refusal::Bytes { most }),
        Err(error) => Err(Refusal::Unusable(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_remote_write::Compressor;
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        Compressor::default().compress(Compression::Zstd, text).to_vec()
    }

    #[test]
    fn a_bomb_costs_no_more_than_the_limit_and_damage_is_told() {
        let zeros = vec![b'x'; 50 << 20];
        for (packing, bomb) in [(Packing::Gzip, gzip(&zeros)), (Packing::Zstd, zstd(&zeros))] {
            assert!(bomb.len() < 1 << 20);
            assert_eq!(packing.unpack(&bomb, 1000), Err(Refusal::Bytes { most: 1000 }));
            assert_eq!(packing.unpack(&bomb, zeros.len()).unwrap().len(), zeros.len());
            assert!(matches!(packing.unpack(b"[]", 1000), Err(Refusal::Unusable(_))));
        }
        assert_eq!(gunzip(&[gzip(b"ab"), gzip(b"c")].concat(), 3).unwrap(), b"abc");
        assert!(matches!(gunzip(&gzip(b"abc")[..12], 1000), Err(Refusal::Unusable(_))));
    }

    #[test]
    fn no_body_comes_to_more_than_is_set_aside_for_it() {
        let zeros = vec![0; 8 << 20];
        let (gzip_body, zstd_body) = (gzip(&zeros), zstd(&zeros));
        assert!(Packing::Gzip.at_most(&gzip_body, 1 << 30) >= zeros.len());
        assert_eq!(Packing::Zstd.at_most(&zstd_body, 1 << 30), zeros.len());
        assert_eq!(Packing::Zstd.at_most(b"no frame", 1000), 1000);
        assert_eq!(Packing::Gzip.at_most(&gzip_body, 1000), 1000);
        assert!(
            Packing::Gzip.at_most(&gzip(b"a line"), 1 << 30) < 64 << 10,
            "a small one waits for little"
        );
    }
}
