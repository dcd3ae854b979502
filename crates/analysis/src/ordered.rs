//! Rows of a data set in the order of their slots.
//!
//! A file has them in flushes of half a second, each sorted by process; slots of an idle core come later still. So rows
//! wait until everything of their time has certainly been read.

use crate::in_slots::InSlots;
use crate::waiting::Waiting;
use arrow_array::RecordBatch;
use crosstalk_recording::{Error, Piece, RecordedFile};

type Pieces<'a> = Box<dyn Iterator<Item = Result<Piece<'a>, Error>> + 'a>;

pub(crate) struct Ordered<'a, T, D> {
    pieces: Pieces<'a>,
    /// Takes the rows of a batch; the error says which column is wrong.
    decode: D,
    waiting: Waiting<T>,
    whole: InSlots<T>,
    has_ended: bool,
    /// The file that is being read.
    pub(crate) file: Option<&'a RecordedFile>,
    pub(crate) rows: u64,
    pub(crate) unread: Vec<String>,
}

impl<'a, T: Copy, D> Ordered<'a, T, D>
where
    D: FnMut(&RecordBatch, &mut Waiting<T>) -> Result<(), String>,
{
    pub(crate) fn new(
        pieces: impl Iterator<Item = Result<Piece<'a>, Error>> + 'a,
        decode: D,
    ) -> Self {
        Self {
            pieces: Box::new(pieces),
            decode,
            waiting: Waiting::new(),
            whole: InSlots::new(),
            has_ended: false,
            file: None,
            rows: 0,
            unread: Vec::new(),
        }
    }

    /// Rows that came more than two seconds after their time.
    pub(crate) const fn late_rows(&self) -> u64 {
        self.waiting.late
    }

    fn read(&mut self) {
        match self.pieces.next() {
            None => self.has_ended = true,
            Some(Err(error)) => self.fail(error.to_string()),
            Some(Ok(Piece { file, batch })) => {
                self.file = Some(file);
                match (self.decode)(&batch, &mut self.waiting) {
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

    /// The next slot with its rows, if it begins no later than `until_ns`.
    pub(crate) fn next_until(&mut self, until_ns: u64) -> Option<(u64, &[T])> {
        while self.whole.first().is_none() {
            match self.waiting.pop_whole(self.has_ended) {
                Some(span) => {
                    self.whole.fill(&span);
                    self.waiting.recycle(span);
                }
                None if self.has_ended || self.waiting.is_past(until_ns) => return None,
                None => self.read(),
            }
        }
        if self.whole.first()? > until_ns {
            return None;
        }
        self.whole.pop_first()
    }
}
