//! What rows need that referential actions write: the CHECKs and hidden columns of their tables, and the defaults of
//! their columns.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema};
use datafusion::execution::context::SessionState;
use datafusion::physical_expr::PhysicalExpr;
use saki_base::{TableId, Value};

use super::row_checks::RowChecks;
use saki_catalog::convert::{array_of, conform};
use saki_catalog::{Catalog, ColumnReader, ReferentialAction, Result, SqlError, Table};
use saki_parameters::SessionTime;
use saki_postgres::dialect::{default, session_time};

/// Planned before a statement changes rows, for all tables that its changes may reach.
#[derive(Default)]
pub struct ActionRules {
    checks: HashMap<TableId, RowChecks>,
    defaults: HashMap<(TableId, usize), Arc<dyn PhysicalExpr>>,
    /// What the defaults are read by.
    time: SessionTime,
}

impl ActionRules {
    /// The rules for what follows from changes of a table's rows. `state` gives what expressions are planned with, and
    /// is asked only if there are any.
    ///
    /// # Errors
    /// When a condition or a default cannot be planned.
    pub fn new(state: impl Fn() -> SessionState, catalog: &Catalog, table: &Table) -> Result<Self> {
        let mut rules = Self::default();
        let mut reached = vec![table.id];
        let mut at = 0;
        while let Some(id) = reached.get(at).copied() {
            at += 1;
            for (from, key) in catalog.referencing(id) {
                let has_rules = !from.checks.is_empty() || from.has_filled();
                if has_rules && !rules.checks.contains_key(&from.id) {
                    rules.checks.insert(from.id, RowChecks::new(&state(), from)?);
                }
                if [key.on_delete, key.on_update].contains(&ReferentialAction::SetDefault) {
                    for column in &key.columns {
                        rules.plan_default(&state, catalog, from, *column)?;
                    }
                }
                if !reached.contains(&from.id) {
                    reached.push(from.id);
                }
            }
        }
        Ok(rules)
    }

    fn plan_default(
        &mut self,
        state: &impl Fn() -> SessionState,
        catalog: &Catalog,
        table: &Table,
        column: usize,
    ) -> Result<()> {
        if let Some(text) = table.default_of(catalog, column) {
            let state = state();
            self.time = session_time(state.config_options()).clone();
            self.defaults.insert((table.id, column), default(&state, &text)?);
        }
        Ok(())
    }

    /// What a column's DEFAULT is now.
    ///
    /// # Errors
    /// What evaluating it says, and 22P02 and its like if it is no value of the column.
    pub fn default_of(&self, table: &Table, column: usize) -> Result<Value> {
        let Some(expression) = self.defaults.get(&(table.id, column)) else { return Ok(Value::Null) };
        let one_row = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &one_row)?;
        let value = expression.evaluate(&row)?.into_array(1)?;
        let field = Field::new("default", value.data_type().clone(), true);
        let value = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![value])?;
        let conformed = conform(&value, table, &[column], 1, &self.time)?;
        Ok(Value::from(ColumnReader::new(conformed.column(column), &table.columns[column])?.value(0)))
    }

    /// Checks a row that an action has made, and gives its hidden columns their values; a hidden row id behind its
    /// columns is passed by.
    ///
    /// # Errors
    /// As [`RowChecks::check`] and [`RowChecks::complete`].
    pub fn complete(&self, table: &Table, row: &mut [Value]) -> Result<()> {
        let Some(checks) = self.checks.get(&table.id) else { return Ok(()) };
        let arrays = table.visible().iter().zip(&*row);
        let arrays = arrays.map(|(column, value)| array_of(column.data_type, std::slice::from_ref(value))).collect();
        let schema = table.schema();
        let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<Field>>())), arrays);
        let rows = rows.map_err(|error| SqlError::internal(error.to_string()))?;
        checks.check(&rows)?;
        let complete = checks.complete(&rows)?;
        let hidden = row.iter_mut().enumerate().zip(&table.columns).skip(table.width());
        for ((position, value), column) in hidden {
            *value = Value::from(ColumnReader::new(complete.column(position), column)?.value(0));
        }
        Ok(())
    }
}
