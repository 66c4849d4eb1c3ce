//! What a scan of segments is made of.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use datafusion::physical_expr::PhysicalExpr;
use saki_catalog::guesses;
use saki_columns::SegmentTable;

use crate::access::chain::renumber;
use crate::access::conditions;
use crate::access::scan::ScanInfo;
use crate::cost::Estimate;
use crate::node::{DynamicKeys, QueryEnv};

/// What a node reads: the parts that are chosen; the rest follows from them.
#[derive(Clone)]
pub struct ColumnScanParts {
    pub env: Arc<QueryEnv>,
    pub segments: Arc<SegmentTable>,
    /// Table, output columns, conditions, and the rows that are expected.
    pub scan: Arc<ScanInfo>,
    pub estimate: Estimate,
    pub limit: Option<usize>,
    /// Conditions from joins above: a column of the table, and the keys that it needs to have a partner.
    pub keys: Vec<(usize, Arc<DynamicKeys>)>,
}

impl ColumnScanParts {
    /// The columns that leave the scan.
    pub fn schema(&self) -> SchemaRef {
        let table = self.scan.table.stored_schema();
        let fields: Vec<_> = self.scan.columns.iter().map(|column| table.field(*column).clone()).collect();
        Arc::new(Schema::new(fields))
    }

    /// Partitions, and whether one of them is for what is newer than the segments: within each, keys ascend.
    pub fn partitions(&self) -> (usize, bool) {
        // Segments are what partitions share.
        let partitions = self.env.settings.scan_partitions().min(self.segments.segments.len()).max(1);
        let has_apart = partitions > 1 && self.env.snapshot.delta(&self.scan.table).is_some();
        (partitions + usize::from(has_apart), has_apart)
    }

    /// The same scan with only the output columns at `positions`.
    #[must_use]
    pub fn projected(&self, positions: &[usize]) -> Self {
        let columns = positions.iter().map(|position| self.scan.columns[*position]).collect();
        let scan = Arc::new(ScanInfo { columns, ..ScanInfo::clone(&self.scan) });
        Self { scan, ..self.clone() }
    }

    /// The same scan with a condition on its output.
    #[must_use]
    pub fn filtered(&self, condition: &Arc<dyn PhysicalExpr>) -> Self {
        let mut scan = ScanInfo::clone(&self.scan);
        let over_table = renumber(condition, &|output| scan.columns[output]);
        let type_of = |column: usize| scan.table.columns.get(column).map(|column| column.data_type);
        conditions::split(&over_table, &type_of, &mut scan.tests, &mut scan.rest);
        scan.rows = guesses::filtered(scan.rows);
        let estimate = Estimate { rows: scan.rows, ..self.estimate };
        Self { estimate, scan: Arc::new(scan), ..self.clone() }
    }
}
