//! Statements about single rows and short ranges, by key: compiled once to operations of the engine, without a query plan.
//!
//! | statement | becomes |
//! |---|---|
//! | `SELECT columns FROM t WHERE key = …` | a look into the delta, and into the base where that knows nothing |
//! | `SELECT columns FROM t WHERE` the key, or that of an index, begins so, `ORDER BY` it, `LIMIT n` | both sides of the range |
//! | `UPDATE t SET column = expression, … WHERE key = …` | that, and a write |
//! | `DELETE FROM t WHERE key = …` | that, and a write |
//! | `INSERT INTO t … VALUES (…)` | checks of key and unique indexes, and a write |
//!
//! Values are parameters, literals, `CURRENT_TIMESTAMP`, and sums, differences and products of them and of the row's columns.
//! Whatever is not recognised goes the ordinary way, and means the same there. A statement is compiled against a layout of its
//! table; when that has changed, or a page has to be read first, the caller is told so.

mod compile;
mod compile_range;
mod expr;
mod range;
mod run;

use std::sync::Arc;

use arrow_schema::SchemaRef;
use saki_base::{DataType, TableId};

use expr::Expr;
use range::Range;

use crate::catalog::EntryLayout;

pub use run::{FastAnswer, RowSink};

/// A compiled statement.
#[derive(Debug)]
pub struct FastPlan {
    table: String,
    /// Whose layout it was compiled against.
    delta: TableId,
    /// Of the table's primary entries.
    layout: Arc<EntryLayout>,
    operation: Operation,
    /// Types of the parameters, by number.
    pub parameters: Vec<DataType>,
    /// Columns of the answer, in order: name and type; none for changes.
    pub output: Vec<(String, DataType)>,
    schema: Option<SchemaRef>,
}

#[derive(Debug)]
enum Operation {
    /// Table columns of the answer.
    Select {
        key: Vec<Expr>,
        columns: Vec<usize>,
    },
    /// The same of several rows.
    Range {
        range: Range,
        columns: Vec<usize>,
    },
    Update {
        key: Vec<Expr>,
        assigned: Vec<(usize, Expr)>,
    },
    Delete {
        key: Vec<Expr>,
    },
    /// A value for each column of the table.
    Insert {
        values: Vec<Expr>,
    },
}

impl FastPlan {
    /// Its command.
    pub fn verb(&self) -> &'static str {
        match self.operation {
            Operation::Select { .. } | Operation::Range { .. } => "SELECT",
            Operation::Update { .. } => "UPDATE",
            Operation::Delete { .. } => "DELETE",
            Operation::Insert { .. } => "INSERT",
        }
    }

    /// The answer's columns, as a query plan would name them; `None` for changes.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.schema.clone()
    }

    /// Whether it changes rows.
    pub fn is_change(&self) -> bool {
        !matches!(self.operation, Operation::Select { .. } | Operation::Range { .. })
    }
}
