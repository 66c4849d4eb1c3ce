//! Expressions over the columns of a batch.
//!
//! Plans translate what they understand into [`Expr`]; what they do not is a [`Foreign`] call, which sees surface arrays.
//! NULL follows SQL: three-valued logic, and arithmetic with NULL is NULL.

use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray};
use arrow_schema::DataType;
use saki_base::value::Value;

use crate::{Batch, Column, Result};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompareOp {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArithmeticOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DatePart {
    Year,
    Month,
    Day,
}

/// An expression that is evaluated elsewhere.
pub trait Foreign: fmt::Debug + Send + Sync {
    /// `arguments` are surface arrays of the logical types of the argument expressions; the result is of the call's type.
    fn evaluate(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef>;
}

/// An expression. Operands have the types that SQL's coercions gave them: both sides of a comparison are of one logical type (decimals
/// of one scale), and `data_type` is the logical type of the result where it does not follow from the operands.
#[derive(Clone, Debug)]
pub enum Expr {
    Column { index: usize, data_type: DataType },
    /// Decimals are unscaled. NULL has a type too.
    Literal { value: Value, data_type: DataType },
    /// On integers of one type, floats of one type, or decimals of any; decimals give `data_type`, a `Decimal128`.
    Arithmetic { op: ArithmeticOp, left: Box<Expr>, right: Box<Expr>, data_type: DataType },
    Negate(Box<Expr>),
    Compare { op: CompareOp, left: Box<Expr>, right: Box<Expr> },
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull(Box<Expr>),
    IsNotNull(Box<Expr>),
    /// SQL LIKE with `%`, `_` and `\` as escape.
    Like { expr: Box<Expr>, pattern: String, negated: bool, case_insensitive: bool },
    /// `values` has no NULL; `negated` is NOT IN.
    InList { expr: Box<Expr>, values: Vec<Value>, negated: bool },
    /// The first branch whose condition is true; else `otherwise`, else NULL.
    Case { branches: Vec<(Expr, Expr)>, otherwise: Option<Box<Expr>>, data_type: DataType },
    Cast { expr: Box<Expr>, data_type: DataType },
    /// `Int32`, of a date or timestamp.
    DatePart { part: DatePart, expr: Box<Expr> },
    /// Characters from `start` (from 1) on, `length` of them or all.
    Substring { expr: Box<Expr>, start: i64, length: Option<i64> },
    Foreign { call: Arc<dyn Foreign>, arguments: Vec<Expr>, data_type: DataType },
}

impl Expr {
    /// The logical type of the result.
    pub fn data_type(&self) -> DataType {
        todo!()
    }

    /// The value for each row.
    pub fn evaluate(&self, batch: &Batch) -> Result<Column> {
        let _ = batch;
        todo!()
    }

    /// The rows for which a condition is true (NULL is not); `None`: for all of them.
    pub fn select(&self, batch: &Batch) -> Result<Option<BooleanArray>> {
        let _ = batch;
        todo!()
    }

    /// Adds the columns that the expression names.
    pub fn columns(&self, columns: &mut Vec<usize>) {
        let _ = columns;
        todo!()
    }
}
