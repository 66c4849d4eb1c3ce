//! NOT NULL and CHECK over batches of new rows, and the hidden columns that belong to these.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, BooleanArray, RecordBatch};
use datafusion::common::DFSchema;
use datafusion::execution::context::SessionState;
use datafusion::physical_expr::PhysicalExpr;

use saki_catalog::columns::{failing, missing};
use saki_catalog::convert::as_column;
use saki_catalog::{ColumnReader, Hidden, Result, SqlError, Table};
use saki_parameters::SessionTime;
use saki_postgres::dialect::{self, session_time};
use saki_postgres::statement::{has_subquery, parse_expression};

/// A table's conditions and hidden columns, ready to be evaluated.
pub struct RowChecks {
    table: Arc<Table>,
    checks: Vec<(String, Arc<dyn PhysicalExpr>)>,
    /// Hidden columns that rows have values in.
    filled: Vec<(usize, Arc<dyn PhysicalExpr>)>,
    /// What their values are read by.
    time: SessionTime,
}

impl RowChecks {
    /// Plans the CHECK constraints of a table, and what its hidden columns are. Conditions see the row only: subqueries
    /// and aggregates are refused.
    ///
    /// # Errors
    /// When a condition is none over the table's columns.
    pub fn new(state: &SessionState, table: &Arc<Table>) -> Result<Self> {
        let mut checks = Vec::with_capacity(table.checks.len());
        let schema = row_schema(table)?;
        for check in &table.checks {
            if has_subquery(&parse_expression(&check.expression)?) {
                return Err(SqlError::unsupported("cannot use subquery in check constraint"));
            }
            let condition = dialect::condition(state, &check.expression, &schema)?;
            checks.push((check.name.clone(), condition));
        }
        // As PostgreSQL: in the order of their names.
        checks.sort_by(|(a, _), (b, _)| a.cmp(b));
        let plan = |(column, hidden): (usize, &Hidden)| {
            Ok((column, dialect::expression(state, &hidden.expression(), &schema)?))
        };
        let filled = table.filled().map(plan).collect::<Result<_>>()?;
        let time = session_time(state.config_options()).clone();
        Ok(Self { table: Arc::clone(table), checks, filled, time })
    }

    /// Adds the hidden columns to rows that are what statements see of them: they are then what is stored.
    ///
    /// # Errors
    /// What evaluating an expression says: no row is stored that an index cannot have.
    pub fn complete(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        self.table.with_hidden(rows, |column| {
            let Some((_, expression)) = self.filled.iter().find(|(filled, _)| *filled == column) else {
                return Ok(None);
            };
            let values = expression.evaluate(rows)?.into_array(rows.num_rows())?;
            as_column(&values, &self.table.columns[column], &self.time).map(Some)
        })
    }

    /// Checks new rows: all columns of the table that statements see, in order, of its Arrow types.
    ///
    /// # Errors
    /// `Constraint`: 23502 for a NULL, 23514 for a condition that is false; the first row that fails is shown.
    pub fn check(&self, rows: &RecordBatch) -> Result<()> {
        for (position, column) in self.table.visible().iter().enumerate().filter(|(_, column)| !column.nullable) {
            let array = rows.column(position);
            if array.null_count() > 0 {
                let row = (0..array.len()).find(|row| array.is_null(*row)).unwrap_or(0);
                return Err(missing(column, &self.table, self.readers(rows)?.iter().map(|reader| reader.value(row))));
            }
        }
        for (name, condition) in &self.checks {
            let Some(row) = first_false(condition.as_ref(), rows)? else { continue };
            return Err(SqlError::constraint(format!(
                "new row for relation {:?} violates check constraint {name:?}",
                self.table.bare_name()
            ))
            .code("23514")
            .detail(failing(&self.table, self.readers(rows)?.iter().map(|reader| reader.value(row))))
            .of_constraint(&self.table, name));
        }
        Ok(())
    }

    fn readers<'r>(&self, rows: &'r RecordBatch) -> Result<Vec<ColumnReader<'r>>> {
        rows.columns().iter().zip(&self.table.columns).map(|(array, column)| ColumnReader::new(array, column)).collect()
    }
}

/// What expressions over a table's rows may name. Conditions may put the table's name before a column's.
///
/// # Errors
/// Of the planner.
pub fn row_schema(table: &Table) -> Result<DFSchema> {
    let fields: Vec<_> = table.schema().fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
    let schema = DFSchema::from_unqualified_fields(fields.into(), std::collections::HashMap::new())?;
    Ok(schema.replace_qualifier(table.bare_name().to_owned()))
}

/// The first row for which a condition is false; NULL passes.
fn first_false(condition: &dyn PhysicalExpr, rows: &RecordBatch) -> Result<Option<usize>> {
    let result = condition.evaluate(rows)?.into_array(rows.num_rows())?;
    let failed: &BooleanArray = result.as_boolean();
    if failed.false_count() == 0 {
        return Ok(None);
    }
    Ok((0..failed.len()).find(|row| failed.is_valid(*row) && !failed.value(*row)))
}
