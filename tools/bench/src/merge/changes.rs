//! Changes of lineitem at uniform keys, in the format of its primary tree.

use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Date32Type, Decimal128Type, Int32Type, Int64Type};
use saki_base::{DataType, ValueRef};
use saki_sql::{ChangeSource, Database, KeyChange, Session, SqlError, Table};
use tokio::runtime::Runtime;

use crate::data::tpch::{rows_of, text};

/// Of ten rows drawn, so many are updated; of the rest, half are deleted and half have a row inserted behind them.
const UPDATED_OF_TEN: usize = 8;
/// Added to the line number of inserted rows, times the round: behind those that orders have, and new in every round.
const LINES_BEHIND: i32 = 1000;
/// Added to the quantity of an updated row, unscaled.
const QUANTITY_ADDED: i128 = 100;

/// Sorted changes in memory, and what they do to a sum.
pub struct Changes {
    list: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    given: usize,
    /// Rows more than before.
    pub rows_added: i64,
    /// What the sum of quantities is more than before, unscaled.
    pub quantity_added: i128,
}

impl ChangeSource for Changes {
    fn next(&mut self) -> Result<Option<KeyChange<'_>>, SqlError> {
        let next = self.list.get(self.given);
        self.given += 1;
        Ok(next.map(|(key, row)| (key.as_slice(), row.as_deref())))
    }
}

impl Changes {
    /// Draws about `rows` of the table's rows, others for another `round`, and changes each. So the rows there are
    /// are those that the table has now.
    pub fn draw(database: &Arc<Database>, runtime: &Runtime, rows: u64, round: u32) -> Result<Self, String> {
        let generation = database.generation();
        let table = generation.catalog.table("lineitem").map_err(text)?;
        let one_of = (table.root.entries / rows.max(1)).max(1);
        // A multiplicative hash of the key: rows are drawn without pattern.
        let sql = format!(
            "SELECT * FROM lineitem \
             WHERE ((l_orderkey * 40503 + l_linenumber::bigint * 2654435 + {round}) % 1000003) % {one_of} = 0"
        );
        let session = Session::new(database);
        let batches = runtime.block_on(rows_of(&session, &sql))?;
        let mut changes = Self { list: Vec::new(), given: 0, rows_added: 0, quantity_added: 0 };
        for batch in &batches {
            changes.add(table, batch, LINES_BEHIND * round as i32)?;
        }
        changes.list.sort_unstable();
        Ok(changes)
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    fn add(&mut self, table: &Table, batch: &RecordBatch, lines_behind: i32) -> Result<(), String> {
        let layout = table.primary_layout();
        let column = |name: &str| table.column(name).ok_or_else(|| format!("lineitem has no column {name}"));
        let (line, quantity) = (column("l_linenumber")?, column("l_quantity")?);
        for row in 0..batch.num_rows() {
            let mut values = values(table, batch, row)?;
            let ValueRef::Decimal(old) = values[quantity] else { return Err("l_quantity is no decimal".into()) };
            let kind = self.list.len() % 10;
            if kind < UPDATED_OF_TEN {
                values[quantity] = ValueRef::Decimal(old + QUANTITY_ADDED);
                self.quantity_added += QUANTITY_ADDED;
            } else if kind == UPDATED_OF_TEN {
                self.rows_added -= 1;
                self.quantity_added -= old;
            } else {
                let ValueRef::Int4(number) = values[line] else { return Err("l_linenumber is no integer".into()) };
                values[line] = ValueRef::Int4(number + lines_behind);
                self.rows_added += 1;
                self.quantity_added += old;
            }
            let of = |columns: &[usize]| columns.iter().map(|column| values[*column]).collect::<Vec<_>>();
            let (mut key, mut encoded) = (Vec::new(), Vec::new());
            layout.key.encode(&of(&layout.key_columns), &mut key).map_err(|error| error.to_string())?;
            layout.row.encode(&of(&layout.row_columns), &mut encoded).map_err(|error| error.to_string())?;
            self.list.push((key, (kind != UPDATED_OF_TEN).then_some(encoded)));
        }
        Ok(())
    }
}

/// A row's values, of the types that lineitem has.
fn values<'b>(table: &Table, batch: &'b RecordBatch, row: usize) -> Result<Vec<ValueRef<'b>>, String> {
    let value = |(column, array): (&saki_base::Column, &'b Arc<dyn Array>)| {
        Ok(match column.data_type {
            DataType::Int4 => ValueRef::Int4(array.as_primitive::<Int32Type>().value(row)),
            DataType::Int8 => ValueRef::Int8(array.as_primitive::<Int64Type>().value(row)),
            DataType::Date => ValueRef::Date(array.as_primitive::<Date32Type>().value(row)),
            DataType::Decimal { .. } => ValueRef::Decimal(array.as_primitive::<Decimal128Type>().value(row)),
            DataType::Char(_) | DataType::Varchar(_) | DataType::Text => {
                let text = match array.as_string_view_opt() {
                    Some(views) => views.value(row),
                    None => array.as_string::<i32>().value(row),
                };
                ValueRef::Text(text.trim_end_matches(' '))
            }
            other => return Err(format!("lineitem has a column of type {other}")),
        })
    };
    table.columns.iter().zip(batch.columns()).map(value).collect()
}
