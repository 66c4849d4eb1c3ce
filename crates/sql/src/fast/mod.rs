//! Small statements: compiled once to operations of the engine, without a query plan.
//!
//! ```text
//!   WHERE ─► source: keys, or ranges of the primary tree or an index ─► filter: what they leave open
//!                                                                         │ rows, some thousands at most
//!            lookups: sources of other tables, for each row ◄── JOIN ─────┤ or those of several tables made one
//!              ┌──────────────────────────┬────────────────────┬──────────┴──────────┐
//!   SELECT columns, ORDER BY,   SELECT count, sum,   SELECT … FOR UPDATE    UPDATE, DELETE: a write
//!   DISTINCT, LIMIT, OFFSET     min, max, GROUP BY                           for each row, RETURNING
//! ```
//!
//! Of several tables the one whose conditions say most is read first. For each row, rows of the next are looked up by a
//! tree of its own of which what is known says most, a key or both ends of a range (`Lookup`, inner or left); whole
//! rows are tested and go on, one at a time. What the lookups of all rows miss in memory is read together. Subqueries
//! of one table are lookups as well: `EXISTS`, `IN (SELECT …)` and their opposites, and in a select list those that a
//! whole key leaves one row.
//!
//! Conditions are comparisons of columns with values, `BETWEEN`, `IN` (of rows as well) and `= ANY`, `IS NULL`, under
//! AND and OR: alternatives, of which each has to begin a key of the same tree. What else a query says of its rows,
//! in expressions that are quick, the planner works out of whole rows, many at a time (`evaluated`), and rows for which
//! it is not true are left out; they may be ordered by such expressions, too. Lists are as long as they are; long ones
//! run on a thread that nobody waits for (`FastPlan::is_long`). Values are parameters of any type that PostgreSQL would
//! compare or assign there, literals, `CURRENT_TIMESTAMP`, and sums, differences and products of them and of the
//! row's columns, with the types that PostgreSQL gives them. `INSERT INTO t … VALUES (…)` of a hundred rows at most
//! looks their keys up and writes; columns without a value have their defaults, where these are literals, `now()` or
//! `nextval`. With ON CONFLICT it keeps or changes rows that are there. SELECT and RETURNING give columns of rows,
//! what is worked out of their integers, and what the planner works out of well-known functions of a row (`evaluated`);
//! a statement that begins anew, since another was in the way, gives all of them anew.
//!
//! What only asks for the first rows reads a tree from its end, in the tree's order, even if no condition says where in
//! it they are; so do `min` and `max`. How many entries a filter or a join leaves of them is not known: some are read,
//! then more. Tables of up to a thousand rows are read whole.
//!
//! Changes are made by the same code as planned ones (`dml`): unique keys, conditions and references are looked up by
//! its writer, here in memory alone. What is not there, of rows that are looked for and of these, is read by a thread
//! that may wait, all that is known to be missing together, and the statement begins anew (`saki_store::Missing`).
//!
//! Whatever is not recognised goes the ordinary way, and means the same there; so does what turns out to take too many
//! rows, or pages that do not stay in memory, before anything of it is seen; for a while it is not tried then. A
//! statement is compiled against a layout of its table; when that has changed, the caller is told so.

mod compile;
mod evaluated;
mod plan;
mod rules;
mod run;

pub use plan::FastPlan;
pub use rules::RulePlanner;
pub use run::{FastAnswer, RowSink, Runner};
