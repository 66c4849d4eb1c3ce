//! Statements that are read once and run many times, with values for `$1`, `$2`, ….
//!
//! What is kept is the statement as it was read, and not a plan of it: a plan belongs to one generation. To run it,
//! every placeholder is replaced by a literal of its parameter's type, and the statement takes the way of all others,
//! so that it means the same in a transaction, and after the tables have changed. A query whose plan does not depend
//! on some of the values is first asked for by a plan for all of them ([`OpenQuery`]).
//!
//! The type of a parameter that the client does not state is that of what it is compared with, combined with or stored
//! in. The planner finds it in a *probe*, a query in which the parameter stands beside the same expressions: for
//! a query that is itself, for a change `SELECT column = value, … FROM table WHERE condition`. What is found nowhere is
//! text.

mod current;
mod literal;
mod names;
mod open_query;
mod parameters;
mod probe;
mod stated_types;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;

pub(crate) use self::current::Current;
pub(crate) use self::names::{KnownTypes, Resolved};
use self::open_query::OpenQuery;
pub use self::parameters::bind;
use self::parameters::{bind_typed, placeholders, row_counts};
use self::probe::{deleted_from, probe, returned, updated_from};
use self::stated_types::stated_types;
use crate::fast::FastPlan;
use saki_catalog::{Result, SqlError};
use saki_context::StatementContext;
use saki_context::planner::{Described, logical_plan};
use saki_context::query::explanation;
use saki_context::statement::{Parsed, shown_name};
use saki_postgres::dialect;
use saki_postgres::statement::{ChangingWith, changes_of};
use saki_system::PG_TYPE;

/// A statement that was read and analyzed, to be run with [`crate::Session::execute_prepared`].
#[derive(Clone, Debug)]
pub struct Prepared {
    /// `None`: the text was empty.
    pub statement: Option<Parsed>,
    /// By number: `$1` is the first.
    pub parameters: Vec<DataType>,
    /// Names of those types of parameters, by number from 0, that Arrow's types do not tell.
    pub names_of_types: HashMap<usize, &'static str>,
    /// Columns of the result; `None`: it gives no rows.
    pub schema: Option<SchemaRef>,
    /// The statement compiled to operations on single rows, if it is about these.
    pub fast: Option<Arc<FastPlan>>,
    /// The names that it was analyzed with; the statement is kept as it was written.
    pub(crate) names: Resolved,
    /// Where those names are known to mean what they meant.
    pub(crate) current: Current,
    /// The query for plans that serve many values.
    open: Option<Arc<OpenQuery>>,
}

impl Prepared {
    /// Of an empty text.
    pub fn empty() -> Self {
        let names_of_types = HashMap::new();
        Self {
            statement: None,
            parameters: Vec::new(),
            names_of_types,
            schema: None,
            fast: None,
            names: Resolved::default(),
            current: Current::default(),
            open: None,
        }
    }

    /// Of a statement that needs no query planner, and what it was compiled to.
    pub(crate) fn compiled(parsed: Parsed, plan: FastPlan, names: Resolved) -> Self {
        let (parameters, schema) = (plan.parameters.clone(), plan.schema());
        let (statement, fast) = (Some(parsed), Some(Arc::new(plan)));
        let (names_of_types, current) = Default::default();
        let made = Self { statement, parameters, names_of_types, schema, fast, names, current, open: None };
        made.with_types()
    }

    /// Whether one plan serves many values of its parameters.
    pub(crate) fn serves_many(&self) -> bool {
        self.open.is_some()
    }

    /// Knows the enumerations that it takes and gives.
    pub(crate) fn with_types(mut self) -> Self {
        let types = std::mem::take(&mut self.names.types);
        let given = self.schema.iter().flat_map(|schema| schema.fields()).map(|field| field.data_type());
        self.names.types = types.with(self.parameters.iter().chain(given));
        self
    }

    /// # Errors
    /// 08P01 unless there is a value for each parameter.
    pub fn expect_values(&self, given: usize) -> Result<()> {
        let wanted = self.parameters.len();
        if given != wanted {
            return Err(SqlError::invalid(format!("{given} values for {wanted} parameters")).code("08P01"));
        }
        Ok(())
    }
}

/// The one statement of a text that was read; `None` if it is empty.
///
/// # Errors
/// 42601 if there is more than one.
pub fn single(mut statements: Vec<Parsed>) -> Result<Option<Parsed>> {
    if statements.len() > 1 {
        return Err(SqlError::invalid("cannot insert multiple commands into a prepared statement").code("42601"));
    }
    Ok(statements.pop())
}

/// A query that a plan may serve whatever its open parameters are.
pub struct Opened<'p> {
    /// With values for the parameters that are not open.
    pub query: Cow<'p, ast::Statement>,
    statement: &'p Parsed,
}

/// A prepared statement as such a query, if it is one.
pub fn opened<'p>(prepared: &'p Prepared, values: &[ScalarValue]) -> Result<Option<Opened<'p>>> {
    // What is kept of a statement with names to complete is not what was analyzed.
    if prepared.names.relations.is_some() {
        return Ok(None);
    }
    let (Some(open), Some(statement)) = (&prepared.open, &prepared.statement) else { return Ok(None) };
    let query = match open.bind(values)? {
        Cow::Borrowed(Parsed(Statement::Statement(query), _)) => Cow::Borrowed(query.as_ref()),
        Cow::Owned(Parsed(Statement::Statement(query), _)) => Cow::Owned(*query),
        _ => return Ok(None),
    };
    Ok(Some(Opened { query, statement }))
}

impl Opened<'_> {
    /// The query with all values in its text.
    pub fn bound(&self, values: &[ScalarValue]) -> Result<ast::Statement> {
        match bind(self.statement, values)? {
            Parsed(Statement::Statement(bound), _) => Ok(*bound),
            Parsed(other, _) => Err(SqlError::internal(format!("a query that became {other}"))),
        }
    }
}

/// Analyzes a statement. `declared` are the types that the client states, by number; fewer than there are, or `None`,
/// leaves them to be found.
pub async fn prepare(cx: &StatementContext<'_>, parsed: Parsed, declared: &[Option<DataType>]) -> Result<Prepared> {
    let count = placeholders(&parsed)?.max(declared.len());
    let probe = probe(&parsed, &cx.generation()?.catalog);
    let cast = stated_types(&parsed);
    let is_known = |index: usize| {
        declared.get(index).is_some_and(Option::is_some) || cast.contains_key(&format!("${}", index + 1))
    };
    let found = match &probe {
        Some(_) if (0..count).all(is_known) => HashMap::new(),
        Some(query) => parameter_types(cx, query.clone()).await.or_else(|error| match is_query(&parsed) {
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
            let cast = || cast.get(&name).map(|stated| stated.data_type.clone());
            let found = || Some(found.get(&name)?.as_ref()?.data_type().clone());
            let counted = || row_counts.contains(&(index + 1)).then_some(DataType::Int64);
            plain(stated.or_else(cast).or_else(counted).or_else(found).unwrap_or(DataType::Utf8))
        })
        .collect();
    let schema = schema_of(cx, &parsed, &parameters).await?;
    let open = OpenQuery::of(&parsed, &parameters).map(Arc::new);
    let is_declared = |index: &usize| declared.get(*index).is_some_and(Option::is_some);
    let name_of = |parameter: &str| match cast.get(parameter) {
        Some(stated) => stated.name,
        None => told_name(found.get(parameter)?.as_ref()?),
    };
    let named = |index: usize| Some((index, name_of(&format!("${}", index + 1))?));
    let names_of_types = (0..count).filter(|index| !is_declared(index)).filter_map(named).collect();
    Ok(Prepared {
        statement: Some(parsed),
        parameters,
        names_of_types,
        schema,
        fast: None,
        names: Resolved::default(),
        current: Current::default(),
        open,
    })
}

/// The type's name where clients are told more than its Arrow type says: beside columns of system relations.
fn told_name(field: &Field) -> Option<&'static str> {
    match field.metadata().get(PG_TYPE)?.as_str() {
        "oid" => Some("oid"),
        "name" => Some("name"),
        _ => None,
    }
}

async fn parameter_types(cx: &StatementContext<'_>, query: Parsed) -> Result<HashMap<String, Option<FieldRef>>> {
    let Parsed(statement, _) = query;
    cx.analyze(async |state| {
        let plan = logical_plan(state, statement).await?;
        Ok(found_types(&plan)?)
    })
    .await
}

/// What a plan says of its parameters. The first place that gives one a type counts, as in PostgreSQL.
fn found_types(plan: &LogicalPlan) -> datafusion::common::Result<HashMap<String, Option<FieldRef>>> {
    let mut found: HashMap<String, Option<FieldRef>> = HashMap::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::Placeholder(Placeholder { id, field }) = expr {
                    let known = found.entry(id.clone()).or_default();
                    *known = known.take().or_else(|| field.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// The columns that a statement gives.
async fn schema_of(cx: &StatementContext<'_>, parsed: &Parsed, parameters: &[DataType]) -> Result<Option<SchemaRef>> {
    let Parsed(Statement::Statement(statement), _) = parsed else { return Ok(None) };
    let with = match statement.as_ref() {
        ast::Statement::Query(query) => ChangingWith::probing(query)?,
        _ => None,
    };
    let main = with.map(|with| Parsed::made(Statement::Statement(Box::new(with.main))));
    let parsed = main.as_ref().unwrap_or(parsed);
    let Parsed(Statement::Statement(statement), _) = parsed else { return Ok(None) };
    let query = match statement.as_ref() {
        ast::Statement::Explain { format, .. } => return Ok(Some(explanation::schema(format.as_ref()))),
        ast::Statement::ShowVariable { variable } => {
            return Ok(Some(match &*shown_name(variable) {
                "all" | "saki" => text_columns(&["name", "setting", "description"]),
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
    let Parsed(statement, _) = bind_typed(&query, &nulls)?;
    let schema = cx.analyze(async |state| {
        let plan = logical_plan(state, statement).await?;
        let described = Described::of(&plan);
        Ok(described.apply(&dialect::result_schema(state, plan)))
    });
    Ok(Some(schema.await?))
}

fn is_query(parsed: &Parsed) -> bool {
    let Statement::Statement(statement) = &parsed.0 else { return false };
    matches!(statement.as_ref(), ast::Statement::Query(query) if changes_of(query).next().is_none())
}

fn text_columns(names: &[&str]) -> SchemaRef {
    SchemaRef::new(Schema::new(names.iter().map(|name| Field::new(*name, DataType::Utf8, false)).collect::<Vec<_>>()))
}

/// The type in which values of a parameter arrive.
fn plain(found: DataType) -> DataType {
    match found {
        DataType::Utf8View | DataType::Null => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, value) => plain(*value),
        DataType::UInt8 | DataType::Int8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 | DataType::UInt64 => DataType::Int64,
        other => other,
    }
}
