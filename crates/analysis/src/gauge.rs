//! How far reading has come, in bytes of the files that hold the rows.

use crate::Read;
use crosstalk_recording::RecordedFile;

/// Bytes of a row where a file does not say how many rows it has: CSV of a usual width.
const ROW_BYTES: u64 = 90;

/// How much of the files was read.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    total_bytes: u64,
    /// Of files that are done.
    done_bytes: u64,
    /// The same, without those of the run at hand.
    before_bytes: u64,
    done_rows: u64,
    /// The file at hand: its path, its bytes, its rows, and the rows of this run before it.
    file: Option<(String, u64, u64, u64)>,
    run_rows: u64,
}

impl Gauge {
    pub(crate) fn new(total_bytes: u64) -> Self {
        Self { total_bytes, ..Self::default() }
    }

    /// So many rows of this run were read, the last of this file.
    pub(crate) fn look(&mut self, file: Option<&RecordedFile>, rows: u64) -> Read {
        let before = self.run_rows;
        self.run_rows = rows;
        if let Some(file) = file
            && self.file.as_ref().is_none_or(|(path, ..)| *path != file.path)
        {
            self.done_bytes += self.file.take().map_or(0, |(_, bytes, ..)| bytes);
            let said = file.metadata().ok().and_then(|about| about.get("rows")?.as_u64());
            let all = said.unwrap_or(file.bytes / ROW_BYTES).max(1);
            self.file = Some((file.path.clone(), file.bytes, all, before));
        }
        let here = self.file.as_ref().map_or(0, |(_, bytes, all, before)| {
            let share = (rows.saturating_sub(*before) as f64 / *all as f64).min(1.0);
            (*bytes as f64 * share) as u64
        });
        let bytes = (self.done_bytes + here).min(self.total_bytes);
        Read { rows: self.done_rows + rows, bytes, total_bytes: self.total_bytes }
    }

    /// The run at hand is read once more.
    pub(crate) fn begin_anew(&mut self) {
        (self.file, self.run_rows, self.done_bytes) = (None, 0, self.before_bytes);
    }

    /// A run is done.
    pub(crate) fn finish(&mut self) {
        self.done_bytes += self.file.take().map_or(0, |(_, bytes, ..)| bytes);
        self.done_rows += std::mem::take(&mut self.run_rows);
        self.before_bytes = self.done_bytes;
    }
}
