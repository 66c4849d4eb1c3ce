//! Recognises conditions, those of them that are ranges of a key, and orders that are the key's.

use datafusion::sql::sqlparser::ast::{self, BinaryOperator};
use saki_base::CompareOp;

use super::super::condition::{Alternatives, Condition, Test, Values};
use super::super::expr::Expr;
use super::super::plan::{Source, Tree};
use super::super::range::Range;
use super::compiler::{Compiler, Relation};
use saki_catalog::key_range::exact_in_keys;
use saki_catalog::{EntryLayout, Table};

/// Alternatives of a condition at most.
const ALTERNATIVES_MAX: usize = 64;

/// How one alternative fits a tree: the range, and how much of the alternative that leaves open.
pub struct Fit {
    pub range: Range,
    /// Whether the range is all that the alternative says.
    pub is_whole: bool,
    /// Leading key columns that have one value each.
    fixed: usize,
}

/// A tree to find rows in, and how good it is: the greater, the better.
pub type Choice = ((bool, bool, usize, bool), Source, bool);

impl Compiler<'_> {
    /// Where the rows are found that meet a condition, and whether they are found in this order: columns, and whether
    /// they descend.
    pub fn source(&mut self, selection: &ast::Expr, order: &[(usize, bool)]) -> Option<(Source, bool)> {
        let alternatives = self.alternatives(selection)?;
        self.choose(&self.relations[0], &alternatives, order).map(|(_, source, is_ordered)| (source, is_ordered))
    }

    /// The best tree of a table for conditions on its columns.
    pub fn choose(
        &self,
        relation: &Relation<'_>,
        alternatives: &Alternatives,
        order: &[(usize, bool)],
    ) -> Option<Choice> {
        let choices =
            trees(relation.table).filter_map(|(tree, layout)| choice(relation, tree, &layout, alternatives, order));
        choices.reduce(|best, choice| if choice.0 > best.0 { choice } else { best })
    }

    /// A condition as alternatives of conditions on single columns.
    pub fn alternatives(&mut self, condition: &ast::Expr) -> Option<Alternatives> {
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
                    (Some(_), _) => self.comparison(left, operator, right),
                    (None, Some(_)) => self.comparison(right, operator.mirrored(), left),
                    (None, None) => None,
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
}

impl Relation<'_> {
    /// Which of its columns a column of the statement is.
    pub fn local(&self, column: usize) -> Option<usize> {
        column.checked_sub(self.first).filter(|column| *column < self.table.columns.len())
    }
}

/// The trees of a table, with what their entries are made of.
pub fn trees(table: &Table) -> impl Iterator<Item = (Tree, EntryLayout)> {
    let primary = (!table.primary_key.is_empty()).then(|| (Tree::Primary, table.primary_layout()));
    let indexes = table.indexes.iter().enumerate();
    primary.into_iter().chain(indexes.map(|(place, index)| (Tree::Index(place), table.index_layout(index))))
}

fn choice(
    relation: &Relation<'_>,
    tree: Tree,
    layout: &EntryLayout,
    alternatives: &Alternatives,
    order: &[(usize, bool)],
) -> Option<Choice> {
    let fits = alternatives.iter().map(|conditions| {
        // What is made of other columns is known with a row.
        let known: Vec<_> = conditions.iter().filter(|condition| !condition.has_columns()).cloned().collect();
        let fit = fit(relation, layout, &known)?;
        Some(Fit { is_whole: fit.is_whole && known.len() == conditions.len(), ..fit })
    });
    let fits = fits.collect::<Option<Vec<_>>>()?;
    let keys = layout.key_columns.len();
    let is_key = tree == Tree::Primary && fits.iter().all(|fit| fit.range.prefix.len() == keys);
    let is_whole = fits.iter().all(|fit| fit.is_whole);
    let width = fits.iter().map(|fit| fit.range.width()).min().unwrap_or(0);
    // One value each in all alternatives, if there is one.
    let fixed = if let [fit] = &fits[..] { fit.fixed } else { 0 };
    let direction = direction(relation, layout, fixed, order);
    let source = Source {
        tree: if is_key { Tree::Keys } else { tree },
        ranges: fits.into_iter().map(|fit| fit.range).collect(),
        is_reverse: direction.unwrap_or(false),
        filter: (!is_whole).then(|| alternatives.clone()),
    };
    Some(((is_key, is_whole, width, direction.is_some()), source, direction.is_some()))
}

/// Which way a tree is read so that rows come in the order asked for: `true` against its own. `fixed` leading columns
/// of its key have one value each.
fn direction(relation: &Relation<'_>, layout: &EntryLayout, fixed: usize, order: &[(usize, bool)]) -> Option<bool> {
    let order = order.iter().map(|(column, descends)| Some((relation.local(*column)?, *descends)));
    let order = order.collect::<Option<Vec<_>>>()?;
    let is_fixed = |column: &usize| layout.key_columns[..fixed].contains(column);
    let keys = layout.key_columns.iter().zip(layout.key.columns()).skip(fixed);
    let mut directions = Vec::with_capacity(order.len());
    for ((wanted, descends), (column, key)) in order.iter().filter(|(column, _)| !is_fixed(column)).zip(keys) {
        // NULLs have a place of their own in keys.
        if wanted != column || !exact_in_keys(key.data_type) || relation.table.columns[*column].nullable {
            return None;
        }
        directions.push(*descends != key.descending);
    }
    // Beyond the last key column nothing is left to be ordered.
    let is_uniform = directions.windows(2).all(|pair| pair[0] == pair[1]);
    is_uniform.then(|| directions.first().copied().unwrap_or(false))
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

/// The range of a tree of a table that an alternative is; `None` if it says nothing of the first key column.
pub fn fit(relation: &Relation<'_>, layout: &EntryLayout, conditions: &[Condition]) -> Option<Fit> {
    let mut range = Range { prefix: Vec::new(), low: None, high: None };
    let mut used = 0;
    let mut fixed = 0;
    for (column, key) in layout.key_columns.iter().zip(layout.key.columns()) {
        // Zeros of floats are equal, and their keys are not.
        if !exact_in_keys(key.data_type) {
            break;
        }
        let here = || conditions.iter().filter(|condition| relation.local(condition.column) == Some(*column));
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
