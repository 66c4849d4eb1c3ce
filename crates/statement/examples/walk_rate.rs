//! What thirty visitors pay to go through a statement: each by a walk that is compiled for it alone, as the parser's
//! own is, and all by the walk of `saki_statement::walk`.
//!
//! ```sh
//! cargo run --release -p saki-statement --example walk_rate
//! ```

use std::ops::ControlFlow;
use std::time::Instant;

use datafusion::sql::sqlparser::ast::{Expr, Statement, VisitMut, VisitorMut};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use saki_statement::walk::walk_mut;

const ROUNDS: u32 = 5;
const REPEATS: u32 = 5_000;

const STATEMENTS: [(&str, &str); 2] = [
    ("a point select", "SELECT c FROM sbtest1 WHERE id = $1"),
    (
        "a join with groups",
        "SELECT a.x, sum(b.y + 1) FROM a JOIN b ON a.id = b.id WHERE a.z BETWEEN 1 AND 10 AND b.t LIKE 'x%' \
         AND a.k IN (1, 2, 3, 4) GROUP BY a.x HAVING sum(b.y) > 3 ORDER BY 2 LIMIT 10",
    ),
];

macro_rules! visitors {
    ($($name:ident)*) => {
        $(
            /// Counts calls.
            #[derive(Default)]
            struct $name(usize);

            impl VisitorMut for $name {
                type Break = String;

                fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
                    self.0 += usize::from(matches!(expr, Expr::Function(_)));
                    ControlFlow::Continue(())
                }
            }
        )*

        const VISITORS: usize = [$(stringify!($name)),*].len();

        fn each_by_its_own(statement: &mut Statement) -> usize {
            [$({
                let mut visitor = $name::default();
                let _ = VisitMut::visit(statement, &mut visitor);
                visitor.0
            }),*].into_iter().sum()
        }

        fn all_by_one(statement: &mut Statement) -> usize {
            [$({
                let mut visitor = $name::default();
                let _ = walk_mut(statement, &mut visitor);
                visitor.0
            }),*].into_iter().sum()
        }
    };
}
visitors!(V00 V01 V02 V03 V04 V05 V06 V07 V08 V09 V10 V11 V12 V13 V14 V15 V16 V17 V18 V19 V20 V21 V22 V23 V24 V25 V26
          V27 V28 V29);

/// Microseconds of one call.
fn micros(mut call: impl FnMut() -> usize) -> f64 {
    let began = Instant::now();
    let sum: usize = (0..REPEATS).map(|_| std::hint::black_box(call())).sum();
    std::hint::black_box(sum);
    began.elapsed().as_secs_f64() * 1e6 / f64::from(REPEATS)
}

fn main() {
    for (name, sql) in STATEMENTS {
        let parsed = Parser::parse_sql(&PostgreSqlDialect {}, sql).expect("it is a statement");
        let mut statement = parsed.into_iter().next().expect("it is one statement");
        assert_eq!(each_by_its_own(&mut statement.clone()), all_by_one(&mut statement.clone()));
        let best = |walks: fn(&mut Statement) -> usize, statement: &mut Statement| {
            (0..ROUNDS).map(|_| micros(|| walks(statement))).fold(f64::INFINITY, f64::min)
        };
        let (own, one) = (best(each_by_its_own, &mut statement), best(all_by_one, &mut statement));
        println!("{VISITORS} visitors of {name}: a walk for each {own:.1} us, one for all {one:.1} us");
    }
}
