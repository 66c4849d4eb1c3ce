//! Walks over the tree of a statement.
//!
//! The parser's own walk is compiled once for each kind of visitor, and it has thousands of functions: with forty
//! visitors they were most of what there was to compile. Here it goes by a visitor behind a pointer, so there is one
//! walk that reads and one that changes.

use std::marker::PhantomData;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
};

/// Shows a visitor the nodes of a tree, until it breaks off.
pub fn walk<V: Visitor>(tree: &(impl Visit + ?Sized), visitor: &mut V) -> ControlFlow<V::Break> {
    let mut steps = Kept { visitor, broken: None };
    let _ = tree.visit(&mut Reader(&mut steps));
    flow(steps.broken)
}

/// The same for a visitor that changes them.
pub fn walk_mut<V: VisitorMut>(tree: &mut (impl VisitMut + ?Sized), visitor: &mut V) -> ControlFlow<V::Break> {
    let mut steps = Kept { visitor, broken: None };
    let _ = tree.visit(&mut Writer(&mut steps));
    flow(steps.broken)
}

/// Shows `each` the expressions of a tree, those around before those within.
pub fn walk_expressions<B>(tree: &(impl Visit + ?Sized), each: impl FnMut(&Expr) -> ControlFlow<B>) -> ControlFlow<B> {
    walk(tree, &mut Expressions(each, PhantomData))
}

/// Has `each` change the expressions of a tree, those within before those around.
pub fn walk_expressions_mut<B>(
    tree: &mut (impl VisitMut + ?Sized),
    each: impl FnMut(&mut Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    walk_mut(tree, &mut Expressions(each, PhantomData))
}

fn flow<B>(broken: Option<B>) -> ControlFlow<B> {
    broken.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// A visitor, and with what it broke off.
struct Kept<'v, V, B> {
    visitor: &'v mut V,
    broken: Option<B>,
}

/// A visitor of expressions alone.
struct Expressions<F, B>(F, PhantomData<B>);

impl<B, F: FnMut(&Expr) -> ControlFlow<B>> Visitor for Expressions<F, B> {
    type Break = B;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<B> {
        (self.0)(expr)
    }
}

impl<B, F: FnMut(&mut Expr) -> ControlFlow<B>> VisitorMut for Expressions<F, B> {
    type Break = B;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<B> {
        (self.0)(expr)
    }
}

type Shared<'n, N> = &'n N;
type Unique<'n, N> = &'n mut N;

/// A visitor without its type, and the parser's visitor that hands all nodes on to it.
macro_rules! erased {
    ($steps:ident, $walker:ident, $visitor:ident, $reference:ident, $($step:ident: $node:ty,)+) => {
        trait $steps {
            $(fn $step(&mut self, node: $reference<'_, $node>) -> ControlFlow<()>;)+
        }

        impl<V: $visitor> $steps for Kept<'_, V, V::Break> {
            $(fn $step(&mut self, node: $reference<'_, $node>) -> ControlFlow<()> {
                match self.visitor.$step(node) {
                    ControlFlow::Continue(()) => ControlFlow::Continue(()),
                    ControlFlow::Break(with) => {
                        self.broken = Some(with);
                        ControlFlow::Break(())
                    }
                }
            })+
        }

        struct $walker<'v>(&'v mut dyn $steps);

        impl $visitor for $walker<'_> {
            type Break = ();

            $(fn $step(&mut self, node: $reference<'_, $node>) -> ControlFlow<()> {
                self.0.$step(node)
            })+
        }
    };
    ($steps:ident, $walker:ident, $visitor:ident, $reference:ident) => {
        erased! {
            $steps, $walker, $visitor, $reference,
            pre_visit_query: Query,
            post_visit_query: Query,
            pre_visit_select: Select,
            post_visit_select: Select,
            pre_visit_relation: ObjectName,
            post_visit_relation: ObjectName,
            pre_visit_table_factor: TableFactor,
            post_visit_table_factor: TableFactor,
            pre_visit_expr: Expr,
            post_visit_expr: Expr,
            pre_visit_statement: Statement,
            post_visit_statement: Statement,
            pre_visit_value: ValueWithSpan,
            post_visit_value: ValueWithSpan,
        }
    };
}
erased!(ReaderSteps, Reader, Visitor, Shared);
erased!(WriterSteps, Writer, VisitorMut, Unique);

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn parsed(sql: &str) -> Statement {
        Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0)
    }

    /// Names of relations, and how deep in queries they are, up to one.
    struct Names(Vec<(String, usize)>, usize, &'static str);

    impl Visitor for Names {
        type Break = usize;

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<usize> {
            self.1 += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<usize> {
            self.1 -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<usize> {
            let name = name.to_string();
            if name == self.2 {
                return ControlFlow::Break(self.0.len());
            }
            self.0.push((name, self.1));
            ControlFlow::Continue(())
        }
    }

    #[test]
    fn visitors_see_what_the_parser_shows_and_break_off_with_a_value() {
        let statement = parsed("SELECT 1 FROM a WHERE x IN (SELECT y FROM b, c)");
        let mut all = Names(Vec::new(), 0, "");
        assert!(walk(&statement, &mut all).is_continue());
        assert_eq!(all.0, [("a".to_owned(), 1), ("b".to_owned(), 2), ("c".to_owned(), 2)]);
        assert_eq!(walk(&statement, &mut Names(Vec::new(), 0, "b")), ControlFlow::Break(1));
    }

    #[test]
    fn expressions_are_read_from_without_and_changed_from_within() {
        let mut statement = parsed("SELECT a + (b * c)");
        let mut seen = Vec::new();
        let _: ControlFlow<()> = walk_expressions(&statement, |expr| {
            seen.push(expr.to_string());
            ControlFlow::Continue(())
        });
        assert_eq!(seen, ["a + (b * c)", "a", "(b * c)", "b * c", "b", "c"]);
        let broken = walk_expressions_mut(&mut statement, |expr| match expr {
            Expr::Identifier(name) if name.value == "c" => ControlFlow::Break(()),
            Expr::Identifier(name) => {
                name.value.push('1');
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Continue(()),
        });
        assert!(broken.is_break());
        assert_eq!(statement.to_string(), "SELECT a1 + (b1 * c)");
    }
}
