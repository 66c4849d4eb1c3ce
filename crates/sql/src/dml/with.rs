//! Statements with queries of WITH that change rows.
//!
//! All are planned over the statement's one snapshot, one after another: what one returns is a relation of those behind
//! it. Then all of them write, whether their rows are read or not, and last of all foreign keys are seen to.

use std::collections::HashSet;

use arrow_array::RecordBatch;
use datafusion::sql::sqlparser::ast;
use futures::future::BoxFuture;

use super::change::{ChangeStatement, Concern, Work, change};
use super::delete::Deletion;
use super::insert::Insertion;
use super::merge::Merge;
use super::planned::{PlannedChange, Written, answer};
use super::query::{distinctly_named, stand_in};
use super::update::Update;
use saki_catalog::{Result, SqlError};
use saki_context::statement::StatementResult;
use saki_context::transaction::{Change, ChangeEnv, Refusal};
use saki_context::{StatementContext, access};
use saki_plan::StandIns;
use saki_postgres::statement::ChangingWith;

/// One statement that changes rows.
#[expect(clippy::large_enum_variant, reason = "a statement has a few of them")]
enum Part {
    Insert(Insertion),
    Update(Update),
    Delete(Deletion),
    Merge(Merge),
}

/// What is done last.
#[expect(clippy::large_enum_variant, reason = "a statement has one")]
enum Main {
    Change(Part),
    Query(Box<ast::Query>),
}

/// The statements, in their order, each with the name of the relation that it returns.
struct Changing {
    changes: Vec<(String, Part)>,
    main: Main,
}

/// Runs a query that has queries of WITH that change rows.
///
/// # Errors
/// 42501 before anything is done; those of the statements; 0A000 for a row that two of them change.
pub async fn change_with(cx: &StatementContext<'_>, query: &ast::Query, with: ChangingWith) -> Result<StatementResult> {
    if !query.locks.is_empty() {
        return Err(SqlError::unsupported("FOR UPDATE beside data-modifying statements in WITH is not supported"));
    }
    authorize(cx, query).await?;
    let named = with.changes.into_iter();
    let changes = named.map(|change| Ok((change.relation, Part::read(cx, change.statement)?)));
    let changes: Vec<(String, Part)> = changes.collect::<Result<_>>()?;
    let main = match with.main {
        ast::Statement::Query(query) => Main::Query(query),
        change => Main::Change(Part::read(cx, change)?),
    };
    let changing = Changing { changes, main };
    let tables = changing.tables();
    change(cx, Concern::AllRelated(&tables), &changing).await
}

/// Asks for each statement whether it is allowed.
async fn authorize(cx: &StatementContext<'_>, query: &ast::Query) -> Result<()> {
    if cx.asking()?.is_none() {
        return Ok(());
    }
    let Some(ChangingWith { changes, main }) = ChangingWith::probing(query)? else { return Ok(()) };
    for change in &changes {
        access::authorize(cx, &change.statement).await?;
    }
    match &main {
        ast::Statement::Query(query) => access::expect_readable(cx, None, &query.to_string()).await,
        change => access::authorize(cx, change).await,
    }
}

impl Part {
    fn read(cx: &StatementContext<'_>, statement: ast::Statement) -> Result<Self> {
        Ok(match statement {
            ast::Statement::Insert(insert) => Self::Insert(Insertion::read(cx, insert)?),
            ast::Statement::Update(update) => Self::Update(Update::read(update)?),
            ast::Statement::Delete(delete) => Self::Delete(Deletion::read(delete)?),
            ast::Statement::Merge(merge) => Self::Merge(Merge::read(cx, merge)?),
            other => return Err(SqlError::unsupported(format!("{other} is no query of WITH"))),
        })
    }

    fn table(&self) -> &str {
        match self {
            Self::Insert(insertion) => insertion.table(),
            Self::Update(update) => update.table(),
            Self::Delete(deletion) => deletion.table(),
            Self::Merge(merge) => merge.table(),
        }
    }

    async fn planned(&self, cx: &StatementContext<'_>, env: &ChangeEnv<'_>) -> Result<PlannedChange> {
        match self {
            Self::Insert(insertion) => insertion.planned(cx, env).await,
            Self::Update(update) => update.planned(cx, env).await,
            Self::Delete(deletion) => deletion.planned(cx, env).await,
            Self::Merge(merge) => merge.planned(cx, env).await,
        }
    }
}

impl Changing {
    fn tables(&self) -> Vec<String> {
        let main = match &self.main {
            Main::Change(part) => Some(part),
            Main::Query(_) => None,
        };
        self.changes.iter().map(|(_, part)| part).chain(main).map(|part| part.table().to_owned()).collect()
    }

    async fn planned(&self, cx: &StatementContext<'_>, env: &ChangeEnv<'_>) -> Result<Work> {
        let mut env = env.clone();
        let mut planned = Vec::with_capacity(self.changes.len() + 1);
        for (relation, part) in &self.changes {
            let change = part.planned(cx, &env).await?;
            if let Some(rows) = &change.returned {
                let rows = stand_in(distinctly_named(rows, 0)?)?;
                env = env.with_stand_ins(StandIns::from([(relation.clone(), rows)]));
            }
            planned.push(change);
        }
        let asked = match &self.main {
            Main::Query(query) => Some(cx.rows_of(&env, query.as_ref().clone()).await?),
            Main::Change(part) => {
                planned.push(part.planned(cx, &env).await?);
                None
            }
        };
        Ok(Box::new(move |change: &mut Change<'_, '_>| written(change, planned, asked)))
    }
}

impl ChangeStatement for Changing {
    fn plan<'a>(&'a self, cx: &'a StatementContext<'_>, env: &'a ChangeEnv<'a>) -> BoxFuture<'a, Result<Work>> {
        Box::pin(self.planned(cx, env))
    }
}

/// Makes the changes. `asked` is what the statement itself asks for, if it is a query; else the last of them is it.
fn written(
    change: &mut Change<'_, '_>,
    planned: Vec<PlannedChange>,
    asked: Option<RecordBatch>,
) -> Result<StatementResult, Refusal> {
    let mut keys = HashSet::new();
    let mut all: Vec<Written> = Vec::with_capacity(planned.len());
    let (mut tag, mut returned) = ("SELECT", None);
    for one in planned {
        let done = (one.write)(change)?;
        let changed = done.pairs.iter().filter_map(|(old, _)| old.as_ref());
        for (key, _) in changed {
            if !keys.insert((done.table.id, key.clone())) {
                return Err(twice().into());
            }
        }
        (tag, returned) = (one.tag, one.returned);
        all.push(done);
    }
    for done in &all {
        done.see_to(change)?;
    }
    Ok(match asked {
        Some(rows) => answer("SELECT", rows.num_rows(), Some(rows)),
        None => answer(tag, all.last().map_or(0, |done| done.rows), returned),
    })
}

fn twice() -> SqlError {
    SqlError::unsupported("two data-modifying statements of WITH change the same row")
        .hint("PostgreSQL makes one of the changes and does not say which: write one statement for both")
}
