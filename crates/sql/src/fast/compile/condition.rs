//! Recognises conditions that are ranges of a key, and orders that are the key's.

use datafusion::sql::sqlparser::ast::{self, BinaryOperator};
use saki_base::CompareOp;

use super::super::condition::{Alternatives, Condition, Test, Values};
use super::super::expr::Expr;
use super::super::plan::{Source, Tree};
use super::super::range::Range;
use super::compiler::Compiler;
use saki_catalog::EntryLayout;
use saki_catalog::key_range::exact_in_keys;

/// Alternatives of a condition at most.
const ALTERNATIVES_MAX: usize = 64;

/// How one alternative fits a tree: the range, and how much of the alternative that leaves open.
struct Fit {
    range: Range,
    /// Whether the range is all that the alternative says.
    is_whole: bool,
    /// Leading key columns that have one value each.
    fixed: usize,
}

/// A tree to find rows in, and how good it is: the greater, the better.
type Choice = ((bool, bool, usize, bool), Source, bool);

impl Compiler<'_> {
    /// Where the rows are found that meet a condition, and whether they are found in this order: columns, and whether
    /// they descend.
    pub fn source(&mut self, selection: &ast::Expr, order: &[(usize, bool)]) -> Option<(Source, bool)> {
        let alternatives = self.alternatives(selection)?;
        let primary = (!self.table.primary_key.is_empty()).then(|| (Tree::Primary, self.table.primary_layout()));
        let indexes = self.table.indexes.iter().enumerate();
        let indexes = indexes.map(|(place, index)| (Tree::Index(place), self.table.index_layout(index)));
        let mut best: Option<Choice> = None;
        for (tree, layout) in primary.into_iter().chain(indexes) {
            let Some(choice) = self.choice(tree, &layout, &alternatives, order) else { continue };
            if best.as_ref().is_none_or(|best| choice.0 > best.0) {
                best = Some(choice);
            }
        }
        best.map(|(_, source, is_ordered)| (source, is_ordered))
    }

    fn choice(
        &self,
        tree: Tree,
        layout: &EntryLayout,
        alternatives: &Alternatives,
        order: &[(usize, bool)],
    ) -> Option<Choice> {
        let fits = alternatives.iter().map(|conditions| fit(layout, conditions)).collect::<Option<Vec<_>>>()?;
        let keys = layout.key_columns.len();
        let is_key = tree == Tree::Primary && fits.iter().all(|fit| fit.range.prefix.len() == keys);
        let is_whole = fits.iter().all(|fit| fit.is_whole);
        let width = fits.iter().map(|fit| fit.range.width()).min().unwrap_or(0);
        // One value each in all alternatives, if there is one.
        let fixed = if let [fit] = &fits[..] { fit.fixed } else { 0 };
        let direction = self.direction(layout, fixed, order);
        let source = Source {
            tree: if is_key { Tree::Keys } else { tree },
            ranges: fits.into_iter().map(|fit| fit.range).collect(),
            is_reverse: direction.unwrap_or(false),
            filter: (!is_whole).then(|| alternatives.clone()),
        };
        Some(((is_key, is_whole, width, direction.is_some()), source, direction.is_some()))
    }

    /// A condition as alternatives of conditions on single columns.
    fn alternatives(&mut self, condition: &ast::Expr) -> Option<Alternatives> {
        let all = match condition {
            ast::Expr::Nested(inner) => return self.alternatives(inner),
            ast::Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                let (left, right) = (self.alternatives(left)?, self.alternatives(right)?);
                if left.len() * right.len() > ALTERNATIVES_MAX {
                    return None;
                }
                let both = |one: &Vec<Condition>, other: &Vec<Condition>| one.iter().chain(other).cloned().collect();
                left.iter().flat_map(|one| right.iter().map(move |other| both(one, other))).collect()
            }
            ast::Expr::BinaryOp { left, op: BinaryOperator::Or, right } => {
                let mut all = self.alternatives(left)?;
                all.append(&mut self.alternatives(right)?);
                all
            }
            ast::Expr::Between { expr, negated: false, low, high } => {
                let low = self.comparison(expr, CompareOp::GreaterOrEqual, low)?;
                vec![vec![low, self.comparison(expr, CompareOp::LessOrEqual, high)?]]
            }
            _ => vec![vec![self.condition(condition)?]],
        };
        (all.len() <= ALTERNATIVES_MAX).then_some(all)
    }

    fn condition(&mut self, condition: &ast::Expr) -> Option<Condition> {
        match condition {
            ast::Expr::InList { expr, list, negated: false } => {
                let column = self.column(expr)?;
                let list = list.iter().map(|value| self.compared(value, column)).collect::<Option<Vec<_>>>()?;
                Some(self.one_of(column, Values::List(list)))
            }
            ast::Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => {
                let column = self.column(left)?;
                let elements = self.elements(right, column)?;
                Some(self.one_of(column, elements))
            }
            ast::Expr::BinaryOp { left, op, right } => {
                let operator = compare_op(op)?;
                match (self.column(left), self.column(right)) {
                    (Some(_), None) => self.comparison(left, operator, right),
                    (None, Some(_)) => self.comparison(right, operator.mirrored(), left),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn one_of(&self, column: usize, values: Values) -> Condition {
        Condition { column, data_type: self.type_of(column), test: Test::OneOf(values) }
    }

    fn comparison(&mut self, column: &ast::Expr, operator: CompareOp, value: &ast::Expr) -> Option<Condition> {
        let column = self.column(column)?;
        let value = self.compared(value, column)?;
        Some(match operator {
            CompareOp::Equal => self.one_of(column, Values::List(vec![value])),
            _ => Condition { column, data_type: self.type_of(column), test: Test::Compare(operator, value) },
        })
    }

    /// Which way a tree is read so that rows come in the order asked for: `true` against its own. `fixed` leading
    /// columns of its key have one value each.
    fn direction(&self, layout: &EntryLayout, fixed: usize, order: &[(usize, bool)]) -> Option<bool> {
        let is_fixed = |column: &usize| layout.key_columns[..fixed].contains(column);
        let keys = layout.key_columns.iter().zip(layout.key.columns()).skip(fixed);
        let mut directions = Vec::with_capacity(order.len());
        for ((wanted, descends), (column, key)) in order.iter().filter(|(column, _)| !is_fixed(column)).zip(keys) {
            // NULLs have a place of their own in keys.
            if wanted != column || !exact_in_keys(key.data_type) || self.table.columns[*column].nullable {
                return None;
            }
            directions.push(*descends != key.descending);
        }
        // Beyond the last key column nothing is left to be ordered.
        let is_uniform = directions.windows(2).all(|pair| pair[0] == pair[1]);
        is_uniform.then(|| directions.first().copied().unwrap_or(false))
    }
}

fn compare_op(op: &BinaryOperator) -> Option<CompareOp> {
    Some(match op {
        BinaryOperator::Eq => CompareOp::Equal,
        BinaryOperator::NotEq => CompareOp::NotEqual,
        BinaryOperator::Lt => CompareOp::Less,
        BinaryOperator::LtEq => CompareOp::LessOrEqual,
        BinaryOperator::Gt => CompareOp::Greater,
        BinaryOperator::GtEq => CompareOp::GreaterOrEqual,
        _ => return None,
    })
}

/// The range of a tree that an alternative is; `None` if it says nothing of the first key column.
fn fit(layout: &EntryLayout, conditions: &[Condition]) -> Option<Fit> {
    let mut range = Range { prefix: Vec::new(), low: None, high: None };
    let mut used = 0;
    let mut fixed = 0;
    for (column, key) in layout.key_columns.iter().zip(layout.key.columns()) {
        // Zeros of floats are equal, and their keys are not.
        if !exact_in_keys(key.data_type) {
            break;
        }
        let here = || conditions.iter().filter(|condition| condition.column == *column);
        let equal = here().find_map(|condition| match &condition.test {
            Test::OneOf(values) => Some(values.clone()),
            Test::Compare(..) => None,
        });
        if let Some(values) = equal {
            fixed += usize::from(values.is_single() && fixed == range.prefix.len());
            range.prefix.push(values);
            used += 1;
            continue;
        }
        // NULLs lie at one end of the keys, and are on no side of anything.
        if !key.nullable {
            range.low = here().find_map(|condition| bound(&condition.test, true));
            range.high = here().find_map(|condition| bound(&condition.test, false));
            used += usize::from(range.low.is_some()) + usize::from(range.high.is_some());
        }
        break;
    }
    (used > 0).then_some(Fit { range, is_whole: used == conditions.len(), fixed })
}

/// The bound that a test sets on one side, and whether it is within the range itself.
fn bound(test: &Test, is_low: bool) -> Option<(Expr, bool)> {
    match test {
        Test::Compare(CompareOp::Greater, expr) if is_low => Some((expr.clone(), false)),
        Test::Compare(CompareOp::GreaterOrEqual, expr) if is_low => Some((expr.clone(), true)),
        Test::Compare(CompareOp::Less, expr) if !is_low => Some((expr.clone(), false)),
        Test::Compare(CompareOp::LessOrEqual, expr) if !is_low => Some((expr.clone(), true)),
        _ => None,
    }
}
