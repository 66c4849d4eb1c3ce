//! Relations and the conditions between them, and the search for the cheapest order to join them in.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::logical_expr::{Expr, Operator};
use hashbrown::HashMap;

use crate::cost::{Costs, Estimate};
use crate::node::QueryEnv;
use saki_catalog::{ColumnTest, Table, TableAccess, guesses};
use saki_settings::IndexJoin;

/// Up to so many relations every order is tried.
const EXHAUSTIVE_RELATIONS: usize = 10;
/// CPU seconds for a row that one join hands to the next.
const ROW_SECONDS: f64 = 30e-9;

/// An input of the joins.
pub struct Relation {
    pub columns: Vec<Column>,
    /// The table it is a scan of.
    pub table: Option<Arc<Table>>,
    /// Table column of each column.
    pub sources: Vec<Option<usize>>,
    pub tests: Vec<ColumnTest>,
    /// A plain scan, so that it can be looked up in.
    pub lookup: bool,
    pub estimate: Estimate,
}

impl Relation {
    pub fn position(&self, column: &Column) -> Option<usize> {
        self.columns.iter().position(|c| c == column)
    }

    fn source(&self, column: &Column) -> Option<(&Arc<Table>, usize)> {
        Some((self.table.as_ref()?, self.sources[self.position(column)?]?))
    }
}

/// A condition and the relations it names.
#[derive(Clone, Debug)]
pub struct Condition {
    pub relations: u64,
    /// Of an equality between different relations: those of each side.
    pub sides: Option<(u64, u64)>,
    /// The columns of such an equality, where both sides are plain.
    columns: Option<(Column, Column)>,
}

impl Condition {
    pub fn place(expr: &Expr, relations: &[Relation]) -> Option<Self> {
        let named = relations_of(expr, relations)?;
        if let Expr::BinaryExpr(binary) = expr
            && binary.op == Operator::Eq
        {
            let sides = (relations_of(&binary.left, relations)?, relations_of(&binary.right, relations)?);
            if sides.0 != 0 && sides.1 != 0 && sides.0 & sides.1 == 0 {
                let columns = plain_column(&binary.left).cloned().zip(plain_column(&binary.right).cloned());
                return Some(Self { relations: named, sides: Some(sides), columns });
            }
        }
        Some(Self { relations: named, sides: None, columns: None })
    }
}

/// An order: which relations are joined with which.
#[derive(Clone, Debug)]
pub enum Order {
    Leaf(usize),
    Join(Arc<Order>, Arc<Order>),
}

impl Order {
    pub fn relations(&self) -> u64 {
        match self {
            Self::Leaf(relation) => 1 << relation,
            Self::Join(left, right) => left.relations() | right.relations(),
        }
    }
}

/// The best way found to join a set of relations.
#[derive(Clone)]
struct Best {
    order: Arc<Order>,
    seconds: f64,
}

/// Relations, conditions, and the environment that prices them.
pub struct JoinGraph {
    pub relations: Vec<Relation>,
    pub conditions: Vec<Condition>,
    env: Arc<QueryEnv>,
}

impl JoinGraph {
    pub fn new(relations: Vec<Relation>, conditions: Vec<Condition>, env: &Arc<QueryEnv>) -> Self {
        Self { relations, conditions, env: Arc::clone(env) }
    }

    /// The cheapest order.
    pub fn best(&self) -> Order {
        let best = if self.relations.len() <= EXHAUSTIVE_RELATIONS { self.exhaustive() } else { self.greedy() };
        Arc::unwrap_or_clone(best.order)
    }

    fn leaf(&self, relation: usize) -> Best {
        Best { order: Arc::new(Order::Leaf(relation)), seconds: self.relations[relation].estimate.seconds }
    }

    fn exhaustive(&self) -> Best {
        let all: u64 = (1 << self.relations.len()) - 1;
        let mut best: HashMap<u64, Best> = (0..self.relations.len()).map(|r| (1 << r, self.leaf(r))).collect();
        let mut rows: HashMap<u64, f64> = HashMap::new();
        for set in 1..=all {
            rows.insert(set, self.rows(set));
        }
        for set in 1..=all {
            if set.count_ones() < 2 {
                continue;
            }
            let mut found: Option<Best> = None;
            // A cross product only where no condition joins any two parts.
            for crossing in [false, true] {
                let mut left = (set - 1) & set;
                while left > 0 {
                    let right = set & !left;
                    if let (Some(a), Some(b)) = (best.get(&left), best.get(&right))
                        && (crossing || self.connected(left, right))
                    {
                        let seconds = self.join_seconds(a, b, left, right, &rows);
                        if found.as_ref().is_none_or(|known| seconds < known.seconds) {
                            let order = Order::Join(Arc::clone(&a.order), Arc::clone(&b.order));
                            found = Some(Best { order: Arc::new(order), seconds });
                        }
                    }
                    left = (left - 1) & set;
                }
                if found.is_some() || set != all {
                    break;
                }
            }
            if let Some(found) = found {
                best.insert(set, found);
            }
        }
        match best.remove(&all) {
            Some(best) => best,
            // Several unconnected parts.
            None => self.greedy(),
        }
    }

    /// Joins the two parts that are cheapest to join, until one is left.
    fn greedy(&self) -> Best {
        let mut parts: Vec<(u64, Best)> = (0..self.relations.len()).map(|r| (1 << r, self.leaf(r))).collect();
        let mut rows: HashMap<u64, f64> = parts.iter().map(|(set, _)| (*set, self.rows(*set))).collect();
        while parts.len() > 1 {
            let any_connected =
                (0..parts.len()).any(|i| (0..parts.len()).any(|j| i != j && self.connected(parts[i].0, parts[j].0)));
            let mut found: Option<(usize, usize, f64, f64)> = None;
            for i in 0..parts.len() {
                for j in 0..parts.len() {
                    let (left, right) = (parts[i].0, parts[j].0);
                    if i == j || (any_connected && !self.connected(left, right)) {
                        continue;
                    }
                    let joined = self.rows(left | right);
                    rows.insert(left | right, joined);
                    let seconds = self.join_seconds(&parts[i].1, &parts[j].1, left, right, &rows);
                    let score = seconds - parts[i].1.seconds - parts[j].1.seconds + joined * ROW_SECONDS;
                    if found.is_none_or(|(.., known, _)| score < known) {
                        found = Some((i, j, score, seconds));
                    }
                }
            }
            let Some((i, j, _, seconds)) = found else { break };
            let order = Order::Join(Arc::clone(&parts[i].1.order), Arc::clone(&parts[j].1.order));
            let joined = (parts[i].0 | parts[j].0, Best { order: Arc::new(order), seconds });
            parts.remove(i.max(j));
            parts.remove(i.min(j));
            parts.push(joined);
        }
        parts.swap_remove(0).1
    }

    fn connected(&self, left: u64, right: u64) -> bool {
        self.conditions.iter().any(|c| {
            c.sides.is_some_and(|(a, b)| (a & !left == 0 && b & !right == 0) || (b & !left == 0 && a & !right == 0))
        })
    }

    /// Rows of a set of relations, whatever the order in which they are joined.
    fn rows(&self, set: u64) -> f64 {
        let inside = |c: &&Condition| c.relations & !set == 0;
        let mut rows: f64 = self.members(set).map(|r| self.relations[r].estimate.rows).product();
        let mut pairs: HashMap<(u64, u64), Vec<&Condition>> = HashMap::new();
        for condition in self.conditions.iter().filter(inside) {
            match condition.sides {
                Some((a, b)) => pairs.entry((a.min(b), a.max(b))).or_default().push(condition),
                None => rows *= guesses::JOIN_CONDITION,
            }
        }
        for conditions in pairs.values() {
            rows *= self.equality_selectivity(conditions);
        }
        rows.max(guesses::JOINED_ROWS_MIN)
    }

    /// Share of the pairs of two relations' rows that agree in all columns compared.
    fn equality_selectivity(&self, conditions: &[&Condition]) -> f64 {
        let mut sides: HashMap<u64, (Arc<Table>, Vec<usize>)> = HashMap::new();
        let mut unknown = 0;
        for condition in conditions {
            let (Some((a, b)), Some((left, right))) = (condition.sides, &condition.columns) else {
                unknown += 1;
                continue;
            };
            for (side, column) in [(a, left), (b, right)] {
                if let Some((table, source)) = self.relations[side.trailing_zeros() as usize].source(column) {
                    sides.entry(side).or_insert_with(|| (Arc::clone(table), Vec::new())).1.push(source);
                }
            }
        }
        // Each key of one side's table occurs once: every row of the other side finds at most one.
        let unique = sides.values().filter(|(table, columns)| determines_row(table, columns));
        let unique_rows = unique.map(|(table, _)| table.rows().max(1.0)).fold(0.0, f64::max);
        let distinct = |(table, columns): &(Arc<Table>, Vec<usize>)| {
            columns.iter().map(|c| table.distinct(*c)).product::<f64>().min(table.rows().max(1.0))
        };
        let known = if unique_rows > 0.0 {
            1.0 / unique_rows
        } else if sides.is_empty() {
            1.0
        } else {
            1.0 / sides.values().map(distinct).fold(1.0, f64::max)
        };
        known * guesses::expression_equalities(unknown)
    }

    fn join_seconds(&self, a: &Best, b: &Best, left: u64, right: u64, rows: &HashMap<u64, f64>) -> f64 {
        let rows_of = |set: u64| rows.get(&set).copied().unwrap_or(1.0);
        let (left_rows, right_rows) = (rows_of(left), rows_of(right));
        let handed_on = rows_of(left | right) * ROW_SECONDS;
        let crossing = if self.connected(left, right) { 0.0 } else { left_rows * right_rows * 1e-9 };
        let costs = &self.env.costs;
        let hash = a.seconds + b.seconds + costs.hash_join(left_rows.min(right_rows), left_rows.max(right_rows));
        let index = match (right.count_ones(), self.env.settings.index_join) {
            (_, IndexJoin::Never) | (2.., _) | (0, _) => None,
            _ => self.lookup_seconds(left, left_rows, right.trailing_zeros() as usize),
        };
        let joined = match (index, self.env.settings.index_join) {
            (Some(lookup), IndexJoin::Always) => a.seconds + lookup,
            (Some(lookup), _) => (a.seconds + lookup).min(hash),
            (None, _) => hash,
        };
        joined + handed_on + crossing
    }

    /// Seconds to look each of `probes` rows of the relations `outer` up in a table.
    fn lookup_seconds(&self, outer: u64, probes: f64, inner: usize) -> Option<f64> {
        let relation = &self.relations[inner];
        let table = relation.table.as_ref().filter(|_| relation.lookup)?;
        let mut equal: Vec<usize> = Vec::new();
        for condition in &self.conditions {
            let (Some((a, b)), Some((left, right))) = (condition.sides, &condition.columns) else { continue };
            let column = match (a == 1 << inner && b & !outer == 0, b == 1 << inner && a & !outer == 0) {
                (true, _) => left,
                (_, true) => right,
                _ => continue,
            };
            equal.extend(relation.source(column).map(|(_, source)| source));
        }
        let point = |column: &usize| {
            relation.tests.iter().any(|t| t.column == *column && t.points().is_some_and(|p| p.len() == 1))
        };
        let seconds = TableAccess::all(table).filter_map(|access| {
            let prefix: Vec<usize> =
                access.key_columns().iter().copied().take_while(|c| equal.contains(c) || point(c)).collect();
            if !prefix.iter().any(|column| equal.contains(column)) {
                return None;
            }
            let entries = table.rows().max(1.0);
            let distinct = prefix.iter().map(|c| table.distinct(*c)).product::<f64>().clamp(1.0, entries);
            let once = access.unique_width().is_some_and(|width| prefix.len() >= width);
            let matches = if once { 1.0 } else { (entries / distinct).max(1.0) };
            let leaves = access.tree.leaf_pages as f64;
            let rows_per_leaf = (entries / leaves.max(1.0)).max(1.0);
            let lookups = self.env.of_tree(access.tree.tree).lookups(probes, (matches / rows_per_leaf).ceil(), leaves);
            let used = relation.sources.iter().flatten().copied().chain(relation.tests.iter().map(|t| t.column));
            let fetch = match access.index.is_some() && !access.covers(used) {
                true => self.env.of_tree(table.root.id).lookups(probes * matches, 1.0, table.root.leaf_pages as f64),
                false => 0.0,
            };
            Some(lookups + fetch)
        });
        seconds.min_by(f64::total_cmp)
    }

    fn members(&self, set: u64) -> impl Iterator<Item = usize> {
        (0..self.relations.len()).filter(move |relation| set & (1 << relation) != 0)
    }
}

/// Whether values for `columns` determine a row of the table.
fn determines_row(table: &Table, columns: &[usize]) -> bool {
    let named = |column: usize| columns.contains(&column);
    (!table.primary_key.is_empty() && table.primary_key.iter().all(|column| named(*column)))
        || table.indexes.iter().any(|index| index.unique && index.columns.iter().all(|c| named(c.column)))
}

/// Relations that an expression names, as a set; `None` if it names something else.
pub fn relations_of(expr: &Expr, relations: &[Relation]) -> Option<u64> {
    let mut set = 0;
    for column in expr.column_refs() {
        let holds = |relation: &Relation| relation.position(column).is_some();
        set |= 1 << relations.iter().position(holds)?;
    }
    Some(set)
}

/// A plain column, if the expression is one.
pub fn plain_column(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
