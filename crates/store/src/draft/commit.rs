//! COMMIT of a transaction that has changed the catalog.
//!
//! Without rows it is one publication, once what the transaction has seen is durable. With rows two logs have to
//! agree: the change is published as *prepared*, the record of the rows has a mark with its number, and then the change
//! itself is published. If it does not come to that, whoever opens the database looks for the mark in the logs, and
//! completes the change or takes it back.
//!
//! ```text
//!   prepared ──► rows and mark in the logs, durable ──► published
//!      │ crash: taken back          │ crash: completed
//! ```
//!
//! Once the mark is durable the transaction is committed, rows and catalog both. If the device refuses the publication
//! then, the catalog is the transaction's in memory all the same: rows without the tables they belong to would be half
//! a transaction. Nothing more is changed until whoever opens the database next has completed it. If the logs fail
//! before that is known, nothing more is read either.
//!
//! Whoever begins to read waits meanwhile, and sees all of it or nothing ([`crate::database::instants`]).
//!
//! Nobody else publishes in between: the logs cannot be cut before the change is the catalog's. The turn for that is
//! waited for, perhaps for long, and COMMIT may be told to stop until it has it: the transaction is undone then. From
//! there on it takes some writes to the device, and comes to its end whoever wants it to stop.

use std::collections::HashSet;
use std::sync::Arc;

use saki_base::panics::{self, Place};
use saki_base::planted::{self, Fault};
use saki_base::{Critical, GenerationNumber, PageRef, seam};
use saki_mvcc::{Receipt, Transaction};

use super::Draft;
use crate::database::{Database, Generation, Identity};
use crate::locks::Stop;
use crate::writer::Writer;
use saki_catalog::{Catalog, Changed, Difference, ForeignKey, Prepared, Result, SqlError, Staged, Table};

impl Draft {
    /// Commits the transaction: its rows and its changes of the catalog, or nothing. What of that the caller has to
    /// wait for before it tells anybody. Waits for its turn and for storage.
    ///
    /// # Errors
    /// 57014 if it is told to stop before its turn, 55P03 if its patience is over; 40001, also if it would leave a view
    /// or a default without what it names; 42P07 if another transaction has committed a relation of the same name; of
    /// storage. If what has come of it is not known, nothing more is changed until the database is opened again.
    pub fn commit(self, transaction: Transaction<'_>, stop: &Stop) -> Result<Receipt> {
        let db = Arc::clone(&self.db);
        db.engine_unless(stop)?;
        let _writing = db.writing.lock_unless(stop)?;
        let _committing = stop.commit()?;
        self.commit_in_turn(transaction)
    }

    /// The same for a caller that holds [`Database::writing`].
    pub(super) fn commit_in_turn(mut self, mut transaction: Transaction<'_>) -> Result<Receipt> {
        let db = Arc::clone(&self.db);
        let engine = db.engine()?;
        panics::pass(Place::CommittingDraft);
        let own = self.newest()?;
        let difference = own.catalog.difference(&self.base.catalog);
        if difference.is_empty() {
            return Ok(transaction.commit_early()?);
        }
        db.writable()?;
        refuse_conflicts(&self.base.catalog, &own.catalog, &difference)?;
        if !difference.roles.is_empty() || !difference.access.is_empty() {
            own.catalog.refuse_missing_roles(&self.base.catalog, &difference)?;
        }
        if !transaction.has_written() {
            let receipt = transaction.commit_early()?;
            // What it has built may be of rows that are not durable yet, and nobody waits for those of a base.
            if !planted::is(Fault::BuiltEarly) {
                engine.database.wait(receipt)?;
            }
            self.publish(&db)?;
            return Ok(receipt);
        }
        self.prepare(&db)?;
        engine.mark(&mut transaction, self.staged.id)?;
        // Until its generation is the newest nobody begins to read: it would be half of the transaction.
        let _announced = (!planted::is(Fault::HalfSeen)).then(|| db.instants.announce());
        // A panic must not let go of readers, nor leave it to nobody to complete the change.
        let _critical = Critical::enter("committing rows and a change of the catalog");
        let receipt = transaction.commit_early()?;
        // Its rows can be seen, and its catalog not yet.
        panics::pass(Place::HalfSeen);
        seam::cross();
        // From here on it is for the logs to say whether it has been committed.
        self.is_over = true;
        let decided = engine.database.wait(receipt).map_err(SqlError::from).and_then(|()| self.publish_decided(&db));
        if decided.is_err() {
            db.end_reading();
        }
        decided.map(|()| receipt)
    }

    /// Publishes the changes of a transaction whose rows and mark are durable; in memory alone if storage fails.
    pub(super) fn publish_decided(&mut self, db: &Database) -> Result<()> {
        let Err(error) = self.publish(db) else { return Ok(()) };
        tracing::error!("a committed change of the catalog is published when the database is opened again: {error}");
        let own = self.newest()?;
        let Generation { guard, catalog, segment_tables, deltas, .. } = &*own;
        // The number that opening gives it.
        let published = db.generation();
        let (number, unlogged) = (GenerationNumber(published.number.0 + 1), published.unlogged + 1);
        db.end_changes();
        db.succeed(Generation {
            identity: Identity::next(),
            number,
            unlogged,
            guard: Arc::clone(guard),
            catalog: catalog.clone(),
            segment_tables: Arc::clone(segment_tables),
            deltas: deltas.clone(),
        });
        Ok(())
    }

    /// Publishes what is to be published if the rows are in the logs.
    pub(super) fn prepare(&mut self, db: &Database) -> Result<()> {
        let mut catalog = self.own.catalog.clone();
        // Ids of rows that the transaction has loaded are taken, whoever completes the change.
        let documents = db.take_along(&mut catalog, &self.base.catalog).documents()?.into_iter();
        let documents = documents.map(|(name, json)| {
            let json = json.map(String::from_utf8).transpose();
            Ok((name, json.map_err(|error| SqlError::internal(format!("catalog: {error}")))?))
        });
        let prepared = Some(Prepared { documents: documents.collect::<Result<_>>()? });
        if self.staged.id == 0 {
            self.staged.id = catalog.new_table_id().0;
        }
        let mut writer = Writer::begin(db, Arc::clone(&self.base), &Stop::default())?;
        writer.catalog.put_staged(Staged { prepared, ..self.staged.clone() });
        writer.commit()
    }

    /// Publishes the changes, and what was staged as theirs.
    fn publish(&mut self, db: &Database) -> Result<()> {
        let own = self.newest()?;
        let after = own.catalog.clone();
        let writer = Writer::begin(db, Arc::clone(&self.base), &Stop::default())?;
        complete(writer, after, &self.staged)?;
        self.is_over = true;
        Ok(())
    }
}

/// Publishes `after` for what there is. What was staged and is not in it is given back, and so is what it replaces.
pub(super) fn complete(mut writer: Writer<'_>, mut after: Catalog, staged: &Staged) -> Result<()> {
    let difference = after.difference(&writer.catalog);
    after.remove_staged(staged.id);
    after.logs = writer.catalog.logs;
    writer.catalog = after;
    let tables = |of: fn(&Changed<Table>) -> Option<&Arc<Table>>| difference.tables.iter().filter_map(of);
    let kept: HashSet<PageRef> = tables(|table| table.after.as_ref()).flat_map(|table| table.pages()).collect();
    let replaced = tables(|table| table.before.as_ref()).map(Arc::as_ref);
    writer.free_tables(replaced.chain(&staged.tables), &kept)?;
    writer.commit()
}

/// Names are locked while they are given, so others seldom come before.
fn refuse_conflicts(published: &Catalog, own: &Catalog, difference: &Difference) -> Result<()> {
    let names = new_names(&difference.tables, |table| &table.name)
        .chain(new_names(&difference.views, |snapshot| &snapshot.name))
        .chain(new_names(&difference.sequences, |sequence| &sequence.name));
    let gone = difference.tables.iter().filter_map(|table| Some(&table.before.as_ref()?.name));
    let gone: HashSet<&String> = gone.collect();
    names.filter(|name| !gone.contains(name)).try_for_each(|name| published.refuse_taken(name))?;
    if let Some(schema) = difference.schemas_after().find(|schema| !own.has_schema(schema)) {
        return Err(SqlError::invalid(format!("schema {schema:?} does not exist"))
            .code("3F000")
            .detail("Another transaction has dropped it."));
    }
    let mut keys = after(&difference.tables).flat_map(|table| &table.foreign_keys);
    if let Some(ForeignKey { name, .. }) = keys.find(|key| own.table_of(key.table).is_none()) {
        return Err(SqlError::invalid(format!("the table that constraint {name:?} refers to does not exist"))
            .code("42P01")
            .detail("Another transaction has dropped it."));
    }
    own.refuse_dangling(published, difference)?;
    // Two transactions may each have put views between others.
    after(&difference.views).try_for_each(|view| own.refuse_deep(&view.name))
}

fn after<T>(changes: &[Changed<T>]) -> impl Iterator<Item = &T> {
    changes.iter().filter_map(|changed| changed.after.as_deref())
}

fn new_names<T>(changes: &[Changed<T>], name: fn(&T) -> &String) -> impl Iterator<Item = &String> {
    changes
        .iter()
        .filter(|changed| changed.before.is_none())
        .filter_map(move |changed| Some(name(changed.after.as_deref()?)))
}

impl Database {
    /// Brings to an end what transactions had staged that a crash has ended: those whose mark is in the logs are
    /// completed, all others taken back. For opening.
    pub(crate) fn settle_staged(&self) -> Result<()> {
        let staged: Vec<Arc<Staged>> = self.generation().catalog.staged().map(Arc::clone).collect();
        for staged in staged {
            let _writing = self.writing.lock();
            let is_committed = match self.engine.get() {
                Some(engine) if staged.prepared.is_some() => engine.is_marked(staged.id)?,
                _ => false,
            };
            if let Some(prepared) = staged.prepared.as_ref().filter(|_| is_committed) {
                let before = self.generation();
                let after = before.catalog.with_prepared(staged.id, prepared)?;
                complete(Writer::begin(self, before, &Stop::default())?, after, &staged)?;
            } else {
                self.abandoned.lock().push(staged.id);
            }
        }
        if self.abandoned.lock().is_empty() { Ok(()) } else { self.write(|_| Ok(())) }
    }
}
