//! Long chains of AND, OR and UNION as balanced trees. The parser makes a tree of them that is as deep as the chain is
//! long, and everything that walks it takes time by its depth; what they mean does not depend on how they are
//! bracketed.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Query, SetExpr, SetOperator, SetQuantifier, Value, Values, VisitorMut,
};

use crate::walk::walk_mut;

/// Operands from which on a chain is worth it.
const LONG: usize = 32;

/// Balances the chains of a statement.
pub fn balance(statement: &mut Statement) {
    if let Statement::Statement(statement) = statement {
        let _: ControlFlow<()> = walk_mut(statement.as_mut(), &mut Balance);
    }
}

struct Balance;

impl VisitorMut for Balance {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        balance_in_place(expr, || Expr::value(Value::Null));
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let nothing = || Values { explicit_row: false, value_keyword: false, rows: Vec::new() };
        balance_in_place(query.body.as_mut(), || SetExpr::Values(nothing()));
        ControlFlow::Continue(())
    }
}

/// Something that two of its kind are joined to.
trait Chained: Sized {
    /// What joins, if it may be bracketed as one likes.
    type Link: PartialEq + Clone;

    fn link(&self) -> Option<Self::Link>;
    fn left(&self) -> Option<&Self>;
    /// Both sides, or itself if it is none of this link.
    fn split(self, link: &Self::Link) -> Result<(Self, Self), Self>;
    fn join(self, link: Self::Link, right: Self) -> Self;
}

impl Chained for Expr {
    type Link = BinaryOperator;

    fn link(&self) -> Option<BinaryOperator> {
        match self {
            Self::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } => Some(op.clone()),
            _ => None,
        }
    }

    fn left(&self) -> Option<&Self> {
        match self {
            Self::BinaryOp { left, .. } => Some(left),
            _ => None,
        }
    }

    fn split(self, link: &BinaryOperator) -> Result<(Self, Self), Self> {
        match self {
            Self::BinaryOp { left, op, right } if op == *link => Ok((*left, *right)),
            other => Err(other),
        }
    }

    fn join(self, op: BinaryOperator, right: Self) -> Self {
        Self::BinaryOp { left: Box::new(self), op, right: Box::new(right) }
    }
}

impl Chained for SetExpr {
    type Link = SetQuantifier;

    fn link(&self) -> Option<SetQuantifier> {
        match self {
            Self::SetOperation { op: SetOperator::Union, set_quantifier, .. }
                if matches!(set_quantifier, SetQuantifier::All | SetQuantifier::None | SetQuantifier::Distinct) =>
            {
                Some(*set_quantifier)
            }
            _ => None,
        }
    }

    fn left(&self) -> Option<&Self> {
        match self {
            Self::SetOperation { left, .. } => Some(left),
            _ => None,
        }
    }

    fn split(self, link: &SetQuantifier) -> Result<(Self, Self), Self> {
        match self {
            Self::SetOperation { op: SetOperator::Union, set_quantifier, left, right } if set_quantifier == *link => {
                Ok((*left, *right))
            }
            other => Err(other),
        }
    }

    fn join(self, set_quantifier: SetQuantifier, right: Self) -> Self {
        let (left, right) = (Box::new(self), Box::new(right));
        Self::SetOperation { op: SetOperator::Union, set_quantifier, left, right }
    }
}

fn balance_in_place<T: Chained>(chain: &mut T, nothing: impl Fn() -> T) {
    let Some(link) = chain.link() else { return };
    let links = std::iter::successors(Some(&*chain), |chain| chain.left());
    if links.take_while(|chain| chain.link().as_ref() == Some(&link)).take(LONG).count() < LONG {
        return;
    }
    let mut rest = vec![std::mem::replace(chain, nothing())];
    let mut operands = Vec::new();
    while let Some(next) = rest.pop() {
        match next.split(&link) {
            Ok((left, right)) => rest.extend([right, left]),
            Err(operand) => operands.push(operand),
        }
    }
    let count = operands.len();
    if let Some(balanced) = joined(&mut operands.into_iter(), count, &link) {
        *chain = balanced;
    }
}

/// The next `count` operands as a tree; `None` if there are none.
fn joined<T: Chained>(operands: &mut impl Iterator<Item = T>, count: usize, link: &T::Link) -> Option<T> {
    if count <= 1 {
        return operands.next();
    }
    let left = joined(operands, count.div_ceil(2), link)?;
    Some(match joined(operands, count / 2, link) {
        Some(right) => left.join(link.clone(), right),
        None => left,
    })
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::Statement;
    use datafusion::sql::sqlparser::ast::{Expr, SelectItem, SetExpr, Statement as Sql};

    use crate::parse;

    fn body(sql: &str) -> SetExpr {
        let Some(Statement::Statement(statement)) = parse(sql).unwrap().pop() else { panic!("{sql}") };
        let Sql::Query(query) = *statement else { panic!("{sql}") };
        *query.body
    }

    fn depth(expr: &Expr) -> usize {
        match expr {
            Expr::BinaryOp { left, right, .. } => 1 + depth(left).max(depth(right)),
            _ => 0,
        }
    }

    #[test]
    fn long_chains_are_shallow_and_say_the_same() {
        for link in [" OR ", " AND "] {
            let sql = format!("SELECT {}", (0..1000).map(|n| format!("c{n}")).collect::<Vec<_>>().join(link));
            let body = body(&sql);
            assert_eq!(body.to_string(), sql);
            let SetExpr::Select(select) = body else { panic!("no SELECT") };
            let SelectItem::UnnamedExpr(expr) = &select.projection[0] else { panic!("no expression") };
            assert_eq!(depth(expr), 10);
        }
        let sql = (0..1000).map(|n| format!("SELECT {n}")).collect::<Vec<_>>().join(" UNION ALL ");
        assert_eq!(body(&sql).to_string(), sql);
    }

    #[test]
    fn what_binds_otherwise_stays_where_it_is() {
        let mixed = (0..100).map(|n| format!("c{n}")).collect::<Vec<_>>().join(" AND a OR ");
        assert_eq!(body(&format!("SELECT {mixed}")).to_string(), format!("SELECT {mixed}"));
        let sets = (0..100).map(|n| format!("SELECT {n}")).collect::<Vec<_>>().join(" UNION SELECT 0 EXCEPT ");
        assert_eq!(body(&sets).to_string(), sets);
    }
}
