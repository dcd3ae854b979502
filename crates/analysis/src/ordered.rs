//! Rows of a data set in the order of their slots.
//!
//! A file has them in flushes of half a second, each sorted by process; slots of an idle core come later still. So rows
//! wait until everything of their time has certainly been read.

use crate::waiting::Waiting;
use arrow_array::RecordBatch;
use crosstalk_recording::{Error, Piece, RecordedFile};

/// More than any row is later than its neighbours in a file.
const HORIZON_NS: u64 = 2_000_000_000;

/// Takes the rows of a batch, each with its slot; the error says which column is wrong.
pub(crate) type Decode<'a, T> =
    Box<dyn FnMut(&RecordBatch, &mut dyn FnMut(u64, T)) -> Result<(), String> + 'a>;

pub(crate) struct Ordered<'a, T> {
    pieces: Box<dyn Iterator<Item = Result<Piece<'a>, Error>> + 'a>,
    decode: Decode<'a, T>,
    waiting: Waiting<T>,
    newest_ns: u64,
    /// The last slot handed out.
    passed_ns: u64,
    has_ended: bool,
    /// The file that is being read.
    pub(crate) file: Option<&'a RecordedFile>,
    pub(crate) rows: u64,
    pub(crate) late_rows: u64,
    pub(crate) unread: Vec<String>,
}

impl<'a, T> Ordered<'a, T> {
    pub(crate) fn new(
        pieces: impl Iterator<Item = Result<Piece<'a>, Error>> + 'a,
        decode: impl FnMut(&RecordBatch, &mut dyn FnMut(u64, T)) -> Result<(), String> + 'a,
    ) -> Self {
        Self {
            pieces: Box::new(pieces),
            decode: Box::new(decode),
            waiting: Waiting::new(),
            newest_ns: 0,
            passed_ns: 0,
            has_ended: false,
            file: None,
            rows: 0,
            late_rows: 0,
            unread: Vec::new(),
        }
    }

    fn read(&mut self) {
        match self.pieces.next() {
            None => self.has_ended = true,
            Some(Err(error)) => self.fail(error.to_string()),
            Some(Ok(piece)) => {
                self.file = Some(piece.file);
                let Self { waiting, newest_ns, passed_ns, late_rows, .. } = self;
                let taken = (self.decode)(&piece.batch, &mut |slot_ns, row| {
                    *newest_ns = slot_ns.max(*newest_ns);
                    if slot_ns < *passed_ns {
                        *late_rows += 1;
                    } else {
                        waiting.push(slot_ns, row);
                    }
                });
                match taken {
                    Ok(()) => self.rows += piece.batch.num_rows() as u64,
                    Err(reason) => self.fail(format!("{}: {reason}", piece.file.path)),
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

    /// The next slot, if it begins no later than `until_ns`.
    pub(crate) fn next_until(&mut self, until_ns: u64) -> Option<(u64, Vec<T>)> {
        loop {
            let first = self.waiting.first();
            let is_whole = |slot_ns: u64| slot_ns.saturating_add(HORIZON_NS) <= self.newest_ns;
            match first {
                Some(slot_ns) if self.has_ended || is_whole(slot_ns) => {
                    if slot_ns > until_ns {
                        return None;
                    }
                    self.passed_ns = slot_ns;
                    return self.waiting.pop_first();
                }
                None if self.has_ended => return None,
                _ => self.read(),
            }
        }
    }
}
