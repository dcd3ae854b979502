//! A Parquet file in an object store, of which only the ranges that are needed are fetched.

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use std::ops::Range;
use std::sync::Arc;

/// Most footers fit into so much: one request instead of two.
const FOOTER: usize = 64 * 1024;

pub(super) struct Object {
    pub(super) objects: Arc<dyn ObjectStore>,
    pub(super) path: Path,
    pub(super) bytes: u64,
}

fn failed(error: object_store::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

impl AsyncFileReader for Object {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        async move { self.objects.get_range(&self.path, range).await.map_err(failed) }.boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        // The store fetches neighbours together.
        async move { self.objects.get_ranges(&self.path, &ranges).await.map_err(failed) }.boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        let bytes = self.bytes;
        async move {
            let footer = ParquetMetaDataReader::new().with_prefetch_hint(Some(FOOTER));
            footer.load_and_finish(self, bytes).await.map(Arc::new)
        }
        .boxed()
    }
}
