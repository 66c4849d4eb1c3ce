//! Expressions of an answer, and conditions, that the planner works out where the rows are found without its plan.
//!
//! They are those that call a few well-known functions of the row alone; their meaning is the planner's, which analyses
//! them as any query's. What they are for some row may be an error: the statement goes the ordinary way then, where
//! that is said.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType as Arrow, Field, Schema, SchemaRef, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, TableReference};
use datafusion::execution::context::SessionState;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column as Input;
use datafusion::sql::sqlparser::ast::{self, BinaryOperator};
use saki_base::{Column, DataType, Value, ValueRef};
use saki_catalog::ColumnReader;
use saki_catalog::convert::array_of;
use saki_context::planner::Planner;
use saki_parameters::Parameters;
use saki_postgres::dialect::lasting;
use saki_postgres::statement::walk::walk_expressions;

/// Functions that may be called: of their arguments alone, and quick.
const FUNCTIONS: [&str; 34] = [
    "abs",
    "ascii",
    "btrim",
    "ceil",
    "ceiling",
    "char_length",
    "character_length",
    "chr",
    "coalesce",
    "concat",
    "date_part",
    "date_trunc",
    "floor",
    "greatest",
    "initcap",
    "least",
    "left",
    "length",
    "lower",
    "ltrim",
    "md5",
    "mod",
    "nullif",
    "octet_length",
    "replace",
    "reverse",
    "right",
    "round",
    "rtrim",
    "sign",
    "split_part",
    "substr",
    "trunc",
    "upper",
];

/// An expression that the planner works out.
#[derive(Debug)]
pub struct Evaluated {
    expr: Arc<dyn PhysicalExpr>,
    /// Which columns of the statement it is made of, and what they are there.
    inputs: Vec<(usize, DataType)>,
    schema: SchemaRef,
    /// What it gives.
    result: Column,
}

/// What plans them.
#[derive(Clone, Copy)]
pub struct Evaluator<'s> {
    pub planner: &'s Planner,
    /// The session's, which what is planned depends on.
    pub parameters: &'s Parameters,
}

/// Rows that expressions are planned over.
pub struct Rows {
    planner: SessionState,
    schema: DFSchema,
    /// Which columns of the statement those of the schema are, and their types.
    columns: Vec<(usize, DataType)>,
}

/// A table whose columns an expression may name: what it is called, and from where on its columns are the statement's.
pub struct Named<'n> {
    pub alias: &'n str,
    pub first: usize,
    pub columns: &'n [Column],
}

impl Evaluator<'_> {
    /// Rows of tables, to plan expressions over.
    pub fn rows<'n>(&self, tables: impl Iterator<Item = Named<'n>>) -> Option<Rows> {
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for table in tables {
            for (place, column) in table.columns.iter().enumerate() {
                let field = Field::new(&column.name, saki_exec::arrow_type(column.data_type), true);
                fields.push((Some(TableReference::bare(table.alias)), Arc::new(field)));
                columns.push((table.first + place, column.data_type));
            }
        }
        let schema = DFSchema::new_with_metadata(fields, HashMap::new()).ok()?;
        Some(Rows { planner: self.planner.state(), schema, columns })
    }
}

impl Rows {
    /// Plans a quick expression; `None` if it has to be looked at in a plan.
    pub fn plan(&self, expr: &ast::Expr) -> Option<Evaluated> {
        let (expr, field) = lasting(&self.planner, expr, &self.schema).ok()??;
        // What clients are told of a described type is not said here.
        let data_type = field.metadata().is_empty().then(|| result_type(field.data_type()))??;
        Evaluated::new(expr, &self.columns, &self.schema, data_type)
    }
}

impl Evaluated {
    fn new(
        expr: Arc<dyn PhysicalExpr>,
        columns: &[(usize, DataType)],
        schema: &DFSchema,
        data_type: DataType,
    ) -> Option<Self> {
        // Its inputs beside each other.
        let mut used: Vec<usize> = Vec::new();
        let expr = expr.transform(|part| {
            let Some(input) = part.downcast_ref::<Input>() else { return Ok(Transformed::no(part)) };
            let place = used.iter().position(|other| *other == input.index()).unwrap_or_else(|| {
                used.push(input.index());
                used.len() - 1
            });
            let input: Arc<dyn PhysicalExpr> = Arc::new(Input::new(input.name(), place));
            Ok(Transformed::yes(input))
        });
        let expr = expr.ok()?.data;
        let inputs: Vec<_> = used.iter().map(|column| columns[*column]).collect();
        let fields: Vec<_> = used.iter().map(|column| Arc::clone(&schema.fields()[*column])).collect();
        let is_plain = inputs.iter().all(|(_, data_type)| is_plain(*data_type)) && !used.is_empty();
        let result = Column { name: String::new(), data_type, nullable: true };
        is_plain.then(|| Self { expr, inputs, schema: Arc::new(Schema::new(fields)), result })
    }

    /// The type of what it gives.
    pub fn data_type(&self) -> DataType {
        self.result.data_type
    }

    /// What it is of a row, by column of the statement; `None` if that has to be found out elsewhere.
    pub fn value(&self, row: &[ValueRef<'_>]) -> Option<Value> {
        self.evaluate(1, |column| vec![Value::from(row[column])])?.pop()
    }

    /// The same of several rows.
    pub fn values(&self, rows: &[Vec<Value>]) -> Option<Vec<Value>> {
        self.evaluate(rows.len(), |column| rows.iter().map(|row| row[column].clone()).collect())
    }

    fn evaluate(&self, rows: usize, values_of: impl Fn(usize) -> Vec<Value>) -> Option<Vec<Value>> {
        let array = |(column, data_type): &(usize, DataType)| array_of(*data_type, &values_of(*column));
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), self.inputs.iter().map(array).collect()).ok()?;
        let result = self.expr.evaluate(&batch).ok()?.into_array(rows).ok()?;
        let reader = ColumnReader::new(&result, &self.result).ok()?;
        Some((0..rows).map(|row| Value::from(reader.value(row))).collect())
    }
}

/// Whether an expression is of parts that are known to be quick, and to say the same at any time.
pub fn is_quick(expr: &ast::Expr) -> bool {
    let visited = walk_expressions(expr, |part| {
        let is_known = match part {
            ast::Expr::Function(function) => {
                let name = function.name.to_string().to_lowercase();
                let is_plain = function.over.is_none() && function.filter.is_none() && function.within_group.is_empty();
                is_plain && FUNCTIONS.contains(&name.as_str())
            }
            ast::Expr::Value(value) => !matches!(value.value, ast::Value::Placeholder(_)),
            // A pattern is read anew for each batch of rows, however few.
            ast::Expr::BinaryOp { op, .. } => !is_pattern(op),
            ast::Expr::Identifier(_)
            | ast::Expr::CompoundIdentifier(_)
            | ast::Expr::Nested(_)
            | ast::Expr::UnaryOp { .. }
            | ast::Expr::Case { .. }
            | ast::Expr::Cast { .. }
            | ast::Expr::IsNull(_)
            | ast::Expr::IsNotNull(_)
            | ast::Expr::IsTrue(_)
            | ast::Expr::IsNotTrue(_)
            | ast::Expr::IsFalse(_)
            | ast::Expr::IsNotFalse(_)
            | ast::Expr::IsUnknown(_)
            | ast::Expr::IsNotUnknown(_)
            | ast::Expr::IsDistinctFrom(..)
            | ast::Expr::IsNotDistinctFrom(..)
            | ast::Expr::Between { .. }
            | ast::Expr::InList { .. }
            | ast::Expr::Like { .. }
            | ast::Expr::Extract { .. }
            | ast::Expr::Ceil { .. }
            | ast::Expr::Floor { .. }
            | ast::Expr::Substring { .. }
            | ast::Expr::Trim { .. }
            | ast::Expr::TypedString(_) => true,
            _ => false,
        };
        if is_known { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    visited.is_continue()
}

fn is_pattern(op: &BinaryOperator) -> bool {
    use BinaryOperator::{PGRegexIMatch, PGRegexMatch, PGRegexNotIMatch, PGRegexNotMatch};
    matches!(op, PGRegexIMatch | PGRegexMatch | PGRegexNotIMatch | PGRegexNotMatch)
}

/// Types of columns that mean the same to expressions in a plan and here: no blanks at the end, no time zone.
fn is_plain(data_type: DataType) -> bool {
    use DataType::{Bool, Date, Decimal, Enum, Float8, Int2, Int4, Int8, Text, Timestamp, Varchar};
    let is_number = matches!(data_type, Int2 | Int4 | Int8 | Float8 | Decimal { .. });
    is_number || matches!(data_type, Bool | Text | Varchar(_) | Date | Timestamp | Enum(_))
}

/// The type of a column that has the values of an Arrow type.
fn result_type(data_type: &Arrow) -> Option<DataType> {
    Some(match data_type {
        Arrow::Boolean => DataType::Bool,
        Arrow::Int16 => DataType::Int2,
        Arrow::Int32 => DataType::Int4,
        Arrow::Int64 => DataType::Int8,
        Arrow::Float64 => DataType::Float8,
        Arrow::Decimal128(precision, scale) => {
            DataType::Decimal { precision: *precision, scale: u8::try_from(*scale).ok()? }
        }
        Arrow::Utf8 | Arrow::Utf8View => DataType::Text,
        Arrow::Date32 => DataType::Date,
        Arrow::Timestamp(TimeUnit::Microsecond, None) => DataType::Timestamp,
        other => DataType::Enum(saki_exec::enumeration(other)?),
    })
}
