//! Rows of a system relation, made column by name: what is not stated is NULL, or zero where NULL may not be.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, ListArray, RecordBatch,
    StringArray, TimestampMicrosecondArray, new_null_array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field};
use datafusion::common::{DataFusionError, Result};

use super::definition::Definition;

/// A value of a system relation.
#[derive(Clone, Debug, Default)]
pub enum Cell {
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Cell>),
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Cell>> From<Vec<T>> for Cell {
    fn from(values: Vec<T>) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

/// The rows of one relation under way.
pub struct Rows {
    definition: &'static Definition,
    positions: HashMap<&'static str, usize>,
    columns: Vec<Vec<Cell>>,
    length: usize,
}

impl Rows {
    pub fn new(definition: &'static Definition) -> Self {
        let positions = definition.columns.iter().enumerate().map(|(at, column)| (column.name, at)).collect();
        Self { definition, positions, columns: vec![Vec::new(); definition.columns.len()], length: 0 }
    }

    /// Adds a row of these columns.
    pub fn push<const N: usize>(&mut self, cells: [(&str, Cell); N]) {
        for (name, cell) in cells {
            let at = self.positions.get(name);
            debug_assert!(at.is_some(), "{} has no column {name}", self.definition.name);
            if let Some(column) = at.and_then(|at| self.columns.get_mut(*at)) {
                column.resize(self.length, Cell::Null);
                column.push(cell);
            }
        }
        self.length += 1;
    }

    pub fn finish(mut self) -> Result<RecordBatch> {
        let mut arrays = Vec::with_capacity(self.columns.len());
        for (cells, field) in self.columns.iter_mut().zip(self.definition.arrow.fields()) {
            cells.resize(self.length, Cell::Null);
            if !field.is_nullable() {
                for cell in cells.iter_mut().filter(|cell| matches!(cell, Cell::Null)) {
                    *cell = zero(field.data_type());
                }
            }
            arrays.push(array(cells, field.data_type())?);
        }
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(self.length));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.definition.arrow), arrays, &options)?)
    }
}

fn zero(data_type: &DataType) -> Cell {
    match data_type {
        DataType::Boolean => Cell::Bool(false),
        DataType::Utf8 => Cell::Text(String::new()),
        DataType::Float32 | DataType::Float64 => Cell::Float(0.0),
        DataType::List(_) => Cell::List(Vec::new()),
        _ => Cell::Int(0),
    }
}

fn integer(cell: &Cell) -> Option<i64> {
    if let Cell::Int(value) = cell { Some(*value) } else { None }
}

fn float(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Float(value) => Some(*value),
        Cell::Int(value) => Some(*value as f64),
        _ => None,
    }
}

fn array(cells: &[Cell], data_type: &DataType) -> Result<ArrayRef> {
    let integers = || cells.iter().map(integer);
    Ok(match data_type {
        DataType::Boolean => Arc::new(BooleanArray::from_iter(
            cells.iter().map(|cell| if let Cell::Bool(value) = cell { Some(*value) } else { None }),
        )),
        DataType::Int16 => Arc::new(Int16Array::from_iter(integers().map(|v| v.and_then(|v| v.try_into().ok())))),
        DataType::Int32 => Arc::new(Int32Array::from_iter(integers().map(|v| v.and_then(|v| v.try_into().ok())))),
        DataType::Int64 => Arc::new(Int64Array::from_iter(integers())),
        DataType::Float32 => Arc::new(Float32Array::from_iter(cells.iter().map(|c| float(c).map(|v| v as f32)))),
        DataType::Float64 => Arc::new(Float64Array::from_iter(cells.iter().map(float))),
        DataType::Timestamp(_, zone) => {
            Arc::new(TimestampMicrosecondArray::from_iter(integers()).with_timezone_opt(zone.clone()))
        }
        DataType::Utf8 => Arc::new(StringArray::from_iter(
            cells.iter().map(|cell| if let Cell::Text(text) = cell { Some(text.as_str()) } else { None }),
        )),
        DataType::List(item) => list(cells, item)?,
        other => {
            return Err(DataFusionError::Internal(format!("system relations have no columns of type {other}")));
        }
    })
}

fn list(cells: &[Cell], item: &Arc<Field>) -> Result<ArrayRef> {
    let empty: &[Cell] = &[];
    let lists: Vec<Option<&[Cell]>> =
        cells.iter().map(|cell| if let Cell::List(items) = cell { Some(items.as_slice()) } else { None }).collect();
    if lists.iter().all(Option::is_none) {
        return Ok(new_null_array(&DataType::List(Arc::clone(item)), cells.len()));
    }
    let offsets = OffsetBuffer::from_lengths(lists.iter().map(|list| list.unwrap_or(empty).len()));
    let items: Vec<Cell> = lists.iter().flat_map(|list| list.unwrap_or(empty)).cloned().collect();
    let nulls = NullBuffer::from_iter(lists.iter().map(Option::is_some));
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, array(&items, item.data_type())?, Some(nulls))?))
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;

    use super::super::definition::find;
    use super::*;

    #[test]
    fn what_a_row_does_not_state_is_null_or_zero() {
        let mut rows = Rows::new(find("pg_catalog", "pg_constraint").unwrap());
        rows.push([("conname", "a".into()), ("conkey", vec![1_i64, 2].into())]);
        rows.push([("oid", 7_i64.into())]);
        let batch = rows.finish().unwrap();
        assert_eq!(batch.num_rows(), 2);
        let names = batch.column_by_name("conname").unwrap().as_string::<i32>();
        assert_eq!((names.value(0), names.value(1)), ("a", ""));
        let keys = batch.column_by_name("conkey").unwrap().as_list::<i32>();
        assert_eq!((keys.value_length(0), keys.is_null(1)), (2, true));
    }
}
