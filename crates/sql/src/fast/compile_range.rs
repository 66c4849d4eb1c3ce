//! Recognises conditions that are one range of a key, and orders that are the key's.

use datafusion::sql::sqlparser::ast::{self, BinaryOperator, LimitClause, OrderByKind};
use saki_base::{DataType, KeyColumn};

use super::compile::Compiler;
use super::expr::Expr;
use super::range::Range;
use saki_catalog::EntryLayout;
use saki_catalog::key_range::exact_in_keys;
use saki_postgres::statement::name_of;

/// What a condition says of one column.
#[derive(Default)]
struct Said {
    column: usize,
    equal: Option<Expr>,
    low: Option<(Expr, bool)>,
    high: Option<(Expr, bool)>,
}

impl Said {
    fn is_equality(&self) -> bool {
        self.equal.is_some() && self.low.is_none() && self.high.is_none()
    }
}

impl Compiler<'_> {
    /// The range of the primary tree or an index that a condition, an order and a limit are, if they are one.
    /// `shown` are the names of the answer's columns, and which of the table each is.
    pub fn range(&mut self, query: &ast::Query, selection: &ast::Expr, shown: &[(&str, usize)]) -> Option<Range> {
        let mut said = Vec::new();
        self.conditions(selection, &mut said)?;
        let limit = self.limit(query.limit_clause.as_ref())?;
        let order = self.order(query.order_by.as_ref(), shown)?;
        let primary = (!self.table.primary_key.is_empty()).then(|| (None, self.table.primary_layout()));
        let indexes = self.table.indexes.iter().enumerate();
        let indexes = indexes.map(|(place, index)| (Some(place), self.table.index_layout(index)));
        let (index, prefix, is_reverse) = primary.into_iter().chain(indexes).find_map(|(index, layout)| {
            let prefix = prefix_of(&layout, &said)?;
            let is_reverse = direction(&layout, prefix, &order)?;
            Some((index, layout.key_columns[..prefix].to_vec(), is_reverse))
        })?;
        let mut take =
            |column: &usize| said.iter().position(|said| said.column == *column).map(|at| said.swap_remove(at));
        let prefix = prefix.iter().map(|column| take(column)?.equal).collect::<Option<Vec<_>>>()?;
        let behind = said.pop().unwrap_or_default();
        Some(Range { index, prefix, low: behind.low, high: behind.high, is_reverse, limit })
    }

    fn conditions(&mut self, condition: &ast::Expr, said: &mut Vec<Said>) -> Option<()> {
        match condition {
            ast::Expr::Nested(inner) => self.conditions(inner, said),
            ast::Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                self.conditions(left, said)?;
                self.conditions(right, said)
            }
            ast::Expr::Between { expr, negated: false, low, high } => {
                self.comparison(expr, &BinaryOperator::GtEq, low, said)?;
                self.comparison(expr, &BinaryOperator::LtEq, high, said)
            }
            ast::Expr::BinaryOp { left, op, right } => match self.column(left) {
                Some(_) => self.comparison(left, op, right, said),
                None => self.comparison(right, &turned(op)?, left, said),
            },
            _ => None,
        }
    }

    fn comparison(
        &mut self,
        column: &ast::Expr,
        op: &BinaryOperator,
        value: &ast::Expr,
        said: &mut Vec<Said>,
    ) -> Option<()> {
        let column = self.column(column)?;
        let value = self.expr(value, self.table.columns[column].data_type, false)?;
        let at = said.iter().position(|said| said.column == column).unwrap_or_else(|| {
            said.push(Said { column, ..Said::default() });
            said.len() - 1
        });
        let (place, is_inclusive) = match op {
            BinaryOperator::Eq => return said[at].equal.replace(value).is_none().then_some(()),
            BinaryOperator::Gt => (&mut said[at].low, false),
            BinaryOperator::GtEq => (&mut said[at].low, true),
            BinaryOperator::Lt => (&mut said[at].high, false),
            BinaryOperator::LtEq => (&mut said[at].high, true),
            _ => return None,
        };
        place.replace((value, is_inclusive)).is_none().then_some(())
    }

    /// `Some(None)`: all rows.
    fn limit(&mut self, clause: Option<&LimitClause>) -> Option<Option<Expr>> {
        match clause {
            None => Some(None),
            Some(LimitClause::LimitOffset { limit: None, offset: None, limit_by }) if limit_by.is_empty() => Some(None),
            Some(LimitClause::LimitOffset { limit: Some(rows), offset: None, limit_by }) if limit_by.is_empty() => {
                self.expr(rows, DataType::Int8, false).map(Some)
            }
            Some(_) => None,
        }
    }

    /// Columns, and whether they descend.
    fn order(&self, order: Option<&ast::OrderBy>, shown: &[(&str, usize)]) -> Option<Vec<(usize, bool)>> {
        let Some(order) = order else { return Some(Vec::new()) };
        let (OrderByKind::Expressions(list), None) = (&order.kind, &order.interpolate) else { return None };
        let column = |item: &ast::OrderByExpr| {
            let column = self.column(&item.expr)?;
            // A name of the answer goes before one of the table.
            if let ast::Expr::Identifier(ident) = &item.expr
                && shown.iter().any(|(name, other)| *name == name_of(ident) && *other != column)
            {
                return None;
            }
            // NULLs have a place of their own in keys, which is not asked for here.
            let is_plain = item.with_fill.is_none() && !self.table.columns[column].nullable;
            is_plain.then_some((column, item.options.asc == Some(false)))
        };
        list.iter().map(column).collect()
    }
}

/// How many leading key columns have one value each, if the rest of what is said is about the next one alone.
fn prefix_of(layout: &EntryLayout, said: &[Said]) -> Option<usize> {
    let of = |column: &usize| said.iter().find(|said| said.column == *column);
    let columns = || layout.key_columns.iter().zip(layout.key.columns());
    let is_fixed = |(column, key): &(&usize, &KeyColumn)| {
        exact_in_keys(key.data_type) && of(column).is_some_and(Said::is_equality)
    };
    let prefix = columns().take_while(is_fixed).count();
    let behind = columns().nth(prefix).and_then(|(column, key)| Some((of(column)?, key)));
    let used = match behind {
        None => prefix,
        Some((said, key)) if said.equal.is_none() && exact_in_keys(key.data_type) && !key.nullable => prefix + 1,
        Some(_) => return None,
    };
    (used > 0 && used == said.len()).then_some(prefix)
}

/// Which way the tree is read so that rows come in the order asked for: `true` against its own.
fn direction(layout: &EntryLayout, prefix: usize, order: &[(usize, bool)]) -> Option<bool> {
    let fixed = &layout.key_columns[..prefix];
    let free: Vec<_> = order.iter().filter(|(column, _)| !fixed.contains(column)).collect();
    let keys = layout.key_columns.iter().zip(layout.key.columns()).skip(prefix);
    let mut directions = Vec::with_capacity(free.len());
    for ((wanted, descends), (column, key)) in free.iter().map(|item| **item).zip(keys) {
        if wanted != *column || !exact_in_keys(key.data_type) {
            return None;
        }
        directions.push(descends != key.descending);
    }
    // Beyond the last key column nothing is left to be ordered.
    let is_uniform = directions.windows(2).all(|pair| pair[0] == pair[1]);
    is_uniform.then(|| directions.first().copied().unwrap_or(false))
}

fn turned(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::Eq => BinaryOperator::Eq,
        BinaryOperator::Lt => BinaryOperator::Gt,
        BinaryOperator::LtEq => BinaryOperator::GtEq,
        BinaryOperator::Gt => BinaryOperator::Lt,
        BinaryOperator::GtEq => BinaryOperator::LtEq,
        _ => return None,
    })
}
