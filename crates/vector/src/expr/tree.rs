//! What an expression is.

use std::fmt;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use saki_base::CompareOp;
use saki_base::value::Value;

use super::compare::ValueSet;
use super::text::LikePattern;
use crate::Result;

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
    /// `arguments` are surface arrays of the logical types of the argument expressions; the result is of the call's
    /// type.
    fn evaluate(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef>;
}

/// An expression. Operands have the types that SQL's coercions gave them: both sides of a comparison are of one logical
/// type (decimals of one scale), and `data_type` is the logical type of the result where it does not follow from the
/// operands.
#[derive(Clone, Debug)]
pub enum Expr {
    Column {
        index: usize,
        data_type: DataType,
    },
    /// Decimals are unscaled. NULL has a type too.
    Literal {
        value: Value,
        data_type: DataType,
    },
    /// On integers of one type, floats of one type, or decimals of any; decimals give `data_type`, a `Decimal128`.
    Arithmetic {
        op: ArithmeticOp,
        left: Box<Expr>,
        right: Box<Expr>,
        data_type: DataType,
    },
    Negate(Box<Expr>),
    /// Floats compare as in PostgreSQL: NaN equals itself and is greater than all else, and the two zeros are equal.
    /// Text compares by its bytes.
    Compare {
        op: CompareOp,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull(Box<Expr>),
    IsNotNull(Box<Expr>),
    Like {
        expr: Box<Expr>,
        pattern: Arc<LikePattern>,
        negated: bool,
    },
    /// `negated` is NOT IN.
    InList {
        expr: Box<Expr>,
        values: Arc<ValueSet>,
        negated: bool,
    },
    /// The first branch whose condition is true; else `otherwise`, else NULL.
    Case {
        branches: Vec<(Expr, Expr)>,
        otherwise: Option<Box<Expr>>,
        data_type: DataType,
    },
    Cast {
        expr: Box<Expr>,
        data_type: DataType,
    },
    /// `Int32`, of a date or timestamp (in UTC).
    DatePart {
        part: DatePart,
        expr: Box<Expr>,
    },
    /// Characters from `start` (from 1) on, `length` of them or all; of the operand's type. `length` is not negative.
    Substring {
        expr: Box<Expr>,
        start: i64,
        length: Option<i64>,
    },
    Foreign {
        call: Arc<dyn Foreign>,
        arguments: Vec<Expr>,
        data_type: DataType,
    },
}

impl Expr {
    /// The logical type of the result.
    pub fn data_type(&self) -> DataType {
        match self {
            Self::Column { data_type, .. }
            | Self::Literal { data_type, .. }
            | Self::Arithmetic { data_type, .. }
            | Self::Case { data_type, .. }
            | Self::Cast { data_type, .. }
            | Self::Foreign { data_type, .. } => data_type.clone(),
            Self::Negate(expr) | Self::Substring { expr, .. } => expr.data_type(),
            Self::DatePart { .. } => DataType::Int32,
            Self::Compare { .. }
            | Self::And(_)
            | Self::Or(_)
            | Self::Not(_)
            | Self::IsNull(_)
            | Self::IsNotNull(_)
            | Self::Like { .. }
            | Self::InList { .. } => DataType::Boolean,
        }
    }

    /// Adds the columns that the expression names, each once.
    pub fn columns(&self, columns: &mut Vec<usize>) {
        if let Self::Column { index, .. } = self
            && !columns.contains(index)
        {
            columns.push(*index);
        }
        self.for_each_operand(&mut |operand| operand.columns(columns));
    }

    /// The same expression over other columns: `to` gives the new index of each.
    pub fn map_columns(&self, to: &impl Fn(usize) -> usize) -> Self {
        let one = |expr: &Self| Box::new(expr.map_columns(to));
        let all = |exprs: &[Self]| exprs.iter().map(|expr| expr.map_columns(to)).collect();
        match self {
            Self::Column { index, data_type } => Self::Column { index: to(*index), data_type: data_type.clone() },
            Self::Literal { .. } => self.clone(),
            Self::Arithmetic { op, left, right, data_type } => {
                Self::Arithmetic { op: *op, left: one(left), right: one(right), data_type: data_type.clone() }
            }
            Self::Negate(expr) => Self::Negate(one(expr)),
            Self::Compare { op, left, right } => Self::Compare { op: *op, left: one(left), right: one(right) },
            Self::And(parts) => Self::And(all(parts)),
            Self::Or(parts) => Self::Or(all(parts)),
            Self::Not(expr) => Self::Not(one(expr)),
            Self::IsNull(expr) => Self::IsNull(one(expr)),
            Self::IsNotNull(expr) => Self::IsNotNull(one(expr)),
            Self::Like { expr, pattern, negated } => {
                Self::Like { expr: one(expr), pattern: Arc::clone(pattern), negated: *negated }
            }
            Self::InList { expr, values, negated } => {
                Self::InList { expr: one(expr), values: Arc::clone(values), negated: *negated }
            }
            Self::Case { branches, otherwise, data_type } => Self::Case {
                branches: branches.iter().map(|(when, then)| (when.map_columns(to), then.map_columns(to))).collect(),
                otherwise: otherwise.as_deref().map(one),
                data_type: data_type.clone(),
            },
            Self::Cast { expr, data_type } => Self::Cast { expr: one(expr), data_type: data_type.clone() },
            Self::DatePart { part, expr } => Self::DatePart { part: *part, expr: one(expr) },
            Self::Substring { expr, start, length } => {
                Self::Substring { expr: one(expr), start: *start, length: *length }
            }
            Self::Foreign { call, arguments, data_type } => {
                Self::Foreign { call: Arc::clone(call), arguments: all(arguments), data_type: data_type.clone() }
            }
        }
    }

    pub(super) fn for_each_operand<'a>(&'a self, each: &mut dyn FnMut(&'a Self)) {
        match self {
            Self::Column { .. } | Self::Literal { .. } => {}
            Self::Arithmetic { left, right, .. } | Self::Compare { left, right, .. } => {
                each(left);
                each(right);
            }
            Self::Negate(expr)
            | Self::Not(expr)
            | Self::IsNull(expr)
            | Self::IsNotNull(expr)
            | Self::Like { expr, .. }
            | Self::InList { expr, .. }
            | Self::Cast { expr, .. }
            | Self::DatePart { expr, .. }
            | Self::Substring { expr, .. } => each(expr),
            Self::And(parts) | Self::Or(parts) => parts.iter().for_each(each),
            Self::Case { branches, otherwise, .. } => {
                for (when, then) in branches {
                    each(when);
                    each(then);
                }
                otherwise.iter().for_each(|otherwise| each(otherwise));
            }
            Self::Foreign { arguments, .. } => arguments.iter().for_each(each),
        }
    }
}
