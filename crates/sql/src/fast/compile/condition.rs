//! Recognises conditions, those of them that are ranges of a key, and orders that are the key's.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{self, BinaryOperator};
use saki_base::{CompareOp, DataType, Pattern, Value, pattern};

use super::super::plan::{Source, Tree};
use super::compiler::{Compiler, Relation};
use super::expr::is_number;
use saki_catalog::{EntryLayout, Table};
use saki_context::values::condition::{Alternatives, Condition, Test, Values};
use saki_context::values::expr::Expr;
use saki_context::values::range::Range;

/// Rows at most of a table that is read whole, whatever is asked of it.
const ENTRIES_FEW: u64 = 1000;
/// Alternatives of a condition at most.
const ALTERNATIVES_MAX: usize = 64;
/// The same of lists and chains, which do not multiply.
const ROWS_MAX: usize = 1 << 17;

/// How one alternative fits a tree: the range, and how much of the alternative that leaves open.
pub struct Fit {
    pub range: Range,
    /// What the alternative says beside it.
    pub open: Vec<Condition>,
    /// Leading key columns that have one value each.
    fixed: usize,
}

/// A tree to find rows in, and how good it is: the greater, the better; and whether they are found in the order that
/// is asked for.
pub type Choice = ((bool, bool, usize, bool), Source, bool);

/// What is asked of rows beside their condition.
#[derive(Clone, Copy, Default)]
pub struct Asked<'o> {
    /// Columns, and whether they descend.
    pub order: &'o [(usize, bool)],
    pub reach: Reach,
}

/// What a condition is on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    Column,
    /// Also an expression that the planner works out of whole rows.
    Expression,
}

impl Asked<'_> {
    /// The same beside conditions that are tested with whole rows: how many are left is not known before.
    pub fn beside(self, others: &[&ast::Expr]) -> Self {
        match self.reach {
            Reach::First if !others.is_empty() => Self { reach: Reach::Small, ..self },
            _ => self,
        }
    }
}

/// Which trees are read if no condition says where in them the rows are.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// None: rows that are changed or held. Whoever meets another's begins anew, and of many always meets some.
    #[default]
    Bounded,
    /// Those of a small table.
    Small,
    /// Any, from its end: only the first rows in its order are asked for.
    First,
}

impl Compiler<'_> {
    /// Where the rows are found that meet a condition.
    pub fn source(&mut self, selection: &ast::Expr) -> Option<Source> {
        let alternatives = self.alternatives(selection)?;
        self.choose(&self.relations[0], &alternatives, Asked::default()).map(|(_, source, _)| source)
    }

    /// The best tree of a table for conditions on its columns.
    pub fn choose(&self, relation: &Relation<'_>, alternatives: &Alternatives, asked: Asked<'_>) -> Option<Choice> {
        let choices = || choices(relation, alternatives, asked.order);
        let bounded = choices().filter(|(_, source, _)| source.ranges.iter().all(Range::is_bounded));
        let best = bounded.reduce(|best, choice| if choice.0 > best.0 { choice } else { best });
        let is_small = asked.reach != Reach::Bounded && relation.table.root.entries <= ENTRIES_FEW;
        let is_few = asked.reach == Reach::First;
        best.or_else(|| choices().find(|(.., is_ordered)| *is_ordered).filter(|_| is_few || is_small))
            .or_else(|| choices().next().filter(|_| is_small))
    }

    /// The first tree in the order asked for, whatever conditions say: for the first rows, where what they say most
    /// by is too much to be sorted.
    pub fn in_order(&self, alternatives: &Alternatives, asked: Asked<'_>) -> Option<Source> {
        let mut choices = choices(&self.relations[0], alternatives, asked.order);
        choices.find(|(.., is_ordered)| *is_ordered && asked.reach == Reach::First).map(|(_, source, _)| source)
    }

    /// A condition as alternatives of conditions on single columns.
    pub fn alternatives(&mut self, condition: &ast::Expr) -> Option<Alternatives> {
        let all = match condition {
            ast::Expr::Nested(inner) => return self.alternatives(inner),
            ast::Expr::BinaryOp { op: BinaryOperator::And, .. } => {
                let operands = operands(condition, &BinaryOperator::And);
                let all = operands.into_iter().map(|operand| self.alternatives(operand)).collect::<Option<Vec<_>>>()?;
                together(all)?
            }
            ast::Expr::BinaryOp { op: BinaryOperator::Or, .. } => {
                let mut all = Vec::new();
                for operand in operands(condition, &BinaryOperator::Or) {
                    all.append(&mut self.alternatives(operand)?);
                }
                all
            }
            ast::Expr::InList { expr, list, negated: false } if let Some(columns) = tuple(expr) => {
                list.iter().map(|row| self.row(columns, row)).collect::<Option<_>>()?
            }
            _ => vec![self.conditions(condition, Subject::Column)?],
        };
        (all.len() <= ROWS_MAX).then_some(all)
    }

    /// What a condition says of whole rows, by what the planner works out of them.
    pub fn of_whole_rows(&mut self, condition: &ast::Expr) -> Option<Vec<Condition>> {
        match self.truth(condition) {
            Some(column) => {
                let is_true = Expr::Literal(Value::Bool(true), 0);
                Some(vec![self.one_of(column, Values::List([is_true].into()))])
            }
            None => self.conditions(condition, Subject::Expression),
        }
    }

    /// A condition as conditions on one column or expression.
    fn conditions(&mut self, condition: &ast::Expr, of: Subject) -> Option<Vec<Condition>> {
        match condition {
            ast::Expr::Between { expr, negated: false, low, high } => {
                let column = self.subject(expr, of)?;
                let low = self.comparison(column, CompareOp::GreaterOrEqual, low)?;
                Some(vec![low, self.comparison(column, CompareOp::LessOrEqual, high)?])
            }
            _ => Some(vec![self.condition(condition, of)?]),
        }
    }

    fn subject(&mut self, expr: &ast::Expr, of: Subject) -> Option<usize> {
        let column = self.column(expr);
        if of == Subject::Column { column } else { column.or_else(|| self.evaluated(expr)) }
    }

    fn condition(&mut self, condition: &ast::Expr, of: Subject) -> Option<Condition> {
        match condition {
            ast::Expr::InList { expr, list, negated: false } => {
                let column = self.subject(expr, of)?;
                self.list(column, list)
            }
            // Of numbers it does not matter which of their types the array has.
            ast::Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. }
                if let ast::Expr::Array(array) = right.as_ref() =>
            {
                let column = self.subject(left, of).filter(|column| is_number(self.type_of(*column)))?;
                if !array.elem.iter().all(is_written_number) {
                    return None;
                }
                self.list(column, &array.elem)
            }
            ast::Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => {
                let column = self.subject(left, of)?;
                let elements = self.elements(right, column)?;
                Some(self.one_of(column, elements))
            }
            ast::Expr::IsNull(expr) => self.null(expr, Test::IsNull),
            ast::Expr::IsNotNull(expr) => self.null(expr, Test::IsNotNull),
            ast::Expr::Like { negated: false, any: false, expr, pattern, escape_char: None } => {
                let pattern = self.pattern(pattern)?;
                let is_read = !matches!(&pattern, Expr::Literal(Value::Text(text), _) if Pattern::read(text).is_none());
                is_read.then(|| self.like(expr, pattern))?
            }
            ast::Expr::BinaryOp { left, op, right } => {
                let operator = compare_op(op)?;
                match self.subject(left, of) {
                    Some(column) => self.comparison(column, operator, right),
                    None => {
                        let column = self.subject(right, of)?;
                        self.comparison(column, operator.mirrored(), left)
                    }
                }
            }
            _ => None,
        }
    }

    fn null(&self, expr: &ast::Expr, test: Test) -> Option<Condition> {
        let column = self.column(expr)?;
        Some(Condition { column, data_type: self.type_of(column), test })
    }

    /// A pattern that is written, or a parameter.
    fn pattern(&mut self, pattern: &ast::Expr) -> Option<Expr> {
        let (pattern, _) = self.expr(pattern, DataType::Text, false)?;
        matches!(pattern, Expr::Parameter(_) | Expr::Literal(Value::Text(_), _)).then_some(pattern)
    }

    fn like(&self, expr: &ast::Expr, pattern: Expr) -> Option<Condition> {
        let column = self.column(expr)?;
        let data_type = self.type_of(column);
        // Blanks at the end of char(n) mean something here, and are not stored.
        let is_text = matches!(data_type, DataType::Text | DataType::Varchar(_));
        is_text.then_some(Condition { column, data_type, test: Test::Like(pattern) })
    }

    /// What a condition says of the beginning of a column's texts, if that is not all that it says.
    pub fn beginning(&mut self, condition: &ast::Expr) -> Option<Condition> {
        match condition {
            ast::Expr::Nested(inner) => self.beginning(inner),
            ast::Expr::Like { negated: false, any: false, expr, pattern, escape_char: None } => {
                let Expr::Literal(Value::Text(text), _) = self.pattern(pattern)? else { return None };
                let beginning = pattern::beginning(&text);
                let pattern = Expr::Literal(Value::Text(format!("{beginning}%")), 0);
                (!beginning.is_empty()).then(|| self.like(expr, pattern))?
            }
            _ => None,
        }
    }

    fn list(&mut self, column: usize, list: &[ast::Expr]) -> Option<Condition> {
        let list = list.iter().map(|value| self.compared(value, column)).collect::<Option<Arc<[Expr]>>>()?;
        Some(self.one_of(column, Values::List(list)))
    }

    /// That columns have the values of a row.
    fn row(&mut self, columns: &[ast::Expr], values: &ast::Expr) -> Option<Vec<Condition>> {
        let values = tuple(values).filter(|values| values.len() == columns.len())?;
        let pairs = columns.iter().zip(values);
        pairs.map(|(column, value)| self.comparison(self.column(column)?, CompareOp::Equal, value)).collect()
    }

    fn one_of(&self, column: usize, values: Values) -> Condition {
        Condition { column, data_type: self.type_of(column), test: Test::OneOf(values) }
    }

    fn comparison(&mut self, column: usize, operator: CompareOp, value: &ast::Expr) -> Option<Condition> {
        let value = self.compared(value, column)?;
        Some(match operator {
            CompareOp::Equal => self.one_of(column, Values::List([value].into())),
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

/// Alternatives of conditions that all hold, as alternatives.
pub fn together(conditions: impl IntoIterator<Item = Alternatives>) -> Option<Alternatives> {
    conditions.into_iter().try_fold(vec![Vec::new()], |mut all: Alternatives, more| {
        let is_one = all.len() == 1 || more.len() == 1;
        if all.len() * more.len() > if is_one { ROWS_MAX } else { ALTERNATIVES_MAX } {
            return None;
        }
        let both = |one: &Vec<Condition>, other: &Vec<Condition>| one.iter().chain(other).cloned().collect();
        Some(match &more[..] {
            [conditions] => {
                all.iter_mut().for_each(|one| one.extend_from_slice(conditions));
                all
            }
            _ => all.iter().flat_map(|one| more.iter().map(move |other| both(one, other))).collect(),
        })
    })
}

/// The trees of a table, with what their entries are made of.
pub fn trees(table: &Table) -> impl Iterator<Item = (Tree, EntryLayout)> {
    let primary = (!table.primary_key.is_empty()).then(|| (Tree::Primary, table.primary_layout()));
    let indexes = table.indexes.iter().enumerate();
    primary.into_iter().chain(indexes.map(|(place, index)| (Tree::Index(place), table.index_layout(index))))
}

/// What each tree of a table is for such rows.
fn choices(
    relation: &Relation<'_>,
    alternatives: &Alternatives,
    order: &[(usize, bool)],
) -> impl Iterator<Item = Choice> {
    trees(relation.table).filter_map(move |(tree, layout)| choice(relation, (tree, &layout), alternatives, order))
}

fn choice(
    relation: &Relation<'_>,
    (tree, layout): (Tree, &EntryLayout),
    alternatives: &Alternatives,
    order: &[(usize, bool)],
) -> Option<Choice> {
    let fits = alternatives.iter().map(|conditions| {
        // What is made of other columns is known with a row.
        let known: Vec<_> = conditions.iter().filter(|condition| !condition.has_columns()).cloned().collect();
        let mut fit = fit(relation, layout, &known);
        fit.open.extend(conditions.iter().filter(|condition| condition.has_columns()).cloned());
        fit
    });
    let fits = fits.collect::<Vec<_>>();
    let keys = layout.key_columns.len();
    let is_key = tree == Tree::Primary && fits.iter().all(|fit| fit.range.prefix.len() == keys);
    let is_whole = fits.iter().all(|fit| fit.open.is_empty());
    let width = fits.iter().map(|fit| fit.range.width()).min().unwrap_or(0);
    // One value each in all alternatives, if there is one.
    let fixed = if let [fit] = &fits[..] { fit.fixed } else { 0 };
    let direction = direction(relation, layout, fixed, order);
    let filter = match &fits[..] {
        _ if is_whole => None,
        [fit] => Some(vec![fit.open.clone()]),
        _ => Some(alternatives.clone()),
    };
    let source = Source {
        tree: if is_key { Tree::Keys } else { tree },
        ranges: fits.into_iter().map(|fit| fit.range).collect(),
        is_reverse: direction.unwrap_or(false),
        filter,
    };
    // A whole tree is the last resort, even if nothing is left to be tested.
    let says_all = is_whole && width > 0;
    Some(((is_key, says_all, width, direction.is_some()), source, direction.is_some()))
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
        if wanted != column {
            return None;
        }
        directions.push(*descends != key.descending);
    }
    // Beyond the last key column nothing is left to be ordered.
    let is_uniform = directions.windows(2).all(|pair| pair[0] == pair[1]);
    is_uniform.then(|| directions.first().copied().unwrap_or(false))
}

/// What is between operators of a kind, in order: a long chain is as deep as it is long.
pub fn operands<'e>(mut expr: &'e ast::Expr, operator: &BinaryOperator) -> Vec<&'e ast::Expr> {
    let mut operands = Vec::new();
    while let ast::Expr::BinaryOp { left, op, right } = expr
        && op == operator
    {
        operands.push(&**right);
        expr = left;
    }
    operands.push(expr);
    operands.reverse();
    operands
}

/// The values of a row that is written as one.
fn tuple(expr: &ast::Expr) -> Option<&[ast::Expr]> {
    match expr {
        ast::Expr::Tuple(values) => Some(values),
        ast::Expr::Nested(inner) => tuple(inner),
        _ => None,
    }
}

fn is_written_number(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Value(value) if matches!(value.value, ast::Value::Number(..)))
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

/// The range of a tree of a table that an alternative is: the whole tree if it says nothing of the first key column.
pub fn fit(relation: &Relation<'_>, layout: &EntryLayout, conditions: &[Condition]) -> Fit {
    let mut range = Range::default();
    let mut used = vec![false; conditions.len()];
    let mut fixed = 0;
    for column in &layout.key_columns {
        let here = || {
            let all = conditions.iter().enumerate();
            all.filter(|(_, condition)| relation.local(condition.column) == Some(*column))
        };
        let equal = here().find_map(|(place, condition)| match &condition.test {
            Test::OneOf(values) => Some((place, values.clone())),
            _ => None,
        });
        if let Some((place, values)) = equal {
            fixed += usize::from(values.is_single() && fixed == range.prefix.len());
            range.prefix.push(values);
            used[place] = true;
            continue;
        }
        let like = here().find_map(|(place, condition)| match &condition.test {
            Test::Like(pattern) => Some((place, pattern.clone())),
            _ => None,
        });
        if let Some((place, pattern)) = like {
            range.like = Some(pattern);
            used[place] = true;
            break;
        }
        let mut end = |is_low| {
            let (place, bound) =
                here().find_map(|(place, condition)| Some((place, bound(&condition.test, is_low)?)))?;
            used[place] = true;
            Some(bound)
        };
        (range.low, range.high) = (end(true), end(false));
        for (place, _) in here().filter(|(_, condition)| matches!(condition.test, Test::IsNotNull)) {
            range.is_not_null = true;
            used[place] = true;
        }
        break;
    }
    let open = conditions.iter().zip(&used).filter(|(_, used)| !**used).map(|(condition, _)| condition.clone());
    Fit { range, open: open.collect(), fixed }
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
