//! Finished Parquet files: row groups outside the time asked for are not read, nor other columns.

use super::object::Object;
use super::{Batches, RecordedFile, Wanted};
use crate::store::{Remote, Store, object_path, wait};
use crate::{Error, Metadata};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};
use futures_util::StreamExt;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowPredicateFn, ArrowReaderBuilder, ParquetRecordBatchReaderBuilder, RowFilter,
};
use parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::statistics::Statistics;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

const SLOT: &str = "slot_start_ns";
const BATCH_ROWS: usize = 16 * 1024;

pub(super) fn batches(file: &RecordedFile, wanted: &Wanted) -> Result<Batches, Error> {
    let path = file.path.clone();
    let failed = move |reason: String| Error::Unreadable { path: path.clone(), reason };
    match &file.store {
        Store::Local => {
            let builder = narrowed(local(file)?, wanted);
            let reader = builder.build().map_err(|e| failed(e.to_string()))?;
            Ok(Box::new(reader.map(move |batch| batch.map_err(|e| failed(e.to_string())))))
        }
        Store::Remote(store) => {
            let builder = narrowed(remote(file, store)?, wanted);
            let mut stream = builder.build().map_err(|e| failed(e.to_string()))?;
            Ok(Box::new(std::iter::from_fn(move || match wait(stream.next()) {
                Ok(batch) => batch.map(|batch| batch.map_err(|e| failed(e.to_string()))),
                Err(error) => Some(Err(error)),
            })))
        }
    }
}

pub(super) fn schema(file: &RecordedFile) -> Result<SchemaRef, Error> {
    Ok(match &file.store {
        Store::Local => local(file)?.schema().clone(),
        Store::Remote(store) => remote(file, store)?.schema().clone(),
    })
}

pub(super) fn rows(file: &RecordedFile) -> Result<u64, Error> {
    Ok(u64::try_from(footer(file)?.file_metadata().num_rows()).unwrap_or(0))
}

pub(super) fn metadata(file: &RecordedFile) -> Result<Metadata, Error> {
    let footer = footer(file)?;
    let entries = footer.file_metadata().key_value_metadata().cloned().unwrap_or_default();
    let entries = entries.into_iter().filter_map(|entry| Some((entry.key, entry.value?)));
    Ok(Metadata::from_entries(&entries.collect()))
}

fn footer(file: &RecordedFile) -> Result<Arc<ParquetMetaData>, Error> {
    Ok(match &file.store {
        Store::Local => local(file)?.metadata().clone(),
        Store::Remote(store) => remote(file, store)?.metadata().clone(),
    })
}

fn local(file: &RecordedFile) -> Result<ParquetRecordBatchReaderBuilder<File>, Error> {
    let input = File::open(&file.path).map_err(|e| Error::io(file.path.as_ref(), e))?;
    ParquetRecordBatchReaderBuilder::try_new(input).map_err(|e| unreadable(file, &e))
}

fn remote(
    file: &RecordedFile,
    store: &Remote,
) -> Result<ParquetRecordBatchStreamBuilder<Object>, Error> {
    let path = object_path(&file.name);
    let object = Object { objects: store.objects.clone(), path, bytes: file.bytes };
    wait(ParquetRecordBatchStreamBuilder::new(object))?.map_err(|e| match &e {
        // That the store does not hand it out says nothing about the file.
        ParquetError::External(why) => match why.downcast_ref() {
            Some(why) => file.store.error(&file.name, why),
            None => unreadable(file, &e),
        },
        _ => unreadable(file, &e),
    })
}

fn unreadable(file: &RecordedFile, error: &dyn std::error::Error) -> Error {
    Error::Unreadable { path: file.path.clone(), reason: error.to_string() }
}

/// Only the columns, row groups and rows that are wanted.
fn narrowed<T>(builder: ArrowReaderBuilder<T>, wanted: &Wanted) -> ArrowReaderBuilder<T> {
    let names: Vec<&str> = builder.schema().fields().iter().map(|f| f.name().as_str()).collect();
    let chosen: Vec<usize> = (0..names.len()).filter(|at| wanted.has(names[*at])).collect();
    let slot = names.iter().position(|name| *name == SLOT);
    let schema = builder.parquet_schema();
    let mask = ProjectionMask::roots(schema, chosen);
    let time = wanted.time.clone().zip(slot);
    let filter = time.map(|(time, slot)| {
        let mask = ProjectionMask::roots(schema, [slot]);
        RowFilter::new(vec![Box::new(ArrowPredicateFn::new(mask, move |b| within(&b, &time)))])
    });
    let some = names.iter().position(|name| wanted.some.as_deref() == Some(*name));
    let groups = groups(builder.metadata(), slot, some, wanted);
    let builder = builder.with_projection(mask).with_batch_size(BATCH_ROWS).with_row_groups(groups);
    match filter {
        Some(filter) => builder.with_row_filter(filter),
        None => builder,
    }
}

/// The row groups whose slots overlap the time asked for, and that have something where there must be some; those that
/// do not say are read.
fn groups(
    footer: &ParquetMetaData,
    slot: Option<usize>,
    some: Option<usize>,
    wanted: &Wanted,
) -> Vec<usize> {
    let has_some = |group: &usize| {
        let statistics = some.and_then(|some| footer.row_group(*group).column(some).statistics());
        match statistics {
            Some(Statistics::Int64(range)) => range.max_opt().is_none_or(|most| *most > 0),
            _ => true,
        }
    };
    let overlaps = |group: &usize| {
        let statistics = slot.and_then(|slot| footer.row_group(*group).column(slot).statistics());
        match statistics {
            Some(Statistics::Int64(range)) => match (range.min_opt(), range.max_opt()) {
                (Some(first), Some(last)) => wanted.overlaps(*first, *last),
                _ => true,
            },
            _ => true,
        }
    };
    (0..footer.num_row_groups()).filter(overlaps).filter(has_some).collect()
}

/// Which rows of a batch whose only column is the slot begin in this time.
pub(super) fn within(batch: &RecordBatch, time: &Range<u64>) -> Result<BooleanArray, ArrowError> {
    let slots = batch.column(0).as_primitive_opt::<Int64Type>();
    let slots = slots.ok_or_else(|| ArrowError::SchemaError(format!("{SLOT} is no integer")))?;
    let inside = |slot: i64| u64::try_from(slot).is_ok_and(|slot| time.contains(&slot));
    Ok(slots.iter().map(|slot| slot.map(inside)).collect())
}

/// The wanted rows and columns of a batch that was read whole.
pub(super) fn narrow(batch: &RecordBatch, wanted: &Wanted) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema();
    let rows = match (&wanted.time, schema.index_of(SLOT)) {
        (Some(time), Ok(slot)) => {
            let inside = within(&batch.project(&[slot])?, time)?;
            arrow_select::filter::filter_record_batch(batch, &inside)?
        }
        _ => batch.clone(),
    };
    let names = schema.fields().iter().enumerate();
    let chosen: Vec<usize> =
        names.filter(|(_, f)| wanted.has(f.name())).map(|(at, _)| at).collect();
    rows.project(&chosen)
}
