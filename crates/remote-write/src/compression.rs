//! Snappy blocks and zstd frames, within limits.

use zstd::zstd_safe::{self, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

use crate::error::Error;
use crate::limits::Limits;

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Snappy block format, which every sender speaks.
    Snappy,
    /// Zstandard, which vmagent prefers.
    Zstd,
}

impl Compression {
    /// The value of `Content-Encoding`.
    pub fn content_encoding(self) -> &'static str {
        match self {
            Compression::Snappy => "snappy",
            Compression::Zstd => "zstd",
        }
    }

    fn damaged(self, reason: impl ToString) -> Error {
        Error::Compression { encoding: self.content_encoding(), reason: reason.to_string() }
    }
}

/// A snappy copy of up to 64 bytes takes three bytes of input, so a body that declares more than this many times its
/// own length lies, and no memory is taken for it.
const SNAPPY_MAX_EXPANSION: usize = 22;

/// Memory a zstd frame may demand for its window: 8 MiB, as RFC 8878 asks every decoder to support.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

const ZSTD_FIRST_BUFFER: usize = 64 << 10;

/// Bytes that a body says it has after decompression, where it says so of all of it. [`Decompressor`] holds it to that.
///
/// ```
/// use crosstalk_remote_write::{Compression, Compressor, decoded_length};
/// let packed = Compressor::default().compress(Compression::Snappy, b"hello hello hello").to_vec();
/// assert_eq!(decoded_length(Compression::Snappy, &packed), Some(17));
/// ```
pub fn decoded_length(compression: Compression, body: &[u8]) -> Option<usize> {
    match compression {
        Compression::Snappy => snap::raw::decompress_len(body).ok(),
        Compression::Zstd => {
            let declared = zstd_safe::get_frame_content_size(body).ok().flatten()?;
            // The first of several frames says nothing of the others.
            let frame = zstd_safe::find_frame_compressed_size(body).ok()?;
            usize::try_from(declared).ok().filter(|_| frame == body.len())
        }
    }
}

/// Decompresses bodies into a buffer it keeps.
///
/// ```
/// use crosstalk_remote_write::{Compression, Compressor, Decompressor, Limits};
/// let packed = Compressor::default().compress(Compression::Snappy, b"hello hello hello").to_vec();
/// let mut decompressor = Decompressor::default();
/// let plain = decompressor.decompress(Compression::Snappy, &packed, &Limits::default()).unwrap();
/// assert_eq!(plain, b"hello hello hello");
/// ```
#[derive(Default)]
pub struct Decompressor {
    buffer: Vec<u8>,
    snappy: snap::raw::Decoder,
    zstd: Option<DCtx<'static>>,
}

impl Decompressor {
    /// Decompresses `body`, refusing it before memory is taken when it is, or declares itself, too large.
    pub fn decompress(
        &mut self,
        compression: Compression,
        body: &[u8],
        limits: &Limits,
    ) -> Result<&[u8], Error> {
        if body.len() > limits.max_body_bytes {
            return Err(Error::BodyTooLarge { limit: limits.max_body_bytes });
        }
        if body.is_empty() {
            return Err(compression.damaged("the body is empty"));
        }
        let length = match compression {
            Compression::Snappy => self.unsnap(body, limits)?,
            Compression::Zstd => self.unzstd(body, limits)?,
        };
        Ok(&self.buffer[..length])
    }

    /// Gives memory above `bytes` back, so that one large request does not stay paid for.
    pub fn shrink_to(&mut self, bytes: usize) {
        self.buffer.truncate(bytes);
        self.buffer.shrink_to(bytes);
    }

    fn unsnap(&mut self, body: &[u8], limits: &Limits) -> Result<usize, Error> {
        let damaged = |error: snap::Error| Compression::Snappy.damaged(error);
        let length = snap::raw::decompress_len(body).map_err(damaged)?;
        if length > limits.max_decoded_bytes {
            return Err(Error::DecodedTooLarge { limit: limits.max_decoded_bytes });
        }
        if length / SNAPPY_MAX_EXPANSION > body.len() {
            return Err(
                Compression::Snappy.damaged("declared length is more than the body can hold")
            );
        }
        self.at_least(length);
        self.snappy.decompress(body, &mut self.buffer[..length]).map_err(damaged)
    }

    fn unzstd(&mut self, body: &[u8], limits: &Limits) -> Result<usize, Error> {
        let limit = limits.max_decoded_bytes;
        let too_large = || Error::DecodedTooLarge { limit };
        if let Ok(Some(declared)) = zstd_safe::get_frame_content_size(body)
            && declared > limit as u64
        {
            return Err(too_large());
        }
        // The library itself compares only at the end of the frame.
        let declared = decoded_length(Compression::Zstd, body).filter(|declared| *declared < limit);
        let most = declared.unwrap_or(limit);
        let over = || match declared {
            Some(_) => Compression::Zstd.damaged("holds more than it declares"),
            None => too_large(),
        };
        let damaged = |code| Compression::Zstd.damaged(zstd_safe::get_error_name(code));
        let mut context = match self.zstd.take() {
            Some(context) => context,
            None => DCtx::try_create().ok_or_else(|| Compression::Zstd.damaged("no memory"))?,
        };
        context.reset(ResetDirective::SessionOnly).map_err(damaged)?;
        context.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX)).map_err(damaged)?;

        let mut input = InBuffer::around(body);
        let mut length = 0;
        self.at_least(ZSTD_FIRST_BUFFER.min(most + 1));
        let result = loop {
            if length == self.buffer.len() {
                if length > most {
                    break Err(over());
                }
                self.at_least((length * 2).min(most + 1));
            }
            let mut output = OutBuffer::around_pos(&mut self.buffer[..], length);
            let hint = match context.decompress_stream(&mut output, &mut input) {
                Ok(hint) => hint,
                Err(code) => break Err(damaged(code)),
            };
            let stuck = output.pos() == length;
            length = output.pos();
            let input_done = input.pos == body.len();
            if length > most {
                break Err(over());
            }
            if input_done && hint == 0 {
                break Ok(length);
            }
            // With all input given and room left, no progress means that the frame is cut short.
            if input_done && stuck {
                break Err(Compression::Zstd.damaged("truncated"));
            }
        };
        self.zstd = Some(context);
        result
    }

    fn at_least(&mut self, length: usize) {
        if self.buffer.len() < length {
            self.buffer.resize(length, 0);
        }
    }
}

impl std::fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decompressor").field("buffer_bytes", &self.buffer.len()).finish()
    }
}

/// Compresses bodies into a buffer it keeps.
pub struct Compressor {
    buffer: Vec<u8>,
    snappy: snap::raw::Encoder,
}

impl Default for Compressor {
    fn default() -> Self {
        Compressor { buffer: Vec::new(), snappy: snap::raw::Encoder::new() }
    }
}

impl Compressor {
    /// Compresses `plain`.
    ///
    /// # Panics
    /// Never for bodies below 4 GiB, which the decoder's limits keep far away.
    pub fn compress(&mut self, compression: Compression, plain: &[u8]) -> &[u8] {
        match compression {
            Compression::Snappy => {
                let room = snap::raw::max_compress_len(plain.len());
                if self.buffer.len() < room {
                    self.buffer.resize(room, 0);
                }
                let length = self
                    .snappy
                    .compress(plain, &mut self.buffer)
                    .expect("the buffer has max_compress_len bytes");
                &self.buffer[..length]
            }
            Compression::Zstd => {
                let room = zstd_safe::compress_bound(plain.len());
                if self.buffer.len() < room {
                    self.buffer.resize(room, 0);
                }
                let length = zstd_safe::compress(&mut self.buffer[..], plain, 1)
                    .expect("the buffer has compress_bound bytes");
                &self.buffer[..length]
            }
        }
    }

    /// Gives memory above `bytes` back.
    pub fn shrink_to(&mut self, bytes: usize) {
        self.buffer.truncate(bytes);
        self.buffer.shrink_to(bytes);
    }
}

/// A snappy body that is compressed piece by piece, or put together from others.
///
/// Such a body is its length and then a list of elements, none of which reaches back further than its own piece. So elements
/// can be put one after another.
///
/// ```
/// use crosstalk_remote_write::{Compression, Compressor, Decompressor, Limits, Pieces};
/// let (mut compressor, mut pieces) = (Compressor::default(), Pieces::default());
/// pieces.push(&mut compressor, b"hello hello hello ");
/// let rest = compressor.compress(Compression::Snappy, b"world").to_vec();
/// pieces.append(&rest).unwrap();
/// let plain = Decompressor::default()
///     .decompress(Compression::Snappy, pieces.finish(), &Limits::default())
///     .unwrap()
///     .to_vec();
/// assert_eq!(plain, b"hello hello hello world");
/// ```
#[derive(Debug, Default)]
pub struct Pieces {
    /// Room for the length, and the elements.
    packed: Vec<u8>,
    /// Bytes before compression.
    plain: usize,
}

/// Bytes that a length takes at most.
const LONGEST_LENGTH: usize = 5;

/// Bytes that a body may have before compression.
const LARGEST: usize = u32::MAX as usize;

impl Pieces {
    /// Compresses what follows.
    pub fn push(&mut self, compressor: &mut Compressor, plain: &[u8]) {
        let packed = compressor.compress(Compression::Snappy, plain);
        self.elements(&packed[varint_len(plain.len())..], plain.len());
    }

    /// Appends what another body holds.
    pub fn append(&mut self, body: &[u8]) -> Result<(), Error> {
        let damaged = |error: snap::Error| Compression::Snappy.damaged(error);
        let length = snap::raw::decompress_len(body).map_err(damaged)?;
        if self.plain.saturating_add(length) > LARGEST {
            return Err(Error::DecodedTooLarge { limit: LARGEST });
        }
        let header = body.iter().take_while(|byte| **byte >= 0x80).count() + 1;
        self.elements(body.get(header..).unwrap_or_default(), length);
        Ok(())
    }

    fn elements(&mut self, elements: &[u8], plain: usize) {
        if self.packed.is_empty() {
            self.packed.resize(LONGEST_LENGTH, 0);
        }
        self.packed.extend_from_slice(elements);
        self.plain += plain;
    }

    /// The body.
    pub fn finish(&mut self) -> &[u8] {
        self.elements(&[], 0);
        let start = LONGEST_LENGTH - varint_len(self.plain);
        let mut rest = self.plain;
        for (place, byte) in self.packed[start..LONGEST_LENGTH].iter_mut().enumerate() {
            let more = place + 1 < LONGEST_LENGTH - start;
            *byte = (rest & 0x7f) as u8 | if more { 0x80 } else { 0 };
            rest >>= 7;
        }
        &self.packed[start..]
    }

    /// Forgets the body, keeps the memory.
    pub fn clear(&mut self) {
        self.packed.clear();
        self.plain = 0;
    }

    /// Bytes held.
    pub fn capacity(&self) -> usize {
        self.packed.capacity()
    }
}

/// Bytes of a length as snappy writes it.
fn varint_len(length: usize) -> usize {
    (length.max(1).ilog2() as usize / 7 + 1).min(LONGEST_LENGTH)
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor").field("buffer_bytes", &self.buffer.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(max_decoded_bytes: usize) -> Limits {
        Limits { max_decoded_bytes, ..Limits::default() }
    }

    #[test]
    fn both_formats_come_back_as_they_went() {
        let plain: Vec<u8> = (0..300_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        for compression in [Compression::Snappy, Compression::Zstd] {
            let packed = Compressor::default().compress(compression, &plain).to_vec();
            let mut decompressor = Decompressor::default();
            for _ in 0..2 {
                let back = decompressor.decompress(compression, &packed, &limits(plain.len()));
                assert_eq!(back.unwrap(), plain);
            }
            let error = decompressor.decompress(compression, &packed, &limits(plain.len() - 1));
            assert_eq!(error.unwrap_err().status(), 413);
        }
    }

    #[test]
    fn a_body_in_pieces_comes_back_as_one() {
        let mut compressor = Compressor::default();
        let mut pieces = Pieces::default();
        for lengths in
            [&[][..], &[0], &[1], &[127, 1], &[16_383, 1], &[70_000, 5, 0, 200_000], &[1; 300]]
        {
            pieces.clear();
            let mut plain = Vec::new();
            for (number, &length) in lengths.iter().enumerate() {
                let piece: Vec<u8> = (0..length).map(|n| (n * n / 7 + number) as u8).collect();
                plain.extend_from_slice(&piece);
                if number % 2 == 0 {
                    pieces.push(&mut compressor, &piece);
                } else {
                    let body = compressor.compress(Compression::Snappy, &piece).to_vec();
                    pieces.append(&body).unwrap();
                }
            }
            for _ in 0..2 {
                let back = snap::raw::Decoder::new().decompress_vec(pieces.finish()).unwrap();
                assert!(back == plain, "{lengths:?}");
            }
        }
        assert!(pieces.append(&[0xff; 20]).is_err());
    }

    #[test]
    fn a_snappy_bomb_takes_no_memory() {
        // Declares 60 MiB, which is within the limit, in five bytes of body.
        let mut decompressor = Decompressor::default();
        let bomb = [0x80, 0x80, 0x80, 0x1e, 0x00];
        let error = decompressor.decompress(Compression::Snappy, &bomb, &Limits::default());
        assert_eq!(error.unwrap_err().status(), 400);
        assert_eq!(decompressor.buffer.capacity(), 0);
    }

    #[test]
    fn a_zstd_bomb_takes_no_more_than_the_limit() {
        // A streamed frame declares no size: only reading it shows how large it is.
        let mut encoder = zstd::stream::Encoder::new(Vec::new(), 19).unwrap();
        std::io::copy(&mut std::io::Read::take(std::io::repeat(0), 256 << 20), &mut encoder)
            .unwrap();
        let bomb = encoder.finish().unwrap();
        let mut decompressor = Decompressor::default();
        let error = decompressor.decompress(Compression::Zstd, &bomb, &limits(1 << 20));
        assert_eq!(error.unwrap_err(), Error::DecodedTooLarge { limit: 1 << 20 });
        assert!(decompressor.buffer.capacity() <= 2 << 20);
    }

    #[test]
    fn a_zstd_body_that_lies_about_its_size_takes_no_more_than_it_declares() {
        let zeros = vec![0; 8 << 20];
        let small = Compressor::default().compress(Compression::Zstd, b"a few bytes").to_vec();
        let large = Compressor::default().compress(Compression::Zstd, &zeros).to_vec();
        assert_eq!(decoded_length(Compression::Zstd, &large), Some(zeros.len()));
        // What the first frame declares is not what the second holds.
        let both = [&small[..], &large].concat();
        assert_eq!(decoded_length(Compression::Zstd, &both), None);
        let mut decompressor = Decompressor::default();
        let plain = decompressor.decompress(Compression::Zstd, &both, &Limits::default()).unwrap();
        assert_eq!(plain.len(), zeros.len() + 11);
        // The size stands behind magic, descriptor and window, in four bytes.
        let mut lie = large;
        lie[6..10].copy_from_slice(&1000u32.to_le_bytes());
        assert_eq!(decoded_length(Compression::Zstd, &lie), Some(1000));
        let mut decompressor = Decompressor::default();
        let error = decompressor.decompress(Compression::Zstd, &lie, &Limits::default());
        assert_eq!(error.unwrap_err().status(), 400);
        assert!(decompressor.buffer.capacity() <= 2000, "{}", decompressor.buffer.capacity());
    }

    #[test]
    fn truncated_bodies_are_errors_at_every_length() {
        let plain =
            b"the quick brown fox jumps over the lazy dog, again and again and again".repeat(9);
        for compression in [Compression::Snappy, Compression::Zstd] {
            let packed = Compressor::default().compress(compression, &plain).to_vec();
            let mut decompressor = Decompressor::default();
            for end in 0..packed.len() {
                let result =
                    decompressor.decompress(compression, &packed[..end], &Limits::default());
                assert!(result.is_err(), "{compression:?} cut at {end}");
            }
        }
    }
}
