//! Rows of a data set as they are read, in spans of time that are whole.

use crate::in_slots::Span;
use crate::waiting::Waiting;
use arrow_array::RecordBatch;
use crosstalk_recording::{Error, Piece, RecordedFile};

type Pieces<'a> = Box<dyn Iterator<Item = Result<Piece<'a>, Error>> + 'a>;

/// Who hands out spans, the earliest first.
pub(crate) trait Supply<T> {
    /// The next span; none when all were handed out, or when none can begin as early as `until_ns`.
    fn next_whole(&mut self, until_ns: u64) -> Option<Span<T>>;

    /// Gives the memory of a span back.
    fn recycle(&mut self, span: Span<T>);
}

/// Takes the rows of batches; the error says which column is wrong.
pub(crate) trait Decode<T> {
    fn decode(&mut self, batch: &RecordBatch, rows: &mut Waiting<T>) -> Result<(), String>;
}

impl<T, F: FnMut(&RecordBatch, &mut Waiting<T>) -> Result<(), String>> Decode<T> for F {
    fn decode(&mut self, batch: &RecordBatch, rows: &mut Waiting<T>) -> Result<(), String> {
        self(batch, rows)
    }
}

/// Reads pieces of files, and keeps their rows until everything of their time has certainly been read.
pub(crate) struct Spans<'a, T, D> {
    pieces: Pieces<'a>,
    pub(crate) decode: D,
    waiting: Waiting<T>,
    has_ended: bool,
    /// The file that is being read.
    pub(crate) file: Option<&'a RecordedFile>,
    pub(crate) rows: u64,
    pub(crate) unread: Vec<String>,
}

impl<'a, T, D: Decode<T>> Spans<'a, T, D> {
    pub(crate) fn new(
        pieces: impl Iterator<Item = Result<Piece<'a>, Error>> + 'a,
        decode: D,
        horizon_ns: u64,
    ) -> Self {
        Self {
            pieces: Box::new(pieces),
            decode,
            waiting: Waiting::new(horizon_ns),
            has_ended: false,
            file: None,
            rows: 0,
            unread: Vec::new(),
        }
    }

    /// Rows that came later than was waited for them, and how long would have been enough.
    pub(crate) const fn late(&self) -> (u64, u64) {
        (self.waiting.late, self.waiting.enough_ns)
    }

    fn read(&mut self) {
        match self.pieces.next() {
            None => self.has_ended = true,
            Some(Err(error)) => self.fail(error.to_string()),
            Some(Ok(Piece { file, batch })) => {
                self.file = Some(file);
                match self.decode.decode(&batch, &mut self.waiting) {
                    Ok(()) => self.rows += batch.num_rows() as u64,
                    Err(reason) => self.fail(format!("{}: {reason}", file.path)),
                }
            }
        }
    }

    /// A file whose every batch lacks a column is named once.
    fn fail(&mut self, what: String) {
        if self.unread.last() != Some(&what) {
            self.unread.push(what);
        }
    }
}

impl<T, D: Decode<T>> Supply<T> for Spans<'_, T, D> {
    fn next_whole(&mut self, until_ns: u64) -> Option<Span<T>> {
        loop {
            match self.waiting.pop_whole(self.has_ended) {
                Some(span) => return Some(span),
                None if self.has_ended || self.waiting.is_past(until_ns) => return None,
                None => self.read(),
            }
        }
    }

    fn recycle(&mut self, span: Span<T>) {
        self.waiting.recycle(span);
    }
}
