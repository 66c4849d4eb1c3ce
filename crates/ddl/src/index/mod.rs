//! CREATE INDEX over expressions, and with WHERE: it alters the table, as its keys are hidden columns that come to be
//! with it.
//!
//! Rows are written anew with these columns, under ACCESS EXCLUSIVE and in one publication, as for any other column
//! that is added: who has planned a change of rows before that meets another definition, and plans again. From then on
//! whoever encodes rows fills the columns. The index goes by itself, and leaves its columns empty until rows are
//! written anew once more.

mod immutable;

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::execution::context::SessionState;
use datafusion::sql::sqlparser::ast::{self, Expr};
use saki_base::{Column, DataType, TreeId};

use self::immutable::{Place, check_form, check_immutable};
use crate::alter::alter_stored_table;
use crate::create;
use crate::create::index::{made_of, name_in};
use crate::names::{spelled_name, stored_expression};
use saki_catalog::convert::is_whole;
use saki_catalog::{Hidden, IndexColumn, Result, SqlError, Table};
use saki_context::StatementContext;
use saki_context::constraint::row_schema;
use saki_context::statement::StatementResult;
use saki_postgres::dialect;
use saki_postgres::statement::as_kept;
use saki_postgres::statement::create_index::{
    KeyOf, NewKey, check_class, is_over_expressions, refuse_unordered, table_name,
};
use saki_postgres::types::stored_as;
use saki_postgres::{Action, AlterTable, COLUMNS_MAX, NewIndex, RelationName};

pub async fn create_index(cx: &StatementContext<'_>, create: ast::CreateIndex) -> Result<StatementResult> {
    if !is_over_expressions(&create) {
        return create::create_index(cx, create).await;
    }
    if create.concurrently {
        return Err(SqlError::unsupported("CREATE INDEX CONCURRENTLY over expressions or with WHERE is not supported")
            .hint("leave CONCURRENTLY out: the rows are written anew while nobody else uses the table"));
    }
    let (name, position) = table_name(&create)?;
    cx.generation()?.catalog.table(&name).map_err(|error| error.at(position))?;
    let _alone = cx.transactions.alone(vec![name.clone()]).await?;
    let before = Arc::clone(cx.generation()?.catalog.table(&name).map_err(|error| error.at(position))?);
    if let Some(action) = action(cx, &create, &before)? {
        let name = RelationName::read(&create.table_name)?;
        let alter = AlterTable { name, if_exists: false, actions: vec![action] };
        alter_stored_table(cx, alter, before).await?;
    }
    Ok(StatementResult::done("CREATE INDEX", 0))
}

/// What the statement does to its table; `None` if there is an index of its name, and the statement is content with
/// that.
fn action(cx: &StatementContext<'_>, create: &ast::CreateIndex, table: &Table) -> Result<Option<Action>> {
    let new = NewIndex::read(create, table)?;
    let generation = cx.generation()?;
    let Some(name) = name_in(&generation.catalog, table, &new)? else { return Ok(None) };
    let reader = KeyReader { state: cx.planner.state(), schema: row_schema(table)?, table };
    let predicate = new.predicate.as_ref().map(|predicate| reader.predicate(predicate)).transpose()?;
    let (mut columns, mut hidden) = (Vec::with_capacity(new.keys.len()), Vec::new());
    for key in &new.keys {
        let column = match key.of {
            KeyOf::Column(column) if predicate.is_none() => column,
            _ => {
                hidden.push(reader.hidden(key, predicate.clone())?);
                table.columns.len() + hidden.len() - 1
            }
        };
        columns.push(IndexColumn { column, descending: key.descending });
    }
    if table.columns.len() + hidden.len() > COLUMNS_MAX {
        return Err(SqlError::invalid("a table has no room for another column").code("54011"));
    }
    // Of which tree is said where the index comes to be.
    let index = made_of(new, name, table, columns, TreeId(0));
    Ok(Some(Action::AddIndex { index: Box::new(index), hidden }))
}

/// Makes hidden columns of what an index is to be over.
struct KeyReader<'t> {
    state: SessionState,
    schema: DFSchema,
    table: &'t Table,
}

impl KeyReader<'_> {
    /// The column that a key becomes: it is called as messages call the key.
    fn hidden(&self, key: &NewKey, predicate: Option<String>) -> Result<(Column, Hidden)> {
        let (name, text, data_type) = match &key.of {
            KeyOf::Column(column) => {
                let (name, data_type, _) = self.table.column_type(*column);
                (name.to_owned(), spelled_name(name), data_type)
            }
            KeyOf::Expression(expression) => {
                let expression = as_kept(&stored_expression(expression)?, self.table);
                let data_type = self.checked(&expression, Place::Key)?;
                if let Some(class) = &key.class {
                    check_class(class, data_type)?;
                }
                (shown(&expression), expression.to_string(), data_type)
            }
        };
        refuse_unordered(&name, data_type)?;
        Ok((Column { name, data_type, nullable: true }, Hidden { key: text, predicate }))
    }

    /// The text of a condition.
    fn predicate(&self, predicate: &Expr) -> Result<String> {
        let predicate = as_kept(&stored_expression(predicate)?, self.table);
        let data_type = self.checked(&predicate, Place::Predicate)?;
        if data_type != DataType::Bool {
            let message = format!("argument of WHERE must be type boolean, not type {data_type}");
            return Err(SqlError::invalid(message).code("42804"));
        }
        Ok(shown(&predicate))
    }

    /// The type of an expression that an index may be over.
    fn checked(&self, expression: &Expr, place: Place) -> Result<DataType> {
        check_form(expression, place)?;
        let found = self.type_of(expression)?;
        check_immutable(expression, place, &|part| self.type_of(part).ok())?;
        // A value is found by what is stored of it, so that has to be all of it.
        stored_as(&found).filter(|stored| is_whole(*stored, &found)).ok_or_else(|| {
            SqlError::unsupported(format!("an index over {expression}, which is of type {found}, is not supported"))
        })
    }

    fn type_of(&self, expression: &Expr) -> Result<arrow_schema::DataType> {
        let planned = dialect::expression(&self.state, &expression.to_string(), &self.schema)?;
        Ok(planned.data_type(self.schema.as_arrow())?)
    }
}

/// An expression where it stands among others: by itself if it is a name or a call, else in parentheses.
fn shown(expression: &Expr) -> String {
    match expression {
        Expr::Identifier(_) | Expr::Function(_) | Expr::Nested(_) | Expr::Extract { .. } => expression.to_string(),
        Expr::Substring { .. } | Expr::Trim { .. } | Expr::Position { .. } => expression.to_string(),
        _ => format!("({expression})"),
    }
}
