//! Where each statement goes.

use datafusion::common::ScalarValue;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;

use super::deferred::set_constraints;
use super::{Session, parameters};
use crate::prepared::Prepared;
use crate::{copy, dml, prepared};
use saki_base::stack::WithRoom;
use saki_catalog::{Result, SqlError};
use saki_context::statement::{Parsed, StatementResult};
use saki_context::{access, query};
use saki_ddl::{self as ddl, DeviceCall};
use saki_postgres::statement;
use saki_postgres::statement::{AccessStatement, ChangingWith, LockTable, SetConstraints, changes_of};

impl Session {
    /// Runs one statement: at once if it is about the transaction, compiled if `compiles` and it can be, and else as
    /// its kind is.
    pub(super) async fn execute_statement(&self, mut parsed: Parsed, compiles: bool) -> Result<StatementResult> {
        self.parameters.clock().begin_statement(self.transactions.outlives_statement());
        match &parsed.0 {
            Statement::Statement(statement) => {
                if matches!(**statement, ast::Statement::Commit { .. }) {
                    self.before_end().await?;
                }
                if let Some(done) = self.transactions.control(statement).await? {
                    return Ok(done);
                }
                let ready = self.refuse_change(statement).await.and_then(|()| self.resolve(&mut parsed).map(drop));
                if let Err(error) = ready {
                    return Err(self.transactions.failed(error).await);
                }
            }
            _ => self.transactions.lock().await.make_ready()?,
        }
        let Parsed(parsed, _) = parsed;
        if let Statement::Statement(statement) = &parsed
            && compiles
            && self.at_commit.lock().is_empty()
            && let Some(done) = self.runner().execute_statement(statement).await?
        {
            return Ok(done);
        }
        let outcome = match parsed {
            Statement::Statement(parsed) => WithRoom::new(self.dispatch(*parsed)).await,
            Statement::CreateExternalTable(create) => ddl::create_external_table(&self.context(), create).await,
            other => Err(SqlError::unsupported(format!("{other} is not supported"))),
        };
        let done = self.noted(outcome).await?;
        if !self.transactions.outlives_statement() {
            self.before_commit().await?;
        }
        Ok(done)
    }

    /// Runs a query by a plan for other values too, if there is one.
    pub(super) async fn execute_open(
        &self,
        prepared: &Prepared,
        values: &[ScalarValue],
    ) -> Result<Option<StatementResult>> {
        if !self.is_current(prepared) || self.parameters.is_read_only() {
            return Ok(None);
        }
        let Some(open) = prepared::opened(prepared, values)? else { return Ok(None) };
        self.parameters.clock().begin_statement(self.transactions.outlives_statement());
        if let Some(done) = self.transactions.control(&open.query).await? {
            return Ok(Some(done));
        }
        let cx = self.context();
        let values_of = values.into();
        let run = query::run_open(&cx, &open.query, &values_of, || open.bound(values));
        let outcome = WithRoom::new(run).await;
        self.noted(outcome).await
    }

    /// Refuses what changes something in a transaction that is read only.
    async fn refuse_change(&self, statement: &ast::Statement) -> Result<()> {
        if !self.parameters.is_read_only() {
            return Ok(());
        }
        match changing_command(statement) {
            Some(command) => self.transactions.lock().await.refuse_read_only(&command),
            None => Ok(()),
        }
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
            Sql::Query(query) if let Some(with) = ChangingWith::read(&query)? => {
                dml::change_with(cx, &query, with).await
            }
            Sql::Query(mut query) => match dml::hold_rows(cx, &mut query).await? {
                Some(held) => Ok(held),
                None => query::run(cx, Sql::Query(query)).await,
            },
            Sql::ShowTables { .. } | Sql::ShowColumns { .. } => query::run(cx, parsed).await,
            Sql::Explain { ref statement, analyze, ref format, .. } => {
                let compiled = self.compiled_text(statement);
                match dml::explain_change(cx, statement, analyze, format.as_ref(), compiled.as_deref()).await? {
                    Some(explained) => Ok(explained),
                    None => query::explain(cx, parsed, compiled).await,
                }
            }
            Sql::ExplainTable { .. } => query::explain(cx, parsed, None).await,

            Sql::Insert(insert) => dml::insert(cx, insert).await,
            Sql::Update(update) => dml::update(cx, update).await,
            Sql::Delete(delete) => dml::delete(cx, delete).await,
            Sql::Merge(merge) => dml::merge(cx, merge).await,
            Sql::Copy { .. } => copy::copy(cx, parsed).await,

            Sql::CreateTable(create) => {
                let before = self.newest();
                let made = ddl::create_table(cx, &create).await?;
                self.note_made(&create, &before.catalog)?;
                Ok(made)
            }
            Sql::CreateIndex(create) => ddl::create_index(cx, create).await,
            Sql::CreateView(create) => ddl::create_view(cx, &create).await,
            Sql::CreateSequence { .. } => ddl::create_sequence(cx, parsed).await,
            Sql::CreateSchema { schema_name, if_not_exists, .. } => {
                ddl::create_schema(cx, &schema_name, if_not_exists).await
            }
            Sql::AlterTable(alter) => ddl::alter_table(cx, &alter).await,
            Sql::AlterIndex { name, operation } => ddl::alter_index(cx, &name, &operation).await,
            Sql::Drop { object_type: ast::ObjectType::Index, if_exists, names, cascade, purge: true, .. } => {
                ddl::drop_index_concurrently(cx, if_exists, cascade, &names).await
            }
            Sql::CreateType { name, representation } => ddl::create_type(cx, &name, representation.as_ref()).await,
            Sql::AlterType(alter) => ddl::alter_type(cx, &alter.name, &alter.operation).await,
            Sql::Drop { object_type, if_exists, names, cascade, .. } => {
                ddl::drop_objects(cx, object_type, if_exists, cascade, &names).await
            }
            Sql::Truncate(truncate) => ddl::truncate(cx, &truncate).await,
            Sql::Comment { object_type, object_name, comment, .. } => {
                ddl::comment(cx, object_type, object_name, comment).await
            }
            Sql::Vacuum(vacuum) => ddl::vacuum(cx, &vacuum).await,
            Sql::Analyze(analyze) => ddl::analyze(cx, &analyze).await,
            Sql::Call(call) if let Some(mut statement) = AccessStatement::of(&call)? => {
                self.resolve_access(&mut statement)?;
                match statement.is_of_session() {
                    true => parameters::set_role(self, statement),
                    false => access::run(cx, statement).await,
                }
            }
            Sql::Call(call) if let Some(set) = SetConstraints::read(&call)? => set_constraints(self, set).await,
            Sql::Call(call) if let Some(lock) = LockTable::read(&call)? => ddl::lock_table(cx, &lock).await,
            Sql::Call(call) if call.name.to_string().eq_ignore_ascii_case(statement::CHECKPOINT) => {
                ddl::checkpoint(cx).await
            }
            Sql::Call(call) if let Some(call) = DeviceCall::read(&call)? => ddl::change_devices(cx, call).await,
            Sql::Call(call) if let Some(target) = ddl::backup_target(&call)? => ddl::backup(cx, target).await,

            Sql::Set(set) => parameters::set(self, &set).await,
            Sql::Reset(reset) => parameters::reset(self, &reset.reset),
            Sql::ShowVariable { variable } => parameters::show(self, &variable),

            other => Err(unsupported(&other)),
        }
    }
}

/// The command of a statement that changes something, as a message names it; `None`: it changes nothing.
pub(super) fn changing_command(statement: &ast::Statement) -> Option<String> {
    use ast::Statement as Sql;
    let words = |count: usize| {
        let text = statement.to_string();
        Some(text.split(' ').take(count).collect::<Vec<_>>().join(" "))
    };
    match statement {
        Sql::Insert(_) | Sql::Update(_) | Sql::Delete(_) | Sql::Merge(_) | Sql::Comment { .. } => words(1),
        Sql::Copy { to: false, .. } => Some("COPY FROM".to_owned()),
        Sql::Truncate(_) => Some("TRUNCATE TABLE".to_owned()),
        Sql::CreateTable(create) if create.query.is_some() => Some("CREATE TABLE AS".to_owned()),
        Sql::CreateTable(_) => Some("CREATE TABLE".to_owned()),
        Sql::CreateIndex(_) => Some("CREATE INDEX".to_owned()),
        Sql::CreateView(_) => Some("CREATE VIEW".to_owned()),
        Sql::CreateSequence { .. } | Sql::CreateSchema { .. } | Sql::AlterTable(_) | Sql::AlterIndex { .. } => words(2),
        Sql::Drop { .. } | Sql::CreateType { .. } | Sql::AlterType(_) => words(2),
        Sql::Call(call) => match AccessStatement::of(call) {
            Ok(Some(statement)) if !statement.is_of_session() => Some(statement.tag().to_owned()),
            _ => None,
        },
        Sql::Query(query) if !query.locks.is_empty() => Some(format!("SELECT {}", query.locks[0])),
        Sql::Query(query) if let Some(change) = changes_of(query).next() => changing_command(change),
        Sql::Query(query) => match query.body.as_ref() {
            ast::SetExpr::Insert(_) => Some("INSERT".to_owned()),
            ast::SetExpr::Update(_) => Some("UPDATE".to_owned()),
            ast::SetExpr::Delete(_) => Some("DELETE".to_owned()),
            _ => None,
        },
        _ => None,
    }
}

fn unsupported(statement: &ast::Statement) -> SqlError {
    let text = statement.to_string();
    let verb = text.split(' ').take(2).collect::<Vec<_>>().join(" ");
    SqlError::unsupported(format!("{verb} is not supported"))
}
