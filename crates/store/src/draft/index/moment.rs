//! The moment in which nobody changes rows of a table: it gets another set of indexes, and a delta that belongs to it.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use saki_base::TableId;
use saki_mvcc::{Isolation, Reader, Transaction};

use super::build::{Build, PAUSE, gone};
use super::{CIRCLE_PATIENCE, Concurrently, PATIENCE_FIRST, PATIENCE_MAX};
use crate::checkpoint::ALL;
use crate::delta::Delta;
use crate::draft::Draft;
use crate::locks::{LockMode, Policy, Requested, Stop, timed_out};
use crate::merge::{Pace, not_unique, unique_prefix};
use crate::reader::{IndexEntries, NewerRows, TableReader};
use saki_catalog::entries::has_null;
use saki_catalog::{Catalog, EntryDecoder, EntryEncoder, Index, Result, SqlError, Staged, Table};

/// So few rows are taken to the new delta without a further checkpoint before.
const ROWS_FEW: usize = 2_000;
/// Checkpoints before each attempt, at most: where rows are changed faster than merged, more of them would not help.
const CHECKPOINTS_MAX: usize = 3;
/// For so many times as long as it is waited in line, others go first after it.
const WAY_GIVEN: u32 = 4;

/// What changes the table; it is given the index that was built, if one was.
pub trait Make: FnOnce(&Catalog, &mut Table, Option<Index>) -> Result<()> {}

impl<F: FnOnce(&Catalog, &mut Table, Option<Index>) -> Result<()>> Make for F {}

/// What came of an attempt.
enum Attempt {
    Done,
    /// A writer, or who publishes, does not end soon.
    Busy(Option<Build>),
    /// A writer waits for what this holds.
    Circle(Option<Build>, SqlError),
}

impl Concurrently {
    /// Waits for the moment, and has `make` change a table in it. `build` is brought up to it.
    ///
    /// # Errors
    /// Of `make`; 23505 if rows agree in the index that was built; 40P01; 55P03 when its patience is over; 57014; of
    /// storage.
    pub(super) fn change_in_a_moment(&self, table: TableId, mut build: Option<Build>, make: impl Make) -> Result<()> {
        let mut make = Some(make);
        let (began, mut patience, mut in_circle) = (Instant::now(), PATIENCE_FIRST, None);
        loop {
            build = match self.attempt(table, build, &mut make, patience)? {
                Attempt::Done => return Ok(()),
                Attempt::Busy(build) => {
                    in_circle = None;
                    build
                }
                Attempt::Circle(build, error) => match in_circle.get_or_insert_with(Instant::now).elapsed() {
                    elapsed if elapsed >= CIRCLE_PATIENCE => return Err(error),
                    _ => build,
                },
            };
            let _way = self.owner.gives_way(table, LockMode::Share);
            let way_given = Instant::now();
            while way_given.elapsed() < patience * WAY_GIVEN && !self.is_free(table)? {
                self.stop.check()?;
                if self.stop.patience().is_some_and(|patience| began.elapsed() > patience) {
                    return Err(timed_out());
                }
                std::thread::sleep(PAUSE);
            }
            patience = (patience * 2).min(PATIENCE_MAX);
        }
    }

    fn attempt(
        &self,
        table: TableId,
        mut build: Option<Build>,
        make: &mut Option<impl Make>,
        patience: Duration,
    ) -> Result<Attempt> {
        self.leave_few_rows(table, build.as_mut())?;
        // From here on no merge moves the base on.
        let _no_merge = self.stop.turn(&self.db.checkpoints)?;
        if let Some(build) = &mut build {
            build.follow()?;
        }
        let _locked = self.held();
        match self.try_lock(table, LockMode::Share, Policy::GivingWay, patience) {
            Ok(true) => {}
            Ok(false) => return Ok(Attempt::Busy(build)),
            Err(error) if error.sqlstate() == "40P01" => return Ok(Attempt::Circle(build, error)),
            Err(error) => return Err(error),
        }
        let Some(_writing) = self.db.writing.try_lock_for(patience) else { return Ok(Attempt::Busy(build)) };
        let generation = self.db.generation();
        let now = generation.catalog.table_of(table).ok_or_else(gone)?;
        if build.as_ref().is_some_and(|build| build.matches() != &now.root) {
            return Ok(Attempt::Busy(build));
        }
        let _committing = self.stop.commit()?;
        let make = make.take().ok_or_else(|| SqlError::internal("a table is changed twice"))?;
        let index = build.as_ref().map(|build| build.index().clone());
        let staged = build.map(Build::hand_over).unwrap_or_default();
        self.commit(now, generation.delta(now).ok_or_else(gone)?, index, staged, make)?;
        Ok(Attempt::Done)
    }

    /// Whether nobody has changed rows of a table just now.
    fn is_free(&self, table: TableId) -> Result<bool> {
        let _locked = self.held();
        let asked = self.owner.lock(table, LockMode::Share, Policy::Now, None)?;
        Ok(matches!(asked, Requested::Granted))
    }

    /// Merges deltas until there is little in that of a table.
    fn leave_few_rows(&self, table: TableId, mut build: Option<&mut Build>) -> Result<()> {
        for _ in 0..CHECKPOINTS_MAX {
            if self.has_few_rows(table)? {
                break;
            }
            self.stop.check()?;
            self.db.checkpoint_unless(&Pace::full(), &self.stop)?;
            if let Some(build) = &mut build {
                build.follow()?;
            }
        }
        Ok(())
    }

    fn has_few_rows(&self, table: TableId) -> Result<bool> {
        let generation = self.db.generation();
        let table = generation.catalog.table_of(table).ok_or_else(gone)?;
        let delta = generation.delta(table).ok_or_else(gone)?;
        let eyes = self.eyes()?;
        let mut rows = unmerged(&eyes, table, delta);
        Ok((0..ROWS_FEW).any(|_| rows.take().is_none()))
    }

    /// One commit: the table as `make` has it, what was staged for it, and its rows that are not in the base. The
    /// caller keeps everybody else from changing rows, merging and publishing.
    fn commit(
        &self,
        table: &Table,
        delta: &Delta,
        built: Option<Index>,
        staged: Staged,
        make: impl Make,
    ) -> Result<()> {
        let engine = self.db.engine()?;
        let mut draft = Draft::with_staged(&self.db, staged);
        draft.write_in_turn(&Stop::default(), |writer| {
            let mut after = Table::clone(writer.catalog.table_of(table.id).ok_or_else(gone)?);
            make(&writer.catalog, &mut after, built.clone())?;
            writer.catalog.put(after);
            Ok(())
        })?;
        let own = draft.newest()?;
        let after = own.catalog.table_of(table.id).ok_or_else(gone)?;
        let into = own.delta(after).ok_or_else(gone)?;
        let eyes = self.eyes()?;
        let mut runner = engine.runner()?;
        let mut transaction = runner.begin(Isolation::Snapshot);
        let mut rows = unmerged(&eyes, table, delta);
        while let Some((key, row)) = rows.take() {
            into.write(&mut transaction, key, row).map_err(|error| match (error, row, &built) {
                (saki_mvcc::Error::Duplicate { .. }, Some(row), Some(index)) => agreeing(after, index, key, row),
                (error, ..) => SqlError::from(error),
            })?;
        }
        if let Some(index) = built.filter(|index| index.unique) {
            self.refuse_agreeing(after, &index, into, &transaction, unmerged(&eyes, table, delta))?;
        }
        let receipt = draft.commit_in_turn(transaction)?;
        engine.database.wait(receipt).map_err(SqlError::from)
    }

    /// Compares rows of a delta with those that the base has of a unique index. Among each other both have been
    /// compared.
    fn refuse_agreeing(
        &self,
        table: &Table,
        index: &Index,
        delta: &Delta,
        transaction: &Transaction<'_>,
        mut rows: NewerRows<'_, Reader>,
    ) -> Result<()> {
        let (width, place) = (index.columns.len(), super::place_of(table, &index.name)?);
        let entries = IndexEntries::new(table, place);
        let mut encoder = EntryEncoder::new(table.index_layout(index));
        let mut decoder = EntryDecoder::new(table.primary_layout());
        let reader = TableReader::new(table, delta, transaction);
        let mut base = self.db.base_reader();
        while let Some((key, row)) = rows.take() {
            let Some(row) = row else { continue };
            decoder.encode(table, key, row, &mut encoder)?;
            if has_null(&encoder.layout, &encoder.key, width) {
                continue;
            }
            let mut is_there = false;
            reader.base_keys(&mut base, &entries, unique_prefix(&encoder.layout, &encoder.key, width)?, |_| {
                is_there = true;
                ControlFlow::Break(())
            })?;
            if is_there {
                return Err(not_unique(table, place, &encoder.layout, &encoder.key));
            }
        }
        Ok(())
    }

    /// Sees all that is committed by now.
    fn eyes(&self) -> Result<Reader> {
        self.db.engine()?.database.moment().and_then(|moment| moment.reader()).map_err(SqlError::from)
    }
}

/// What a delta has that the base has not.
fn unmerged<'r>(eyes: &'r Reader, table: &Table, delta: &'r Delta) -> NewerRows<'r, Reader> {
    NewerRows::new(eyes, delta.rows.newer_than(table.merged_through), ALL)
}

/// The error for a row that agrees with another one in an index.
fn agreeing(table: &Table, index: &Index, key: &[u8], row: &[u8]) -> SqlError {
    let mut encoder = EntryEncoder::new(table.index_layout(index));
    let encoded = EntryDecoder::new(table.primary_layout()).encode(table, key, row, &mut encoder);
    match encoded.and_then(|()| super::place_of(table, &index.name)) {
        Ok(place) => not_unique(table, place, &encoder.layout, &encoder.key),
        Err(error) => error,
    }
}
