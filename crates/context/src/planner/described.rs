//! Columns of a result as clients are told of them: those that are columns of tables have their types and lengths.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use datafusion::common::{Column, DFSchema, ScalarValue, TableReference};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Expr, LogicalPlan};
use saki_base::DataType;

use saki_catalog::Table;
use saki_plan::SnapshotTable;
use saki_postgres::dialect::BPCHAR;
use saki_system::{PG_COLUMN, PG_MODIFIER, PG_TABLE, PG_TYPE};
use saki_system::{is_letter, relation_oid, type_of};

/// What is known of each column of a result besides its Arrow type.
pub struct Described(Vec<Option<Origin>>);

/// Where a column of a result comes from.
enum Origin {
    Table {
        data_type: DataType,
        /// The oid of the table, and the column's number in it from 1.
        place: (i64, usize),
    },
    /// A value of no table's, of a type that has a length.
    Typed(DataType),
    /// A column of a system relation, of type `"char"`.
    Letter,
    /// What PostgreSQL calls its type, which Arrow's does not tell: `oid`, `name`, a list of either.
    Named(&'static str),
}

impl Origin {
    fn new(table: &Table, column: usize) -> Option<Self> {
        let data_type = table.columns.get(column)?.data_type;
        Some(Self::Table { data_type, place: (relation_oid(table.id.0), column + 1) })
    }

    /// The type, if it has a length.
    fn data_type(&self) -> Option<DataType> {
        match self {
            Self::Table { data_type, .. } | Self::Typed(data_type) => Some(*data_type),
            Self::Letter | Self::Named(_) => None,
        }
    }

    fn of_system(relation: &TableReference, column: &str) -> Option<Self> {
        is_letter(relation.schema()?, relation.table(), column).then_some(Self::Letter)
    }

    fn metadata(&self) -> HashMap<String, String> {
        let known = match self {
            Self::Letter => vec![(PG_TYPE, "char".to_owned())],
            Self::Named(name) => vec![(PG_TYPE, (*name).to_owned())],
            Self::Typed(data_type) => sized(*data_type),
            Self::Table { data_type, place: (table, column) } => {
                let mut known = vec![(PG_TABLE, table.to_string()), (PG_COLUMN, column.to_string())];
                known.extend(sized(*data_type));
                known
            }
        };
        known.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

/// A type that has a length or precision.
fn sized(data_type: DataType) -> Vec<(&'static str, String)> {
    match type_of(data_type) {
        (name, modifier) if modifier >= 0 => {
            vec![(PG_TYPE, name.to_owned()), (PG_MODIFIER, modifier.to_string())]
        }
        _ => Vec::new(),
    }
}

impl Described {
    pub fn of(plan: &LogicalPlan) -> Self {
        Self(plan.schema().columns().iter().map(|column| origin(plan, column)).collect())
    }

    /// Of columns of tables, by their positions; `None`: of something else.
    pub fn of_columns<'t>(columns: impl IntoIterator<Item = Option<(&'t Table, usize)>>) -> Self {
        let origin = |column: Option<(&'t Table, usize)>| column.and_then(|(table, column)| Origin::new(table, column));
        Self(columns.into_iter().map(origin).collect())
    }

    /// The schema with it as metadata of the fields: [`PG_TABLE`] and [`PG_COLUMN`], and [`PG_TYPE`] and
    /// [`PG_MODIFIER`] of types that have a length or precision.
    pub fn apply(&self, schema: &SchemaRef) -> SchemaRef {
        if self.0.iter().all(Option::is_none) {
            return Arc::clone(schema);
        }
        let mut fields: Vec<_> = schema.fields().iter().map(|field| field.as_ref().clone()).collect();
        for (field, origin) in fields.iter_mut().zip(&self.0) {
            if let Some(origin) = origin {
                field.set_metadata(origin.metadata());
            }
        }
        Arc::new(Schema::new(fields))
    }
}

/// The table's column that a column of a plan is.
fn origin(plan: &LogicalPlan, column: &Column) -> Option<Origin> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let provider = source_as_provider(&scan.source).ok()?;
            match provider.downcast_ref::<SnapshotTable>() {
                Some(SnapshotTable { table, .. }) => Origin::new(table, table.column(&column.name)?),
                None => Origin::of_system(&scan.table_name, &column.name),
            }
        }
        LogicalPlan::Projection(projection) => {
            match unaliased(projection.expr.get(position(&projection.schema, column)?)?) {
                Expr::Column(column) => origin(&projection.input, column),
                expr => blank(expr).or_else(|| named(expr, &projection.input).map(Origin::Named)),
            }
        }
        // Parts of one type are a whole of that type.
        LogicalPlan::Union(union) => {
            let at = position(&union.schema, column)?;
            let parts = union.inputs.iter().map(|part| origin(part, part.schema().columns().get(at)?));
            let types = parts.map(|part| part.as_ref().and_then(Origin::data_type)).collect::<Option<Vec<_>>>()?;
            types.iter().all(|of| *of == types[0]).then(|| Origin::Typed(types[0]))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let at = position(&aggregate.schema, column)?;
            if let Some(key) = aggregate.group_expr.get(at) {
                return match unaliased(key) {
                    Expr::Column(column) => origin(&aggregate.input, column),
                    key => blank(key),
                };
            }
            let expr = aggregate.aggr_expr.get(at.checked_sub(aggregate.group_expr_len().ok()?)?)?;
            named(expr, &aggregate.input).map(Origin::Named)
        }
        // The columns of the first part are the result's.
        LogicalPlan::RecursiveQuery(query) => {
            let at = position(plan.schema(), column)?;
            origin(&query.static_term, query.static_term.schema().columns().get(at)?)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let below = alias.input.schema().columns();
            origin(&alias.input, below.get(position(&alias.schema, column)?)?)
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Window(_) => {
            plan.inputs().into_iter().find(|input| input.schema().has_column(column)).and_then(|i| origin(i, column))
        }
        _ => None,
    }
}

/// A cast to char(n), which is shown with blanks up to its length.
fn blank(expr: &Expr) -> Option<Origin> {
    let Expr::ScalarFunction(call) = expr else { return None };
    let [_, length] = &call.args[..] else { return None };
    let length = match length {
        Expr::Cast(cast) => &cast.expr,
        length => length,
    };
    let length = match length {
        Expr::Literal(ScalarValue::Int64(Some(length)), _) => u32::try_from(*length).ok()?,
        Expr::Literal(ScalarValue::Int32(Some(length)), _) => u32::try_from(*length).ok()?,
        _ => return None,
    };
    (call.name() == BPCHAR).then_some(Origin::Typed(DataType::Char(length)))
}

fn unaliased(mut expr: &Expr) -> &Expr {
    while let Expr::Alias(alias) = expr {
        expr = &alias.expr;
    }
    expr
}

/// The name of an expression's type, over a plan's rows.
fn named(expr: &Expr, input: &LogicalPlan) -> Option<&'static str> {
    match unaliased(expr) {
        Expr::Column(column) => {
            let (_, field) = input.schema().qualified_field_from_column(column).ok()?;
            match field.metadata().get(PG_TYPE).map(String::as_str) {
                Some("oid") => Some("oid"),
                Some("name") => Some("name"),
                _ => match origin(input, column)? {
                    Origin::Named(name) => Some(name),
                    _ => None,
                },
            }
        }
        Expr::Case(case) => {
            let branches = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
            branches.into_iter().find_map(|branch| named(branch, input))
        }
        Expr::ScalarSubquery(query) => {
            let column = query.subquery.schema().columns().into_iter().next()?;
            named(&Expr::Column(column), &query.subquery)
        }
        Expr::AggregateFunction(function) if function.func.name() == "array_agg" => {
            match named(function.params.args.first()?, input)? {
                "oid" => Some("_oid"),
                "name" => Some("_name"),
                _ => None,
            }
        }
        _ => None,
    }
}

fn position(schema: &DFSchema, column: &Column) -> Option<usize> {
    schema.maybe_index_of_column(column)
}
