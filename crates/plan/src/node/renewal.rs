//! What nodes need to be made anew for another run.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::Schema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::physical_planning_context::ScalarSubqueryResults;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;

use super::env::QueryEnv;
use super::keys::DynamicKeys;

/// One renewal of a plan: what the new run has in the place of the old one's.
pub struct Renewal<'e> {
    env: &'e Arc<QueryEnv>,
    /// By the address of those that they take the place of.
    keys: HashMap<*const DynamicKeys, Arc<DynamicKeys>>,
    /// Of scalar subqueries, the old beside the new.
    results: Vec<(ScalarSubqueryResults, ScalarSubqueryResults)>,
}

impl<'e> Renewal<'e> {
    /// For a run in `env`.
    pub fn new(env: &'e Arc<QueryEnv>) -> Self {
        Self { env, keys: HashMap::new(), results: Vec::new() }
    }

    /// What the new run works with.
    pub fn env(&self) -> &'e Arc<QueryEnv> {
        self.env
    }

    /// New results of subqueries, in the place of `before`; known before anything that reads them is made anew.
    pub fn results(&mut self, before: &ScalarSubqueryResults, subqueries: usize) -> ScalarSubqueryResults {
        let results = ScalarSubqueryResults::new(subqueries);
        self.results.push((before.clone(), results.clone()));
        results
    }

    pub fn exprs(&self, before: &[Arc<dyn PhysicalExpr>]) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
        before.iter().map(|expr| self.expr(expr)).collect()
    }

    /// The same expression over the results of the new run's subqueries; itself if it reads none.
    pub fn expr(&self, before: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        if self.results.is_empty() {
            return Ok(Arc::clone(before));
        }
        let replaced = Arc::clone(before).transform_up(|expr| {
            let Some(read) = expr.downcast_ref::<ScalarSubqueryExpr>() else { return Ok(Transformed::no(expr)) };
            let new = self.results.iter().find(|(old, _)| old == read.results()).map(|(_, new)| new.clone());
            let new = new.ok_or_else(|| DataFusionError::Internal("a subquery that nothing runs".into()))?;
            let field = read.return_field(&Schema::empty())?;
            // Said to be for serialization alone, and there is no other way to make the expression again.
            #[expect(deprecated)]
            let index = read.index();
            let expr = ScalarSubqueryExpr::new(field.data_type().clone(), field.is_nullable(), index, new);
            Ok(Transformed::yes(Arc::new(expr) as Arc<dyn PhysicalExpr>))
        })?;
        Ok(if replaced.transformed { replaced.data } else { Arc::clone(before) })
    }

    /// The new run's keys, the same for all who share the old ones.
    pub fn keys(&mut self, before: &Arc<DynamicKeys>) -> Arc<DynamicKeys> {
        Arc::clone(self.keys.entry(Arc::as_ptr(before)).or_insert_with(|| Arc::new(before.renewed())))
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;
    use datafusion::logical_expr::Operator;
    use datafusion::logical_expr::physical_planning_context::SubqueryIndex;
    use datafusion::physical_expr::expressions::{BinaryExpr, lit};

    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn keys_that_two_nodes_share_are_shared_again() {
        let env = Fixture::new().default_env();
        let mut renewal = Renewal::new(&env);
        let (one, other) = (Arc::new(DynamicKeys::new("a = b")), Arc::new(DynamicKeys::new("a = b")));
        let first = renewal.keys(&one);
        assert!(!Arc::ptr_eq(&first, &one));
        assert!(Arc::ptr_eq(&renewal.keys(&one), &first));
        assert!(!Arc::ptr_eq(&renewal.keys(&other), &first));
        assert!(Arc::ptr_eq(renewal.env(), &env));
    }

    #[test]
    fn an_expression_reads_the_results_of_the_new_run() {
        let env = Fixture::new().default_env();
        let mut renewal = Renewal::new(&env);
        let old = ScalarSubqueryResults::new(1);
        let read: Arc<dyn PhysicalExpr> =
            Arc::new(ScalarSubqueryExpr::new(DataType::Int64, true, SubqueryIndex::new(0), old.clone()));
        let constant = lit(3_i64);
        let sum: Arc<dyn PhysicalExpr> = Arc::new(BinaryExpr::new(read, Operator::Plus, Arc::clone(&constant)));
        assert!(Arc::ptr_eq(&renewal.expr(&sum).unwrap(), &sum), "no subquery was renewed");
        let new = renewal.results(&old, 1);
        assert!(old != new);
        let renewed = renewal.exprs(&[Arc::clone(&sum), Arc::clone(&constant)]).unwrap();
        let reads = renewed[0].children()[0].downcast_ref::<ScalarSubqueryExpr>().unwrap().results().clone();
        assert!(reads == new);
        assert!(Arc::ptr_eq(&renewed[1], &constant), "what reads no subquery stays");
        let unknown: Arc<dyn PhysicalExpr> = Arc::new(ScalarSubqueryExpr::new(
            DataType::Int64,
            true,
            SubqueryIndex::new(0),
            ScalarSubqueryResults::new(1),
        ));
        assert!(renewal.expr(&unknown).is_err());
    }
}
