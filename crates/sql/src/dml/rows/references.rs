//! Foreign keys within a statement: once it has changed its rows, what they refer to must be there, and what refers to
//! rows that have gone is refused, or changes as well.
//!
//! That a row referred to stays until the transaction commits is seen to by writing it anew as it is: whoever deletes
//! it meanwhile meets that, as any other change of the row.
//!
//! Checks of deferrable keys may be left to the end of the transaction: then nothing is read and no row is held, and
//! [`check_deferred`] does both when its time has come.

use std::collections::hash_map::Entry as Place;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use saki_base::memory::Reservation;
use saki_base::{TableId, Value};
use saki_mvcc::Transaction;

use super::writer::RowWriter;
use saki_catalog::columns::{check_length, check_row};
use saki_catalog::{Catalog, Deferral, EntryDecoder, EntryEncoder, KeyId, Result, SqlError, Table};
use saki_context::constraint::{ActionRules, Consequence, ForeignKeys, Keys, NewValue, Reference, Verification};
use saki_context::transaction::{Change, Checked, DeferredCheck, Deferring, Refusal, bytes_of};
use saki_store::Entry;

/// Values of a whole row, the hidden row id last where there is one.
type Row = Vec<Value>;

/// Changes of rows, and what follows from them.
pub struct References<'r, 'c, 't> {
    change: &'r mut Change<'c, 't>,
    writers: HashMap<TableId, RowWriter<'c>>,
    rules: &'r ActionRules,
    /// Memory of the rows that are looked at here, until all keys have been seen to.
    held: Reservation,
    /// A look-up met a row that another transaction changes.
    conflict: Option<Refusal>,
}

/// A row that was changed: as it was, and as it is.
#[derive(Clone)]
struct Changed {
    table: Arc<Table>,
    old: Option<Row>,
    new: Option<Row>,
}

/// Tables whose rows a change of rows of `table` may look at or change.
pub fn related(catalog: &Catalog, table: &Table) -> Vec<String> {
    let mut names = vec![table.name.clone()];
    let mut at = 0;
    while at < names.len() {
        if let Some(table) = catalog.get(&names[at]) {
            let referring = catalog.referencing(table.id).map(|(from, _)| from.name.clone());
            let referred =
                table.foreign_keys.iter().filter_map(|key| Some(catalog.referenced(key).ok()?.0.name.clone()));
            for name in referring.chain(referred).collect::<Vec<_>>() {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        at += 1;
    }
    names
}

/// Sees to the foreign keys of rows that a statement has changed: entries as they were, and as they are.
///
/// # Errors
/// 23503, and what stands against the rows that actions write; 53200 if there is no memory for them.
pub fn see_to(
    change: &mut Change<'_, '_>,
    table: &Arc<Table>,
    rules: &ActionRules,
    entries: &mut dyn Iterator<Item = (Option<&Entry>, Option<&Entry>)>,
) -> Result<(), Refusal> {
    if ForeignKeys::new(&change.generation.catalog, table)?.is_empty() {
        return Ok(());
    }
    let decode = |entry: Option<&Entry>| entry.map(|(key, row)| decoded(table, key, row)).transpose();
    let held = change.reservation()?;
    let mut references = References { change, writers: HashMap::new(), rules, held, conflict: None };
    let mut changes = VecDeque::new();
    for (old, new) in entries {
        references.change.check()?;
        let changed = Changed { table: Arc::clone(table), old: decode(old)?, new: decode(new)? };
        references.hold(&changed)?;
        changes.push_back(changed);
    }
    let outcome = references.work_off(changes);
    match references.conflict.take() {
        Some(conflict) => Err(conflict),
        None => outcome,
    }
}

fn decoded(table: &Table, key: &[u8], row: &[u8]) -> Result<Row> {
    let mut decoder = EntryDecoder::new(table.primary_layout());
    decoder.decode(table, key, row, |values| values.iter().map(|value| Value::from(*value)).collect())
}

/// Makes checks that have waited, each of what there is now.
///
/// # Errors
/// 23503.
pub fn check_deferred(change: &mut Change<'_, '_>, checks: &[DeferredCheck]) -> Result<(), Refusal> {
    let (catalog, rules) = (&change.generation.catalog, ActionRules::default());
    let held = change.reservation()?;
    let mut references = References { change, writers: HashMap::new(), rules: &rules, held, conflict: None };
    let mut known = HashMap::new();
    let outcome = checks.iter().try_for_each(|check| {
        let reference = match known.entry(&*check.key) {
            Place::Occupied(place) => place.into_mut(),
            Place::Vacant(place) => place.insert(Reference::find(catalog, &check.key)?),
        };
        // It may have been dropped since.
        reference.as_ref().map_or(Ok(()), |reference| references.check_now(reference, &check.checked))
    });
    match references.conflict.take() {
        Some(conflict) => Err(conflict),
        None => Ok(outcome?),
    }
}

fn encoded(table: &Table, row: &[Value]) -> Result<Entry> {
    let mut encoder = EntryEncoder::new(table.primary_layout());
    encoder.encode(&mut Vec::new(), |column| row[column].as_ref())?;
    Ok((encoder.key, encoder.row))
}

impl Changed {
    /// How often it is held: as what is to be followed, and among what has been made.
    const COPIES: usize = 2;

    fn bytes(&self) -> usize {
        let of = |row: &Option<Row>| row.as_deref().map_or(0, bytes_of);
        size_of::<Self>() + of(&self.old) + of(&self.new)
    }
}

impl<'c> References<'_, 'c, '_> {
    /// # Errors
    /// 53200 if there is no memory for a changed row.
    fn hold(&mut self, changed: &Changed) -> Result<()> {
        Ok(self.held.grow(Changed::COPIES * changed.bytes())?)
    }

    fn work_off(&mut self, mut changes: VecDeque<Changed>) -> Result<(), Refusal> {
        let catalog = &self.change.generation.catalog;
        let mut made = Made::new(&changes)?;
        let mut verifications = Vec::new();
        while let Some(changed) = changes.pop_front() {
            self.change.check()?;
            let Some(old) = &changed.old else { continue };
            let keys = ForeignKeys::new(catalog, &changed.table)?;
            for reference in keys.incoming() {
                for consequence in reference.consequences(old, changed.new.as_deref(), self)? {
                    let Some(follows) = self.follow(consequence, &mut verifications)? else { continue };
                    self.hold(&follows)?;
                    made.note(&follows)?;
                    changes.push_back(follows);
                }
            }
        }
        for changed in &made.rows {
            self.change.check()?;
            if let Some(new) = &changed.new {
                self.refer(changed, new)?;
            }
        }
        verifications.iter().try_for_each(|verification| self.verify(verification))?;
        Ok(())
    }

    /// Sees to what a row refers to that did not before.
    fn refer(&mut self, changed: &Changed, new: &Row) -> Result<()> {
        let catalog = &self.change.generation.catalog;
        for reference in ForeignKeys::new(catalog, &changed.table)?.outgoing() {
            let Some(values) = reference.values(new) else { continue };
            let old = changed.old.as_ref();
            let is_same = old.is_some_and(|old| reference.values(old).is_some_and(|before| before == values));
            match self.deferring(reference.deferrable()) {
                None if is_same => {}
                None => reference.check(new, self)?,
                Some((deferring, id)) => {
                    let (key, _) = encoded(&changed.table, new)?;
                    // A row whose reference stays may be waiting itself, and is then found by its key.
                    let is_found = match old {
                        Some(old) if is_same => encoded(&changed.table, old)?.0 == key,
                        _ => false,
                    };
                    if !is_found {
                        deferring.leave(id, Checked::Row(key.into()))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn verify(&mut self, verification: &Verification) -> Result<()> {
        if let Some((deferrable, key)) = verification.deferrable()
            && let Some((deferring, id)) = self.deferring(Some(deferrable))
        {
            return deferring.leave(id, Checked::Gone(key.into()));
        }
        verification.verify(self)
    }

    /// What takes checks of a key, if they are to wait.
    fn deferring<'k>(&self, deferrable: Option<&'k (Arc<KeyId>, Deferral)>) -> Option<(&'c Deferring, &'k Arc<KeyId>)> {
        let (deferring, (id, deferral)) = (self.change.deferring()?, deferrable?);
        deferring.defers(id, *deferral).then_some((deferring, id))
    }

    /// Makes a check that has waited.
    fn check_now(&mut self, reference: &Reference, checked: &Checked) -> Result<()> {
        self.change.check()?;
        self.held.clear();
        match checked {
            Checked::Row(key) => {
                let table = reference.from();
                self.writer(table)?;
                let Some(writer) = self.writers.get_mut(&table.id) else { return Ok(()) };
                // Gone since, or what refers is NULL by now: nothing is to be there.
                let Some(row) = writer.finder.get(&*self.change.transaction, key)? else { return Ok(()) };
                reference.check(&decoded(table, key, &row)?, self)
            }
            Checked::Gone(key) => {
                let verification = reference.clone().gone(key);
                verification.map_or(Ok(()), |verification| verification.verify(self))
            }
        }
    }

    /// Does what follows from a change, if it is a change.
    fn follow(
        &mut self,
        consequence: Consequence,
        verifications: &mut Vec<Verification>,
    ) -> Result<Option<Changed>, Refusal> {
        Ok(match consequence {
            Consequence::Delete { table, row } => {
                let (key, _) = encoded(&table, &row)?;
                self.change.hold(key.len())?;
                self.write(&table, |writer, transaction| writer.delete(transaction, &key))?;
                Some(Changed { table, old: Some(row), new: None })
            }
            Consequence::Update { table, row, set } => {
                let new = self.updated(&table, &row, set)?;
                Some(Changed { table, old: Some(row), new: Some(new) })
            }
            Consequence::Verify(verification) => {
                verifications.push(verification);
                None
            }
        })
    }

    fn updated(&mut self, table: &Arc<Table>, row: &[Value], set: Vec<(usize, NewValue)>) -> Result<Row, Refusal> {
        let mut new = row.to_vec();
        for (column, value) in set {
            new[column] = match value {
                NewValue::Value(value) => value,
                NewValue::Default => self.rules.default_of(table, column)?,
            };
            check_length(new[column].as_ref(), &table.columns[column])?;
        }
        check_row(&new.iter().map(Value::as_ref).collect::<Vec<_>>(), table)?;
        self.rules.complete(table, &mut new)?;
        let (before, after) = (encoded(table, row)?, encoded(table, &new)?);
        self.change.hold(after.0.len() + after.1.len())?;
        self.write(table, |writer, transaction| {
            if before.0 == after.0 {
                return writer.update(transaction, &after.0, &before.1, &after.1);
            }
            writer.delete(transaction, &before.0)?;
            writer.insert(transaction, &after.0, &after.1)
        })?;
        Ok(new)
    }

    fn write(
        &mut self,
        table: &Arc<Table>,
        work: impl FnOnce(&mut RowWriter<'_>, &mut Transaction<'_>) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        self.writer(table)?;
        let writer = self.writers.get_mut(&table.id).ok_or_else(|| SqlError::internal("a writer was lost"))?;
        work(writer, self.change.transaction)
    }

    fn writer(&mut self, table: &Arc<Table>) -> Result<&mut RowWriter<'c>> {
        Ok(match self.writers.entry(table.id) {
            Place::Occupied(place) => place.into_mut(),
            Place::Vacant(place) => place.insert(RowWriter::of_change(self.change, table)?),
        })
    }

    /// Entries of all rows whose columns have these values.
    fn find(&mut self, table: &Arc<Table>, columns: &[usize], values: &[Value]) -> Result<Vec<Entry>> {
        self.writer(table)?;
        let Some(writer) = self.writers.get_mut(&table.id) else { return Ok(Vec::new()) };
        writer.finder.rows_with(self.change.transaction, columns, values)
    }
}

/// What a statement has made of rows by its end: as each was before, and as it is after all that followed.
struct Made {
    rows: Vec<Changed>,
    /// Where in `rows` the row is that has a key now.
    places: HashMap<(TableId, Vec<u8>), usize>,
}

impl Made {
    /// The statement's own changes, which were made together.
    fn new(changes: &VecDeque<Changed>) -> Result<Self> {
        let mut made = Self { rows: changes.iter().cloned().collect(), places: HashMap::new() };
        for (place, Changed { table, new, .. }) in changes.iter().enumerate() {
            if let Some(new) = new {
                made.places.insert((table.id, encoded(table, new)?.0), place);
            }
        }
        Ok(made)
    }

    /// One that followed from them, or from one that did.
    fn note(&mut self, changed: &Changed) -> Result<()> {
        let Changed { table, old, new } = changed;
        let known = match old {
            Some(old) => self.places.remove(&(table.id, encoded(table, old)?.0)),
            None => None,
        };
        let place = known.unwrap_or(self.rows.len());
        match known {
            Some(place) => self.rows[place].new.clone_from(new),
            None => self.rows.push(changed.clone()),
        }
        if let Some(new) = new {
            self.places.insert((table.id, encoded(table, new)?.0), place);
        }
        Ok(())
    }
}

impl Keys for References<'_, '_, '_> {
    fn exists(&mut self, table: &Arc<Table>, columns: &[usize], values: &[Value]) -> Result<bool> {
        let Some((key, row)) = self.find(table, columns, values)?.into_iter().next() else { return Ok(false) };
        let kept = self.write(table, |writer, transaction| writer.hold(transaction, &key, &row));
        match kept {
            Ok(()) => Ok(true),
            Err(Refusal::Error(error)) => Err(error),
            Err(conflict) => {
                self.conflict = Some(conflict);
                Err(SqlError::internal("a row that is referred to is being changed"))
            }
        }
    }

    fn rows(&mut self, table: &Arc<Table>, columns: &[usize], values: &[Value]) -> Result<Vec<Vec<Value>>> {
        let entries = self.find(table, columns, values)?;
        self.held.grow(entries.iter().map(|(key, row)| key.len() + row.len()).sum())?;
        let mut rows = Vec::with_capacity(entries.len());
        for (key, row) in &entries {
            let row = decoded(table, key, row)?;
            self.held.grow(bytes_of(&row))?;
            rows.push(row);
        }
        Ok(rows)
    }
}
