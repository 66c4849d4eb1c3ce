//! A statement that changes rows: gets its snapshot, works, and works again if another transaction was in the way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use saki_base::TableId;
use saki_mvcc::Receipt;
use tokio::sync::OwnedMutexGuard;

use super::rows::related;
use saki_catalog::{Catalog, Result, SqlError};
use saki_context::StatementContext;
use saki_context::statement::StatementResult;
use saki_context::transaction::{
    Change, ChangeEnv, Conflict, Contention, Refusal, Telling, Transactions, Waiting, is_unchanged,
};
use saki_plan::Reads;
use saki_store::locks::{LockMode, Policy};
use saki_store::{Snapshot, Stop};

/// Pause before a statement runs again when nobody can be waited for.
const PAUSE: Duration = Duration::from_micros(50);

/// How long a statement waits for room for newer rows in memory.
const ROOM_PATIENCE: Duration = Duration::from_secs(5);
/// After so much of that it lets go of what it holds of older generations, if it can.
const ROOM_STEP: Duration = Duration::from_millis(200);

/// Makes the changes that were planned.
pub type Work = Box<dyn FnOnce(&mut Change<'_, '_>) -> Result<StatementResult, Refusal> + Send>;

/// A statement that changes rows, before it is known which.
pub trait ChangeStatement: Send + Sync {
    /// Reads what it needs as `env` says, and says what to change.
    fn plan<'a>(&'a self, cx: &'a StatementContext<'_>, env: &'a ChangeEnv<'a>) -> BoxFuture<'a, Result<Work>>;
}

/// What an attempt came to.
enum Attempt {
    Done(StatementResult, Option<Receipt>),
    Again(Conflict),
}

/// Tables that a statement changes rows of, or holds rows of.
pub enum Concern<'n> {
    /// One, and those that foreign keys make it look at or change.
    Related(&'n str),
    /// Several, each with those.
    AllRelated(&'n [String]),
    /// One alone.
    Table(&'n str),
    /// These, as far as they are there.
    Tables(&'n [TableId]),
}

impl Concern<'_> {
    fn tables(&self, catalog: &Catalog) -> Vec<String> {
        let named = |name: &str| vec![name.to_owned()];
        let related = |name: &str| catalog.get(name).map_or_else(|| named(name), |table| related(catalog, table));
        match self {
            Self::Related(name) => related(name),
            Self::AllRelated(names) => {
                let mut all: Vec<String> = names.iter().flat_map(|name| related(name)).collect();
                all.sort_unstable();
                all.dedup();
                all
            }
            Self::Table(name) => named(name),
            Self::Tables(ids) => ids.iter().filter_map(|id| Some(catalog.table_of(*id)?.name.clone())).collect(),
        }
    }
}

/// Runs a statement that changes rows of the tables it is concerned with.
pub async fn change(
    cx: &StatementContext<'_>,
    concern: Concern<'_>,
    statement: &dyn ChangeStatement,
) -> Result<StatementResult> {
    cx.db.writable()?;
    cx.transactions.start_engine().await?;
    cx.transactions.lock().await.make_ready()?;
    let mut contention = Contention::new(cx.transactions);
    loop {
        wait_for_room(cx).await?;
        let transactions = cx.transactions.lock_owned().await;
        transactions.check()?;
        match attempt(cx, transactions, (&concern, statement), &mut contention).await? {
            Attempt::Done(result, receipt) => {
                contention.end();
                cx.transactions.acknowledge(receipt).await?;
                return Ok(result);
            }
            Attempt::Again(conflict) => {
                if conflict.holder.is_none() && conflict.row.is_none() {
                    tokio::time::sleep(PAUSE).await;
                }
                contention.give_way(conflict).await?;
            }
        }
    }
}

/// Waits until newer rows have room in memory: whatever the statement saw by then would hold others there.
///
/// # Errors
/// 53200 if that takes too long.
async fn wait_for_room(cx: &StatementContext<'_>) -> Result<()> {
    let began = Instant::now();
    while !cx.db.has_room() {
        if began.elapsed() >= ROOM_PATIENCE {
            return Err(cx.transactions.failed(cx.db.no_room()).await);
        }
        let mut transactions = cx.transactions.lock_owned().await;
        transactions.make_ready()?;
        transactions.renew(cx.db).await?;
        drop(transactions);
        cx.blocking(|db| db.store().wait_for_room(db.stop(), ROOM_STEP)).await?;
    }
    Ok(())
}

async fn attempt(
    cx: &StatementContext<'_>,
    mut transactions: OwnedMutexGuard<Transactions>,
    (concern, statement): (&Concern<'_>, &dyn ChangeStatement),
    contention: &mut Contention<'_>,
) -> Result<Attempt> {
    let Some(snapshot) = locked_snapshot(cx, &mut transactions, concern).await? else {
        return transactions.conflict(Conflict::default(), contention).map(Attempt::Again);
    };
    let savepoint = transactions.within(|transaction| transaction.savepoint())?;
    let env = Arc::new(cx.own_env_of(snapshot));
    let reads = Reads::of(&env);
    let waiting = Waiting::new(&cx.db.memory)?;
    let deferring = transactions.deferring(&cx.db.memory);
    let work = match statement.plan(cx, &ChangeEnv::new(env, &reads, &waiting)).await {
        Ok(work) => work,
        Err(error) => {
            transactions.fail();
            return Err(error);
        }
    };
    let read = reads.track(&mut *transactions)?;
    if transactions.hold_for_reading(read.snapshot()).await? {
        return transactions.conflict(Conflict::default(), contention).map(Attempt::Again);
    }
    transactions.begin_work(savepoint);
    let (db, stop) = (Arc::clone(cx.db), Stop::default());
    let _stop_on_drop = stop.on_drop();
    let worked = tokio::task::spawn_blocking(move || {
        let worked = transactions.within(|transaction| {
            let change = Change::new(&db, &read, &stop, transaction).counted(Some(&waiting));
            work(&mut change.leaving(deferring.as_ref()))
        });
        if stop.check().is_err() {
            // Nobody waits for it any more. What cannot be undone now is undone by whoever comes next.
            let _ = transactions.settle();
        }
        (worked, transactions, (waiting, deferring))
    });
    let (worked, mut transactions, (waiting, deferring)) =
        worked.await.map_err(|error| SqlError::internal(format!("a statement's thread: {error}")))?;
    match worked? {
        Ok(result) => {
            transactions.end_work();
            transactions.keep_waiting(waiting);
            transactions.keep_deferred(deferring);
            match transactions.end_statement(Telling::All) {
                Ok(receipt) => Ok(Attempt::Done(result, receipt)),
                Err(refusal) => transactions.refused(refusal, contention).map(Attempt::Again),
            }
        }
        Err(refusal) => {
            transactions.within(|transaction| transaction.rollback_to(savepoint))?;
            transactions.end_work();
            transactions.refused(refusal, contention).map(Attempt::Again)
        }
    }
}

/// What a statement sees, with the tables that it is concerned with locked; `None` if that is another table, or
/// another definition of one, than the newest, to which alone rows may be added.
async fn locked_snapshot(
    cx: &StatementContext<'_>,
    transactions: &mut Transactions,
    concern: &Concern<'_>,
) -> Result<Option<Arc<Snapshot>>> {
    let mut tables = concern.tables(&cx.generation()?.catalog);
    let locked = transactions.statement_locks();
    let newest = loop {
        let wanted: Vec<_> = tables.iter().map(|name| (name.clone(), LockMode::RowExclusive)).collect();
        let newest = transactions.lock_named(cx.db, &wanted, Policy::Wait).await?;
        let now = concern.tables(&newest.catalog);
        if now == tables {
            break newest;
        }
        tables = now;
    };
    tables.iter().try_for_each(|table| newest.catalog.table(table).map(drop))?;
    let snapshot = transactions.statement_snapshot(cx.db).await?;
    locked.keep();
    let seen = &snapshot.generation;
    let is_newest =
        Arc::ptr_eq(seen, &newest) || tables.iter().all(|table| is_unchanged(&seen.catalog, &newest.catalog, table));
    Ok(is_newest.then_some(snapshot))
}
