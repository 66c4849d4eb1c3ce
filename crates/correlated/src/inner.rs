//! A subquery taken apart: what it does with columns, its order and LIMIT, and the equalities that tie it to a row
//! outside.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, Result, TableReference};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::Sort as SortExpr;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprFunctionExt, ExprSchemable, FetchType, LogicalPlan, LogicalPlanBuilder, Operator, SkipType,
    WindowFrame, in_subquery, lit,
};

/// The column with a row's number among those of its key.
const NUMBER: &str = "\u{1}number";

/// How many rows a subquery has for a row outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rows {
    /// One, as it is an aggregate.
    Aggregated,
    /// So many at most.
    Limited(usize),
    All,
}

/// What is done with columns, and nothing with their values.
enum Step {
    Project(Vec<Expr>),
    Alias(TableReference),
}

/// A subquery, from the top: steps, LIMIT and order, and the filter with its equalities.
pub struct Inner<'q> {
    query: &'q LogicalPlan,
    /// From the top down, each with what comes out of it.
    steps: Vec<(Step, DFSchemaRef)>,
    /// Rows that are left out, and then taken.
    limit: Option<(usize, usize)>,
    /// By what it is sorted, in columns of what `steps` from this one on give.
    order: Option<(usize, Vec<SortExpr>)>,
    /// An aggregate of all rows, beneath the steps.
    aggregated: Option<&'q LogicalPlan>,
    filter: Option<Correlated<'q>>,
}

/// A filter with conditions about the row outside.
struct Correlated<'q> {
    input: &'q LogicalPlan,
    /// Equalities.
    outer: Vec<Expr>,
    /// What they compare with values of the row outside.
    keys: Vec<Expr>,
    others: Vec<Expr>,
}

impl<'q> Inner<'q> {
    /// `None`: it does other things, or is tied otherwise.
    pub fn of(query: &'q LogicalPlan) -> Result<Option<Self>> {
        if any_expression(query, Expr::is_volatile)? {
            return Ok(None);
        }
        let mut inner = Self { query, steps: Vec::new(), limit: None, order: None, aggregated: None, filter: None };
        let mut node = query;
        loop {
            match node {
                LogicalPlan::Limit(limit) if inner.limit.is_none() && inner.order.is_none() => {
                    let (SkipType::Literal(skip), FetchType::Literal(Some(fetch))) =
                        (limit.get_skip_type()?, limit.get_fetch_type()?)
                    else {
                        return Ok(None);
                    };
                    inner.limit = Some((skip, fetch));
                    node = &limit.input;
                }
                LogicalPlan::Sort(sort)
                    if sort.fetch.is_none()
                        && inner.order.is_none()
                        && sort.expr.iter().all(|by| matches!(by.expr, Expr::Column(_))) =>
                {
                    inner.order = Some((inner.steps.len(), sort.expr.clone()));
                    node = &sort.input;
                }
                LogicalPlan::Projection(projection) if projection.expr.iter().all(is_plain) => {
                    let step = Step::Project(projection.expr.clone());
                    inner.steps.push((step, projection.schema.clone()));
                    node = &projection.input;
                }
                LogicalPlan::SubqueryAlias(alias) => {
                    inner.steps.push((Step::Alias(alias.alias.clone()), alias.schema.clone()));
                    node = &alias.input;
                }
                LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => {
                    inner.aggregated = Some(node);
                    return Ok(Some(inner));
                }
                LogicalPlan::Filter(filter) => {
                    inner.filter = Correlated::of(&filter.predicate, &filter.input)?;
                    return Ok(inner.filter.is_some().then_some(inner));
                }
                _ => return Ok(None),
            }
        }
    }

    pub fn rows(&self) -> Rows {
        match (self.aggregated, self.limit) {
            (Some(_), _) => Rows::Aggregated,
            (None, Some((_, fetch))) => Rows::Limited(fetch),
            (None, None) => Rows::All,
        }
    }

    /// An aggregate without the order of its one row, and without a LIMIT that lets it through; `None` if there is
    /// nothing to leave out, or too much.
    pub fn unlimited(&self) -> Result<Option<LogicalPlan>> {
        let is_idle = match self.limit {
            Some((skip, fetch)) => skip == 0 && fetch > 0,
            None => self.order.is_some(),
        };
        match self.aggregated {
            Some(aggregate) if is_idle => self.climb(aggregate.clone()).map(Some),
            _ => Ok(None),
        }
    }

    /// All rows, in any order.
    pub fn all(&self) -> Result<LogicalPlan> {
        match (&self.filter, &self.order) {
            (Some(filter), Some(_)) => self.climb(filter.ties(filter.rows()?)?),
            _ => Ok(self.query.clone()),
        }
    }

    /// The rows that LIMIT takes of each row outside, in any order, by their numbers. Where `outside` leaves rows out,
    /// those of keys that it does not have are not numbered.
    pub fn limited(&self, outside: &LogicalPlan) -> Result<LogicalPlan> {
        let (Some(filter), Some((skip, fetch))) = (&self.filter, self.limit) else { return Ok(self.query.clone()) };
        let mut order = Vec::new();
        for (below, by) in self.order.iter().flat_map(|(below, order)| order.iter().map(|by| (*below, by))) {
            order.extend(self.beneath(below, by)?);
        }
        // Of the rows so far: so they are numbered as they come.
        let so_far = WindowFrame::new(Some(true));
        let number = row_number().partition_by(filter.keys.clone()).order_by(order).window_frame(so_far);
        let number = number.build()?.alias(NUMBER);
        let number_of = || Expr::Column(Column::from_name(NUMBER));
        let last = skip.saturating_add(fetch);
        let taken = number_of().gt(lit(skip as u64)).and(number_of().lt_eq(lit(last as u64)));
        let rows = filter.wanted_rows(outside)?;
        let columns: Vec<Expr> = rows.schema().columns().into_iter().map(Expr::Column).collect();
        let numbered = LogicalPlanBuilder::from(rows).window([number])?.filter(taken)?.project(columns)?.build()?;
        self.climb(filter.ties(numbered)?)
    }

    /// What an order is by, as a column of the filter's input; nothing if it is a constant.
    fn beneath(&self, below: usize, by: &SortExpr) -> Result<Option<SortExpr>> {
        let Expr::Column(mut column) = by.expr.clone() else { return Ok(None) };
        for (at, (step, schema)) in self.steps.iter().enumerate().skip(below) {
            let place = schema.index_of_column(&column)?;
            column = match step {
                Step::Project(exprs) => match exprs[place].clone().unalias_nested().data {
                    Expr::Column(column) => column,
                    _ => return Ok(None),
                },
                Step::Alias(_) => self.schema_below(at).columns().swap_remove(place),
            };
        }
        Ok(Some(SortExpr { expr: Expr::Column(column), ..by.clone() }))
    }

    /// The columns of what goes into a step.
    fn schema_below(&self, at: usize) -> &DFSchemaRef {
        match (self.steps.get(at + 1), &self.filter) {
            (Some((_, schema)), _) => schema,
            (None, Some(filter)) => filter.input.schema(),
            (None, None) => self.query.schema(),
        }
    }

    /// The steps over another plan of the same columns.
    fn climb(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let mut built = LogicalPlanBuilder::from(plan);
        for (step, _) in self.steps.iter().rev() {
            built = match step {
                Step::Project(exprs) => built.project(exprs.iter().cloned())?,
                Step::Alias(alias) => built.alias(alias.clone())?,
            };
        }
        built.build()
    }
}

impl<'q> Correlated<'q> {
    fn of(predicate: &Expr, input: &'q LogicalPlan) -> Result<Option<Self>> {
        let (outer, others): (Vec<&Expr>, Vec<&Expr>) =
            split_conjunction(predicate).into_iter().partition(|condition| condition.contains_outer());
        let mut keys = Vec::new();
        for condition in &outer {
            match sides_of(condition) {
                Some((key, _)) if !key.get_type(input.schema())?.is_floating() => keys.push(key.clone()),
                _ => return Ok(None),
            }
        }
        if keys.is_empty() || refers_out(input)? {
            return Ok(None);
        }
        let mut seen = HashSet::new();
        keys.retain(|key| seen.insert(key.clone()));
        let owned = |conditions: Vec<&Expr>| conditions.into_iter().cloned().collect();
        Ok(Some(Self { input, outer: owned(outer), keys, others: owned(others) }))
    }

    /// The rows of all keys.
    fn rows(&self) -> Result<LogicalPlan> {
        filtered(self.input.clone(), &self.others)
    }

    /// Those of the keys that there are outside, if not all rows are there; else all.
    fn wanted_rows(&self, outside: &LogicalPlan) -> Result<LogicalPlan> {
        let rows = self.rows()?;
        if !leaves_out(outside)? || any_expression(outside, Expr::is_volatile)? || refers_out(outside)? {
            return Ok(rows);
        }
        let mut wanted = LogicalPlanBuilder::from(rows);
        for condition in &self.outer {
            let Some((key, outer)) = sides_of(condition) else { continue };
            let there = outer.clone().transform_up(|expr| {
                Ok(match expr {
                    Expr::OuterReferenceColumn(_, column) => Transformed::yes(Expr::Column(column)),
                    other => Transformed::no(other),
                })
            })?;
            if there.data.column_refs().iter().all(|column| outside.schema().has_column(column)) {
                let keys = LogicalPlanBuilder::from(outside.clone()).project([there.data])?.build()?;
                wanted = wanted.filter(in_subquery(key.clone(), Arc::new(keys)))?;
            }
        }
        wanted.build()
    }

    /// Those of rows that are the row outside's.
    fn ties(&self, rows: LogicalPlan) -> Result<LogicalPlan> {
        filtered(rows, &self.outer)
    }
}

/// The rows of a plan that fulfil all conditions.
pub fn filtered<'e>(plan: LogicalPlan, conditions: impl IntoIterator<Item = &'e Expr>) -> Result<LogicalPlan> {
    match conjunction(conditions.into_iter().cloned()) {
        Some(condition) => LogicalPlanBuilder::from(plan).filter(condition)?.build(),
        None => Ok(plan),
    }
}

/// A column, and the column of the row outside that a condition says to equal it; each perhaps cast to a type that
/// holds it.
fn sides_of(condition: &Expr) -> Option<(&Expr, &Expr)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return None };
    let (key, outer) = match (left.contains_outer(), right.contains_outer()) {
        (false, true) => (left, right),
        (true, false) => (right, left),
        _ => return None,
    };
    let is_it = |expr: &Expr, is_column: fn(&Expr) -> bool| match expr {
        Expr::Cast(cast) => is_column(&cast.expr),
        bare => is_column(bare),
    };
    let is_outer = is_it(outer, |expr| matches!(expr, Expr::OuterReferenceColumn(..)));
    (is_outer && is_it(key, |expr| matches!(expr, Expr::Column(_)))).then_some((key, outer))
}

/// Whether a plan has less than all rows of its tables.
fn leaves_out(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| {
        Ok(!matches!(
            node,
            LogicalPlan::Projection(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::TableScan(_)
                | LogicalPlan::Sort(_)
        ))
    })
}

/// Whether an expression is a column or a constant: it cannot fail.
pub fn is_plain(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_plain(&alias.expr),
        Expr::Column(_) | Expr::Literal(..) => true,
        // It is worked out, or refused, before there are rows.
        Expr::Cast(cast) => matches!(*cast.expr, Expr::Literal(..)),
        _ => false,
    }
}

pub fn any_expression(plan: &LogicalPlan, is_it: impl Fn(&Expr) -> bool) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= is_it(expr);
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

pub fn refers_out(plan: &LogicalPlan) -> Result<bool> {
    any_expression(plan, Expr::contains_outer)
}
