//! Statements about single rows and short ranges, by key: compiled once to operations of the engine, without a query
//! plan.
//!
//! | statement | becomes |
//! |---|---|
//! | `SELECT columns FROM t WHERE key = …` | a look into the delta, and into the base where that knows nothing |
//! | `SELECT columns FROM t WHERE` a key, or that of an index, begins so, `ORDER BY` it, `LIMIT n` | a range of both |
//! | `UPDATE t SET column = expression, … WHERE key = …` | that, and a write |
//! | `DELETE FROM t WHERE key = …` | that, and a write |
//! | `INSERT INTO t … VALUES (…)` | checks of key and unique indexes, and a write |
//!
//! Values are parameters, literals, `CURRENT_TIMESTAMP`, and sums, differences and products of them and of the row's
//! columns. Whatever is not recognised goes the ordinary way, and means the same there. A statement is compiled against
//! a layout of its table; when that has changed, or a page has to be read first, the caller is told so.

mod compile;
mod compile_range;
mod expr;
mod plan;
mod range;
mod run;

pub use plan::FastPlan;
pub use run::{FastAnswer, RowSink, Runner};
