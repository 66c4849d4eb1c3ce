//! Names of columns as PostgreSQL gives them. The planner has names of its own, and refuses two that are the same: all
//! but the first get a mark here, which is taken off where a result leaves.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, DataType, Expr, Ident, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, TableFactor, TableWithJoins, TimezoneInfo, TrimWhereField, VisitorMut,
};
use futures::StreamExt;

use crate::statement::{column_name, name_of};
use saki_catalog::SqlError;

/// What PostgreSQL calls what has no name.
pub const UNNAMED: &str = "?column?";
/// What stands between a name and the number of its repetition; no text of PostgreSQL's has it by itself.
const MARK: char = '\u{1}';

/// Names the columns of queries whose names are seen; a subquery that is a value has none.
#[derive(Default)]
pub struct Columns {
    values: HashSet<*const Query>,
    /// Whether each of the queries around is a value.
    around: Vec<bool>,
}

impl VisitorMut for Columns {
    type Break = SqlError;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        if let Expr::Subquery(query) | Expr::Exists { subquery: query, .. } | Expr::InSubquery { subquery: query, .. } =
            expr
        {
            self.values.insert(std::ptr::from_ref(query.as_ref()));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        if matches!(query.body.as_ref(), SetExpr::SetOperation { .. }) {
            name_sides(&mut query.body);
        }
        self.around.push(self.values.remove(&std::ptr::from_ref(query)));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.around.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        if self.around.last() != Some(&true) {
            name_items(select);
        }
        ControlFlow::Continue(())
    }
}

/// Names as clients see them.
pub fn shown(schema: &SchemaRef) -> SchemaRef {
    if !schema.fields().iter().any(|field| field.name().contains(MARK)) {
        return Arc::clone(schema);
    }
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_name(unmarked(field.name())));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// A result under the names that clients see.
pub fn with_shown_names(stream: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = stream.schema();
    let seen = shown(&schema);
    if Arc::ptr_eq(&schema, &seen) {
        return stream;
    }
    let target = Arc::clone(&seen);
    let batches = stream.map(move |batch| {
        let options =
            |batch: &RecordBatch| arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        batch.and_then(|batch| {
            let options = options(&batch);
            Ok(RecordBatch::try_new_with_options(Arc::clone(&target), batch.columns().to_vec(), &options)?)
        })
    });
    Box::pin(RecordBatchStreamAdapter::new(seen, batches))
}

/// A name as clients see it.
pub fn unmarked(name: &str) -> String {
    name.split(MARK).next().unwrap_or_default().to_owned()
}

/// A name that clients see as this one, and no statement can say.
pub fn marked(name: &str) -> String {
    format!("{name}{MARK}of result")
}

/// Columns of a set operation have no tables to be told apart by.
fn name_sides(body: &mut SetExpr) {
    match body {
        SetExpr::SetOperation { left, right, .. } => {
            name_sides(left);
            name_sides(right);
        }
        SetExpr::Select(select) => {
            let mut names = HashSet::new();
            let columns = select.projection.iter().filter_map(|item| match item {
                SelectItem::UnnamedExpr(expr) => column_name(expr),
                _ => None,
            });
            if !columns.into_iter().all(|name| names.insert(name)) {
                let mut taken = Taken::default();
                for item in &mut select.projection {
                    if let SelectItem::UnnamedExpr(expr) = item
                        && let Some(name) = column_name(expr)
                    {
                        let alias = Ident::with_quote('"', taken.alias(name, false));
                        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                    }
                }
            }
        }
        _ => {}
    }
}

fn name_items(select: &mut Select) {
    let is_one_table = matches!(&select.from[..], [from] if from.joins.is_empty());
    let wildcards = Wildcards::of(&select.projection, is_one_table);
    let own: HashSet<String> = select.from.iter().flat_map(relations).collect();
    let mut taken = Taken::default();
    for item in &mut select.projection {
        name_item(item, &own, &wildcards, &mut taken);
    }
}

/// What relations of FROM are called.
fn relations(from: &TableWithJoins) -> Vec<String> {
    let factors = std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation));
    factors.flat_map(factor_names).collect()
}

fn factor_names(factor: &TableFactor) -> Vec<String> {
    let alias = match factor {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => alias.as_ref().map(|alias| name_of(&alias.name)),
        _ => None,
    };
    match factor {
        TableFactor::Table { name, .. } if alias.is_none() => {
            name.0.last().and_then(|part| part.as_ident()).map(name_of).into_iter().collect()
        }
        TableFactor::NestedJoin { table_with_joins, .. } => {
            relations(table_with_joins).into_iter().chain(alias).collect()
        }
        _ => alias.into_iter().collect(),
    }
}

/// The wildcards of a select list: which columns they bring is not known yet.
struct Wildcards {
    all: bool,
    tables: Vec<String>,
}

impl Wildcards {
    fn of(items: &[SelectItem], is_one_table: bool) -> Self {
        let mut wildcards = Self { all: false, tables: Vec::new() };
        for item in items {
            match item {
                SelectItem::Wildcard(_) => wildcards.all = true,
                SelectItem::QualifiedWildcard(_, _) if is_one_table => wildcards.all = true,
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), _) => {
                    wildcards.tables.extend(table.0.last().and_then(|part| part.as_ident()).map(name_of));
                }
                _ => {}
            }
        }
        wildcards
    }

    /// Whether one brings this column, as far as that can be told.
    fn bring(&self, column: &Expr) -> bool {
        let table = match column {
            Expr::CompoundIdentifier(parts) if parts.len() > 1 => parts.get(parts.len() - 2).map(name_of),
            _ => None,
        };
        self.all || table.is_some_and(|table| self.tables.contains(&table))
    }
}

/// Names that a select list has so far.
#[derive(Default)]
struct Taken {
    /// Columns as they are written, with their tables.
    exact: HashSet<String>,
    /// Those without.
    columns: HashSet<String>,
    aliases: HashSet<String>,
}

impl Taken {
    /// Whether a column can keep its own name: the planner tells columns of different tables apart.
    fn keeps(&mut self, name: &str, column: &Expr) -> bool {
        let exact = column.to_string();
        let is_first = !self.columns.contains(name);
        let is_told_apart = matches!(column, Expr::CompoundIdentifier(_)) && !self.exact.contains(name);
        let is_kept = !self.aliases.contains(name) && (is_first || is_told_apart) && !self.exact.contains(&exact);
        if is_kept {
            self.columns.insert(name.to_owned());
            self.exact.insert(if matches!(column, Expr::CompoundIdentifier(_)) { exact } else { name.to_owned() });
        }
        is_kept
    }

    /// The name, or one with a mark if it is taken or is to have one.
    fn alias(&mut self, name: String, marked: bool) -> String {
        let numbered = |number: u32| if number == 0 { name.clone() } else { format!("{name}{MARK}{number}") };
        let mut number = u32::from(marked);
        let mut free = numbered(number);
        while self.columns.contains(&free) || self.aliases.contains(&free) {
            number += 1;
            free = numbered(number);
        }
        self.aliases.insert(free.clone());
        free
    }
}

fn name_item(item: &mut SelectItem, own: &HashSet<String>, wildcards: &Wildcards, taken: &mut Taken) {
    match item {
        SelectItem::UnnamedExpr(expr) => {
            let column = column_name(expr);
            // The planner has other names for columns of the query around.
            let is_outer = match expr {
                Expr::CompoundIdentifier(parts) if parts.len() > 1 => !own.contains(&name_of(&parts[parts.len() - 2])),
                _ => own.is_empty(),
            };
            if let Some(name) = &column
                && !is_outer
                && !wildcards.bring(expr)
                && taken.keeps(name, expr)
            {
                return;
            }
            let is_brought = column.is_some() && wildcards.bring(expr);
            let name = called(expr).unwrap_or_else(|| UNNAMED.to_owned());
            let alias = Ident::with_quote('"', taken.alias(name, is_brought));
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
        SelectItem::ExprWithAlias { alias, .. } => {
            let name = name_of(alias);
            let free = taken.alias(name.clone(), false);
            if free != name {
                *alias = Ident::with_quote('"', free);
            }
        }
        _ => {}
    }
}

/// What PostgreSQL calls the column of an expression; `None`: `?column?`.
pub fn called(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => called(inner),
        Expr::Cast { expr, data_type, .. } => own_name(expr).or_else(|| type_name(data_type)),
        Expr::Case { .. } => own_name(expr).or_else(|| Some("case".to_owned())),
        Expr::TypedString(typed) => type_name(&typed.data_type),
        Expr::Interval(_) => Some("interval".to_owned()),
        _ => own_name(expr),
    }
}

/// A name that a cast around the expression keeps.
fn own_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => column_name(expr),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } | Expr::Cast { expr: inner, .. } => own_name(inner),
        Expr::Function(function) => function.name.0.last()?.as_ident().map(name_of),
        Expr::Case { else_result, .. } => else_result.as_deref().and_then(own_name),
        Expr::Extract { .. } => Some("extract".to_owned()),
        Expr::Ceil { .. } => Some("ceil".to_owned()),
        Expr::Floor { .. } => Some("floor".to_owned()),
        Expr::Position { .. } => Some("position".to_owned()),
        Expr::Substring { shorthand, .. } => Some(if *shorthand { "substr" } else { "substring" }.to_owned()),
        Expr::Trim { trim_where, .. } => Some(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim".to_owned(),
            Some(TrimWhereField::Trailing) => "rtrim".to_owned(),
            _ => "btrim".to_owned(),
        }),
        Expr::Overlay { .. } => Some("overlay".to_owned()),
        Expr::AtTimeZone { .. } => Some("timezone".to_owned()),
        Expr::Tuple(_) => Some("row".to_owned()),
        Expr::Array(_) => Some("array".to_owned()),
        Expr::Exists { .. } => Some("exists".to_owned()),
        Expr::Subquery(query) => only_column(query),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let named = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(Expr::Identifier(ident)) => Some(name_of(ident)),
                _ => None,
            });
            named.or_else(|| own_name(root))
        }
        _ => None,
    }
}

fn type_name(data_type: &DataType) -> Option<String> {
    match data_type {
        DataType::Custom(name, _) if let Some(of) = saki_statement::types::enumeration(name) => {
            let name = of.name();
            Some(name.rsplit('.').next().unwrap_or(name).trim_matches('"').to_owned())
        }
        DataType::Custom(name, _) => name.0.last()?.as_ident().map(name_of),
        DataType::Text => Some("text".to_owned()),
        DataType::Boolean | DataType::Bool => Some("bool".to_owned()),
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => Some("int4".to_owned()),
        DataType::BigInt(_) | DataType::Int8(_) => Some("int8".to_owned()),
        DataType::SmallInt(_) | DataType::Int2(_) => Some("int2".to_owned()),
        DataType::Varchar(_) | DataType::CharacterVarying(_) => Some("varchar".to_owned()),
        DataType::Char(_) | DataType::Character(_) => Some("bpchar".to_owned()),
        DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_) => Some("numeric".to_owned()),
        DataType::Real | DataType::Float4 => Some("float4".to_owned()),
        DataType::DoublePrecision | DataType::Float8 | DataType::Double(_) | DataType::Float(_) => {
            Some("float8".to_owned())
        }
        DataType::Date => Some("date".to_owned()),
        DataType::Time(..) => Some("time".to_owned()),
        DataType::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => Some("timestamp".to_owned()),
        DataType::Timestamp(..) => Some("timestamptz".to_owned()),
        DataType::Interval { .. } => Some("interval".to_owned()),
        DataType::Bytea => Some("bytea".to_owned()),
        DataType::Uuid => Some("uuid".to_owned()),
        DataType::JSON => Some("json".to_owned()),
        DataType::JSONB => Some("jsonb".to_owned()),
        DataType::Regclass => Some("regclass".to_owned()),
        DataType::Array(ArrayElemTypeDef::SquareBracket(of, _)) => type_name(of),
        _ => None,
    }
}

fn only_column(query: &Query) -> Option<String> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    match select.projection.first()? {
        SelectItem::UnnamedExpr(expr) => called(expr),
        SelectItem::ExprWithAlias { alias, .. } => Some(name_of(alias)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{called, shown, unmarked};
    use crate::fixture::{answer, bare, check};
    use crate::statement::parse_expression;
    use arrow_schema::{DataType, Field, Schema};
    use std::sync::Arc;

    fn names(sql: &str) -> String {
        match answer(bare(), sql) {
            Ok((names, _)) => names.join(", "),
            Err(error) => format!("{}: {error}", error.sqlstate()),
        }
    }

    #[test]
    fn expressions_are_called_as_postgresql_calls_them() {
        check(
            &[
                ("a", "a"),
                ("\"A\"", "A"),
                ("T.B", "b"),
                ("1", "?column?"),
                ("a + 1", "?column?"),
                ("-a", "?column?"),
                ("NOT a", "?column?"),
                ("a IS NULL", "?column?"),
                ("a = ANY(b)", "?column?"),
                ("'x'::text", "text"),
                ("1::int", "int4"),
                ("1::bigint", "int8"),
                ("1::smallint", "int2"),
                ("1::real", "float4"),
                ("1::double precision", "float8"),
                ("1::numeric(5, 2)", "numeric"),
                ("'a'::varchar(3)", "varchar"),
                ("'a'::char(3)", "bpchar"),
                ("true::boolean", "bool"),
                ("'1'::time", "time"),
                ("'1'::timestamp", "timestamp"),
                ("'1'::timestamptz", "timestamptz"),
                ("'1'::timestamp with time zone", "timestamptz"),
                ("CAST(a + 1 AS uuid)", "uuid"),
                ("'a'::bytea", "bytea"),
                ("a::int", "a"),
                ("(a)::int::text", "a"),
                ("f(a)::text", "f"),
                ("date '2020-01-01'", "date"),
                ("interval '1 day'", "interval"),
                ("pg_catalog.Upper(a)", "upper"),
                ("count(*)", "count"),
                ("coalesce(a, b)", "coalesce"),
                ("CASE WHEN a THEN 1 END", "case"),
                ("CASE WHEN a THEN 1 ELSE b END", "b"),
                ("extract(year from a)", "extract"),
                ("position('a' in b)", "position"),
                ("substring(a from 1)", "substring"),
                ("substring(a, 1)", "substring"),
                ("substr(a, 1)", "substr"),
                ("trim(a)", "btrim"),
                ("trim(leading 'x' from a)", "ltrim"),
                ("trim(trailing 'x' from a)", "rtrim"),
                ("overlay(a placing b from 1)", "overlay"),
                ("a AT TIME ZONE 'UTC'", "timezone"),
                ("ARRAY[1]", "array"),
                ("(1, 2)", "row"),
                ("EXISTS (SELECT 1)", "exists"),
                ("(SELECT a FROM t)", "a"),
                ("(SELECT 1)", "?column?"),
                ("(SELECT 1 AS x)", "x"),
                ("a[1]", "a"),
                ("(a).b", "b"),
                ("a COLLATE \"C\"", "a"),
            ],
            |text| called(&parse_expression(text).unwrap()).unwrap_or_else(|| "?column?".to_owned()),
        );
    }

    #[test]
    fn clients_see_names_that_repeat() {
        check(
            &[
                ("SELECT 1, 2, 3", "?column?, ?column?, ?column?"),
                ("SELECT 1 AS a, 2 AS a", "a, a"),
                ("SELECT a, a FROM (SELECT 1 AS a) AS t", "a, a"),
                ("SELECT *, a FROM (SELECT 1 AS a, 2 AS b) AS t", "a, b, a"),
                ("SELECT t.*, t.b FROM (SELECT 1 AS a, 2 AS b) AS t", "a, b, b"),
                ("SELECT t.a, u.a FROM (SELECT 1 AS a) AS t, (SELECT 2 AS a) AS u", "a, a"),
                ("SELECT a, a AS a, upper('x') AS a FROM (SELECT 1 AS a) AS t", "a, a, a"),
                ("SELECT upper('a'), upper('b'), lower('C') AS upper", "upper, upper, upper"),
                ("SELECT (SELECT 1), (SELECT 2)", "?column?, ?column?"),
            ],
            names,
        );
    }

    #[test]
    fn subqueries_that_are_values_keep_what_they_have() {
        assert_eq!(names("SELECT 1 AS a WHERE 1 IN (SELECT 1) AND EXISTS (SELECT 1)"), "a");
        assert_eq!(names("SELECT x FROM (SELECT 1 + 1, 2 AS x) AS t"), "x");
    }

    #[test]
    fn marks_are_taken_off() {
        assert_eq!(unmarked("a\u{1}12"), "a");
        assert_eq!(unmarked("a"), "a");
        assert_eq!(unmarked(""), "");
        let field = |name: &str| Field::new(name, DataType::Int32, true);
        let plain = Arc::new(Schema::new(vec![field("a"), field("b")]));
        assert!(Arc::ptr_eq(&shown(&plain), &plain), "there is nothing to take off");
        let marked = Arc::new(Schema::new(vec![field("a"), field("a\u{1}1")]));
        let seen = shown(&marked);
        assert!(seen.fields().iter().all(|field| field.name() == "a"));
        assert_eq!(seen.field(1).data_type(), &DataType::Int32);
    }
}
