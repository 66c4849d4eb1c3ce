//! Columns that statements see, and those that they do not: the keys of indexes over expressions, and of indexes that
//! have a condition.
//!
//! Hidden columns are stored like any other, and lie behind those that statements see. Each belongs to one index.
//! Trees, segments, deltas and statistics have all columns; batches within statements, and the schemas that the planner
//! sees, only those that are seen. Who encodes rows adds the others (`RowChecks::complete`, in `context`), and nobody
//! else knows how they are made. A batch without them is refused by [`crate::ColumnReader::of_batch`].
//!
//! A hidden column whose index has gone is NULL in new rows. It goes itself when the rows are written anew.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_schema::{Field, Schema, SchemaRef};
use saki_base::Column;

use crate::catalog::constraint::Hidden;
use crate::catalog::{Index, Table};
use crate::error::Result;

impl Table {
    /// How many columns statements see.
    pub fn width(&self) -> usize {
        self.details.iter().position(|detail| detail.hidden.is_some()).unwrap_or(self.columns.len())
    }

    /// The columns that statements see.
    pub fn visible(&self) -> &[Column] {
        &self.columns[..self.width().min(self.columns.len())]
    }

    /// The position of a column that statements see.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.visible().iter().position(|column| column.name == name)
    }

    /// What a hidden column is made of.
    pub fn hidden(&self, column: usize) -> Option<&Hidden> {
        self.details.get(column)?.hidden.as_ref()
    }

    /// Hidden columns that have an index, in order: those that new rows have values in.
    pub fn filled(&self) -> impl Iterator<Item = (usize, &Hidden)> {
        let has_index = move |column: usize| self.indexes.iter().any(|index| index.is_over(column));
        (self.width()..self.columns.len())
            .filter(move |column| has_index(*column))
            .filter_map(move |column| Some((column, self.hidden(column)?)))
    }

    /// Whether new rows have values in hidden columns.
    pub fn has_filled(&self) -> bool {
        self.filled().next().is_some()
    }

    /// A hidden column that has lost its index.
    pub fn unused(&self) -> Option<usize> {
        (self.width()..self.columns.len()).find(|column| !self.indexes.iter().any(|index| index.is_over(*column)))
    }

    /// The table as queries see it.
    pub fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.visible().iter().map(field).collect::<Vec<_>>()))
    }

    /// All columns. The hidden ones have names that no statement can spell.
    pub fn stored_schema(&self) -> SchemaRef {
        let hidden = (self.width()..self.columns.len())
            .map(|column| field(&self.columns[column]).with_name(format!("\0hidden {column}")));
        Arc::new(Schema::new(self.visible().iter().map(field).chain(hidden).collect::<Vec<_>>()))
    }

    /// Rows with hidden columns behind those that statements see: what `values` has for a column, and NULL without.
    ///
    /// # Errors
    /// Those of `values`.
    pub fn with_hidden(
        &self,
        rows: &RecordBatch,
        values: impl Fn(usize) -> Result<Option<ArrayRef>>,
    ) -> Result<RecordBatch> {
        if self.width() == self.columns.len() {
            return Ok(rows.clone());
        }
        let schema = self.stored_schema();
        let mut arrays = rows.columns().to_vec();
        for column in self.width()..self.columns.len() {
            let null = || new_null_array(schema.field(column).data_type(), rows.num_rows());
            arrays.push(values(column)?.unwrap_or_else(null));
        }
        let fields: Vec<Field> = schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
    }
}

fn field(column: &Column) -> Field {
    Field::new(&column.name, saki_exec::arrow_type(column.data_type), column.nullable)
}

impl Index {
    /// Whether a column is one of its keys.
    pub fn is_over(&self, column: usize) -> bool {
        self.columns.iter().any(|key| key.column == column)
    }

    /// Whether it has a key that is an expression, or a condition.
    pub fn has_hidden(&self, table: &Table) -> bool {
        self.columns.iter().any(|key| table.hidden(key.column).is_some())
    }

    /// The condition that rows have to meet to be in it: SQL text. All keys of such an index are hidden.
    pub fn predicate<'t>(&self, table: &'t Table) -> Option<&'t str> {
        table.hidden(self.columns.first()?.column)?.predicate.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use saki_base::DataType;

    use super::*;
    use crate::catalog::ColumnDetail;
    use crate::fixture::{column, index, table};

    /// `a` and `b`, an index over `lower(b)`, and what one over `a WHERE b IS NULL` has left.
    fn mixed() -> Table {
        let names = [("a", DataType::Int4), ("b", DataType::Text), ("lower(b)", DataType::Text), ("a", DataType::Int4)];
        let columns = names.iter().map(|(name, data_type)| column(name, *data_type, true)).collect();
        let mut table = table("t", columns, Vec::new());
        table.details[2].hidden = Some(Hidden { key: "lower(b)".into(), predicate: None });
        table.details[3].hidden = Some(Hidden { key: "a".into(), predicate: Some("b IS NULL".into()) });
        table.indexes.push(index("t_lower", &[(2, false)], true, &[]));
        table
    }

    #[test]
    fn statements_see_what_is_not_hidden() {
        let table = mixed();
        assert_eq!((table.width(), table.visible().len(), table.schema().fields().len()), (2, 2, 2));
        assert_eq!((table.column("b"), table.column("lower(b)"), table.row_id()), (Some(1), None, 4));
        let stored = table.stored_schema();
        let names: Vec<&str> = stored.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["a", "b", "\0hidden 2", "\0hidden 3"], "two columns may not have one name");
    }

    #[test]
    fn a_hidden_column_is_filled_for_its_index_alone() {
        let mut table = mixed();
        assert_eq!(table.filled().map(|(column, _)| column).collect::<Vec<_>>(), [2]);
        assert_eq!(table.unused(), Some(3));
        table.indexes.push(index("t_a", &[(3, false)], false, &[]));
        assert_eq!(table.filled().count(), 2);
        assert_eq!((table.unused(), table.indexes[1].predicate(&table)), (None, Some("b IS NULL")));
        assert_eq!(table.indexes[0].predicate(&table), None);
        table.indexes.clear();
        assert!(!table.has_filled());
    }

    #[test]
    fn rows_get_their_hidden_columns_behind_the_others() {
        use arrow_array::{Array, Int32Array, StringArray};
        let table = mixed();
        let a: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        let b: ArrayRef = Arc::new(StringArray::from(vec!["X", "Y"]));
        let rows = RecordBatch::try_from_iter([("a", a), ("b", b)]).unwrap();
        let lower: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
        let complete = table.with_hidden(&rows, |column| Ok((column == 2).then(|| Arc::clone(&lower)))).unwrap();
        assert_eq!((complete.num_columns(), complete.column(2)), (4, &lower));
        assert_eq!(complete.column(3).null_count(), 2);
        assert!(crate::ColumnReader::of_batch(&complete, &table, 0).is_ok());
        assert!(crate::ColumnReader::of_batch(&rows, &table, 0).is_err(), "what is stored has all columns");
    }

    #[test]
    fn rows_outside_of_a_condition_have_no_key() {
        let table = mixed();
        assert_eq!(table.hidden(2).unwrap().expression(), "lower(b)");
        assert_eq!(table.hidden(3).unwrap().expression(), "CASE WHEN b IS NULL THEN a END");
    }

    #[test]
    fn a_table_without_hidden_columns_is_written_as_ever() {
        let detail = serde_json::to_string(&ColumnDetail::default()).unwrap();
        assert!(!detail.contains("hidden"), "{detail}");
        let read: ColumnDetail = serde_json::from_str(&detail).unwrap();
        assert_eq!(read.hidden, None);
    }
}
