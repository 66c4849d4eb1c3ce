//! Values of sequences: given out from memory, in blocks that are made durable before.
//!
//! ```text
//!   handed ──────────► durable ─────────► reserved
//!   given out so far   may be given out   about to be durable
//! ```
//!
//! # Invariants
//! - No value is given out that a crash could make the sequence give out again: the catalog's position is behind it.
//! - A session whose query feeds a publication cannot wait for another one: it takes its values beyond what is durable,
//!   and they become durable with the rows that hold them, by the same commit. Nobody else gets values behind them
//!   before.
//!
//! Values that nobody has used when the database closes or a statement fails are lost: numbers are unique, and may have
//! gaps.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use saki_base::TableId;
use saki_base::planted::{self, Fault};

use saki_catalog::{Catalog, Difference, Result, Sequence, SequencePosition, SqlError};

/// Values that are made durable at once; doubled as long as a sequence is asked for more.
const BLOCK_MIN: u64 = 32;
const BLOCK_MAX: u64 = 4096;

/// Has positions made durable: every publication takes them along, by [`Sequences::store`].
pub trait Publisher {
    /// A sequence of the newest catalog.
    ///
    /// # Errors
    /// If there is none of that name.
    fn sequence(&self, name: &str) -> Result<Arc<Sequence>>;

    /// Publishes, if what is published has the sequence. Waits for storage.
    ///
    /// # Errors
    /// Of storage.
    fn publish(&self, sequence: &Sequence) -> Result<()>;
}

/// How far the sequences of a database have come.
#[derive(Default)]
pub struct Sequences {
    states: Mutex<HashMap<TableId, State>>,
    /// Sequences of which something was reserved that the catalog may not know of. Locked after the states.
    moved: Mutex<HashSet<TableId>>,
}

/// One sequence, since its version began.
struct State {
    /// Told from the state of the same sequence that took its place.
    token: Arc<()>,
    version: u32,
    /// Values given out.
    handed: u64,
    position: SequencePosition,
    /// Values that may be given out.
    durable: u64,
    /// What the next commit stores.
    reserved: u64,
    reserved_position: SequencePosition,
    block: u64,
}

impl State {
    fn new(sequence: &Sequence) -> Self {
        let position = sequence.position;
        Self {
            token: Arc::default(),
            version: sequence.version,
            handed: 0,
            position,
            durable: 0,
            reserved: 0,
            reserved_position: position,
            block: BLOCK_MIN.max(sequence.cache.unsigned_abs()),
        }
    }

    /// The next of the values that may be given out; `None`: there is none left.
    fn hand_out(&mut self, sequence: &Sequence) -> Result<Option<i64>> {
        if self.handed >= self.durable {
            return Ok(None);
        }
        let next = sequence.step(self.position).ok_or_else(|| exhausted(sequence))?;
        self.handed += 1;
        self.position = next;
        Ok(Some(next.last_value))
    }

    /// Counts on to a block behind what is given out; returns where it ends.
    fn reserve(&mut self, sequence: &Sequence) -> Result<(u64, SequencePosition)> {
        let (position, count) = sequence.skip(self.position, self.block);
        if count == 0 {
            return Err(exhausted(sequence));
        }
        let end = self.handed + count;
        if end > self.reserved {
            self.reserved = end;
            self.reserved_position = position;
        }
        self.block = (self.block * 2).min(BLOCK_MAX);
        Ok((end, position))
    }
}

/// Consecutive values of one sequence that one session has to itself.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    sequence: TableId,
    version: u32,
    position: SequencePosition,
    left: u64,
    /// [`State::handed`] when it was taken.
    end: u64,
}

impl Sequences {
    /// The next value. Waits for storage now and then.
    pub fn next(&self, db: &impl Publisher, name: &str) -> Result<(TableId, i64)> {
        loop {
            let sequence = db.sequence(name)?;
            let (end, token) = {
                let mut states = self.states.lock();
                let state = current(&mut states, &sequence);
                if planted::is(Fault::SequenceEarly) {
                    state.durable = u64::MAX;
                }
                if let Some(value) = state.hand_out(&sequence)? {
                    return Ok((sequence.id, value));
                }
                let end = state.reserve(&sequence)?.0;
                self.moved.lock().insert(sequence.id);
                (end, Arc::clone(&state.token))
            };
            // Not under the lock: whoever publishes now may need values itself.
            db.publish(&sequence)?;
            let mut states = self.states.lock();
            if let Some(state) = states.get_mut(&sequence.id).filter(|state| Arc::ptr_eq(&state.token, &token)) {
                state.durable = state.durable.max(end);
            }
        }
    }

    /// The next value, if it may be given out without waiting for storage.
    ///
    /// # Errors
    /// If there is no such sequence, or no further value.
    pub fn next_ready(&self, db: &impl Publisher, name: &str) -> Result<Option<(TableId, i64)>> {
        let sequence = db.sequence(name)?;
        let value = current(&mut self.states.lock(), &sequence).hand_out(&sequence)?;
        Ok(value.map(|value| (sequence.id, value)))
    }

    /// The next value for a session whose own publication will store the position; `block`: what it has left.
    pub fn next_unpublished(
        &self,
        db: &impl Publisher,
        name: &str,
        block: &mut Option<Block>,
    ) -> Result<(TableId, i64)> {
        let sequence = db.sequence(name)?;
        if block.is_none_or(|block| block.left == 0 || block.version != sequence.version) {
            let mut states = self.states.lock();
            let state = current(&mut states, &sequence);
            let (first, handed) = (state.position, state.handed);
            let (end, position) = state.reserve(&sequence)?;
            self.moved.lock().insert(sequence.id);
            (state.handed, state.position) = (end, position);
            state.durable = state.durable.max(end);
            let (id, version, left) = (sequence.id, sequence.version, end - handed);
            *block = Some(Block { sequence: id, version, position: first, left, end });
        }
        let Some(block) = block else { return Err(SqlError::internal("a block of values is gone")) };
        let next = sequence.step(block.position).ok_or_else(|| exhausted(&sequence))?;
        block.position = next;
        block.left -= 1;
        Ok((sequence.id, next.last_value))
    }

    /// Takes back what is left of a block, unless values behind it have been given out.
    pub fn give_back(&self, block: Block) {
        let mut states = self.states.lock();
        let Some(state) = states.get_mut(&block.sequence) else { return };
        if state.version == block.version && state.handed == block.end {
            state.handed -= block.left;
            state.position = block.position;
            // The publication may have failed: what was counted as durable by it is made so again.
            state.durable = state.handed;
        }
    }

    /// Up to where values have been given out, for a change of the sequence: others get the next one when that has been
    /// published.
    pub fn take(&self, sequence: &Sequence) -> SequencePosition {
        let state = self.states.lock().remove(&sequence.id).filter(|state| state.version == sequence.version);
        state.map_or(sequence.position, |state| state.position)
    }

    /// Up to where values have been given out.
    pub fn position(&self, sequence: &Sequence) -> SequencePosition {
        let states = self.states.lock();
        let state = states.get(&sequence.id).filter(|state| state.version == sequence.version);
        state.map_or(sequence.position, |state| state.position)
    }

    /// Moves the catalog's positions to what has been reserved: part of every commit. `difference` is what the catalog
    /// has otherwise than the `published` one. Whether that has changed it.
    ///
    /// What is looked at is what has moved since, and what the catalog itself brings: sequences of an open transaction
    /// are in no published catalog, and come with its commit. What has moved stays so until that is published.
    pub fn store(&self, catalog: &mut Catalog, published: &Catalog, difference: &Difference) -> bool {
        let (states, mut moved) = (self.states.lock(), self.moved.lock());
        let lags = |sequence: &Sequence, state: &State| {
            sequence.version == state.version && sequence.position != state.reserved_position
        };
        let brought = difference.sequences.iter().filter_map(|sequence| Some(sequence.after.as_ref()?.id));
        let mut has_changed = false;
        for id in moved.iter().copied().chain(brought) {
            let (Some(state), Some(sequence)) = (states.get(&id), catalog.sequence_of(id)) else { continue };
            if lags(sequence, state) {
                let sequence = Sequence { position: state.reserved_position, ..Sequence::clone(sequence) };
                catalog.put_sequence(sequence);
                has_changed = true;
            }
        }
        let is_behind = |id: &TableId| Some(lags(published.sequence_of(*id)?, states.get(id)?));
        moved.retain(|id| is_behind(id).unwrap_or(false));
        has_changed
    }
}

fn current<'s>(states: &'s mut HashMap<TableId, State>, sequence: &Sequence) -> &'s mut State {
    let state = states.entry(sequence.id).or_insert_with(|| State::new(sequence));
    if state.version != sequence.version {
        *state = State::new(sequence);
    }
    state
}

/// The sequence of a name.
pub fn find(catalog: &Catalog, name: &str) -> Result<Arc<Sequence>> {
    match catalog.sequence(name) {
        Some(sequence) => Ok(Arc::clone(sequence)),
        None if catalog.kind_of(name).is_some() => {
            Err(SqlError::invalid(format!("{name:?} is not a sequence")).code("42809"))
        }
        None => Err(saki_catalog::undefined(name)),
    }
}

fn exhausted(sequence: &Sequence) -> SqlError {
    let (bound, value) = if sequence.increment > 0 { ("maximum", sequence.max) } else { ("minimum", sequence.min) };
    SqlError::data(format!("nextval: reached {bound} value of sequence {:?} ({value})", sequence.bare_name()))
        .code("2200H")
}
