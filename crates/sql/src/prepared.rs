//! Statements that are read once and run many times, with values for `$1`, `$2`, ….
//!
//! What is kept is the statement as it was read, and not a plan of it: a plan belongs to one snapshot. To run it, every
//! placeholder is replaced by a literal of its parameter's type, and the statement takes the way of all others
//! ([`Session::run`]), so that it means the same in a transaction, and after the tables have changed. A query whose plan does not
//! depend on some of the values is first asked for by a plan for all of them ([`OpenQuery`]).
//!
//! The type of a parameter that the client does not state is that of what it is compared with, combined with or stored
//! in. The planner finds it in a *probe*, a query in which the parameter stands beside the same expressions: for
//! a query that is itself, for a change `SELECT column = value, … FROM table WHERE condition`. What is found nowhere is text.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, Expr, Visit, Visitor, visit_expressions, visit_expressions_mut};
use futures::future::BoxFuture;

use crate::bind::literal;
use crate::command::Command;
use crate::described::Described;
use crate::dialect;
use crate::error::{Result, SqlError};
use crate::fast::FastPlan;
use crate::open_query::OpenQuery;
use crate::session::{Parsed, Session, StatementResult};
use crate::stated_types::stated_types;
use crate::statement::{name_of, object_name, parse, quoted};

/// Parameters of one statement at most, as in PostgreSQL's protocol.
const PARAMETERS_MAX: usize = 65_535;

/// A statement that was read and analyzed, to be run with [`Session::execute_prepared`].
#[derive(Clone, Debug)]
pub struct Prepared {
    /// `None`: the text was empty.
    pub statement: Option<Parsed>,
    /// By number: `$1` is the first.
    pub parameters: Vec<DataType>,
    /// Columns of the result; `None`: it gives no rows.
    pub schema: Option<SchemaRef>,
    /// The statement compiled to operations on single rows, if it is about these.
    pub fast: Option<Arc<FastPlan>>,
    /// The query for plans that serve many values.
    pub(crate) open: Option<Arc<OpenQuery>>,
}

impl Session {
    /// Reads one statement. `declared` are the types that the client states, by number; fewer than there are, or
    /// `None`, leaves them to be found.
    ///
    /// # Errors
    /// `Syntax`, and what planning a query can say.
    pub fn prepare<'a>(&'a self, sql: &'a str, declared: &'a [Option<DataType>]) -> BoxFuture<'a, Result<Prepared>> {
        Box::pin(async move {
            let mut statements = crate::session::parse(sql)?;
            if statements.len() > 1 {
                return Err(
                    SqlError::invalid("cannot insert multiple commands into a prepared statement").code("42601")
                );
            }
            match statements.pop() {
                Some(parsed) => self.prepare_parsed(parsed, declared).await,
                None => Ok(Prepared { statement: None, parameters: Vec::new(), schema: None, fast: None, open: None }),
            }
        })
    }

    /// The same without a query planner, at once; `None` if it takes one.
    pub fn prepare_fast(&self, sql: &str, declared: &[Option<DataType>]) -> Option<Prepared> {
        let mut statements = crate::session::parse(sql).ok()?;
        let parsed = statements.pop().filter(|_| statements.is_empty())?;
        let Parsed(Statement::Statement(statement)) = &parsed else { return None };
        let fast = FastPlan::compile(statement, &self.db.snapshot().catalog)?;
        let parameters: Vec<DataType> = fast.parameters.iter().map(|found| saki_exec::arrow_type(*found)).collect();
        let is_as_declared = declared.len() <= parameters.len()
            && declared.iter().zip(&parameters).all(|(stated, found)| stated.as_ref().is_none_or(|s| s == found));
        if !is_as_declared {
            return None;
        }
        let schema = fast.schema();
        Some(Prepared { statement: Some(parsed), parameters, schema, fast: Some(Arc::new(fast)), open: None })
    }

    /// As [`Self::prepare`], of a statement that was read already.
    pub fn prepare_parsed<'a>(
        &'a self,
        parsed: Parsed,
        declared: &'a [Option<DataType>],
    ) -> BoxFuture<'a, Result<Prepared>> {
        Box::pin(async move {
            let count = placeholders(&parsed)?.max(declared.len());
            let probe = self.probe(&parsed);
            let cast = stated_types(&parsed);
            let is_known = |index: usize| {
                declared.get(index).is_some_and(Option::is_some) || cast.contains_key(&format!("${}", index + 1))
            };
            let found = match &probe {
                Some(_) if (0..count).all(is_known) => HashMap::new(),
                Some(query) => self.parameter_types(query.clone()).await.or_else(|error| match is_query(&parsed) {
                    true => Err(error),
                    // The change itself will say what is wrong with it, in its own words.
                    false => Ok(HashMap::new()),
                })?,
                None => HashMap::new(),
            };
            let row_counts = row_counts(&parsed);
            let parameters: Vec<DataType> = (0..count)
                .map(|index| {
                    let stated = declared.get(index).cloned().flatten();
                    let name = format!("${}", index + 1);
                    let cast = || cast.get(&name).cloned();
                    let found = || found.get(&name).cloned().flatten();
                    let counted = || row_counts.contains(&(index + 1)).then_some(DataType::Int64);
                    plain(stated.or_else(cast).or_else(counted).or_else(found).unwrap_or(DataType::Utf8))
                })
                .collect();
            let schema = self.schema_of(&parsed, &parameters).await?;
            let open = OpenQuery::of(&parsed, &parameters).map(Arc::new);
            Ok(Prepared { statement: Some(parsed), parameters, schema, fast: None, open })
        })
    }

    /// Runs a prepared statement with one value per parameter.
    pub fn execute_prepared<'a>(
        &'a self,
        prepared: &'a Prepared,
        values: &'a [ScalarValue],
    ) -> BoxFuture<'a, Result<StatementResult>> {
        Box::pin(async move {
            if values.len() != prepared.parameters.len() {
                let (given, wanted) = (values.len(), prepared.parameters.len());
                return Err(SqlError::invalid(format!("{given} values for {wanted} parameters")).code("08P01"));
            }
            let Some(parsed) = &prepared.statement else { return Ok(StatementResult::done("", 0)) };
            if let Some(done) = self.execute_open(prepared, parsed, values).await? {
                return Ok(done);
            }
            let bound = if values.is_empty() { parsed.clone() } else { bind(parsed, values)? };
            self.run(bound).await
        })
    }

    /// Runs a query by a plan for other values too, if there is one.
    async fn execute_open(
        &self,
        prepared: &Prepared,
        parsed: &Parsed,
        values: &[ScalarValue],
    ) -> Result<Option<StatementResult>> {
        let Some(open) = &prepared.open else { return Ok(None) };
        let query = open.bind(values)?;
        let Parsed(Statement::Statement(query)) = query.as_ref() else { return Ok(None) };
        let bound = || match bind(parsed, values)? {
            Parsed(Statement::Statement(bound)) => Ok(*bound),
            Parsed(other) => Err(SqlError::internal(format!("a query that became {other}"))),
        };
        self.query_open(query, &values.into(), bound).await
    }

    async fn parameter_types(&self, query: Parsed) -> Result<HashMap<String, Option<DataType>>> {
        let Parsed(statement) = query;
        self.analyze_with(async |state| {
            let plan = dialect::plan(state, statement).await?;
            Ok(plan.get_parameter_types()?)
        })
        .await
    }

    /// The columns that a statement gives.
    async fn schema_of(&self, parsed: &Parsed, parameters: &[DataType]) -> Result<Option<SchemaRef>> {
        let Parsed(Statement::Statement(statement)) = parsed else { return Ok(None) };
        let query = match statement.as_ref() {
            ast::Statement::Explain { .. } => return Ok(Some(text_columns(&["plan"]))),
            ast::Statement::ShowVariable { .. } => {
                let Command::Show(name) = parsed.command()? else { return Ok(None) };
                return Ok(Some(match &*name {
                    "all" | "saki" => text_columns(&["name", "setting"]),
                    name => text_columns(&[name]),
                }));
            }
            ast::Statement::Query(_) | ast::Statement::ShowTables { .. } | ast::Statement::ShowColumns { .. } => {
                parsed.clone()
            }
            ast::Statement::Insert(ast::Insert { table, returning: Some(items), .. }) => returned(items, table)?,
            ast::Statement::Update(update @ ast::Update { returning: Some(items), .. }) => {
                returned(items, &updated_from(update))?
            }
            ast::Statement::Delete(delete @ ast::Delete { returning: Some(items), .. }) => {
                returned(items, &deleted_from(delete))?
            }
            _ => return Ok(None),
        };
        let nulls = parameters.iter().map(ScalarValue::try_from).collect::<Result<Vec<_>, _>>()?;
        let Parsed(statement) = bind_typed(&query, &nulls)?;
        let schema = self.analyze_with(async |state| {
            let plan = dialect::plan(state, statement).await?;
            let described = Described::of(&plan);
            Ok(described.apply(&dialect::result_schema(state, plan)))
        });
        Ok(Some(schema.await?))
    }

    /// A query that has the statement's parameters beside the expressions that give them their types.
    fn probe(&self, parsed: &Parsed) -> Option<Parsed> {
        let Parsed(Statement::Statement(statement)) = parsed else { return None };
        let sql = match statement.as_ref() {
            ast::Statement::Query(_) => return Some(parsed.clone()),
            ast::Statement::Explain { statement, .. } => statement.to_string(),
            ast::Statement::Insert(insert) => self.insert_probe(insert)?,
            ast::Statement::Update(update) => {
                let items = update.assignments.iter().filter_map(assigned).collect();
                select(items, &updated_from(update), update.selection.as_ref())
            }
            ast::Statement::Delete(delete) => select(Vec::new(), &deleted_from(delete), delete.selection.as_ref()),
            _ => return None,
        };
        Some(Parsed(parse(&sql).ok()?.pop()?))
    }

    fn insert_probe(&self, insert: &ast::Insert) -> Option<String> {
        let ast::TableObject::TableName(table) = &insert.table else { return None };
        let columns: Vec<String> = match insert.columns.is_empty() {
            false => insert.columns.iter().map(ToString::to_string).collect(),
            true => {
                let name = object_name(table).ok()?.0;
                let snapshot = self.db.snapshot();
                let definition = snapshot.catalog.get(&name)?;
                definition.columns.iter().map(|column| quoted(&column.name)).collect()
            }
        };
        let source = insert.source.as_ref()?;
        let mut items = Vec::new();
        if let Some(ast::OnInsert::OnConflict(ast::OnConflict {
            action: ast::OnConflictAction::DoUpdate(update),
            ..
        })) = &insert.on
        {
            items.extend(update.assignments.iter().filter(|a| is_placeholder(&a.value)).filter_map(assigned));
        }
        match source.body.as_ref() {
            ast::SetExpr::Values(values) => {
                for row in &values.rows {
                    let pairs = columns.iter().zip(row.iter()).filter(|(_, value)| !is_default(value));
                    items.extend(pairs.map(|(column, value)| format!("{column} = ({value})")));
                }
                Some(select(items, &table.to_string(), None))
            }
            // What only its place in the list gives a type to is found by the column; everything else in the query.
            ast::SetExpr::Select(query) if query.from.is_empty() => {
                for (column, item) in columns.iter().zip(&query.projection) {
                    if let ast::SelectItem::UnnamedExpr(value) = item {
                        items.push(format!("{column} = ({value})"));
                    }
                }
                Some(select(items, &table.to_string(), query.selection.as_ref()))
            }
            _ => Some(source.to_string()),
        }
    }
}

/// `SELECT items FROM tables WHERE condition`.
fn select(items: Vec<String>, from: &str, condition: Option<&Expr>) -> String {
    let items = if items.is_empty() { "1".to_owned() } else { items.join(", ") };
    match condition {
        Some(condition) => format!("SELECT {items} FROM {from} WHERE {condition}"),
        None => format!("SELECT {items} FROM {from}"),
    }
}

fn assigned(assignment: &ast::Assignment) -> Option<String> {
    match &assignment.target {
        _ if is_default(&assignment.value) => None,
        ast::AssignmentTarget::ColumnName(column) => Some(format!("{column} = ({})", assignment.value)),
        ast::AssignmentTarget::Tuple(_) => None,
    }
}

fn returned(items: &[ast::SelectItem], table: &impl std::fmt::Display) -> Result<Parsed> {
    let items = items.iter().map(ToString::to_string).collect();
    let query = parse(&select(items, &table.to_string(), None))?.pop();
    query.map(Parsed).ok_or_else(|| SqlError::internal("RETURNING of nothing"))
}

/// The relations of an UPDATE, as a FROM clause.
fn updated_from(update: &ast::Update) -> String {
    match &update.from {
        Some(ast::UpdateTableFromKind::BeforeSet(tables) | ast::UpdateTableFromKind::AfterSet(tables)) => {
            format!("{}, {}", update.table, list(tables))
        }
        None => update.table.to_string(),
    }
}

/// The relations of a DELETE, as a FROM clause.
fn deleted_from(delete: &ast::Delete) -> String {
    let from = list(delete_tables(&delete.from));
    match &delete.using {
        Some(using) => format!("{from}, {}", list(using)),
        None => from,
    }
}

fn delete_tables(from: &ast::FromTable) -> &[ast::TableWithJoins] {
    match from {
        ast::FromTable::WithFromKeyword(tables) | ast::FromTable::WithoutKeyword(tables) => tables,
    }
}

fn list(tables: &[ast::TableWithJoins]) -> String {
    tables.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(ident) if name_of(ident) == "default")
}

fn is_placeholder(value: &Expr) -> bool {
    placeholder(value).is_some()
}

fn is_query(parsed: &Parsed) -> bool {
    matches!(&parsed.0, Statement::Statement(statement) if matches!(statement.as_ref(), ast::Statement::Query(_)))
}

fn text_columns(names: &[&str]) -> SchemaRef {
    SchemaRef::new(Schema::new(names.iter().map(|name| Field::new(*name, DataType::Utf8, false)).collect::<Vec<_>>()))
}

/// The type in which values of a parameter arrive.
fn plain(found: DataType) -> DataType {
    match found {
        DataType::Utf8View | DataType::LargeUtf8 | DataType::Null => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        DataType::Dictionary(_, value) => plain(*value),
        DataType::UInt8 | DataType::Int8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 | DataType::UInt64 => DataType::Int64,
        other => other,
    }
}

/// The text after `$` of a placeholder.
pub fn placeholder(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ast::ValueWithSpan { value: ast::Value::Placeholder(name), .. }) => Some(name),
        _ => None,
    }
}

/// The number of a placeholder, from 1.
pub fn number(name: &str) -> Result<usize> {
    let number = name.strip_prefix('$').and_then(|digits| digits.parse().ok());
    number.filter(|number| (1..=PARAMETERS_MAX).contains(number)).ok_or_else(|| {
        SqlError::invalid(format!("there is no parameter {name}")).hint("parameters are $1, $2, …").code("42P02")
    })
}

/// The highest number of a placeholder; 0 if there is none.
fn placeholders(parsed: &Parsed) -> Result<usize> {
    let Parsed(Statement::Statement(statement)) = parsed else { return Ok(0) };
    let mut highest = 0;
    let visited = visit_expressions(statement.as_ref(), |expr: &Expr| match placeholder(expr).map(number) {
        Some(Err(error)) => ControlFlow::Break(error),
        Some(Ok(number)) => {
            highest = highest.max(number);
            ControlFlow::Continue(())
        }
        None => ControlFlow::Continue(()),
    });
    match visited {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(highest),
    }
}

/// Numbers of the parameters that are a LIMIT or OFFSET by themselves.
fn row_counts(parsed: &Parsed) -> HashSet<usize> {
    let mut found = RowCounts::default();
    if let Parsed(Statement::Statement(statement)) = parsed {
        let _ = statement.visit(&mut found);
    }
    found.0
}

#[derive(Default)]
struct RowCounts(HashSet<usize>);

impl Visitor for RowCounts {
    type Break = ();

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        let (limit, offset) = match &query.limit_clause {
            Some(ast::LimitClause::LimitOffset { limit, offset, .. }) => {
                (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
            }
            Some(ast::LimitClause::OffsetCommaLimit { offset, limit }) => (Some(limit), Some(offset)),
            None => (None, None),
        };
        let fetch = query.fetch.as_ref().and_then(|fetch| fetch.quantity.as_ref());
        let counts = [limit, offset, fetch].into_iter().flatten().filter_map(placeholder);
        self.0.extend(counts.filter_map(|name| number(name).ok()));
        ControlFlow::Continue(())
    }
}

/// The statement with values in the places of its parameters.
fn bind(parsed: &Parsed, values: &[ScalarValue]) -> Result<Parsed> {
    replace(parsed, values, |_, value| literal(value).map(Some))
}

/// As [`bind`], with NULLs that keep their types.
fn bind_typed(parsed: &Parsed, values: &[ScalarValue]) -> Result<Parsed> {
    replace(parsed, values, |_, value| crate::bind::typed_null(value).map(Some))
}

/// The statement with expressions in the places of parameters, by number and value; `None` leaves one where it is.
pub fn replace(
    parsed: &Parsed,
    values: &[ScalarValue],
    expression: impl Fn(usize, &ScalarValue) -> Result<Option<Expr>>,
) -> Result<Parsed> {
    let mut bound = parsed.clone();
    let Parsed(Statement::Statement(statement)) = &mut bound else { return Ok(bound) };
    let value_of = |name: &str| {
        let number = number(name)?;
        let value = values.get(number - 1);
        let missing = || SqlError::invalid(format!("there is no parameter {name}")).code("42P02");
        expression(number, value.ok_or_else(missing)?)
    };
    let visited = visit_expressions_mut(statement.as_mut(), |expr: &mut Expr| {
        match placeholder(expr).map(value_of) {
            Some(Ok(Some(value))) => *expr = value,
            Some(Err(error)) => return ControlFlow::Break(error),
            Some(Ok(None)) | None => {}
        }
        ControlFlow::Continue(())
    });
    match visited {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(bound),
    }
}
