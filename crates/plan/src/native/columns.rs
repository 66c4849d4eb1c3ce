//! Which columns of an input are used, and expressions over only those.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;

use crate::access::chain::renumber;

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

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{binary, col};

    use super::*;
    use crate::fixture::small_schema;

    #[test]
    fn expressions_are_renumbered_to_the_columns_they_use() {
        let schema = small_schema();
        let sum = binary(col("k", &schema).unwrap(), Operator::Plus, col("v", &schema).unwrap(), &schema).unwrap();
        let name = col("s", &schema).unwrap();
        let set = ColumnSet::of([&name, &name]);
        assert_eq!((set.columns(), set.position(2), set.position(0)), (&[2][..], Some(0), None));
        assert_eq!(set.renumber(&name).to_string(), "s@0");
        assert_eq!(set.schema(&schema).unwrap().fields().len(), 1);
        let mut both = ColumnSet::of([&sum]);
        both.extend([2, 0]);
        assert_eq!(both.clone().into_columns(), [0, 1, 2]);
        assert_eq!(both.renumber(&sum).to_string(), "k@0 + v@1");
    }
}
