//! A segment's columns with changed rows in their places.

use arrow_array::{ArrayRef, UInt32Array};
use saki_columns::{ColumnsError, parallel};
use saki_vector::{Batch, Column, form};

use super::super::chunk::RowChange;
use saki_catalog::{ColumnReader, EntryEncoder, Result, SqlError, Table};

/// The primary keys of a segment's rows, encoded when asked for.
pub struct SegmentKeys<'t> {
    table: &'t Table,
    encoder: EntryEncoder,
    /// The key's columns, in its order.
    columns: Vec<(usize, ArrayRef)>,
    pub rows: usize,
}

impl<'t> SegmentKeys<'t> {
    /// `columns` are those of the primary key, in its order.
    pub fn new(table: &'t Table, columns: &[Column], rows: usize) -> Result<Self> {
        let surface = |(column, values): (&usize, &Column)| {
            let logical = saki_exec::arrow_type(table.columns[*column].data_type);
            Ok((*column, form::to_surface(values, &logical).map_err(SqlError::internal)?))
        };
        let columns = table.primary_key.iter().zip(columns).map(surface).collect::<Result<_>>()?;
        Ok(Self { table, encoder: EntryEncoder::new(table.primary_layout()), columns, rows })
    }

    /// The key of one row.
    pub fn key(&mut self, row: usize) -> Result<&[u8]> {
        let readers = readers(self.table, &self.columns)?;
        encode(&mut self.encoder, &readers, row)?;
        Ok(&self.encoder.key)
    }

    /// Where rows come from once `changes`, which ascend, are made: of the segment's rows from `from` on, and behind
    /// them the changes' new ones, numbered from `rows` on in their order. `up_to_end`: with the rows behind the last
    /// change. Also gives the row that follows what is listed.
    pub fn places<'c>(
        &mut self,
        from: usize,
        changes: impl Iterator<Item = RowChange<'c>>,
        up_to_end: bool,
    ) -> Result<(Vec<u32>, usize)> {
        let readers = readers(self.table, &self.columns)?;
        let encoder = &mut self.encoder;
        let mut places = Vec::with_capacity(self.rows - from);
        let (mut at, mut fresh) = (from, self.rows);
        for change in changes {
            let mut order = |row: usize| -> Result<std::cmp::Ordering> {
                encode(encoder, &readers, row)?;
                Ok(encoder.key.as_slice().cmp(change.key))
            };
            let found = lower_bound(at, self.rows, &mut order)?;
            let present = found < self.rows && order(found)?.is_eq();
            if present != change.old.is_some() {
                return Err(SqlError::corrupt(format!(
                    "table {}: its column segments and its primary tree have different rows",
                    self.table.name
                ))
                .hint("ALTER TABLE … SET (columns = off), then on, builds the segments from the rows"));
            }
            places.extend(at as u32..found as u32);
            if change.new.is_some() {
                places.push(fresh as u32);
                fresh += 1;
            }
            at = found + usize::from(present);
        }
        if up_to_end {
            places.extend(at as u32..self.rows as u32);
            at = self.rows;
        }
        Ok((places, at))
    }
}

fn readers<'a>(table: &Table, columns: &'a [(usize, ArrayRef)]) -> Result<Vec<ColumnReader<'a>>> {
    columns.iter().map(|(column, array)| ColumnReader::new(array, &table.columns[*column])).collect()
}

fn encode(encoder: &mut EntryEncoder, readers: &[ColumnReader<'_>], row: usize) -> Result<()> {
    let mut values = Vec::with_capacity(readers.len());
    values.extend(readers.iter().map(|reader| reader.value(row)));
    encoder.key.clear();
    encoder.layout.key.encode(&values, &mut encoder.key).map_err(SqlError::from)
}

/// The first row of `low..high` that is not less. The next change is near, as a rule: looks 1, 2, 4, … rows ahead
/// first.
fn lower_bound(
    mut low: usize,
    mut high: usize,
    order: &mut dyn FnMut(usize) -> Result<std::cmp::Ordering>,
) -> Result<usize> {
    let mut step = 1;
    while low + step <= high {
        if order(low + step - 1)?.is_ge() {
            high = low + step - 1;
            break;
        }
        low += step;
        step *= 2;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if order(middle)?.is_lt() { low = middle + 1 } else { high = middle }
    }
    Ok(low)
}

/// Columns whose rows are where `places` says: of a pair's old column, or behind it of its new one.
pub fn spliced(pairs: &[(&Column, &Column)], places: &UInt32Array, threads: usize) -> Result<Vec<Column>> {
    parallel::map(pairs, threads, |(old, new)| spliced_column(old, new, places)).into_iter().collect()
}

fn spliced_column(old: &Column, new: &Column, places: &UInt32Array) -> Result<Column> {
    let both: Vec<&Column> = [old, new].into_iter().filter(|column| !column.is_empty()).collect();
    let whole = match both[..] {
        [] => old.clone(),
        _ => Column::concat(&both).map_err(SqlError::internal)?,
    };
    whole.take(places).map_err(SqlError::internal)
}

/// The encoded primary key of a row of a batch of all of a table's columns.
pub fn key_of(table: &Table, batch: &Batch, row: usize) -> Result<Vec<u8>, ColumnsError> {
    let columns: Vec<Column> = table.primary_key.iter().map(|column| batch.columns[*column].slice(row, 1)).collect();
    let key = SegmentKeys::new(table, &columns, 1).and_then(|mut keys| keys.key(0).map(<[u8]>::to_vec));
    key.map_err(|error| ColumnsError::Internal(error.message))
}
