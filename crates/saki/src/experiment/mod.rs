//! The experiment that the engine is built around: three tables joined by
//! indexes, cold, at a chosen selectivity, in order and out of order.
//!
//! ```text
//!  c_acctbal range ─► customer ─► orders by o_custkey ─► lineitem by l_orderkey ─► COUNT, SUM
//! ```
//!
//! Account balances have nothing to do with keys, so the customers of a range
//! lie scattered over their table, and so do their orders and lines: nearly
//! every row costs a page. That is the worst case for an engine that waits for each page, and the common one for
//! storage that is larger than memory.
//!
//! - [`Join`] is the query for a selectivity;
//! - [`run`] runs it cold in a [`Mode`] and measures;
//! - [`device_limit`] is what the device could do at best, to compare with;
//! - [`Meter`] is the measuring, for other experiments.

mod limit;
mod meter;

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::array::cast::AsArray;
use arrow::array::types::{Decimal128Type, Int64Type};
use futures::StreamExt;
use saki_sql::{Database, Session, SqlError, StatementResult};

pub use limit::{DeviceLimit, device_limit};
pub use meter::{Meter, Reading};

/// Balances are spread evenly over these, in cents.
const BALANCE_MIN: i64 = -99_999;
const BALANCE_MAX: i64 = 999_999;

/// The join over customers of a range of balances.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Join {
    /// The wanted share of all customers, 0 to 1.
    pub selectivity: f64,
    /// Balances in cents, both included.
    low: i64,
    high: i64,
}

impl Join {
    /// The join that selects about `selectivity` (0 to 1) of all customers; `seed` chooses which.
    pub fn new(selectivity: f64, seed: u64) -> Self {
        let balances = BALANCE_MAX - BALANCE_MIN + 1;
        let width = ((selectivity * balances as f64).round() as i64).clamp(1, balances);
        let room = (balances - width + 1) as u64;
        // Fibonacci hashing: neighbouring seeds choose far-apart ranges.
        let start = ((u128::from(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)) * u128::from(room)) >> 64) as i64;
        let low = BALANCE_MIN + start;
        Self { selectivity, low, high: low + width - 1 }
    }

    /// The query.
    pub fn sql(&self) -> String {
        format!(
            "SELECT COUNT(*), SUM(l_quantity) FROM customer JOIN orders ON c_custkey = o_custkey \
             JOIN lineitem ON o_orderkey = l_orderkey WHERE c_acctbal BETWEEN {} AND {}",
            cents(self.low),
            cents(self.high)
        )
    }
}

fn cents(amount: i64) -> String {
    let sign = if amount < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", amount.abs() / 100, amount.abs() % 100)
}

/// How the join is run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// By indexes, one page at a time.
    InOrder,
    /// By indexes, many pages at once.
    OutOfOrder,
    /// By reading tables and hashing them.
    HashJoin,
    /// As the planner thinks best.
    Auto,
}

impl Mode {
    /// What it is called in outputs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InOrder => "in order",
            Self::OutOfOrder => "out of order",
            Self::HashJoin => "hash join",
            Self::Auto => "auto",
        }
    }

    /// The settings that make a session run so.
    fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::InOrder => &[("execution", "in_order"), ("index_join", "always"), ("access_path", "index")],
            Self::OutOfOrder => &[("execution", "out_of_order"), ("index_join", "always"), ("access_path", "index")],
            Self::HashJoin => &[("execution", "out_of_order"), ("index_join", "never"), ("access_path", "auto")],
            Self::Auto => &[("execution", "out_of_order"), ("index_join", "auto"), ("access_path", "auto")],
        }
    }

    /// Makes `session` run queries so.
    ///
    /// # Errors
    /// Never, as long as the settings exist.
    pub fn apply(self, session: &Session) -> Result<(), SqlError> {
        self.settings().iter().try_for_each(|(name, value)| session.set(name, value))
    }
}

/// What the join answers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Answer {
    /// Lines of the selected customers' orders.
    pub rows: i64,
    /// Their quantities, in hundredths.
    pub quantity: i128,
}

/// What one run of the join did.
#[derive(Clone, Debug)]
pub struct JoinRun {
    pub mode: Mode,
    /// `None` if the run was cut.
    pub answer: Option<Answer>,
    pub reading: Reading,
}

impl JoinRun {
    /// Seconds of the whole join. Those of a run that was cut are scaled by its share of the `pages` that the whole
    /// join reads.
    pub fn seconds(&self, pages: u64) -> f64 {
        match self.answer {
            Some(_) => self.reading.seconds,
            None => self.reading.seconds * pages.max(1) as f64 / self.reading.pages_read.max(1) as f64,
        }
    }
}

/// Runs the join once with cold caches. With `cut`, it is stopped after so
/// long: then there is no answer, and the reading is of what was done by then.
///
/// # Errors
/// Those of the query.
pub async fn run(
    database: &Arc<Database>,
    join: &Join,
    mode: Mode,
    cut: Option<Duration>,
) -> Result<JoinRun, SqlError> {
    let session = Session::new(database);
    mode.apply(&session)?;
    database.drop_caches();
    let sql = join.sql();
    let meter = Meter::start(database);
    let answering = answer(&session, &sql);
    let answer = match cut {
        None => Some(answering.await?),
        Some(cut) => tokio::time::timeout(cut, answering).await.ok().transpose()?,
    };
    Ok(JoinRun { mode, answer, reading: meter.stop() })
}

async fn answer(session: &Session, sql: &str) -> Result<Answer, SqlError> {
    for result in session.execute(sql).await? {
        let StatementResult::Rows { mut stream, .. } = result else { continue };
        while let Some(batch) = stream.next().await {
            if let Some(answer) = read_answer(&batch?) {
                return Ok(answer);
            }
        }
    }
    Err(SqlError::internal("the join gave no row"))
}

fn read_answer(batch: &RecordBatch) -> Option<Answer> {
    if batch.num_rows() == 0 {
        return None;
    }
    let rows = batch.column(0).as_primitive_opt::<Int64Type>()?.value(0);
    let sum = batch.column(1).as_primitive_opt::<Decimal128Type>()?;
    // The sum of no rows is NULL.
    let quantity = if arrow::array::Array::is_null(sum, 0) { 0 } else { sum.value(0) };
    Some(Answer { rows, quantity })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_as_wide_as_asked_and_within_bounds() {
        for seed in 0..100 {
            for selectivity in [1e-6, 1e-4, 0.01, 0.5, 1.0] {
                let join = Join::new(selectivity, seed);
                assert!(join.low >= BALANCE_MIN && join.high <= BALANCE_MAX);
                let share = (join.high - join.low + 1) as f64 / (BALANCE_MAX - BALANCE_MIN + 1) as f64;
                assert!((share - selectivity).abs() < 1e-6, "{share} {selectivity}");
            }
        }
        assert!(Join::new(0.01, 1) != Join::new(0.01, 2));
        assert!(Join::new(1.0, 7).sql().ends_with("BETWEEN -999.99 AND 9999.99"));
    }
}
