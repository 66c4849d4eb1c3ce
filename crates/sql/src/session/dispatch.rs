//! Where each statement goes.

use datafusion::common::ScalarValue;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;

use super::{Session, settings};
use crate::prepared::Prepared;
use crate::{copy, ddl, dml, prepared};
use saki_catalog::{Result, SqlError};
use saki_context::statement::StatementResult;
use saki_context::{access, query};
use saki_postgres::statement;
use saki_postgres::statement::{AccessStatement, LockTable};

impl Session {
    /// Runs one statement: at once if it is about the transaction, compiled if it can be, and else as its kind is.
    pub(super) async fn execute_statement(&self, parsed: Statement) -> Result<StatementResult> {
        match &parsed {
            Statement::Statement(statement) => {
                if let Some(done) = self.transactions.control(statement).await? {
                    self.end_local_role();
                    return Ok(done);
                }
                if let Some(done) = self.runner().execute_statement(statement).await? {
                    return Ok(done);
                }
            }
            _ => self.transactions.lock().await.make_ready()?,
        }
        let outcome = match parsed {
            Statement::Statement(parsed) => self.dispatch(*parsed).await,
            Statement::CreateExternalTable(create) => ddl::create_external_table(&self.context(), create).await,
            other => Err(SqlError::unsupported(format!("{other} is not supported"))),
        };
        self.noted(outcome).await
    }

    /// Runs a query by a plan for other values too, if there is one.
    pub(super) async fn execute_open(
        &self,
        prepared: &Prepared,
        values: &[ScalarValue],
    ) -> Result<Option<StatementResult>> {
        let Some(open) = prepared::opened(prepared, values)? else { return Ok(None) };
        if let Some(done) = self.transactions.control(&open.query).await? {
            return Ok(Some(done));
        }
        let outcome = query::run_open(&self.context(), &open.query, &values.into(), || open.bound(values)).await;
        self.noted(outcome).await
    }

    /// The transaction hears of an error, which is told once it may be.
    async fn noted<T>(&self, outcome: Result<T>) -> Result<T> {
        match outcome {
            Err(error) => Err(self.transactions.failed(error).await),
            done => done,
        }
    }

    async fn dispatch(&self, parsed: ast::Statement) -> Result<StatementResult> {
        use ast::Statement as Sql;
        let cx = &self.context();
        access::authorize(cx, &parsed).await?;
        match parsed {
            Sql::Query(mut query) => {
                dml::hold_rows(cx, &mut query).await?;
                query::run(cx, Sql::Query(query)).await
            }
            Sql::ShowTables { .. } | Sql::ShowColumns { .. } => query::run(cx, parsed).await,
            Sql::Explain { .. } | Sql::ExplainTable { .. } => query::explain(cx, parsed).await,

            Sql::Insert(insert) => dml::insert(cx, insert).await,
            Sql::Update(update) => dml::update(cx, update).await,
            Sql::Delete(delete) => dml::delete(cx, delete).await,
            Sql::Copy { .. } => copy::copy(cx, parsed).await,

            Sql::CreateTable(create) => ddl::create_table(cx, &create).await,
            Sql::CreateIndex(create) => ddl::create_index(cx, create).await,
            Sql::CreateView(create) => ddl::create_view(cx, &create).await,
            Sql::CreateSequence { .. } => ddl::create_sequence(cx, parsed).await,
            Sql::CreateSchema { schema_name, if_not_exists, .. } => {
                ddl::create_schema(cx, &schema_name, if_not_exists).await
            }
            Sql::AlterTable(alter) => ddl::alter_table(cx, &alter).await,
            Sql::AlterIndex { name, operation } => ddl::alter_index(cx, &name, &operation).await,
            Sql::Drop { object_type, if_exists, names, cascade, .. } => {
                ddl::drop_objects(cx, object_type, if_exists, cascade, &names).await
            }
            Sql::Truncate(truncate) => ddl::truncate(cx, &truncate).await,
            Sql::Comment { object_type, object_name, comment, .. } => {
                ddl::comment(cx, object_type, object_name, comment).await
            }
            Sql::Vacuum(vacuum) => ddl::vacuum(cx, &vacuum).await,
            Sql::Analyze(analyze) => ddl::analyze(cx, &analyze).await,
            Sql::Call(call) if let Some(statement) = AccessStatement::of(&call)? => access::run(cx, statement).await,
            Sql::Call(call) if let Some(lock) = LockTable::read(&call)? => ddl::lock_table(cx, &lock).await,
            Sql::Call(call) if call.name.to_string().eq_ignore_ascii_case(statement::CHECKPOINT) => {
                ddl::checkpoint(cx).await
            }

            Sql::Set(set) => settings::set(&self.settings, &set),
            Sql::Reset(reset) => settings::reset(&self.settings, &reset.reset),
            Sql::ShowVariable { variable } => settings::show(&cx.settings, &variable),

            Sql::Merge(_) => Err(SqlError::unsupported("MERGE is not supported")
                .hint("INSERT … ON CONFLICT DO UPDATE, UPDATE and DELETE are")),
            other => Err(unsupported(&other)),
        }
    }
}

fn unsupported(statement: &ast::Statement) -> SqlError {
    let text = statement.to_string();
    let verb = text.split(' ').take(2).collect::<Vec<_>>().join(" ");
    SqlError::unsupported(format!("{verb} is not supported"))
}
