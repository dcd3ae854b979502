//! Rows of a data set in the order of their slots.
//!
//! A file has them in flushes of half a second, each sorted by process; slots of an idle core come later still. So rows
//! wait until everything of their time has certainly been read.

use crate::waiting::Waiting;
use arrow_array::RecordBatch;
use crosstalk_interference::Subject;
use crosstalk_recording::{Error, Piece, RecordedFile};

/// More than any row is later than its neighbours in a file.
const HORIZON_NS: u64 = 2_000_000_000;

/// The rows of one batch, each with its slot.
pub(crate) struct Decoded<'a, T> {
    file: &'a RecordedFile,
    read: u64,
    rows: Vec<(u64, T)>,
    /// Who was met in which cgroup.
    met: Vec<(u64, Subject)>,
    /// Which column is wrong, if one is.
    wrong: Option<String>,
}

/// Takes the rows of a batch; the error says which column is wrong.
pub(crate) type Rows<T> = Vec<(u64, T)>;

/// Batches into rows.
pub(crate) fn decoded<'a, T>(
    pieces: impl Iterator<Item = Result<Piece<'a>, Error>>,
    mut decode: impl FnMut(&RecordBatch, &mut Rows<T>) -> Result<(), String>,
) -> impl Iterator<Item = Result<Decoded<'a, T>, Error>> {
    decoded_with(pieces, move |batch, rows| decode(batch, rows).map(|()| Vec::new()))
}

/// The same, where decoding also says whom it met in which cgroup.
pub(crate) fn decoded_with<'a, T>(
    pieces: impl Iterator<Item = Result<Piece<'a>, Error>>,
    mut decode: impl FnMut(&RecordBatch, &mut Rows<T>) -> Result<Vec<(u64, Subject)>, String>,
) -> impl Iterator<Item = Result<Decoded<'a, T>, Error>> {
    pieces.map(move |piece| {
        piece.map(|Piece { file, batch }| {
            let mut rows = Vec::with_capacity(batch.num_rows());
            let taken = decode(&batch, &mut rows);
            let read = if taken.is_ok() { batch.num_rows() as u64 } else { 0 };
            let (met, wrong) = taken.map_or_else(|why| (Vec::new(), Some(why)), |met| (met, None));
            Decoded { file, read, rows, met, wrong }
        })
    })
}

pub(crate) struct Ordered<'a, T> {
    decoded: Box<dyn Iterator<Item = Result<Decoded<'a, T>, Error>> + 'a>,
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
    /// Who was met in which cgroup since this was last taken.
    pub(crate) met: Vec<(u64, Subject)>,
}

impl<'a, T> Ordered<'a, T> {
    pub(crate) fn new(decoded: impl Iterator<Item = Result<Decoded<'a, T>, Error>> + 'a) -> Self {
        Self {
            decoded: Box::new(decoded),
            waiting: Waiting::new(),
            newest_ns: 0,
            passed_ns: 0,
            has_ended: false,
            file: None,
            rows: 0,
            late_rows: 0,
            unread: Vec::new(),
            met: Vec::new(),
        }
    }

    fn read(&mut self) {
        match self.decoded.next() {
            None => self.has_ended = true,
            Some(Err(error)) => self.fail(error.to_string()),
            Some(Ok(decoded)) => {
                self.file = Some(decoded.file);
                self.rows += decoded.read;
                self.met.extend(decoded.met);
                for (slot_ns, row) in decoded.rows {
                    self.newest_ns = slot_ns.max(self.newest_ns);
                    if slot_ns < self.passed_ns {
                        self.late_rows += 1;
                    } else {
                        self.waiting.push(slot_ns, row);
                    }
                }
                if let Some(reason) = decoded.wrong {
                    self.fail(format!("{}: {reason}", decoded.file.path));
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
