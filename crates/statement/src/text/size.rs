//! How large a plan is. Common table expressions and views that name each other twice make plans that double with each
//! of them: what is one node in the statement is a thousand to the optimizer, and no memory is enough for sixty.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser;
use datafusion::sql::sqlparser::ast::{ObjectName, Query, Select, Statement, Visitor};

use crate::syntax::name_of;
use crate::walk::{walk, walk_expressions};
use saki_catalog::{Result, SqlError};

/// Nodes of a plan at most, each counted as often as it runs.
const NODES_MAX: u64 = 50_000;

/// Nodes of a statement or a plan that is planned in a moment: some milliseconds.
const MOMENT_NODES: u64 = 500;

/// Nodes that a SELECT makes beside its relations, at least: its values, and what brings it together with others.
const NODES_OF_SELECT: u64 = 2;

/// What WITH repeats is counted before there is a plan: the planner walks all of what it has made so far again for
/// each query around it.
///
/// # Errors
/// 54001 if a statement's queries make too many nodes.
pub fn refuse_doubled(statement: &Statement) -> Result<()> {
    match walk(statement, &mut Repeated::up_to(NODES_MAX)) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(too_large()),
    }
}

/// # Errors
/// 54001 if a plan has too many nodes.
pub fn refuse_large(plan: &LogicalPlan) -> Result<()> {
    if nodes(plan, &mut HashMap::new()) <= NODES_MAX { Ok(()) } else { Err(too_large()) }
}

/// Whether a statement takes more than a moment to plan.
pub fn is_long(statement: &parser::Statement) -> bool {
    let parser::Statement::Statement(statement) = statement else { return false };
    let mut left = MOMENT_NODES;
    let visited = walk_expressions(statement.as_ref(), |_| {
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    visited.is_break() || walk(statement, &mut Repeated::up_to(MOMENT_NODES)).is_break()
}

/// Whether a plan takes more than a moment to optimise.
pub fn is_large(plan: &LogicalPlan) -> bool {
    let mut left = MOMENT_NODES;
    let mut count = |nodes| {
        left = left.saturating_sub(nodes);
        if left == 0 { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue }
    };
    let walked = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| expr.apply(|_| Ok(count(1))))?;
        Ok(count(1))
    });
    left == 0 || walked.is_err()
}

fn too_large() -> SqlError {
    SqlError::invalid(format!("the statement's plan has more than {NODES_MAX} nodes"))
        .code("54001")
        .hint("put what WITH or views repeat into a table")
}

/// Counts queries and relations; a name of WITH as often as it is used.
struct Repeated {
    nodes_max: u64,
    open: Vec<OpenQuery>,
    /// Which names the queries of WITH give, by where they lie.
    names: HashMap<*const Query, String>,
}

/// A query whose parts are being counted.
#[derive(Default)]
struct OpenQuery {
    nodes: u64,
    /// Nodes of what its WITH names.
    named: HashMap<String, u64>,
}

impl Repeated {
    fn up_to(nodes_max: u64) -> Self {
        Self { nodes_max, open: Vec::new(), names: HashMap::new() }
    }

    fn add(&mut self, nodes: u64) -> ControlFlow<()> {
        let Some(query) = self.open.last_mut() else { return ControlFlow::Continue(()) };
        query.nodes = query.nodes.saturating_add(nodes);
        if query.nodes <= self.nodes_max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

impl Visitor for Repeated {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.open.push(OpenQuery { nodes: 1, ..OpenQuery::default() });
        for named in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.names.insert(&raw const *named.query, name_of(&named.alias.name));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let Some(closed) = self.open.pop() else { return ControlFlow::Continue(()) };
        let at: *const Query = query;
        match (self.names.remove(&at), self.open.last_mut()) {
            (Some(name), Some(around)) => {
                around.named.insert(name, closed.nodes);
                ControlFlow::Continue(())
            }
            _ => self.add(closed.nodes),
        }
    }

    fn pre_visit_select(&mut self, _: &Select) -> ControlFlow<()> {
        self.add(NODES_OF_SELECT)
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let name = match &relation.0[..] {
            [part] => part.as_ident().map(name_of),
            _ => None,
        };
        let named = |name: String| self.open.iter().rev().find_map(|query| query.named.get(&name).copied());
        let nodes = name.and_then(named).unwrap_or(1);
        self.add(nodes)
    }
}

/// Nodes from here down; `known` has those of nodes that have been met, by where they lie.
fn nodes(plan: &LogicalPlan, known: &mut HashMap<*const LogicalPlan, u64>) -> u64 {
    let at: *const LogicalPlan = plan;
    if let Some(count) = known.get(&at) {
        return *count;
    }
    let mut count = 1_u64;
    for input in plan.inputs() {
        count = count.saturating_add(nodes(input, known));
    }
    if let LogicalPlan::TableScan(scan) = plan
        && let Some(Cow::Borrowed(view)) = scan.source.get_logical_plan()
    {
        count = count.saturating_add(nodes(view, known));
    }
    let visited = plan.apply_subqueries(|query| {
        count = count.saturating_add(nodes(query, known));
        Ok(TreeNodeRecursion::Jump)
    });
    debug_assert!(visited.is_ok(), "counting does not fail");
    known.insert(at, count);
    count
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::logical_expr::LogicalPlanBuilder;

    use super::*;

    fn doubled(times: usize) -> LogicalPlan {
        let mut plan = LogicalPlanBuilder::empty(true).build().unwrap();
        for time in 0..times {
            let side = |name: &str| LogicalPlanBuilder::from(plan.clone()).alias(format!("{name}{time}")).unwrap();
            plan = side("a").cross_join(side("b").build().unwrap()).unwrap().build().unwrap();
        }
        plan
    }

    fn doubled_text(times: usize) -> Statement {
        let twice = |n: usize| format!(", a{n} AS (SELECT x.n FROM a{} x, a{} y)", n - 1, n - 1);
        let with: String = (1..=times).map(twice).collect();
        crate::fixture::parsed(&format!("WITH a0 AS (SELECT 1 AS n){with} SELECT count(*) FROM a{times}"))
    }

    #[test]
    fn what_with_repeats_counts_as_often_as_it_is_used() {
        assert!(refuse_doubled(&doubled_text(12)).is_ok());
        for times in [16, 60, 500] {
            assert_eq!(refuse_doubled(&doubled_text(times)).unwrap_err().sqlstate(), "54001");
        }
        let many = (0..1000).map(|_| "SELECT n FROM a").collect::<Vec<_>>().join(" UNION ALL ");
        let used = format!("WITH a AS (SELECT 1 AS n) {many}");
        assert!(refuse_doubled(&crate::fixture::parsed(&used)).is_ok(), "it is only long");
        let inner = "WITH a AS (SELECT 1 AS n) SELECT * FROM (WITH a AS (SELECT * FROM a, a b) SELECT n FROM a) q, a";
        let mut counted = Repeated::up_to(NODES_MAX);
        assert!(walk(&crate::fixture::parsed(inner), &mut counted).is_continue());
    }

    #[test]
    fn what_takes_more_than_a_moment_is_known_before_it_is_planned() {
        let long = |sql: &str| is_long(&parser::Statement::Statement(Box::new(crate::fixture::parsed(sql))));
        assert!(!long("SELECT a + 1 FROM t WHERE b IN (1, 2, 3)"));
        let terms = (0..600).map(|n| n.to_string()).collect::<Vec<_>>().join(" + ");
        assert!(long(&format!("SELECT {terms}")));
        assert!(is_long(&parser::Statement::Statement(Box::new(doubled_text(10)))));
        assert!(!is_large(&doubled(2)) && is_large(&doubled(10)));
    }

    #[test]
    fn what_is_shared_counts_as_often_as_it_runs_and_is_counted_once() {
        assert_eq!(nodes(&doubled(1), &mut HashMap::new()), 5);
        assert_eq!(nodes(&doubled(2), &mut HashMap::new()), 13);
        assert!(refuse_large(&doubled(10)).is_ok());
        let error = refuse_large(&doubled(70)).unwrap_err();
        assert_eq!(error.sqlstate(), "54001");
        let twice = LogicalPlanBuilder::from(doubled(60)).union(doubled(60)).unwrap().build().unwrap();
        assert!(refuse_large(&Arc::unwrap_or_clone(Arc::new(twice))).is_err());
    }
}
