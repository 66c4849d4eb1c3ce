//! A scan in terms of its table.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::physical_expr::PhysicalExpr;
use saki_catalog::{ColumnTest, Table};

use super::conditions;

/// What a scan reads, in terms of its table: enough to look the table up by key instead.
#[derive(Clone, Debug)]
pub struct ScanInfo {
    pub table: Arc<Table>,
    /// Table column of each output column.
    pub columns: Vec<usize>,
    pub tests: Vec<ColumnTest>,
    /// Conditions that are no tests; column `i` is table column `i`.
    pub rest: Vec<Arc<dyn PhysicalExpr>>,
    /// Rows the scan would yield.
    pub rows: f64,
}

impl ScanInfo {
    /// The same for other values of parameters; `None` where one of them asks for another plan.
    pub fn rebound(&self, values: &[ScalarValue]) -> Option<Self> {
        let tests =
            self.tests.iter().map(|test| conditions::rebound(test, &self.table, values)).collect::<Option<_>>()?;
        Some(Self { tests, ..self.clone() })
    }
}
