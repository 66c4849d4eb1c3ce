//! Which columns of an input are used, and expressions over only those.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;

use crate::chain::renumber;

/// The position of the column that an expression is, if it is one.
pub fn column_index(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}

/// Columns of an input, in ascending order.
#[derive(Clone, Debug, Default)]
pub struct ColumnSet {
    columns: Vec<usize>,
}

impl ColumnSet {
    /// The columns that expressions name.
    pub fn of<'a>(exprs: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>) -> Self {
        let mut set = Self::default();
        for expr in exprs {
            set.extend(collect_columns(expr).iter().map(Column::index));
        }
        set
    }

    pub fn extend(&mut self, columns: impl IntoIterator<Item = usize>) {
        self.columns.extend(columns);
        self.columns.sort_unstable();
        self.columns.dedup();
    }

    /// Where a column is among those of the set.
    pub fn position(&self, column: usize) -> Option<usize> {
        self.columns.binary_search(&column).ok()
    }

    /// The same expression over the columns of the set, which has all that it names.
    pub fn renumber(&self, expr: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        renumber(expr, &|column| self.position(column).unwrap_or(column))
    }

    pub fn schema(&self, input: &Schema) -> Result<SchemaRef> {
        Ok(Arc::new(input.project(&self.columns)?))
    }

    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    pub fn into_columns(self) -> Vec<usize> {
        self.columns
    }
}
